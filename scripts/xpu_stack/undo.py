"""The checkout as it was before its last moves: the verb undo.

Going back is a move like any other, and in the log: undone in its turn, it is
a redo. What a person has done since the last move is never undone with it.
"""

from xpu_stack import conflict, moves, stack
from xpu_stack.applying import Workspace
from xpu_stack.console import progress
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.git import Repository
from xpu_stack.moves import Move, State


def undo(work: Workspace, steps: int) -> Move:
    """Takes the last `steps` moves back; the oldest of them."""
    repository = work.repository
    conflict.refuse_pending(repository)
    stack.refuse_unsafe(repository, stack.BRANCH)
    last, oldest = moves.entry(repository, 0), moves.entry(repository, steps - 1)
    if last is None or oldest is None:
        raise ToolError(
            "There is no move to undo.",
            why="the log has none" if last is None else f"the log has less than {steps} moves",
            next=f"git -C {repository.folder} reflog {moves.LOG}",
            code=ExitCode.USAGE,
        )
    _refuse_work_since(repository, last)
    _refuse_moved_branch(repository, oldest.before)
    with progress(None, f"going back to before '{oldest.verb}'"):
        moves.move(repository, "undo", oldest.before)
    return oldest


def _refuse_work_since(repository: Repository, last: Move) -> None:
    now = moves.current(repository)
    if now.where == last.after.where:
        return
    raise ToolError(
        "The checkout has moved since the tool's last move.",
        why=f"that, '{last.verb}', left HEAD at {last.after.commit[:12]}, and it is at "
        f"{now.commit[:12]}",
        next=f"git -C {repository.folder} branch mine && "
        f"git -C {repository.folder} reset --keep {last.after.commit[:12]}",
    )


def _refuse_moved_branch(repository: Repository, to: State) -> None:
    """Refuses to go back to a branch that has other commits now."""
    if not to.head or to.head == stack.BRANCH:
        return
    there = repository.commit_id(f"refs/heads/{to.head}")
    if there != to.commit:
        raise ToolError(
            f"The branch '{to.head}' has moved since.",
            why=f"it was at {to.commit[:12]}, and is " + (f"at {there[:12]}" if there else "gone"),
            next=f"git -C {repository.folder} switch {to.head if there else '--detach'}"
            + ("" if there else f" {to.commit[:12]}"),
        )
