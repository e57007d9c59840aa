"""Drop, undrop, fold, split, move, rename and edit changes of the series.

Note [An edit of the series]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The commits that the series gives on its release are made, and then those that
the edited series is to give: each change's diff is merged onto what is below it
now. The series' files follow from the commits, as in an export, and only those
of changes that differ are written. Where another base has patches of its own,
the same is done for them. Of a base that is like another one, the files go with
their change, and of its patches those are made anew that would not fit.

The checkout follows the edited series, which is first tried in a folder of its
own. So all conflicts come up before a file is written: those between the
changes, and those with the checkout's base. `make continue` starts again from
the beginning, with the resolution.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, takewhile
from pathlib import Path

from xpu_stack.core.edit import carried, export
from xpu_stack.core.edit.carried import OwnFiles
from xpu_stack.core.edit.plan import Given, Plan
from xpu_stack.core.edit.shape import Shape
from xpu_stack.core.lay import applying
from xpu_stack.core.move import moves, rewrite, stack
from xpu_stack.core.move.moves import Move, Operation, State
from xpu_stack.core.move.rewrite import Rewrite
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Goal, Request, Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.base import Differences, base_names
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Commit, CommitId, Repository


def run(work: Workspace, request: Request) -> Rewrite:
    """Edits the series, and has the checkout follow; what was done to the series' files."""
    repository = work.repository
    conflicts.refuse_pending(repository)
    there = stack.read(repository)
    _refuse_unsafe(repository, there, request)
    taken = _taken(work, request) if request.verb == "undrop" else None
    drop = Rewrite.load(work, taken.edit) if taken and taken.edit else None
    given = Given(repository, request, _extra(work, there, request, taken))
    with progress(None, str(_operation(request))):
        root = _root(work)
        given = replace(given, partly=bool(carried.split_off(work, given)))
        shape = Shape(root, given, there.base if root is work else None)
        others = [Shape(one, given, None) for one in _other_bases(root)]
        sources = shape.sources | carried.of_bases(work, shape, drop)
        everywhere = chain(*(one.sources.values() for one in others), sources.values())
        contents = {source.path: source.file for source in everywhere}
        contents |= carried.keyed_by_change(work, shape, drop)
        contents |= shape.series_file(sources, drop)
        if taken is None:
            for own in OwnFiles.of_all(work.layout):
                contents |= carried.refitted(work, own, shape, contents)
        edit = _differing(contents, repository)
    with carried.trial(work, edit) as tried:
        after = _followed(work, tried, shape.after, request)
    edits = given.extra[0].id if request.verb == "edit" else None
    operation = replace(_operation(request), commit=_dropped(shape, request), edits=edits)
    rewrite.move(work, operation, edit, after)
    conflicts.forget_resolutions(repository)
    return edit


def undrop(work: Workspace, change: str) -> Rewrite:
    """Brings a change back: one that the checkout skips, or that was dropped from the series."""
    if change in work.series.without:
        raise UsageError(
            f"{change} is not for the base {work.base.name}.",
            why=f"patches/{work.base.name}/base.yaml says so",
            next=f"remove it there, then: {commands.make('apply', BASE=work.base.name)}",
        )
    skipped = moves.dropped(work.repository)
    if change not in skipped:
        return run(work, Request("undrop", {"CHANGE": change}))
    applying.refuse_unsafe(work)
    applied = stack.read(work.repository).applied
    top = applied[-1].trailers.change if applied else NO_STAGE
    rest = list(work.series.by_id)[len(work.series.changes(top)) :]
    if change in takewhile(lambda one: one in skipped, rest):
        top = change  # it is the next to be applied
    applying.reach(work, Goal(top, skipped - {change}), "undrop")
    return Rewrite({}, {})


def _refuse_unsafe(repository: Repository, there: Stack, request: Request) -> None:
    stack.refuse_unsafe(repository, edits=request.verb == "edit")
    stack.refuse_others(repository, there, "squash it into a change, or move it above the stack")
    changed = [one for one in there.applied if not one.as_made]
    if changed:
        raise ToolError(
            f"The commit of {changed[0].trailers.change} was changed by hand.",
            why=f"{changed[0].commit.id[:12]} is not as the tool made it",
            next=f"{commands.make('export')} && {request.command()}",
        )


# -- what goes in ------------------------------------------------------------------


def _extra(
    work: Workspace, there: Stack, request: Request, taken: Move | None
) -> tuple[Commit, ...]:
    if taken is not None and taken.operation.commit is not None:
        return tuple(work.repository.history(taken.operation.commit, len(work.series.by_id) + 1))
    if request.verb == "edit":
        return (_edits(work.repository, there, request),)
    return ()


def _taken(work: Workspace, request: Request) -> Move:
    """The drop that took a change out."""
    for one in moves.entries(work.repository):
        if one.operation.verb == "drop" and one.operation.about == request.change:
            return one
    raise UsageError(
        f"'{request.change}' was never dropped here.",
        why="neither the checkout skips it, nor is it in the log of operations",
        next=commands.git(
            work.layout.repository, "log", "--", f"patches/texts/{request.change}.md"
        ),
    )


def _edits(repository: Repository, there: Stack, request: Request) -> Commit:
    """The edits of the work tree, as a commit above HEAD."""
    if request.change not in there.by_change:
        raise UsageError(
            f"The change '{request.change}' is not applied.",
            why="edits go into a change that the checkout has",
            next=commands.make("status"),
        )
    export.say_untracked(repository)
    edits = export.edits(repository, there)
    if not edits:
        raise UsageError(
            f"There are no edits to put into {request.change}.",
            why="the work tree matches its commit",
            next=f"{commands.make('apply', STAGE=request.change)} "
            f"# edit, then: {request.command()}",
        )
    return export.as_commit(repository, edits)


# -- the commits -------------------------------------------------------------------


def _root(work: Workspace) -> Workspace:
    """The series on the base that is described in full: the checkout's, or what that is like."""
    like = work.base.differences.like
    return applying.of_base(work, like) if like else work


def _other_bases(root: Workspace) -> Iterator[Workspace]:
    """The series on the other bases that are described in full and have patches of their own."""
    for name in base_names(root.layout):
        like = Differences.load(root.layout, name).like
        patches = root.layout.base_folder(name).glob("*/*.patch")
        if name != root.base.name and not like and any(patches):
            yield applying.of_base(root, name)


# -- the rest of the series --------------------------------------------------------


def _differing(contents: Mapping[Path, Content], repository: Repository) -> Rewrite:
    differing = {path: one for path, one in contents.items() if not files.is_as(path, one)}
    if not differing:
        raise UsageError(
            "Nothing to do: the series is already in that state.",
            why="the series is already so",
            next=commands.make("status"),
        )
    return Rewrite.to(differing, repository)


def _operation(request: Request) -> Operation:
    words = {"INTO": "into", "AFTER": "after", "TO": "to", "NAME": "to"}
    options = request.options
    about = [f"{words[key]} {options[key]}" for key in options if key in words]
    return Operation(request.verb, " ".join([request.change, *about]))


def _dropped(shape: Shape, request: Request) -> CommitId | None:
    """The commit of the change that is dropped, for an undrop."""
    if request.verb != "drop":
        return None
    (diff,) = next(one.diffs for one in shape.before if one.id == request.change)
    return diff.commit.id


# -- the checkout ------------------------------------------------------------------


def _followed(work: Workspace, tried: Workspace, after: Plan, request: Request) -> State:
    """Where the checkout is to be: at the changes that it had, as they are now."""
    there, skipped = stack.read(work.repository), work.dropped
    without = frozenset(one.id for one in after if one.origin in skipped)
    dropped = without - tried.series.without
    if not there.applied:
        return replace(moves.current(tried.repository), dropped=tuple(sorted(dropped)))
    goal = Goal(_top(there, after, skipped), without, request=request)
    made = applying.expected(tried, there.base, goal)
    return State.of_stack(
        tried.repository, applying.carried(tried, there, there.base, made), dropped
    )


def _top(there: Stack, after: Plan, skipped: frozenset[str]) -> str:
    """The last of the changes that the checkout had, with none below it that it had not."""
    applied = there.by_change
    known = {*applied, *skipped, ""}
    row = list(takewhile(lambda one: one.origin in known, after))
    while row and len(row) < len(after) and row[-1].origin not in applied:
        row.pop()
    return row[-1].id if row else NO_STAGE
