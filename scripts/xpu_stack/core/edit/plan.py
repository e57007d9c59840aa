"""What the verbs drop, undrop, fold, split, move, rename and edit make of a list of changes.

A plan is the series as it is to be: for each change, in order, its text and the
commits whose diffs it consists of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby, takewhile

from xpu_stack.core.move.moves import Rewrite
from xpu_stack.core.move.workspace import Request
from xpu_stack.core.resolve.merging import merge
from xpu_stack.core.series.base import is_below
from xpu_stack.core.series.change import TITLE_LIMIT, joined, own_text, split_id
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import Commit, Repository, TreeId
from xpu_stack.core.system.layout import settings

_SHOWN = 10  # files that are listed


@dataclass(frozen=True)
class Piece:
    """A change as it is to be. origin: its name in the series as it is; "": it has none there."""

    id: str
    text: str
    diffs: tuple[Commit, ...]  # what each does to its parent
    origin: str

    @property
    def stage(self) -> str:
        return self.id.partition("/")[0]


Plan = list[Piece]


@dataclass(frozen=True)
class Dropped:
    """What a drop did, for an undrop. edit: to the series' files; before: the series' file.

    trees: of the stack at each change, after the drop and before.
    """

    commit: Commit
    edit: Rewrite
    before: SeriesFile
    trees: Mapping[str, tuple[TreeId, TreeId]]


@dataclass(frozen=True)
class Given:
    """What a plan is made from.

    edits: those of the work tree, of an edit; drop: what an undrop takes back. more: the
    files of the change that only other bases have. base: not that of the checkout; it may
    lack some of the files, or all, that a change has there.
    """

    repository: Repository
    request: Request
    edits: Commit | None = None
    drop: Dropped | None = None
    more: frozenset[str] = frozenset()
    base: str = ""

    @property
    def patterns(self) -> dict[str, str]:
        """What FILES= has, and the path in the base's tree: it may be one in the series."""
        stage, found = self.request.change.partition("/")[0], {}
        for name in self.option("FILES").replace(",", " ").split():
            parts = name.rstrip("/").split("/")
            of_series = parts[0] in settings().payload and parts[1:2] == [stage]
            found[name] = "/".join(parts[2:] if of_series else parts)
        return found

    def chosen(self, path: str) -> bool:
        return any(_is_below(path, one) for one in self.patterns.values())

    def option(self, name: str) -> str:
        return self.request.options.get(name, "")


def reshaped(given: Given, plan: Plan) -> Plan:
    """The plan after the verb that was asked for."""
    at = 0 if given.drop else _place(plan, given.request.change)
    found = VERBS[given.request.verb](given, plan, at)
    stages = [one.stage for one in found]
    for number, stage in enumerate(stages[1:], start=1):
        if stage != stages[number - 1] and stage in stages[:number]:
            raise _refused(
                f"This would split the stage '{stage}'.",
                f"{found[number - 1].id} would be between its changes",
            )
    if not found:
        raise _refused("The series would have no change left.", "it must have at least one")
    return found


def _drop(_: Given, plan: Plan, at: int) -> Plan:
    return plan[:at] + plan[at + 1 :]


def _undrop(given: Given, plan: Plan, _: int) -> Plan:
    drop, change, ids = given.drop, given.request.change, [one.id for one in plan]
    assert drop is not None
    if change in ids:
        raise _refused(f"The change '{change}' is in the series.", "it was not dropped")
    below = [one for one in takewhile(lambda one: one != change, drop.before.changes) if one in ids]
    place = ids.index(below[-1]) + 1 if below else 0
    place = inserted(ids, place, change).index(change)
    piece = Piece(change, own_text(drop.commit.message), (drop.commit,), "")
    return [*plan[:place], piece, *_regained(given, drop, plan[place:])]


def _regained(given: Given, drop: Dropped, above: Plan) -> Plan:
    """The changes above with what the drop took from them, up to the first that is in conflict."""
    repository, (without, with_it) = given.repository, drop.trees[given.request.change]

    def regained(tree: TreeId) -> TreeId | None:
        if tree == without:
            return with_it
        ground = repository.scratch_commit(without, (), "without\n").id
        merged = merge(repository, tree, repository.scratch_commit(with_it, (ground,), "with\n").id)
        return None if merged.stages else merged.tree

    found = Plan()
    below = regained(repository.tree_of(above[0].diffs[0].parents[0])) if above else None
    for one in above:
        without, with_it = drop.trees.get(one.id, (without, with_it))
        tip = regained(one.diffs[0].tree)
        if below is None or tip is None:
            break
        parent = repository.scratch_commit(below, (), "below\n").id
        commit = repository.scratch_commit(tip, (parent,), "regained\n")
        found.append(replace(one, diffs=(commit,)) if tip != below else one)
        below = tip
    return found + above[len(found) :]


def inserted(ids: list[str], place: int, id_: str) -> list[str]:
    """The ids with another at or after a place at which it splits no stage."""
    rows = [[*ids[:at], id_, *ids[at:]] for at in range(len(ids) + 1)]

    def cost(at: int) -> tuple[bool, bool, int]:
        stages = [stage for stage, _ in groupby(one.partition("/")[0] for one in rows[at])]
        return len(stages) > len(set(stages)), at < place, abs(at - place)

    return rows[min(range(len(rows)), key=cost)]


def _fold(given: Given, plan: Plan, at: int) -> Plan:
    folded = plan[at]
    if not given.option("INTO") and not at:
        raise _refused(
            f"There is no change below {folded.id}.", "INTO= names the change to fold into"
        )
    into = plan[_place(plan, given.option("INTO") or plan[at - 1].id)]
    if into is folded:
        raise _refused(f"{folded.id} cannot be folded into itself.", "INTO= names another change")
    above = plan.index(into) > at
    diffs = folded.diffs + into.diffs if above else into.diffs + folded.diffs
    both = replace(into, text=joined(into.text, folded.text), diffs=diffs)
    return [both if one is into else one for one in plan if one is not folded]


def _split(given: Given, plan: Plan, at: int) -> Plan:
    whole, name, title = plan[at], given.option("NAME"), given.option("TITLE")
    _refuse_name(plan, name)
    if not 0 < len(title) <= TITLE_LIMIT:
        raise _refused(
            "The title is too long or empty.", f"it may have up to {TITLE_LIMIT} characters"
        )
    (diff,) = whole.diffs
    first, edits = bool(given.option("BEFORE")), given.repository.edits_of(diff)
    chosen = _chosen(given, {*given.more, *(one.path for one in edits)})
    # between the halves: with the chosen files only, or without them
    taken = {one.path: one.file for one in edits if (one.path in chosen) == first}
    tree = given.repository.with_files(diff.parents[0], taken)
    middle = given.repository.scratch_commit(tree, diff.parents, "half\n")
    above = given.repository.scratch_commit(diff.tree, (middle.id,), "half\n")
    own, other = (middle, above) if first else (above, middle)
    text = title + "\n" + whole.text.partition("\n")[2]
    new, rest = Piece(name, text, (own,), whole.id), replace(whole, diffs=(other,))
    return [*plan[:at], *((new, rest) if first else (rest, new)), *plan[at + 1 :]]


def _chosen(given: Given, files: set[str]) -> set[str]:
    """The files of a change that FILES= names: paths, folders or patterns."""
    change, chosen = given.request.change, set(filter(given.chosen, files))
    if given.base:
        return chosen
    told = sorted(files)[:_SHOWN] + (["..."] if len(files) > _SHOWN else [])
    for name, pattern in given.patterns.items():
        if not any(_is_below(one, pattern) for one in files):
            raise _refused(f"{change} has no file '{name}'.", f"its files are: {', '.join(told)}")
    if chosen in (set(), files):
        what = "all files" if chosen else "no file"
        raise _refused(
            f"FILES= names {what} of {change}.",
            f"both changes need at least one of: {', '.join(told)}",
        )
    return chosen


def _is_below(path: str, pattern: str) -> bool:
    return is_below(path, pattern) or fnmatchcase(path, pattern)


def _move(given: Given, plan: Plan, at: int) -> Plan:
    piece, rest, after = plan[at], plan[:at] + plan[at + 1 :], given.option("AFTER")
    stages = [one.stage for one in rest]
    if after in stages:
        place = len(stages) - stages[::-1].index(after)
    else:
        place = 0 if after == NO_STAGE else _place(rest, after) + 1
    below = rest[place - 1].stage if place else ""
    above = rest[place].stage if place < len(rest) else ""
    alone = piece.stage not in stages
    if piece.stage not in (below, above) and not (alone and below != above):
        moved = f"{below or above}/{piece.id.partition('/')[2]}"
        _refuse_name(rest, moved)
        piece = replace(piece, id=moved)
    return [*rest[:place], piece, *rest[place:]]


def _rename(given: Given, plan: Plan, at: int) -> Plan:
    _refuse_name(plan, given.option("TO"))
    return [*plan[:at], replace(plan[at], id=given.option("TO")), *plan[at + 1 :]]


def _edit(given: Given, plan: Plan, at: int) -> Plan:
    assert given.edits is not None
    edited = replace(plan[at], diffs=(*plan[at].diffs, given.edits))
    return [*plan[:at], edited, *plan[at + 1 :]]


_ALL = (_drop, _undrop, _fold, _split, _move, _rename, _edit)
VERBS: dict[str, Callable[[Given, Plan, int], Plan]] = {one.__name__[1:]: one for one in _ALL}


def _place(plan: Plan, id_: str) -> int:
    ids = [one.id for one in plan]
    if id_ not in ids:
        raise _refused(f"There is no change '{id_}'.", f"the changes are: {', '.join(ids)}")
    return ids.index(id_)


def _refuse_name(plan: Plan, id_: str) -> None:
    if split_id(id_) is None:
        raise _refused(
            f"'{id_}' is not a valid name for a change.",
            "it is <stage>/<change>, both of small letters, digits, '-' and '_'",
        )
    if any(one.id == id_ for one in plan):
        raise _refused(f"The change '{id_}' already exists.", "a name can be used once")


def _refused(what: str, why: str) -> ToolError:
    return UsageError(what, why=why, next=f"{commands.make('status')} # shows the order")
