"""One run at a time."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from xpu_stack.core.system.console import warn
from xpu_stack.core.system.errors import ToolError

_FINISHING = 30.0  # seconds that the last step of a killed run may take


@contextmanager
def held(path: Path, verb: str, what: str) -> Iterator[None]:
    """Holds the lock file at `path` while `verb` works on `what`.

    The lock is the kernel's: it ends with the processes that hold it, so that
    no stale one can be left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        if not _try(file.fileno()):
            _wait_or_refuse(file.fileno(), path, what)
        _sign(file, verb)
        yield


@contextmanager
def awaited(path: Path, verb: str) -> Iterator[None]:
    """Holds the lock file, after those that hold it now: for what others can wait for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        if not _try(file.fileno()):
            warn(f"waiting for another run, which holds {path} ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        _sign(file, verb)
        yield


@contextmanager
def tried(path: Path, verb: str) -> Iterator[bool]:
    """Holds the lock file if that can be done at once; whether it is held.

    For what only reads: it need not wait, and where nothing can be written
    nothing changes either.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError:
        yield False
        return
    with file:
        if not _try(file.fileno()):
            yield False
            return
        _sign(file, verb)
        yield True


def _sign(file: IO[str], verb: str) -> None:
    file.seek(0)
    file.truncate()
    json.dump({"pid": os.getpid(), "verb": verb}, file)
    file.flush()


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_or_refuse(descriptor: int, path: Path, what: str) -> None:
    try:
        holder = json.loads(path.read_text())
    except ValueError:
        holder = {}  # it is being written
    pid, verb = int(holder.get("pid", 0)), holder.get("verb", "command")
    # When the run itself is gone, its last step is just being finished.
    deadline = time.monotonic() + (0 if pid and _alive(pid) else _FINISHING)
    while not _try(descriptor):
        if time.monotonic() >= deadline:
            raise ToolError(
                f"Another run is at work on {what}.",
                why=f"'{verb}' (process {pid}) holds {path}",
                next=f"wait for it to end, or end it: kill {pid}",
            )
        time.sleep(0.01)  # the kernel has no lock with a time limit


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
