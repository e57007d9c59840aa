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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from xpu_stack.core.system import commands, lock
from xpu_stack.core.system.console import log, say
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.files import Content, load
from xpu_stack.core.system.files import write as write_file
from xpu_stack.core.system.layout import Layout, settings
from xpu_stack.core.system.objects import GITLINK, Blob
from xpu_stack.core.system.shell import CommandFailed

_held: set[Path] = set()  # locks of series that this run has
_SIGNALS = {signal.SIGINT, signal.SIGTERM}

finished = 0  # steps that came to their end; after Ctrl-C it tells whether one did


class Renamed(NamedTuple):
    """A file to be renamed out or in; mode 0: there is none."""

    path: str  # in the root
    old_mode: int
    new_mode: int


@dataclass(frozen=True)
class Renames:
    """A row of renames in what messages call `what`.

    stage: has the new contents in new/, by path, and takes the old.
    """

    what: str
    root: Path
    stage: Path
    files: list[Renamed]

    def failed(self, error: Exception, do: str = "fix that") -> ToolError:
        """What is raised where nothing was changed, or all was taken back."""
        return ToolError(
            f"{self.what} could not be changed; it is as it was.",
            why=reason(error),
            next=f"{do}, then run the same command again",
        )

    def refuse_unwritable(self) -> None:
        """Refuses if a folder cannot be written, before any is."""
        paths = {self.root / os.path.dirname(file.path) for file in self.files}
        there = {next(one for one in (path, *path.parents) if one.is_dir()) for path in paths}
        for folder in sorted(there):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise ToolError(
                    f"{self.what} could not be changed; it is as it was.",
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
        for number, file in enumerate(self.files):
            target, new, _ = self._paths(number)
            if file.new_mode == GITLINK:
                _prune(target)
            elif file.new_mode and not os.path.lexists(new) and os.path.lexists(target):
                os.renames(target, new)
        for number, file in enumerate(self.files):
            target, _, old = self._paths(number)
            if os.path.lexists(old):
                os.renames(old, target)
            elif file.old_mode == GITLINK:
                os.makedirs(target, exist_ok=True)

    def _paths(self, number: int) -> tuple[str, str, str]:
        """Where a file is, where its new content waits, and where the old one is kept."""
        path = self.files[number].path
        # the old by number: paths of old and new may need one folder
        return f"{self.root}/{path}", f"{self.stage}/new/{path}", f"{self.stage}/old/{number}"

    def _out(self, number: int) -> None:
        target, _, old = self._paths(number)
        if os.path.lexists(old) or not os.path.lexists(target):
            return  # repeated: what stands there now is new; or there is nothing
        if os.path.isdir(target) and not os.path.islink(target):
            _prune(target)  # a submodule's: it goes when it is empty
        elif self.files[number].new_mode:
            os.rename(target, old)
        else:
            os.renames(target, old)  # and empty folders go

    def _in(self, number: int) -> None:
        target, new, _ = self._paths(number)
        if self.files[number].new_mode == GITLINK:
            self._out(number)
            os.makedirs(target, exist_ok=True)
        elif os.path.lexists(new):  # or it is repeated, and there
            self._out(number)
            os.renames(new, target)


def _prune(folder: str) -> None:
    """Removes a folder and those above it, as far as they are empty: the root never is."""
    with suppress(OSError):  # something is left in it, or it is none
        os.removedirs(folder)


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
            onward.resolve().unlink()  # one of the series' is that of the move it goes with
    back()
    return error


class CutOff(ToolError):
    """The process of a step was killed in the middle; the next run completes the step."""


def uninterrupted(step: Callable[[], None]) -> None:
    """Runs `step` in a process of its own session; an error of it is raised here.

    Ctrl-C, or killing the command and its group, does not interrupt it: signals to this
    process wait until the step has ended.
    """
    global finished
    reading, writing = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            _work(step, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        finished += not status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if told:
        what, why, next_, code = json.loads(told)
        raise ToolError(what, why=why, next=next_, code=ExitCode(code))
    if status:
        raise CutOff(
            "The last step was interrupted.",
            why=f"its process ended with {os.waitstatus_to_exitcode(status)}",
            next="run the same command again: it completes the step first",
        )


def _work(step: Callable[[], None], writing: int) -> NoReturn:
    try:
        os.setsid()
        step()
        os._exit(0)
    except ToolError as error:
        told = json.dumps([error.what, error.why, error.next, int(error.code)])
        os.write(writing, told.encode())
    except BaseException:
        log.exception("in the step")
    os._exit(1)


# -- the files of the series -----------------------------------------------------


def write(layout: Layout, contents: Mapping[Path, Content]) -> None:
    """Makes these the files of the series: mode and content, or None for a file that goes."""
    with alone(layout, "write"):
        renames = staged(layout, contents)
        renames.refuse_unwritable()
        uninterrupted(lambda: _perform(renames))


def staged(layout: Layout, contents: Mapping[Path, Content], move: Path | None = None) -> Renames:
    """Has the new contents wait beside the series.

    move: the folder of a checkout's move that they go with: what its journal says of
    forward and back is true of them, too.
    """
    names = {path: path.relative_to(layout.repository).as_posix() for path in contents}
    files = [Renamed(names[path], 0, one[0] if one else 0) for path, one in contents.items()]
    renames = _renames(layout.repository, files)
    stage = renames.stage
    shutil.rmtree(stage, ignore_errors=True)
    try:
        put_all({stage / "new" / names[path]: one for path, one in contents.items() if one})
        write_file(stage / "draft", json.dumps(files))
        if move:
            (stage / "journal.json").symlink_to(move / "journal.json")
            (stage / "forward").symlink_to(move / "switch" / "forward")
        else:
            (stage / "forward").touch()
    except OSError as error:
        shutil.rmtree(stage, ignore_errors=True)
        raise renames.failed(error) from error
    return renames


def waiting(top: Path, journal: Path) -> Renames | None:
    """What waits beside the series in `top` for the move of a journal; None: no more."""
    stage = _renames(top).stage
    if not journal.exists() or (stage / "journal.json").resolve() != journal.resolve():
        return None
    return _renames(top, load(stage / "draft"))


def recover(layout: Layout) -> None:
    """Completes a write of the series' files that was interrupted."""
    top = layout.repository
    stage = _renames(top).stage
    journal = stage / "journal.json"
    if not journal.exists():
        return
    with alone(layout, "recover"):
        if not journal.exists():
            return  # the run that was at work has ended
        if journal.is_symlink():
            _perform(waiting(top, journal) or _renames(top))
        elif (told := load(journal)) is not None:
            _perform(_renames(top, told))
        else:
            kept = stage.with_name(f"{stage.name}.torn")
            shutil.rmtree(kept, ignore_errors=True)
            stage.rename(kept)
            say(f"the files of the series that it wrote or replaced, if any, are in {kept}")
            return
    say("an earlier run was interrupted while it wrote the series; that is now complete")


def _renames(top: Path, files: Iterable[Iterable[Any]] = ()) -> Renames:
    stage = top / "patches" / ".transaction"  # on the file system that the series is on
    return Renames("The series", top, stage, [Renamed(*one) for one in files])


@contextmanager
def alone(layout: Layout, verb: str) -> Iterator[None]:
    """Holds the series: no other run writes it between what this one reads and writes."""
    path = layout.state / "series.lock"
    with ExitStack() as held:
        if path not in _held:
            held.enter_context(lock.awaited(path, verb))
            _held.add(path)
            held.callback(_held.discard, path)
        yield


def put_all(contents: Mapping[Path, Content], *, for_good: bool = True) -> None:
    """Writes files, or removes them, one after another: for what is not the series itself."""
    for path, content in contents.items():
        path.unlink(missing_ok=True)
        if content is not None:
            put(path, *content, for_good=for_good)


def put(path: Path, mode: int, content: bytes | Blob, *, for_good: bool = True) -> None:
    """Writes a file as git would. for_good: a crash of the machine must not lose it."""
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
        if for_good:
            os.fsync(file.fileno())
    path.chmod(0o755 if mode == 0o100755 else 0o644)


def _perform(renames: Renames) -> None:
    with suppress(FileNotFoundError):  # repeated
        (renames.stage / "draft").rename(renames.stage / "journal.json")
    error = forward_or_back(renames.stage, renames.forward, renames.back)
    (renames.stage / "journal.json").unlink()
    shutil.rmtree(renames.stage, ignore_errors=True)
    if error:
        raise renames.failed(error)
