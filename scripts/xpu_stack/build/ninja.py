"""Runs ninja, shows progress, and shows the first error in full."""

import re
import time
from pathlib import Path

from xpu_stack.build.build_time import Pace, minutes
from xpu_stack.core.system import shell
from xpu_stack.core.system.console import Bar, progress, say_where_no_bar
from xpu_stack.core.system.errors import BuildError

_LOOK = "Re-checking globbed directories..."  # each time, and no work
_AGAIN = "fix it and run the same command again: it continues where it stopped"
_UNIT = (
    "fix it, or name the source under 'alone' in the base's base.yaml where only others "
    "of its unit are in its way; then the same command again"
)
_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")


class _Reader:
    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.steps = 0
        self.failure: list[str] = []  # the first failed step's output
        self._in_failure = False
        self._pace = Pace(time.monotonic())

    def line(self, text: str) -> None:
        status = _STATUS.match(text)
        if text.endswith(_LOOK):
            return
        if status:
            self._in_failure = False
            self.steps = int(status[1])
            words = status[3].split(" ")
            name = words[-1].rsplit("/", 1)[-1]
            self._show(int(status[2]), f"{words[0]} {name}"[:60])
        elif text.startswith("FAILED: "):
            self._in_failure = not self.failure
        if self._in_failure:
            self.failure.append(text)

    def _show(self, total: int, step: str) -> None:
        self._pace.at(time.monotonic(), self.steps)
        left = self._pace.left(total)
        what = f"{step}, {minutes(left)} left" if left else step
        self.bar.at(done=self.steps, total=total, what=what)
        line = self._pace.to_say(total)
        if line is not None:
            say_where_no_bar(line)


def build(
    folder: Path, targets: list[str], env: dict[str, str], jobs: int, *, keep_going: bool = False
) -> int:
    """Builds `targets`; how many steps it took. A failure is a ToolError.

    keep_going: after a failure, still build everything that does not depend on it.
    """
    with progress(None, "building", may_be_nothing=True) as bar:
        reader = _Reader(bar)
        code = shell.follow(
            ["ninja", "-C", folder, f"-j{jobs}", f"-k{0 if keep_going else 1}", *targets],
            reader.line,
            env={**env, "NINJA_STATUS": "[%f/%t] "},
        )
    if code:
        # ninja's first two lines are the step's outputs and its command
        error = [line for line in reader.failure if not line.startswith("FAILED: ")][1:]
        first = next((line for line in error if "error" in line.lower()), "see the log")
        # several sources that CMake compiles as one
        in_a_unit = bool(reader.failure) and "/Unity/" in reader.failure[0]
        raise BuildError(
            "The build failed.",
            why=first.strip()[:300],
            next=_UNIT if in_a_unit else _AGAIN,
            detail="\n".join(error),
        )
    return reader.steps


def clean(folder: Path, targets: list[str]) -> None:
    """Removes what `targets` are made of, so that the next build makes it again."""
    shell.run(["ninja", "-C", folder, "-t", "clean", *targets])


def included(folder: Path, outputs: list[str]) -> dict[str, list[str]]:
    """What the compiler read for each of these objects, its source among it.

    An object that is not there, or older than what it was made from, is left out.
    """
    found: dict[str, list[str]] = {}
    names: list[str] = []
    listed = shell.run(["ninja", "-C", folder, "-t", "deps", *outputs], check=False).text
    for line in listed.splitlines():
        if line.startswith("    "):
            names.append(line.strip())
        elif line.endswith("(VALID)"):
            names = found.setdefault(line.partition(": #deps ")[0], [])
        else:
            names = []  # of no use
    return found
