"""What the verbs drop, undrop, fold, split, move, rename and edit make of a list of changes.

A plan is the series as it is to be: for each change, in order, its text and the
commits whose diffs it consists of. Nothing is merged or written here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from xpu_stack.core.move.workspace import Request
from xpu_stack.core.series.base import is_below
from xpu_stack.core.series.change import TITLE_LIMIT, joined, own_text, split_id, trailers
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import Commit, Repository, TreeId
from xpu_stack.core.system.settings import settings

_SHOWN = 10  # files that are listed


@dataclass(frozen=True)
class Diff:
    """What a commit does to the tree below it."""

    commit: Commit
    before: TreeId


@dataclass(frozen=True)
class Piece:
    """A change as it is to be. origin: its name in the series as it is; "": it has none there."""

    id: str
    text: str
    diffs: tuple[Diff, ...]
    origin: str

    @property
    def stage(self) -> str:
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        return self.id.partition("/")[2]


Plan = list[Piece]


@dataclass(frozen=True)
class Given:
    """What a plan is made from.

    extra: the commits that an undrop or an edit brings in. partly: the base may lack some
    of the files, or all, that a change has on another one.
    """

    repository: Repository
    request: Request
    extra: tuple[Commit, ...] = ()
    partly: bool = False

    @property
    def patterns(self) -> dict[str, str]:
        """What FILES= has, and the path in the base's tree that it means."""
        names = self.option("FILES").replace(",", " ").split()
        return {name: _target(name, self.request.change.partition("/")[0]) for name in names}

    def chosen(self, path: str) -> bool:
        return any(_is_below(path, one) for one in self.patterns.values())

    def option(self, name: str) -> str:
        return self.request.options.get(name, "")


def of_commits(repository: Repository, commits: Sequence[Commit]) -> Plan:
    """The plan that changes nothing: of the series' commits, oldest first."""
    below = repository.tree_of(commits[0].parents[0])
    found = []
    for commit in commits:
        told = trailers(commit.message)
        assert told is not None
        diff = Diff(commit, below)
        found.append(Piece(told.change, own_text(commit.message), (diff,), told.change))
        below = commit.tree
    return found


def reshaped(given: Given, plan: Plan) -> Plan:
    """The plan after the verb that was asked for."""
    found = VERBS[given.request.verb](given, plan)
    _refuse_torn(found)
    if not found:
        raise _refused("The series would have no change left.", "it must have at least one")
    return found


def _drop(given: Given, plan: Plan) -> Plan:
    number = _place(plan, given.request.change)
    return plan[:number] + plan[number + 1 :]


def _undrop(given: Given, plan: Plan) -> Plan:
    (commit, *below) = given.extra
    (piece,) = of_commits(given.repository, [commit])
    ids = [one.id for one in plan]
    if piece.id in ids:
        raise _refused(f"The change '{piece.id}' is in the series.", "it was not dropped")
    known = [told.change for one in below if (told := trailers(one.message))]
    place = next((ids.index(one) + 1 for one in known if one in ids), 0)
    place = inserted(ids, place, piece.id).index(piece.id)
    return [*plan[:place], replace(piece, origin=""), *plan[place:]]


def inserted(ids: list[str], place: int, id_: str) -> list[str]:
    """The ids with another at or after a place at which it splits no stage."""
    stages = [one.partition("/")[0] for one in ids]
    own = [number for number, one in enumerate(stages, 1) if one == id_.partition("/")[0]]
    if own:
        place = min(max(place, own[0] - 1), own[-1])
    else:
        while 0 < place < len(ids) and stages[place - 1] == stages[place]:
            place += 1
    return [*ids[:place], id_, *ids[place:]]


def _fold(given: Given, plan: Plan) -> Plan:
    number = _place(plan, given.request.change)
    folded = plan[number]
    if not given.option("INTO") and not number:
        raise _refused(
            f"There is no change below {folded.id}.", "INTO= names the change to fold into"
        )
    into = plan[_place(plan, given.option("INTO") or plan[number - 1].id)]
    if into is folded:
        raise _refused(f"{folded.id} cannot be folded into itself.", "INTO= names another change")
    above = plan.index(into) > number
    diffs = folded.diffs + into.diffs if above else into.diffs + folded.diffs
    both = replace(into, text=joined(into.text, folded.text), diffs=diffs)
    return [both if one is into else one for one in plan if one is not folded]


def _split(given: Given, plan: Plan) -> Plan:
    number = _place(plan, given.request.change)
    whole, name, title = plan[number], given.option("NAME"), given.option("TITLE")
    _refuse_name(plan, name)
    if not 0 < len(title) <= TITLE_LIMIT:
        raise _refused(
            "The title is too long or empty.", f"it may have up to {TITLE_LIMIT} characters"
        )
    (diff,) = whole.diffs
    first, chosen = bool(given.option("BEFORE")), _chosen(given, whole, diff)
    # between the halves: with the chosen files only, or without them
    edits = given.repository.diff(diff.before, diff.commit.tree)
    taken = {one.path: one.file for one in edits if (one.path in chosen) == first}
    tree = given.repository.with_files(diff.before, taken)
    middle = given.repository.scratch_commit(tree, diff.commit.parents, "half\n")
    text = title + "\n" + whole.text.partition("\n")[2]
    halves = (Diff(middle, diff.before),), (replace(diff, before=middle.tree),)
    own, other = halves if first else halves[::-1]
    new, rest = Piece(name, text, own, whole.id), replace(whole, diffs=other)
    return [*plan[:number], *((new, rest) if first else (rest, new)), *plan[number + 1 :]]


def _chosen(given: Given, whole: Piece, diff: Diff) -> set[str]:
    """The files of a change that FILES= names: paths, folders or patterns."""
    files = {entry.path for entry in given.repository.diff(diff.before, diff.commit.tree)}
    told = sorted(files)[:_SHOWN] + (["..."] if len(files) > _SHOWN else [])
    chosen: set[str] = set()
    for name, pattern in given.patterns.items():
        found = {one for one in files if _is_below(one, pattern)}
        if not found and not given.partly:
            raise _refused(f"{whole.id} has no file '{name}'.", f"its files are: {', '.join(told)}")
        chosen |= found
    if chosen in (set(), files) and not given.partly:
        what = "all files" if chosen else "no file"
        raise _refused(
            f"FILES= names {what} of {whole.id}.",
            f"both changes need at least one of: {', '.join(told)}",
        )
    return chosen


def _target(name: str, stage: str) -> str:
    """A path in the base's tree, given as that or as the path in the series."""
    parts = name.rstrip("/").split("/")
    of_series = parts[0] in settings().payload and parts[1:2] == [stage]
    return "/".join(parts[2:] if of_series else parts)


def _is_below(path: str, pattern: str) -> bool:
    return is_below(path, pattern) or fnmatchcase(path, pattern)


def _move(given: Given, plan: Plan) -> Plan:
    piece = plan[_place(plan, given.request.change)]
    rest = [one for one in plan if one is not piece]
    place = _after(rest, given.option("AFTER"))
    below = rest[place - 1].stage if place else ""
    above = rest[place].stage if place < len(rest) else ""
    alone = all(one.stage != piece.stage for one in rest)
    if piece.stage not in (below, above) and not (alone and below != above):
        moved = f"{below or above}/{piece.name}"
        _refuse_name(rest, moved)
        piece = replace(piece, id=moved)
    return [*rest[:place], piece, *rest[place:]]


def _after(rest: Plan, after: str) -> int:
    """The place after a change, after a stage, or after the base."""
    if after == NO_STAGE:
        return 0
    stages = [one.stage for one in rest]
    if after in stages:
        return len(stages) - stages[::-1].index(after)
    return _place(rest, after) + 1


def _rename(given: Given, plan: Plan) -> Plan:
    number, to = _place(plan, given.request.change), given.option("TO")
    _refuse_name(plan, to)
    return [*plan[:number], replace(plan[number], id=to), *plan[number + 1 :]]


def _edit(given: Given, plan: Plan) -> Plan:
    number = _place(plan, given.request.change)
    (edits,) = given.extra
    diff = Diff(edits, given.repository.tree_of(edits.parents[0]))
    edited = replace(plan[number], diffs=(*plan[number].diffs, diff))
    return [*plan[:number], edited, *plan[number + 1 :]]


VERBS: dict[str, Callable[[Given, Plan], Plan]] = {
    "drop": _drop,
    "undrop": _undrop,
    "fold": _fold,
    "split": _split,
    "move": _move,
    "rename": _rename,
    "edit": _edit,
}


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


def _refuse_torn(plan: Plan) -> None:
    stages = [one.stage for one in plan]
    for number, one in enumerate(plan[1:], start=1):
        if one.stage != stages[number - 1] and one.stage in stages[:number]:
            raise _refused(
                f"This would split the stage '{one.stage}'.",
                f"{plan[number - 1].id} would be between its changes",
            )


def _refused(what: str, why: str) -> ToolError:
    return UsageError(what, why=why, next=f"{commands.make('status')} # shows the order")
