"""Running ninja: progress for the person, the first error in full."""

import os
import re
from pathlib import Path

from xpu_stack import shell
from xpu_stack.console import Bar, progress
from xpu_stack.errors import ExitCode, ToolError

_LOOK = "Re-checking globbed directories..."  # each time, and no work
_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")


class _Reader:
    """Follows ninja's output."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.steps = 0
        self.failure: list[str] = []  # the first failed step's output
        self._in_failure = False

    def line(self, text: str) -> None:
        status = _STATUS.match(text)
        if text.endswith(_LOOK):
            return
        if status:
            self._in_failure = False
            self.steps = int(status[1])
            self.bar.at(done=int(status[1]), total=int(status[2]), what=_short(status[3]))
        elif text.startswith("FAILED: "):
            self._in_failure = not self.failure
        if self._in_failure:
            self.failure.append(text)


def _short(step: str) -> str:
    words = step.split(" ")
    name = words[-1].rsplit("/", 1)[-1]
    return f"{words[0]} {name}"[:60]


def build(folder: Path, targets: list[str], env: dict[str, str], jobs: int) -> int:
    """Builds `targets`; how many steps it took. A failure is a ToolError."""
    with progress(None, "building", may_be_nothing=True) as bar:
        reader = _Reader(bar)
        code = shell.follow(
            ["ninja", "-C", folder, f"-j{jobs}", *targets],
            reader.line,
            env={**env, "NINJA_STATUS": "[%f/%t] "},
        )
    if code:
        # ninja's first two lines are the step's outputs and its command
        error = [line for line in reader.failure if not line.startswith("FAILED: ")][1:]
        first = next((line for line in error if "error" in line.lower()), "see the log")
        raise ToolError(
            "The build failed.",
            why=first.strip()[:300],
            next="mend it and type the same command again: it goes on where it stopped",
            code=ExitCode.BUILD,
            detail="\n".join(error),
        )
    return reader.steps


def clean(folder: Path, targets: list[str]) -> None:
    """Removes what `targets` are made of, so that the next build makes it again."""
    shell.run(["ninja", "-C", folder, "-t", "clean", *targets])


def jobs() -> int:
    """How many compilers at once: JOBS, or what cores and memory allow."""
    given = number("JOBS", "make build JOBS=2")
    if given is not None:
        return given
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    each = 2 << 30  # bytes: the largest of PyTorch's files take about that
    return max(1, min(len(os.sched_getaffinity(0)), memory // each))


def number(variable: str, example: str) -> int | None:
    """What a person has set an environment variable to, a number of 1 or more."""
    given = os.environ.get(variable)
    if not given:
        return None
    if not given.isdigit() or int(given) < 1:
        raise ToolError(
            f"{variable}={given} is no number.",
            why="it must be a whole number of 1 or more",
            next=example,
            code=ExitCode.USAGE,
        )
    return int(given)
