"""Atomic changes of many files: those of a checkout, and those of the series.

Note [Renames]
~~~~~~~~~~~~~~
New contents wait in a folder beside what they replace, on the same file system.
Then each file in the way is renamed out of it, and each new one into its place.
A rename that was done can be told from one that was not, so that the row can be
repeated from any point, and taken back from any point, file times and all.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from xpu_stack.core.system import commands, critical, lock
from xpu_stack.core.system.console import log, say
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.files import Content, load
from xpu_stack.core.system.files import write as write_file
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.objects import GITLINK, Blob
from xpu_stack.core.system.settings import settings
from xpu_stack.core.system.shell import CommandFailed

_held: set[Path] = set()  # locks of series that this run has


class Renamed(NamedTuple):
    """A file to be renamed out or in; mode 0: there is none."""

    path: str  # in the root
    old_mode: int
    new_mode: int


@dataclass(frozen=True)
class Renames:
    """A row of renames. stage: has the new contents in new/, by path, and takes the old."""

    root: Path
    stage: Path
    files: list[Renamed]

    def refuse_unwritable(self, what: str) -> None:
        """Refuses if a folder cannot be written, before any is."""
        folders = {os.path.dirname(file.path) for file in self.files}
        for folder in sorted({_nearest(self.root / folder) for folder in folders}):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise ToolError(
                    f"{what} could not be changed; it is as it was.",
                    why=f"nothing can be written in {folder}",
                    next=f"{commands.line('ls', '-ld', folder)}; "
                    f"{commands.line('lsattr', '-d', folder)} # then the same command again",
                )

    def forward(self) -> None:
        """Puts every file in its place."""
        os.makedirs(self.stage / "old", exist_ok=True)
        for number, file in enumerate(self.files):
            if not file.new_mode:  # first: a folder may come where a file was
                self._out(number)
        fault("gone")
        for number, file in enumerate(self.files):
            if file.new_mode:
                self._in(number)
            fault(f"file {number}")

    def back(self) -> None:
        """Takes it all back, as far as it was done."""
        for file in self.files:
            target, new = self._target(file), self._new(file)
            if file.new_mode == GITLINK:
                _prune(target)
            elif file.new_mode and not os.path.lexists(new) and os.path.lexists(target):
                os.rename(target, new)
                _prune(os.path.dirname(target))
        for number, file in enumerate(self.files):
            target, old = self._target(file), self._old(number)
            if os.path.lexists(old):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.rename(old, target)
            elif file.old_mode == GITLINK:
                os.makedirs(target, exist_ok=True)

    def _target(self, file: Renamed) -> str:
        return f"{self.root}/{file.path}"

    def _new(self, file: Renamed) -> str:
        return f"{self.stage}/new/{file.path}"

    def _old(self, number: int) -> str:
        """Where the file that was there is kept; paths of old and new may need one folder."""
        return f"{self.stage}/old/{number}"

    def _out(self, number: int) -> None:
        file, old = self.files[number], self._old(number)
        target = self._target(file)
        if os.path.lexists(old) or not os.path.lexists(target):
            return  # repeated: what stands there now is new; or there is nothing
        if os.path.isdir(target) and not os.path.islink(target):
            _prune(target)  # a submodule's: it goes when it is empty
        else:
            os.rename(target, old)
            if not file.new_mode:
                _prune(os.path.dirname(target))

    def _in(self, number: int) -> None:
        file = self.files[number]
        target, new = self._target(file), self._new(file)
        if file.new_mode != GITLINK and not os.path.lexists(new):
            return  # repeated: it is there
        self._out(number)
        if file.new_mode == GITLINK:
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(new, target)


def _prune(folder: str) -> None:
    """Removes a folder and those above it, as far as they are empty: the root never is."""
    with suppress(OSError):  # something is left in it, or it is none
        os.removedirs(folder)


def _nearest(path: Path) -> Path:
    """A folder, or the closest there is above it."""
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def reason(error: Exception) -> str:
    """Why a step failed, in a line."""
    if isinstance(error, CommandFailed):
        return (error.result.complaint.splitlines() or [str(error)])[-1]
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    return str(error)


def fault(point: str) -> None:
    """Where a test ends the step: by a kill, or by an error, "<point>!"."""
    variable = settings().variable("FAULT")
    asked = os.environ.get(variable)
    if asked == point:
        os.kill(os.getpid(), signal.SIGKILL)
    if asked == f"{point}!":
        del os.environ[variable]  # not on the way back
        raise PermissionError(1, "Operation not permitted", point)


def forward_or_back(
    stage: Path, forward: Callable[[], None], back: Callable[[], None]
) -> Exception | None:
    """Does a step, or takes it back when it fails: then, why it failed.

    Repeated after a cut, it stays on the way that it was on.
    """
    onward, error = stage / "forward", None
    if onward.exists():
        try:
            forward()
            return None
        except Exception as problem:
            log.exception("the step failed, and is taken back")
            error = problem
            onward.unlink()
    back()
    return error


# -- the files of the series -----------------------------------------------------


def write(layout: Layout, contents: Mapping[Path, Content]) -> None:
    """Makes these the files of the series: mode and content, or None for a file that goes."""
    with alone(layout, "write"):
        stage = _stage(layout)
        shutil.rmtree(stage, ignore_errors=True)
        files = []
        try:
            for path, wanted in contents.items():
                name = path.relative_to(layout.repository).as_posix()
                files.append(Renamed(name, 0, wanted[0] if wanted else 0))
                if wanted:
                    put(stage / "new" / name, *wanted)
            stage.mkdir(parents=True, exist_ok=True)
            (stage / "forward").touch()
            write_file(stage / "draft", json.dumps(files))
        except OSError as error:
            shutil.rmtree(stage, ignore_errors=True)
            raise _failed(error) from error
        renames = Renames(layout.repository, stage, files)
        renames.refuse_unwritable("The series")
        critical.run(lambda: _perform(renames))


def recover(layout: Layout) -> None:
    """Completes a write of the series' files that was interrupted."""
    stage = _stage(layout)
    if not (stage / "journal.json").exists():
        return
    with alone(layout, "recover"):
        journal = load(stage / "journal.json")
        if journal is None:
            kept = stage.with_name(f"{stage.name}.torn")
            shutil.rmtree(kept, ignore_errors=True)
            stage.rename(kept)
            say(f"the files of the series that it wrote or replaced, if any, are in {kept}")
            return
        files = [Renamed(*fields) for fields in journal]
        _perform(Renames(layout.repository, stage, files))
    say("an earlier run was interrupted while it wrote the series; that is now complete")


def _stage(layout: Layout) -> Path:
    return layout.patches / ".transaction"  # on the file system that the series is on


@contextmanager
def alone(layout: Layout, verb: str) -> Iterator[None]:
    """Holds the series: no other run writes it between what this one reads and writes."""
    path = layout.state / "series.lock"
    if path in _held:
        yield
        return
    with lock.awaited(path, verb):
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)


def put(path: Path, mode: int, content: bytes | Blob) -> None:
    """Writes a file as git would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == 0o120000:
        path.symlink_to(os.fsdecode(content.content if isinstance(content, Blob) else content))
        return
    with path.open("wb") as file:
        if isinstance(content, Blob):
            content.objects.write(content.id, file)
        else:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o755 if mode == 0o100755 else 0o644)


def _failed(error: Exception) -> ToolError:
    return ToolError(
        "The series could not be written; it is as it was.",
        why=reason(error),
        next="fix that, then run the same command again",
    )


def _perform(renames: Renames) -> None:
    with suppress(FileNotFoundError):  # repeated
        (renames.stage / "draft").rename(renames.stage / "journal.json")
    error = forward_or_back(renames.stage, renames.forward, renames.back)
    (renames.stage / "journal.json").unlink()
    shutil.rmtree(renames.stage, ignore_errors=True)
    if error:
        raise _failed(error)
