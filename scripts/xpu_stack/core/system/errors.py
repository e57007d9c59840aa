"""What a person sees when something is wrong, and how the program ends.

Every error a person can meet is a `ToolError`: one line what happened, one
line why, one line what to type next. The log file has the rest.
"""

import enum

from xpu_stack.core.system import commands


class ExitCode(enum.IntEnum):
    """How the program ended."""

    meaning: str

    def __new__(cls, code: int, meaning: str = "") -> "ExitCode":
        self = int.__new__(cls, code)
        self._value_, self.meaning = code, meaning
        return self

    OK = 0, "done"
    INTERNAL = 1, "a defect of the tool"
    USAGE = 2, "the command line does not make sense"
    REFUSED = 3, "refused, because work could be lost"
    MISSING = 4, "something that the command needs is missing"
    CONFLICT = 5, "a change does not fit the base"
    SERIES = 6, "the series is not valid"
    BUILD = 7, "the build failed"
    TESTS = 8, "tests failed"
    INTERRUPTED = 130, "interrupted by Ctrl-C"


class ToolError(Exception):
    """An error that says how to continue.

    what: what happened; why: the reason; next: what to type next. Each is one
    line, except `detail`, which is shown as it is (a compiler's error, a list
    of conflicts).
    """

    code = ExitCode.REFUSED

    def __init__(
        self, what: str, *, why: str, next: str, code: ExitCode | None = None, detail: str = ""
    ) -> None:
        super().__init__(what)
        self.what, self.why, self.next = what, why, next
        self.code = code or self.code
        self.detail = detail


class UsageError(ToolError):
    code = ExitCode.USAGE


class MissingError(ToolError):
    code = ExitCode.MISSING


class ConflictError(ToolError):
    code = ExitCode.CONFLICT


class BuildError(ToolError):
    code = ExitCode.BUILD


class TestError(ToolError):
    code = ExitCode.TESTS


class InvalidSeriesError(ToolError):
    code = ExitCode.SERIES


class SeriesError(InvalidSeriesError):
    """The series is wrong at a place in a file."""

    def __init__(self, place: str, problem: str, *, do: str = "fix", next: str = "") -> None:
        super().__init__(
            "The series is not valid.",
            why=f"{place}: {problem}",
            next=f"{do} {place.split(':')[0]}, then {next or commands.make('check')}",
        )
        self.place = place
        self.problem = problem
        self.problems = [(place, problem)]  # all of them, where several were looked for
