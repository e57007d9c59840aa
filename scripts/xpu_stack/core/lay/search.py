"""Puts the checkout back after a search (bisect), however the search ends.

Note [Back from a search]
~~~~~~~~~~~~~~~~~~~~~~~~~
Where the checkout was, and how long the log of moves was, is written to
.git/<name>/search.json before the first move of a search and goes when the
checkout is back. A kill that cannot be caught leaves the file: the next
command, whichever it is, finds it and puts the checkout back first. When a
person has committed or switched branches since, the checkout is left alone.
"""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from xpu_stack.core.move import moves, stack
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Repository


@contextmanager
def put_back(repository: Repository) -> Iterator[None]:
    """HEAD, its branch, the files and the tool's own refs are as before, afterwards."""
    conflicts.refuse_pending(repository)  # the person's; one that comes up is the search's
    _write_start(repository)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        # From here on a second Ctrl-C waits: going back takes a moment.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _go_back(repository)
        finally:
            signal.signal(signal.SIGINT, interrupt)
            signal.signal(signal.SIGTERM, before)


def recover(repository: Repository) -> None:
    """Puts the checkout back from a search that was killed, if there was one."""
    record = _record(repository)
    data = files.load(record)
    if data is None:
        return
    start, moved = moves.state(data["state"]), data["moves"]
    now, last = moves.current(repository), moves.last(repository)
    reached = last.after if last and moves.length(repository) > moved else start
    if now.where not in (start.where, reached.where):
        record.unlink()
        say(
            "an earlier search was interrupted; the checkout has changed since, and is left as is: "
            f"at {now.commit[:12]}"
        )
        return
    _go_back(repository)
    say("an earlier search was interrupted; the checkout is back where it was before")


def _record(repository: Repository) -> Path:
    return repository.own_folder / "search.json"


def _write_start(repository: Repository) -> None:
    start = {"state": asdict(moves.current(repository)), "moves": moves.length(repository)}
    files.write(_record(repository), json.dumps(start))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _go_back(repository: Repository) -> None:
    record = _record(repository)
    data = json.loads(record.read_text())
    to, length = moves.state(data["state"]), data["moves"]
    conflicts.give_up(repository)
    if repository.commit_id("HEAD") != to.commit:
        try:
            stack.refuse_unsafe(repository)
        except ToolError as error:
            raise ToolError(
                "The checkout could not be put back where it was before the search.",
                why=f"it was edited meanwhile: {error.why}",
                next=f"{commands.git(repository.folder, 'stash')} && "
                f"{commands.make('status')} # puts it back",
            ) from error
    with progress(None, "putting the checkout back"):
        moves.put_back(repository, to, length)
    record.unlink()
