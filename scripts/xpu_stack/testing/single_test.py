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
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import cmake
from xpu_stack.core.series.change import Change
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.testing import python_tests
from xpu_stack.testing.runner import Configuration, reason

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
    """What one run of one test showed."""

    verdict: Verdict
    failed_in: tuple[str, ...] = ()  # configurations
    output: str = ""  # of the first failure
    reason: str = ""  # why it was skipped


@dataclass(frozen=True)
class OneTest:
    """A test that a person has named."""

    name: str
    program: str  # its CMake target, or the Python file without .py
    cases: str  # the filter that chooses it there: of GoogleTest, of pytest
    change: str  # that brought it
    python: bool = False

    @property
    def key(self) -> str:
        """A name for files."""
        return hashlib.sha256(f"{self.program} {self.cases}".encode()).hexdigest()[:12]

    def matches(self, classname: str, name: str) -> bool:
        full = f"{classname}.{name}"
        if self.python:
            asked = self.name.partition("::")[2].replace("::", ".")
            wanted = rf"\b{self.program}\." + (rf"{re.escape(asked)}(\.|\[|$)" if asked else "")
            return re.search(wanted, full) is not None
        if self.cases == "*":
            return True
        return full == self.name or re.fullmatch(_with_parameters(self.name), full) is not None


def _with_parameters(name: str) -> str:
    suite, _, case = name.partition(".")
    return rf"(?:.+/)?{re.escape(suite)}(?:/.+)?\.{re.escape(case)}(?:/.+)?"


def find(name: str, changes: list[Change], targets: Callable[[], list[cmake.Target]]) -> OneTest:
    """The test of that name; `targets` configures a build at the last of `changes`."""
    python = _PYTHON.match(name)
    if python:
        return _find_python(name, python, changes)
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


def _find_python(name: str, parts: re.Match[str], changes: list[Change]) -> OneTest:
    files = python_tests.owners(changes)
    if parts["file"] not in files:
        raise _unknown(name, [f"test/{one}.py" for one in files])
    cases = " and ".join((parts["case"] or "").split("::"))
    return OneTest(name, parts["file"], cases, files[parts["file"]], python=True)


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
    cases: dict[str, list[ElementTree.Element]] = {}
    for configuration in runs:
        found = _cases(test, [one / configuration.name for one in folders])
        if found is None:
            return None
        cases[configuration.name] = found
    return _judge(cases)


def _cases(test: OneTest, folders: list[Path]) -> list[ElementTree.Element] | None:
    for folder in folders:
        path = folder / f"{test.program}.xml"
        if not path.exists():
            continue
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
        except ElementTree.ParseError:
            continue  # its program was killed while it wrote
        mine = [one for one in cases if test.matches(one.get("classname", ""), one.get("name", ""))]
        # A program that died says nothing of its single cases, unless it ran this one alone.
        died = [one for one in cases if not one.get("classname")]
        if died and not mine and test.key not in folder.parts:
            continue
        return mine or died
    return None


def _judge(cases: dict[str, list[ElementTree.Element]]) -> Seen:
    failed: dict[str, str] = {}
    skipped, passed = "", False
    for configuration, found in cases.items():
        for case in found:
            told = case.find("failure")
            told = case.find("error") if told is None else told
            if told is not None:
                text = told.text or told.get("message") or ""
                failed.setdefault(configuration, text.strip())
            elif case.find("skipped") is not None or case.get("result") == "skipped":
                skipped = reason(case.find("skipped"))
            else:
                passed = True
    if failed:
        return Seen(Verdict.FAILED, tuple(failed), next(iter(failed.values())))
    if passed:
        return Seen(Verdict.PASSED)
    return Seen(Verdict.SKIPPED, reason=skipped) if skipped else Seen(Verdict.ABSENT)
