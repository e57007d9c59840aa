"""What a person sees when something is wrong, and how the program ends.

Every error a person can meet is a `ToolError`: one line what happened, one
line why, one line what to type next. The log file has the rest.
"""

import enum

from xpu_stack.core.system import commands


class ExitCode(enum.IntEnum):
    """How the program ended."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    REFUSED = 3
    MISSING = 4
    CONFLICT = 5
    SERIES = 6
    BUILD = 7
    TESTS = 8
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.INTERNAL: "a defect of the tool",
    ExitCode.USAGE: "the command line does not make sense",
    ExitCode.REFUSED: "refused, because work could be lost",
    ExitCode.MISSING: "something that the command needs is missing",
    ExitCode.CONFLICT: "a change does not fit the base",
    ExitCode.SERIES: "the series is not valid",
    ExitCode.BUILD: "the build failed",
    ExitCode.TESTS: "tests failed",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}


class ToolError(Exception):
    """An error that says how to continue.

    what: what happened; why: the reason; next: what to type next. Each is one
    line, except `detail`, which is shown as it is (a compiler's error, a list
    of conflicts).
    """

    def __init__(
        self,
        what: str,
        *,
        why: str,
        next: str,
        code: ExitCode = ExitCode.REFUSED,
        detail: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next = next
        self.code = code
        self.detail = detail


class SeriesError(ToolError):
    """The series is wrong at a place in a file."""

    def __init__(self, place: str, problem: str, *, do: str = "fix", next: str = "") -> None:
        super().__init__(
            "The series is not valid.",
            why=f"{place}: {problem}",
            next=f"{do} {place.split(':')[0]}, then {next or commands.make('check')}",
            code=ExitCode.SERIES,
        )
        self.place = place
        self.problem = problem
        self.problems = [(place, problem)]  # all of them, where several were looked for
