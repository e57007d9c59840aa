"""The checkout and the series as they were before the last operations: undo and redo.

Going back is a move like any other, and in the log. What a person has done
since the last move is never undone with it.
"""

from collections.abc import Sequence
from pathlib import Path

from xpu_stack.core.move import moves, rewrite, stack
from xpu_stack.core.move.moves import Move, Operation, State
from xpu_stack.core.move.rewrite import Rewrite
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import CommitId, File, Repository


def undo(work: Workspace, steps: int) -> Sequence[Move]:
    """Reverts the last `steps` operations, the newest first; what they were."""
    done, _ = moves.history(work.repository)
    taken = _newest(done, "undo", steps)
    _refuse_unsafe(work, None)
    to, edit = taken[-1].before, _edit(work, taken[::-1]).undone
    edits = taken[-1].operation.edits
    _go(work, Operation("undo", f"{taken[-1].operation}", steps, edits=edits), to, edit)
    return taken


def redo(work: Workspace, steps: int) -> Sequence[Move]:
    """Does the last `steps` operations again that were undone; what they were."""
    _, undone = moves.history(work.repository)
    taken = _newest(undone, "redo", steps)
    edits = taken[0].operation.edits
    if edits and not _has_edits(work.repository, edits):
        edits = None
    _refuse_unsafe(work, edits)
    to, edit = taken[-1].after, _edit(work, taken)
    _go(work, Operation("redo", f"{taken[-1].operation}", steps, edits=edits), to, edit)
    return taken


def _has_edits(repository: Repository, edits: CommitId) -> bool:
    """Whether the work tree has the edits that the undo has given back, and no others."""
    wanted = {one.path: File(one.new_mode, one.new) for one in repository.diff("HEAD", edits)}
    edited = set(repository.uncommitted(untracked=False)[0])
    return edited <= wanted.keys() and all(
        repository.store_edited(path) == file for path, file in wanted.items()
    )


def _newest(there: Sequence[Move], verb: str, steps: int) -> Sequence[Move]:
    if len(there) < steps:
        raise UsageError(
            f"There is no operation to {verb}.",
            why=f"the log has less than {steps} to {verb}" if there else "the log has none",
            next=commands.make("history"),
        )
    return there[:steps]


def _refuse_unsafe(work: Workspace, edits: CommitId | None) -> None:
    conflicts.refuse_pending(work.repository)
    stack.refuse_unsafe(work.repository, edits=edits is not None)
    last = moves.last(work.repository)
    assert last is not None
    now = moves.current(work.repository)
    if now.where != last.after.where:
        commit, folder = last.after.commit[:12], work.repository.folder
        raise ToolError(
            "The checkout has moved since the tool's last move.",
            why=f"'{last.verb}' left HEAD at {commit}, and it is now at {now.commit[:12]}",
            next=f"{commands.git(folder, 'branch', 'mine')} && "
            + commands.git(folder, "reset", "--keep", commit),
        )


def _edit(work: Workspace, row: Sequence[Move]) -> Rewrite:
    """What a row of operations, oldest first, did to the series' files."""
    before: dict[Path, Content] = {}
    after: dict[Path, Content] = {}
    for one in row:
        if one.edit is not None:
            made = Rewrite.load(work, one.edit)
            before = {**made.before, **before}
            after.update(made.after)
    return Rewrite(before, after)


def _go(work: Workspace, operation: Operation, to: State, edit: Rewrite) -> None:
    _refuse_moved_branch(work.repository, to)
    differing = edit.undone.differing()
    if differing is not None:
        raise ToolError(
            f"The series was edited since the operation that is to be {operation.verb[:2]}done.",
            why=f"{differing.relative_to(work.layout.repository)} is not as the move left it",
            next=f"{commands.git(work.layout.repository, 'stash')} # then: make {operation.verb}",
        )
    with progress(None, str(operation)):
        if edit.after:
            rewrite.move(work, operation, edit, to)
        else:
            moves.move(work.repository, operation, to)


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
