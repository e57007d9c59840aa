"""One test: found by the name a person types, run alone, judged by its JUnit.

A name is a test program (c10_xpu_XPUStreamTest), a case of GoogleTest
(XPUStreamTest.Priorities, with or without the parts that parameters and types
add to it), a file of Python tests (test/test_xpu.py), or a class or a test in
one (test/test_xpu.py::TestXpu::test_device).
"""

import difflib
import enum
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import ParseError

from xpu_stack.build import cmake
from xpu_stack.core.series.change import Change
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.testing import python_tests
from xpu_stack.testing.junit import Case, cases
from xpu_stack.testing.runner import Configuration

_CASE = re.compile(r"(?:[\w/]+/)?(?P<suite>\w+)(?:/\w+)?\.(?P<case>\w+)(?:/\w+)?\Z")
_PYTHON = re.compile(r"(?:test/)?(?P<file>test_\w+)\.py(?:::(?P<case>[\w:]+))?\Z")
_DECLARED = re.compile(r"^\s*\w*TEST\w*\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)


class Verdict(enum.Enum):
    """How a test ended, over the configurations that were asked for."""

    PASSED = "passes"
    FAILED = "fails"
    SKIPPED = "is skipped"
    ABSENT = "is not there"


@dataclass(frozen=True)
class Seen:
    verdict: Verdict
    failed_in: tuple[str, ...] = ()  # configurations
    output: str = ""  # of the first failure
    reason: str = ""  # why it was skipped


@dataclass(frozen=True)
class OneTest:
    name: str
    program: str  # its CMake target, or the Python file without .py
    cases: str  # the filter that chooses it there: of GoogleTest, of pytest
    change: str  # that brought it
    python: bool = False

    @property
    def key(self) -> str:
        """A name for files."""
        return hashlib.sha256(f"{self.program} {self.cases}".encode()).hexdigest()[:12]

    def matches(self, case: Case) -> bool:
        if self.python:
            asked = self.name.partition("::")[2].replace("::", ".")
            wanted = rf"\b{self.program}\." + (rf"{re.escape(asked)}(\.|\[|$)" if asked else "")
            return re.search(wanted, case.full) is not None
        suite, _, name = map(re.escape, self.name.partition("."))
        with_parameters = rf"(?:.+/)?{suite}(?:/.+)?\.{name}(?:/.+)?"
        return self.cases == "*" or re.fullmatch(with_parameters, case.id) is not None


def find(name: str, changes: list[Change], targets: Callable[[], list[cmake.Target]]) -> OneTest:
    """The test of that name; `targets` configures a build at the last of `changes`."""
    if python := _PYTHON.match(name):
        files = python_tests.owners(changes)
        if python["file"] not in files:
            raise _unknown(name, [f"test/{one}.py" for one in files])
        chosen = " and ".join((python["case"] or "").split("::"))
        return OneTest(name, python["file"], chosen, files[python["file"]], python=True)
    owners = {file.target: change.id for change in changes for file in change.files}
    programs = {
        target.name: (target, owners[source])
        for target in targets()
        if target.kind == "EXECUTABLE"
        for source in target.sources & owners.keys()
    }
    if name in programs:
        return OneTest(name, name, "*", programs[name][1])
    case = _CASE.match(name)
    declared = _declared(changes)
    file = declared.get((case["suite"], case["case"])) if case else None
    for program, (target, change) in programs.items():
        if file in target.sources:
            suite, _, rest = name.partition(".")
            cases = f"{name}:*/{name}:{suite}/*.{rest}:*/{suite}/*.{rest}:{name}/*:*/{name}/*"
            return OneTest(name, program, cases, change)
    known = [*programs, *(".".join(pair) for pair in declared)]
    raise _unknown(name, known)


def _declared(changes: list[Change]) -> dict[tuple[str, str], str]:
    """(suite, case) -> the file of PyTorch's tree that declares it."""
    return {
        (suite, case): file.target
        for change in changes
        for file in change.files
        if file.target.endswith(".cpp")
        for suite, case in _DECLARED.findall(file.source.read_text(errors="replace"))
    }


def _unknown(name: str, known: list[str]) -> ToolError:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    return UsageError(
        f"The series has no test '{name}' here.",
        why=f"the nearest names: {', '.join(near)}" if near else f"it has {len(known)} others",
        next="name a program, Suite.Case of GoogleTest, or test/test_x.py::Class::test",
    )


def read(test: OneTest, folders: Iterable[Path], runs: Iterable[Configuration]) -> Seen | None:
    """What earlier runs showed; None where one of `runs` has not been seen.

    folders: where JUnit files may be, by configuration; the first that has one counts.
    """
    found: dict[str, list[Case]] = {}
    for configuration in runs:
        of_it = _cases(test, [one / configuration.name for one in folders])
        if of_it is None:
            return None
        found[configuration.name] = of_it
    ended = [(name, case) for name, seen in found.items() for case in seen]
    failed = {name: case.output for name, case in reversed(ended) if case.how == "failed"}
    if failed:
        names = [name for name in found if name in failed]
        return Seen(Verdict.FAILED, tuple(names), failed[names[0]])
    if any(case.how == "passed" for _, case in ended):
        return Seen(Verdict.PASSED)
    return Seen(Verdict.SKIPPED, reason=ended[-1][1].why) if ended else Seen(Verdict.ABSENT)


def _cases(test: OneTest, folders: list[Path]) -> list[Case] | None:
    for folder in folders:
        path = folder / f"{test.program}.xml"
        if not path.exists():
            continue
        try:
            found = list(cases(path))
        except ParseError:
            continue  # its program was killed while it wrote
        mine = [one for one in found if test.matches(one)]
        # A program that died says nothing of its single cases, unless it ran this one alone.
        died = [one for one in found if not one.group]
        if died and not mine and test.key not in folder.parts:
            continue
        return mine or died
    return None
