"""The one place that runs other programs. Every call is in the log."""

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from xpu_stack.core.system.console import log


@dataclass(frozen=True)
class Result:
    """How a program ended, and what it said."""

    code: int
    output: bytes
    errors: bytes

    @property
    def text(self) -> str:
        return self.output.decode(errors="backslashreplace")

    @property
    def complaint(self) -> str:
        return (self.errors or self.output).decode(errors="backslashreplace").strip()


class CommandFailed(Exception):
    """A program that had to succeed did not."""

    def __init__(self, command: Sequence[str], result: Result) -> None:
        super().__init__(f"{shlex.join(command)}: exit {result.code}: {result.complaint}")
        self.result = result


def _logged(command: Sequence[str | Path], note: str = "") -> list[str]:
    words = [str(word) for word in command]
    log.debug("$ %s%s", shlex.join(words), note)
    return words


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes = b"",
    check: bool = True,
) -> Result:
    """Runs `command` to its end and returns what it said.

    env: changes to the environment. Raises CommandFailed when `check` is set
    and the exit code is not 0.
    """
    words = _logged(command)
    done = subprocess.run(
        words, cwd=cwd, env=os.environ | (env or {}), input=input, capture_output=True, check=False
    )
    result = Result(done.returncode, done.stdout, done.stderr)
    if result.code:
        log.debug("exit %d: %s", result.code, result.complaint)
        if check:
            raise CommandFailed(words, result)
    return result


class Service:
    """A program that is asked one thing after another, started when it is asked first.

    It ends with its input: with this object, or with this process.
    """

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._command, self._cwd, self._env = command, cwd, env
        # By our process: a fork must not take the answers that its parent waits for.
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def ask(self, question: bytes) -> bytes:
        """The line that it answers with. Raises CommandFailed when it ends instead."""
        self.tell(question)
        return self.line()

    def tell(self, question: bytes) -> None:
        """Asks without waiting; several questions may be up to 64 KB, which a pipe holds."""
        with self._asked() as (stdin, _), contextlib.suppress(BrokenPipeError):
            stdin.write(question)  # if it has ended, its answer says why
            stdin.flush()

    def line(self) -> bytes:
        with self._asked() as (_, stdout):
            line = stdout.readline()
            if not line.endswith(b"\n"):
                raise self._ended()
        return line[:-1]

    def read(self, count: int) -> bytes:
        """`count` bytes that follow an answer."""
        with self._asked() as (_, stdout):
            content = stdout.read(count)
            if len(content) < count:
                raise self._ended()
        return content

    @contextlib.contextmanager
    def _asked(self) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        process = self._running.get(os.getpid())
        if process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115
            process = self._running[os.getpid()] = subprocess.Popen(
                _logged(self._command, " # asked more than once"),
                cwd=self._cwd,
                env=os.environ | self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C ends it by ending us
            )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            yield process.stdin, process.stdout
        except BaseException:
            self.close()  # what is left of an answer is not that to the next question
            raise

    def _ended(self) -> CommandFailed:
        code = self.close()
        self._errors.seek(0)
        result = Result(code, b"", self._errors.read())
        log.debug("exit %d: %s", result.code, result.complaint)
        return CommandFailed(self._command, result)

    def close(self) -> int:
        """Ends it, if it has not ended, and returns its exit code; asked again, it starts again."""
        process = self._running.pop(os.getpid(), None)
        if process is None:
            return 0
        with process, contextlib.suppress(BrokenPipeError):
            process.communicate()
        return process.returncode

    def __del__(self) -> None:
        self.close()


def follow(
    command: Sequence[str | Path],
    line: Callable[[str], None] = lambda _: None,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, list[str]]:
    """Runs `command`, gives each line that it prints to `line`; its exit code, and the lines.

    The program gets its own process group, so that Ctrl-C ends it and all
    that it started, once, from here. It also ends when this process is killed:
    a build must not go on beside that of the next command.
    """
    with subprocess.Popen(
        _logged(command),
        cwd=cwd,
        env=os.environ | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,
        preexec_fn=_end_with_parent,
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            for text in process.stdout:
                lines.append(text.rstrip("\n"))
                log.debug("| %s", lines[-1])
                line(lines[-1])
            return process.wait(), lines
        except BaseException:
            _end_group(process)
            raise


def hand_over(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> int:
    """Gives the person's terminal to `command`; its exit code, or 128 and the signal's number."""
    with subprocess.Popen(_logged(command), cwd=cwd, env=os.environ | (env or {})) as process:
        while process.returncode is None:
            # it gets Ctrl-C, too, and may go on: a pager, a debugger
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
    code = process.returncode
    return code if code >= 0 else 128 - code


_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


def _end_with_parent() -> None:
    _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _end_group(process: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
