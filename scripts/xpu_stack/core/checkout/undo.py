"""The checkout as it was before its last moves: the verb undo.

Going back is a move like any other, and in the log: undone in its turn, it is
a redo. What a person has done since the last move is never undone with it.
"""

from pathlib import Path

from xpu_stack.core.checkout import conflicts, moves, series_update, stack
from xpu_stack.core.checkout.moves import Move, State
from xpu_stack.core.checkout.series_update import Content, Edit
from xpu_stack.core.checkout.workspace import Workspace
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.git import Repository


def undo(work: Workspace, steps: int) -> Move:
    """Takes the last `steps` moves back; the oldest of them."""
    repository = work.repository
    conflicts.refuse_pending(repository)
    stack.refuse_unsafe(repository)
    last, oldest = moves.entry(repository, 0), moves.entry(repository, steps - 1)
    if last is None or oldest is None:
        raise ToolError(
            "There is no move to undo.",
            why="the log has none" if last is None else f"the log has less than {steps} moves",
            next=commands.git(repository.folder, "reflog", moves.log(repository)),
            code=ExitCode.USAGE,
        )
    _refuse_work_since(repository, last)
    _refuse_moved_branch(repository, oldest.before)
    edit = _edit(work, steps)
    with progress(None, f"going back to before '{oldest.verb}'"):
        if edit is None:
            moves.move(repository, "undo", oldest.before)
        else:
            with series_update.made(work, "undo", edit, oldest.before) as tree:
                moves.move(repository, "undo", oldest.before, tree)
    return oldest


def _edit(work: Workspace, steps: int) -> Edit | None:
    """What takes back what the last `steps` moves did to the series; None: they did nothing."""
    before: dict[Path, Content] = {}
    after: dict[Path, Content] = {}
    for number in range(steps):
        tree = moves.edit(work.repository, number)
        if tree is not None:
            made = Edit.load(work, tree)
            before.update(made.before)
            after = {**made.after, **after}
    edit = Edit(before, after)
    differing = edit.differing()
    if differing is not None:
        raise ToolError(
            "The series was edited since the move that is to be undone.",
            why=f"{differing.relative_to(work.layout.repository)} is not as the move left it",
            next=f"{commands.git(work.layout.repository, 'stash')} # then: make undo",
        )
    return edit.undone if after else None


def _refuse_work_since(repository: Repository, last: Move) -> None:
    now = moves.current(repository)
    if now.where == last.after.where:
        return
    raise ToolError(
        "The checkout has moved since the tool's last move.",
        why=f"'{last.verb}' left HEAD at {last.after.commit[:12]}, and it is now at "
        f"{now.commit[:12]}",
        next=f"{commands.git(repository.folder, 'branch', 'mine')} && "
        + commands.git(repository.folder, "reset", "--keep", last.after.commit[:12]),
    )


def _refuse_moved_branch(repository: Repository, to: State) -> None:
    """Refuses to go back to a branch that has other commits now."""
    if not to.head or to.head == stack.branch(repository):
        return
    elsewhere = repository.has_elsewhere(to.head)
    if elsewhere:
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
