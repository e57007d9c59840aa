"""One run at a time, or several that only read."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from xpu_stack.core.system.console import warn
from xpu_stack.core.system.errors import ToolError

_FINISHING = 30.0  # seconds that the last step of a killed run may take
_T = TypeVar("_T")


@contextmanager
def held(path: Path, verb: str, what: str) -> Iterator[None]:
    """Holds the lock file at `path` while `verb` works on `what`.

    The lock is the kernel's: it ends with the processes that hold it, so that
    no stale one can be left behind.
    """
    with _opened(path) as file:
        # When the run itself is gone, its last step is just being finished.
        deadline = time.monotonic() + (0 if _holders(path) else _FINISHING)
        while not _try(file):
            if time.monotonic() >= deadline:
                raise _refusal(path, what)
            time.sleep(0.01)  # the kernel has no lock with a time limit
        _sign(file, verb)
        yield


@contextmanager
def shared(path: Path, verb: str, what: str, prepare: Callable[[bool], _T | None]) -> Iterator[_T]:
    """Shares the lock file with other runs that only read; gives what `prepare` made.

    prepare: is told whether this run has the lock alone. If so, it may change what the
    lock guards; if not, it returns what is there, or None if it needs something else.
    """
    with _opened(path) as file:
        with awaited(path.with_name("lock.prepare"), verb):  # two must not find each other here
            made = None
            while made is None:
                if _try(file):
                    _sign(file, verb)
                    made = prepare(True)
                    if not _try(file, fcntl.LOCK_SH):  # another run came in between
                        made = None
                elif _try(file, fcntl.LOCK_SH):
                    made = prepare(False)
                    if made is None:
                        raise _refusal(path, what)
                    _sign(file, verb, alone=False)
                else:
                    _wait(file, path, fcntl.LOCK_SH)
        yield made


@contextmanager
def awaited(path: Path, verb: str) -> Iterator[None]:
    """Holds the lock file, after those that hold it now: for what others can wait for."""
    with _opened(path) as file:
        _wait(file, path)
        _sign(file, verb)
        yield


@contextmanager
def tried(path: Path, verb: str) -> Iterator[bool]:
    """Holds the lock file if that can be done at once; whether it is held.

    For what only reads: it need not wait, and where nothing can be written
    nothing changes either.
    """
    try:
        file = _opened(path)
    except OSError:
        yield False
        return
    with file:
        alone = _try(file)
        if alone:
            _sign(file, verb)
        yield alone


def _opened(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a+")


def _sign(file: IO[str], verb: str, *, alone: bool = True) -> None:
    if alone:
        file.truncate(0)
    # one write, at the end of the file: those that share it sign at the same time
    signature = {"pid": os.getpid(), "verb": verb, "started": _started(os.getpid())}
    file.write(json.dumps(signature) + "\n")
    file.flush()


def _try(file: IO[str], kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(file: IO[str], path: Path, kind: int = fcntl.LOCK_EX) -> None:
    if not _try(file, kind):
        warn(f"waiting for another run, which holds {path} ...")
        fcntl.flock(file, kind)


def _refusal(path: Path, what: str) -> ToolError:
    holders = _holders(path)
    named = ", ".join(f"'{verb}' (process {pid})" for pid, verb in holders.items())
    return ToolError(
        f"Another run is at work on {what}.",
        why=f"{path} is held by {named or 'a process that has ended'}",
        next=f"kill {' '.join(map(str, holders))} # or wait for the end" if holders else "wait",
    )


def _holders(path: Path) -> dict[int, str]:
    """The verbs of the processes that have signed the file and are there still."""
    try:
        signed = [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError:
        signed = []  # it is being written
    return {one["pid"]: one["verb"] for one in signed if _started(one["pid"]) == one["started"]}


def _started(pid: int) -> str | None:
    """When a process was started: a later one may have its number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
