"""The stack as a graph: a rail of changes, base first, and arcs to what they use.

The labels stand beside it as HTML, in rows as high as the rail's, so that they
stay readable at any width.
"""

from dataclasses import dataclass

from xpu_stack.review.model import Review

ROW = 72  # pixels from one change to the next; review.css has the same
_LANE = 12  # pixels between two arcs
_NEAR = 26  # from the rail to the first arc
_RIGHT = 18  # from the rail to the right edge


@dataclass(frozen=True)
class Node:
    """A change on the rail."""

    y: int
    slug: str
    title: str
    colour: int  # of its stage


@dataclass(frozen=True)
class Arc:
    """From a change down to one that builds on it."""

    path: str
    of: str  # slugs
    user: str


@dataclass(frozen=True)
class Graph:
    width: int
    height: int
    x: int  # of the rail
    nodes: tuple[Node, ...]
    arcs: tuple[Arc, ...]


def draw(review: Review) -> Graph:
    """Places nodes and arcs. Neighbours are joined by the rail already."""
    links = _shortest(review)
    lanes = _lanes(links)
    x = _LANE * (max(lanes.values(), default=-1) + 1) + _NEAR
    stages = list(review.stages)
    nodes = tuple(
        Node(ROW * page.number + ROW // 2, page.slug, page.title, stages.index(page.stage))
        for page in review.pages
    )
    arcs = []
    for (of, user), lane in lanes.items():
        top, bottom, left = nodes[of].y, nodes[user].y, x - _NEAR - _LANE * lane
        bend = min(16, (bottom - top) // 2)
        path = (
            f"M{x} {top} C{left} {top} {left} {top} {left} {top + bend}"
            f" L{left} {bottom - bend} C{left} {bottom} {left} {bottom} {x} {bottom}"
        )
        arcs.append(Arc(path, nodes[of].slug, nodes[user].slug))
    return Graph(x + _RIGHT, ROW * (len(nodes) + 1), x, nodes, tuple(arcs))


def _shortest(review: Review) -> list[tuple[int, int]]:
    """(used, user) by position, without those that follow from others."""
    uses = {
        page.number - 1: {review.page(use.change).number - 1 for use in page.uses}
        for page in review.pages
    }
    reach: dict[int, set[int]] = {}
    for user in sorted(uses):
        reach[user] = uses[user] | {far for near in uses[user] for far in reach[near]}
    return [
        (of, user)
        for user in sorted(uses)
        for of in sorted(uses[user])
        if user - of > 1 and not any(of in reach[other] for other in uses[user])
    ]


def _lanes(links: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """A lane for each arc, short ones nearest to the rail, none over another."""
    lanes: dict[tuple[int, int], int] = {}
    for of, user in sorted(links, key=lambda link: (link[1] - link[0], link)):
        taken = {
            lane
            for (other_of, other_user), lane in lanes.items()
            if of < other_user and other_of < user
        }
        lanes[of, user] = next(lane for lane in range(len(lanes) + 1) if lane not in taken)
    return lanes
