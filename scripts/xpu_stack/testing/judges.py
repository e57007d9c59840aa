"""What a search asks at each place: a test of the series, or any command.

A test is found by the name that a person types, run alone, and judged by its JUnit. It is
a test program (c10_xpu_XPUStreamTest), a case of GoogleTest (XPUStreamTest.Priorities,
with or without the parts that parameters and types add to it), a file of Python tests
(test/test_xpu.py), or a class or a test in one
(test/test_xpu.py::TestDevice::test_device_selects_for_a_scope).
"""

import difflib
import enum
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import ParseError

from xpu_stack.build import build as building
from xpu_stack.build import cmake, configuration
from xpu_stack.build.configuration import Mode, folder_of, results_of
from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Goal, Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.change import Change
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ExitCode, TestError, ToolError, UsageError
from xpu_stack.core.system.git import Repository
from xpu_stack.testing import python_tests, runner
from xpu_stack.testing.runner import Case, cases

_CASE = re.compile(r"(?:[\w/]+/)?(?P<suite>\w+)(?:/\w+)?\.(?P<case>\w+)(?:/\w+)?\Z")
_PYTHON = re.compile(r"(?:test/)?(?P<file>test_\w+)\.py(?:::(?P<case>[\w:]+))?\Z")
_DECLARED = re.compile(r"^\s*\w*TEST\w*\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)


class Verdict(enum.Enum):
    """How a test ended, over the configurations that were asked for."""

    PASSED = "passes"
    FAILED = "fails"
    SKIPPED = "is skipped"
    ABSENT = "is not there"
    UNFIT = "cannot be judged"  # it does not apply or build there


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
    pattern: str  # that its cases match
    change: str  # that brought it
    python: bool = False

    @property
    def key(self) -> str:
        """A name for files."""
        return re.sub(r"\W", "-", self.name)


def find(name: str, changes: list[Change], targets: Callable[[], list[cmake.Target]]) -> OneTest:
    """The test of that name; `targets` configures a build at the last of `changes`."""
    if python := _PYTHON.match(name):
        scripts, file, case = python_tests.owners(changes), python["file"], python["case"] or ""
        if file not in scripts:
            raise _unknown(name, [f"test/{one}.py" for one in scripts])
        pattern = rf"\b{file}\." + (rf"{case.replace('::', '[.]')}(\.|\[|$)" if case else "")
        chosen = " and ".join(case.split("::"))
        return OneTest(name, file, chosen, pattern, scripts[file], python=True)
    owners = {file.target: change.id for change in changes for file in change.files}
    programs = {
        target.name: (target, owners[source])
        for target in targets()
        if target.kind == "EXECUTABLE"
        for source in target.sources & owners.keys()
    }
    if name in programs:
        return OneTest(name, name, "*", "", programs[name][1])
    asked = _CASE.match(name)
    declared = _declared(changes)
    source = declared.get((asked["suite"], asked["case"])) if asked else None
    for program, (target, change) in programs.items():
        if source in target.sources:
            suite, _, rest = name.partition(".")
            cases = f"{name}:*/{name}:{suite}/*.{rest}:*/{suite}/*.{rest}:{name}/*:*/{name}/*"
            # with what parameters and types add to it
            pattern = rf"^{program}\.(?:.+/)?{suite}(?:/.+)?\.{rest}(?:/.+)?$"
            return OneTest(name, program, cases, pattern, change)
    known = [*programs, *(".".join(pair) for pair in declared)]
    raise _unknown(name, known)


def _declared(changes: list[Change]) -> dict[tuple[str, str], str]:
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


def read(test: OneTest, folders: Iterable[Path], runs: Iterable[str]) -> Seen | None:
    """What earlier runs showed; None where one of `runs` has not been seen.

    folders: where JUnit files may be, by configuration; the first that has one counts.
    """
    ended: list[tuple[str, Case]] = []
    for run in runs:
        known = (_cases(test, folder / run) for folder in folders)
        found = next((one for one in known if one is not None), None)
        if found is None:
            return None
        ended += [(run, case) for case in found]
    failed = [(run, case.output) for run, case in ended if case.how == "failed"]
    if failed:
        return Seen(Verdict.FAILED, tuple(dict.fromkeys(run for run, _ in failed)), failed[0][1])
    if any(case.how == "passed" for _, case in ended):
        return Seen(Verdict.PASSED)
    return Seen(Verdict.SKIPPED, reason=ended[-1][1].why) if ended else Seen(Verdict.ABSENT)


def _cases(test: OneTest, folder: Path) -> list[Case] | None:
    try:
        found = list(cases(folder / f"{test.program}.xml"))
    except (FileNotFoundError, ParseError):  # its program may have been killed while it wrote
        return None
    mine = [one for one in found if re.search(test.pattern, one.full)]
    # A program that died says nothing of its single cases, unless it ran this one alone.
    died = [one for one in found if not one.group]
    return None if died and not mine and test.key not in folder.parts else mine or died


_SHOWN = 60  # lines of a failure that are shown; JUnit has all
_UNFIT = (ExitCode.BUILD, ExitCode.CONFLICT, ExitCode.SERIES)
# A command's exit codes mean what they mean to `git bisect run`.
_SKIP = 125
_BROKEN = 126  # it is not executable; 127: it was not found
_ABORT = 128
_NAMED = 5  # files


@dataclass(frozen=True)
class Place:
    """A tree to judge: a point of a version of the series."""

    shown: str
    named: str  # with its title
    point: str
    open: Callable[[], Workspace]


class Judge(ABC):
    """Looks at places of a checkout, at each once. mode: of what is built for it, if anything is.

    asked: how a person named it, as a variable and its value; name: as it is shown.
    """

    repository: Repository
    what: str  # test or command
    start = NO_STAGE  # below this change there is nothing to look at
    runs: tuple[str, ...] = ()  # configurations

    def __init__(self, asked: dict[str, str], name: str, mode: Mode | None) -> None:
        self.asked, self.name, self.mode = asked, name, mode
        self._seen: dict[str, Seen] = {}

    def begin(self, work: Workspace, point: str) -> None:  # noqa: ARG002
        """Gets ready for a search of which `point` is the last place."""
        self.repository = work.repository

    @abstractmethod
    def run(self, place: Place) -> Seen: ...

    def at(self, place: Place) -> Seen:
        if place.shown not in self._seen:
            try:
                seen = self.run(place)
            except ToolError as error:
                if error.code not in _UNFIT:
                    raise
                if conflicts.pending(self.repository):
                    conflicts.abort(self.repository)
                say(f"  {place.shown}: {error.what} {error.why}")
                seen = Seen(Verdict.UNFIT)
            why = f": {seen.reason}" if seen.reason else ""
            why = f" ({', '.join(seen.failed_in)})" if seen.failed_in else why
            it = "" if seen.verdict is Verdict.UNFIT else f"the {self.what} "
            say(f"  {place.shown}: {it}{seen.verdict.value}{why}")
            self._seen[place.shown] = seen
        return self._seen[place.shown]

    def must(self, place: Place) -> Seen:
        seen = self.at(place)
        if seen.verdict is Verdict.UNFIT:
            raise ToolError(
                f"The {self.what} cannot be run at {place.shown}.",
                why="it does not apply or build there; the log says more",
                next="name another place with GOOD= or BAD=",
            )
        return seen

    def show(self, place: Place) -> None:
        """Prints the failure there, with the files named as in the checkout."""
        seen = self.at(place)
        if seen.output:
            say(f"in {seen.failed_in[0]} it says:" if self.runs else "it says:")
        text = "\n".join(seen.output.splitlines()[-_SHOWN:])
        folder = self.repository.folder
        if self.mode:
            built = folder_of(place.open(), self.mode)  # the compiler's messages go by it
            text = text.replace(f"{os.path.relpath(folder, built)}/", "")
        for line in text.replace(f"{folder}/", "").splitlines():
            say(f"  {line}")


class TestJudge(Judge):
    """Runs one test of the series; a tree that was tested before is not tested again."""

    what = "test"
    mode: Mode

    def __init__(self, name: str, mode: Mode, *, again: bool) -> None:
        super().__init__({"TEST": name}, name, mode)
        self._again = again

    def begin(self, work: Workspace, point: str) -> None:
        super().begin(work, point)

        def targets() -> list[cmake.Target]:
            applying.apply(work, point)
            return cmake.targets(building.prepare(work, point, self.mode).folder)

        self._test = find(self.name, work.series.changes(point), targets)
        self.start = self._test.change
        self.runs = runner.configurations(self._test.change, python=self._test.python)

    def run(self, place: Place) -> Seen:
        work, test = place.open(), self._test
        now, goal = stack.read(work.repository), Goal(place.point, work.dropped)
        tree = work.repository.tree_of(applying.state_at(work, now, goal).commit)
        junit = results_of(work, self.mode).junit_folder(tree)
        alone = junit / "alone" / test.key
        if not self._again and (known := read(test, [alone, junit], self.runs)):
            return known
        applying.apply(work, place.point)
        this = building.prepare(work, place.point, self.mode)
        changes = work.series.changes(place.point)
        if not test.python:
            there = building.build_program(this, test.program)
        elif there := test.program in python_tests.owners(changes):
            building.build(this, changes, python=True)
        if not there:
            return Seen(Verdict.ABSENT)
        runner.run_one(this, test.program, test.cases, self.runs, alone, python=test.python)
        seen = read(test, [alone], self.runs)
        assert seen is not None
        return seen


class CommandJudge(Judge):
    """Runs a shell command in the checkout."""

    what = "command"

    def __init__(self, command: str, mode: Mode | None) -> None:
        super().__init__({"RUN": command}, f"'{command}'", mode)

    def run(self, place: Place) -> Seen:
        work = place.open()
        applying.apply(work, place.point)
        env = {}
        if self.mode is not None:
            this = building.prepare(work, place.point, self.mode)
            building.build(this, work.series.changes(place.point), python=True)
            env = configuration.program_environment(this) | configuration.python_environment(this)
        with self._undone():
            command = ["sh", "-c", self.asked["RUN"]]
            code, said = shell.follow(command, cwd=self.repository.folder, env=env)
        if code == 0:
            return Seen(Verdict.PASSED)
        if code == _SKIP:
            return Seen(Verdict.SKIPPED)
        if 0 < code < _BROKEN:
            return Seen(Verdict.FAILED, (f"exit code {code}",), "\n".join(said))
        what = "could not be run" if _BROKEN <= code < _ABORT else "was ended"
        raise TestError(
            f"The command {what} at {place.shown}.",
            why=f"exit code {code}; only 1 to 124 mean that it fails",
            next=commands.make("bisect", RUN="<a command that ends with 1 instead>"),
            detail="\n".join(said[-_SHOWN:]),
        )

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Afterwards HEAD and the tracked files are as before; says what the command did to them.

        A search starts in a checkout without edits, so all of them are the command's.
        """
        repository = self.repository
        branch, commit = before = repository.branch(), repository.commit_id("HEAD")
        untracked = set(repository.uncommitted()[1])
        try:
            yield
        finally:
            edited, now = repository.uncommitted()
            moved = (repository.branch(), repository.commit_id("HEAD")) != before
            if moved or edited:
                # what it has added of a person's files would go with the rest
                if mine := "\0".join(untracked).encode():
                    words = ("rm", "--cached", "--force", "--quiet", "--ignore-unmatch")
                    from_input = ("--pathspec-from-file=-", "--pathspec-file-nul")
                    repository.run("--literal-pathspecs", *words, *from_input, input=mine)
                where = ["-B", branch] if branch else ["--detach"]
                repository.run("checkout", "--quiet", "--force", *where, str(commit))
                told = ["moved HEAD"] if moved else []
                told += [f"edited {', '.join(edited[:_NAMED])}"] if edited else []
                say(f"{self.name} {' and '.join(told)}; that is put back")
            if left := sorted(set(now) - untracked):
                say(f"{self.name} left files that git does not track: {', '.join(left[:_NAMED])}")
