"""Drop, undrop, fold, split, move, rename and edit changes of the series; undo and redo.

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

Undo and redo make the checkout and the series what they were before the last operations,
whichever these were. Going back is a move like any other, and in the log. What a person
has done since the last move is never undone with it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from xpu_stack.core.edit import export
from xpu_stack.core.edit.plan import Dropped, Given, Plan
from xpu_stack.core.edit.shape import OwnFiles, Shape, restored
from xpu_stack.core.edit.sources import Written
from xpu_stack.core.lay import applying
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.moves import Move, Operation, Rewrite, State
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Goal, Request, Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.base import base_names
from xpu_stack.core.series.change import trailers
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands, transaction
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Commit, CommitId, Repository, TreeId
from xpu_stack.core.system.objects import Blob


def run(work: Workspace, request: Request) -> Rewrite:
    """Edits the series, and has the checkout follow; what was done to the series' files."""
    repository = work.repository
    conflicts.refuse_pending(repository)
    there = stack.read(repository)
    _refuse_unsafe(repository, there, request)
    given = Given(repository, request)
    if request.verb == "edit":
        given = replace(given, edits=_edits(repository, there, request))
    if request.verb == "undrop":
        given = replace(given, drop=_drop(work, request))
    with progress(None, str(_operation(request))):
        # the series on the base that is described in full: the checkout's, or what that is like
        like = work.base.differences.like
        root = applying.of_base(work, like) if like else work
        elsewhere = root.series.elsewhere.items()  # payload files that only other bases have
        more = (kept_at.split("/", 2)[2] for kept_at, id_ in elsewhere if id_ == request.change)
        given = replace(given, more=frozenset(more))
        shape = Shape(root, given, there.base if root is work else None)
        edit = Rewrite.to(work.layout, _contents(root, given, shape), repository)
        if not edit.after:
            raise UsageError(
                "Nothing to do: the series is already in that state.",
                why="the series is already so",
                next=commands.make("status"),
            )
    with export.trial(work, edit.after) as tried:
        after = _followed(work, tried, shape.after, request)
    edits = given.edits.id if given.edits else None
    operation = replace(_operation(request), commit=shape.dropped, edits=edits)
    moves.move(repository, operation, after, edit)
    conflicts.forget_resolutions(repository)
    return edit


def _contents(root: Workspace, given: Given, shape: Shape) -> dict[Path, Content]:
    """What the edited series' files are, on all bases; many are as they were."""
    shapes, likes, drop = [shape], list[OwnFiles](), given.drop
    for name in base_names(root.layout):
        if name != root.base.name:
            work = applying.of_base(root, name)
            if work.base.differences.like:
                likes.append(OwnFiles(work, shape))
            elif any((root.layout.patches / name).glob("*/*.patch")):
                shapes.insert(0, Shape(work, given, None))
    written = Written({}, {})
    for part in [*(one.written for one in shapes), *(own.carried() for own in likes)]:
        written.contents.update(part.contents)
        written.owners.update(part.owners)
    contents = written.contents | shape.series_file(written) | _keyed_by_change(root, shape)
    if drop is None:
        for own in likes:
            contents |= own.refitted(contents)
        return contents
    same = shape.is_as_before(drop)
    made = {path for one in shapes for path in one.written.contents}
    before = restored(drop).items()
    return contents | {path: one for path, one in before if same or path not in made}


def _keyed_by_change(work: Workspace, shape: Shape) -> dict[Path, Content]:
    """Resolutions and pull requests go with a change that has another name."""
    contents: dict[Path, Content] = {}
    for path in work.layout.patches.glob("*/resolutions/*/resolution.yaml"):
        text = path.read_text(encoding="utf-8")
        for old, new in shape.names.items():
            if re.search(rf"^change: ['\"]?{re.escape(old)}['\"]?$", text, re.M):
                then = {path: (0o100644, text.replace(old, new, 1).encode())}
                contents |= then if new else dict.fromkeys(path.parent.iterdir())
                break
    for path in work.layout.patches.glob("*/submitted.yaml"):
        text = path.read_text(encoding="utf-8")
        for old, new in shape.renamed.items():
            key = rf"^( +['\"]?){re.escape(old)}(?=['\"]?:)"
            text = re.sub(key, rf"\g<1>{new}", text, flags=re.M)
        contents[path] = (0o100644, text.encode())
    return contents


def _refuse_unsafe(repository: Repository, there: Stack, request: Request) -> None:
    stack.refuse_unsafe(repository, edits=request.verb == "edit")
    stack.refuse_others(repository, there, "squash it into a change, or move it above the stack")
    for one in there.applied:
        if not one.as_made:
            raise ToolError(
                f"The commit of {one.trailers.change} was changed by hand.",
                why=f"{one.commit.id[:12]} is not as the tool made it",
                next=f"{commands.make('export')} && {request.command()}",
            )


def begin(work: Workspace, change: str, contents: Mapping[Path, Content]) -> None:
    """Adds a change to the series' files, and to the log of moves.

    But not to the log where the checkout was changed since the last move: what a person
    took out of the stack is known by what that left there.
    """
    repository = work.repository
    last, now = moves.last(repository), moves.current(repository)
    if last.after.where == now.where if last else not stack.read(repository).applied:
        edit = Rewrite.to(work.layout, contents, repository)
        moves.move(repository, Operation("new", change), now, edit, files=False)
    else:
        transaction.write(work.layout, contents)


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
    applied = stack.read(work.repository).applied
    top = applied[-1].trailers.change if applied else NO_STAGE
    rest = list(work.series.by_id)[len(work.series.changes(top)) :]
    if change in takewhile(lambda one: one in skipped, rest):
        top = change  # it is the next to be applied
    applying.reach(work, Goal(top, skipped - {change}), "undrop")
    return Rewrite(work.layout, {}, {})


def _drop(work: Workspace, request: Request) -> Dropped:
    """What took a change out."""
    repository, change = work.repository, request.change
    drops = (one for one in moves.entries(repository) if one.verb == "drop" and one.edit)
    drop = next((one for one in drops if one.about == change), None)
    if drop is None or drop.edit is None or drop.commit is None:
        raise UsageError(
            f"'{change}' was never dropped here.",
            why="neither the checkout skips it, nor is it in the log of operations",
            next=commands.git(work.layout.repository, "log", "--", f"patches/texts/{change}.md"),
        )
    edit = Rewrite.load(work.layout, repository, drop.edit)
    before = edit.before[work.layout.series_file]
    assert before is not None
    assert isinstance(before[1], Blob)
    file = SeriesFile.parse(work.layout.series_file, before[1].content.decode())
    kept = commit = repository.commit(drop.commit)  # see Shape.dropped
    trees = dict[str, tuple[TreeId, TreeId]]()
    if not trailers(kept.message):  # an earlier version kept the change's commit alone
        commit = repository.commit(kept.parents[0])
        old, new = (
            {told.change: one.tree for one in commits if (told := trailers(one.message))}
            for commits in (repository.history(top, len(file.changes)) for top in kept.parents[1:])
        )
        trees = {one: (new[one], old[one]) for one in new.keys() & old.keys()}
    trees[change] = repository.tree_of(commit.parents[0]), commit.tree
    return Dropped(commit, edit, file, trees)


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


def _operation(request: Request) -> Operation:
    words = {"INTO": "into", "AFTER": "after", "TO": "to", "NAME": "to"}
    options = request.options
    about = [f"{words[key]} {options[key]}" for key in options if key in words]
    return Operation(request.verb, " ".join([request.change, *about]))


def _followed(work: Workspace, tried: Workspace, after: Plan, request: Request) -> State:
    """Where the checkout is to be: at the changes that it had, as they are now."""
    there, skipped = stack.read(work.repository), work.dropped
    without = tried.series.without.union(one.id for one in after if one.origin in skipped)
    dropped = without - tried.series.without
    if not there.applied:
        return replace(moves.current(tried.repository), dropped=tuple(sorted(dropped)))
    # up to the last of the changes that it had, with none below that it had not
    applied = there.by_change
    row = list(takewhile(lambda one: one.origin in {*applied, *skipped, ""}, after))
    while row and len(row) < len(after) and row[-1].origin not in applied:
        row.pop()
    goal = Goal(row[-1].id if row else NO_STAGE, without, request=request)
    return applying.state_at(tried, there, goal)


# -- undo and redo ------------------------------------------------------------------


def undo_or_redo(work: Workspace, verb: str, steps: int) -> Sequence[Move]:
    """Reverts the last `steps` operations, or redoes those that were; what they were, in order.

    verb: undo or redo.
    """
    repository, back = work.repository, verb == "undo"
    done, undone = moves.history(repository)
    there = done if back else undone
    if len(there) < steps:
        raise UsageError(
            f"There is no operation to {verb}.",
            why=f"the log has less than {steps} to {verb}" if there else "the log has none",
            next=commands.make("history"),
        )
    taken = there[:steps]
    edits = taken[-1 if back else 0].edits
    if not back and edits and not _has_edits(repository, edits):
        edits = None
    _refuse_moved(work, edits=not back and edits is not None)
    edit = Rewrite(work.layout, {}, {})
    for one in taken[::-1] if back else taken:  # oldest first
        if one.edit is not None:
            made = Rewrite.load(work.layout, repository, one.edit)
            before, after = {**made.before, **edit.before}, {**edit.after, **made.after}
            edit = Rewrite(work.layout, before, after)
    edit, to = (edit.undone, taken[-1].before) if back else (edit, taken[-1].after)
    _refuse_moved_branch(repository, to)
    edited = list(Rewrite.to(work.layout, edit.before, repository).after)
    if edited:
        raise ToolError(
            f"The series was edited since the operation that is to be {verb[:2]}done.",
            why=f"{edited[0].relative_to(work.layout.repository)} is not as the move left it",
            next=f"{commands.git(work.layout.repository, 'stash')} # then: make {verb}",
        )
    operation = Operation(verb, str(taken[-1]), steps, edits=edits)
    with progress(None, str(operation)):
        moves.move(repository, operation, to, edit)
    return taken


def _has_edits(repository: Repository, edits: CommitId) -> bool:
    """Whether the work tree has the edits that the undo has given back, and no others."""
    wanted = {one.path: one.file for one in repository.diff("HEAD", edits)}
    edited = set(repository.uncommitted(untracked=False)[0])
    return edited <= wanted.keys() and all(
        repository.store_edited(path) == file for path, file in wanted.items()
    )


def _refuse_moved(work: Workspace, *, edits: bool) -> None:
    conflicts.refuse_pending(work.repository)
    stack.refuse_unsafe(work.repository, edits=edits)
    last, now = moves.last(work.repository), moves.current(work.repository)
    if last is not None and now.where != last.after.where:
        commit, folder = last.after.commit[:12], work.repository.folder
        raise ToolError(
            "The checkout has moved since the tool's last move.",
            why=f"'{last.verb}' left HEAD at {commit}, and it is now at {now.commit[:12]}",
            next=f"{commands.git(folder, 'branch', 'mine')} && "
            + commands.git(folder, "reset", "--keep", commit),
        )


def _refuse_moved_branch(repository: Repository, to: State) -> None:
    """Refuses to go back to a branch that has other commits now."""
    if not to.head or to.head == stack.branch(repository):
        return
    if elsewhere := repository.has_elsewhere(to.head):
        raise ToolError(
            f"The branch '{to.head}' is checked out in another worktree.",
            why=f"it is {elsewhere}, and the checkout was on that branch before",
            next=commands.git(elsewhere, "switch", "--detach"),
        )
    there = repository.commit_id(f"refs/heads/{to.head}")
    if there != to.commit:
        raise ToolError(
            f"The branch '{to.head}' has moved since.",
            why=f"it was at {to.commit[:12]}, and is " + (f"at {there[:12]}" if there else "gone"),
            next=commands.git(repository.folder, "switch", to.head)
            if there
            else commands.git(repository.folder, "branch", to.head, to.commit[:12]),
        )
