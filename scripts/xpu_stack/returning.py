"""A search moves the checkout about; when it ends, however it ends, it is back."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from xpu_stack import moves, stack
from xpu_stack.console import progress
from xpu_stack.errors import ToolError
from xpu_stack.git import Repository
from xpu_stack.moves import State


@contextmanager
def put_back(repository: Repository) -> Iterator[None]:
    """HEAD, its branch, the files and the tool's own refs are as before, afterwards.

    A kill that cannot be caught leaves the checkout whole, where the search was.
    """
    start, moved = moves.current(repository), moves.length(repository)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        # From here on a second Ctrl-C waits: going back takes a moment.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _go_back(repository, start, moved)
        finally:
            signal.signal(signal.SIGINT, interrupt)
            signal.signal(signal.SIGTERM, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _go_back(repository: Repository, to: State, moved: int) -> None:
    if repository.commit_id("HEAD") != to.commit:
        try:
            stack.refuse_unsafe(repository, stack.BRANCH)
        except ToolError as error:
            raise ToolError(
                "The checkout could not be put back where it was.",
                why=f"it was edited meanwhile: {error.why}",
                next=f"commit or stash that, then: git -C {repository.folder} "
                f"reset --keep {to.commit[:12]}",
            ) from error
    with progress(None, "putting the checkout back"):
        moves.put_back(repository, to, moved)
