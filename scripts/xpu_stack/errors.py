"""What a person sees when something is wrong, and how the program ends.

Every error a person can meet is a `ToolError`: one line what happened, one
line why, one line what to type next. The log file has the rest.
"""

import enum


class ExitCode(enum.IntEnum):
    """How the program ended. The README documents these."""

    OK = 0
    INTERNAL = 1  # a defect of the tool itself
    USAGE = 2  # the command line does not make sense
    REFUSED = 3  # the checkout is in a state in which work could be lost
    MISSING = 4  # something the command needs is not there
    CONFLICT = 5  # a change does not fit the base
    SERIES = 6  # the series itself is wrong
    BUILD = 7  # the build failed
    TESTS = 8  # tests failed
    INTERRUPTED = 130  # Ctrl-C


class ToolError(Exception):
    """An error with a way out.

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

    def __init__(
        self, place: str, problem: str, *, do: str = "mend", next: str = "make check"
    ) -> None:
        super().__init__(
            "The series is not valid.",
            why=f"{place}: {problem}",
            next=f"{do} {place.split(':')[0]}, then {next}",
            code=ExitCode.SERIES,
        )
        self.place = place
        self.problem = problem
