"""What a search asks at each place: a test of the series, or any command."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xpu_stack.build import build as building
from xpu_stack.build import runtime
from xpu_stack.build.configuration import Mode, folder_of, results_of
from xpu_stack.core.lay import applying
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ExitCode, TestError, ToolError
from xpu_stack.core.system.git import Repository
from xpu_stack.testing import python_tests, runner, single_test
from xpu_stack.testing.runner import Configuration
from xpu_stack.testing.single_test import OneTest, Seen, Verdict

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
    point: str
    open: Callable[[], Workspace]


class Judge(ABC):
    """Looks at places of a checkout, at each once."""

    def __init__(self, repository: Repository, what: str, name: str, asked: dict[str, str]) -> None:
        self.repository = repository
        self.what = what  # test or command
        self.name = name  # as it is shown
        self.asked = asked  # how a person named it: the variable and its value
        self.start = NO_STAGE  # below this change there is nothing to look at
        self.runs: tuple[Configuration, ...] = ()
        self._seen: dict[str, Seen | None] = {}

    @abstractmethod
    def run(self, place: Place) -> Seen: ...

    @abstractmethod
    def title(self, seen: Seen) -> str:
        """What is printed above the output of a failure."""

    def only(self, names: Sequence[str]) -> None:
        """From now on run only these configurations: those in which it failed."""
        self.runs = tuple(run for run in self.runs if run.name in names)

    def at(self, place: Place) -> Seen | None:
        """How it ends there; None if it cannot run."""
        if place.shown not in self._seen:
            try:
                self._seen[place.shown] = self.run(place)
            except ToolError as error:
                if error.code not in _UNFIT:
                    raise
                conflicts.give_up(self.repository)
                say(f"  {place.shown}: {error.what} {error.why}")
                self._seen[place.shown] = None
            say(f"  {place.shown}: {self._told(self._seen[place.shown])}")
        return self._seen[place.shown]

    def passes(self, place: Place) -> bool | None:
        """None: neither."""
        seen = self.at(place)
        known = {Verdict.PASSED: True, Verdict.FAILED: False}
        return known.get(seen.verdict) if seen is not None else None

    def must(self, place: Place) -> Seen:
        seen = self.at(place)
        if seen is None:
            raise ToolError(
                f"The {self.what} cannot be run at {place.shown}.",
                why="it does not apply or build there; the log says more",
                next="name another place with GOOD= or BAD=",
            )
        return seen

    def show(self, place: Place) -> None:
        """Prints the failure there, with the files named as in the checkout."""
        seen = self.must(place)
        if seen.output:
            say(self.title(seen))
        for line in seen.output.splitlines()[-_SHOWN:]:
            say(f"  {self.cleaned(line, place)}")

    def cleaned(self, line: str, _: Place) -> str:
        return line.replace(f"{self.repository.folder}/", "")

    def _told(self, seen: Seen | None) -> str:
        if seen is None:
            return "cannot be judged"
        told = f"the {self.what} {seen.verdict.value}"
        if seen.failed_in:
            return f"{told} ({', '.join(seen.failed_in)})"
        return f"{told}: {seen.reason}" if seen.reason else told


class TestJudge(Judge):
    """Runs one test of the series; a tree that was tested before is not tested again."""

    def __init__(self, repository: Repository, test: OneTest, mode: Mode, *, again: bool) -> None:
        super().__init__(repository, "test", test.name, {"TEST": test.name})
        self.start = test.change
        self._test, self._mode, self._again = test, mode, again
        self.runs = runner.configurations(test.change, python=test.python)

    def title(self, seen: Seen) -> str:
        return f"in {seen.failed_in[0]} it says:"

    def cleaned(self, line: str, place: Place) -> str:
        built = folder_of(place.open(), self._mode)
        return super().cleaned(
            line.replace(f"{os.path.relpath(self.repository.folder, built)}/", ""), place
        )

    def run(self, place: Place) -> Seen:
        work, test = place.open(), self._test
        results = results_of(work, self._mode)
        tree = applying.tree_at(work, place.point)
        alone = results.junit_folder(tree) / "alone" / test.key
        folders = [alone, results.junit_folder(tree)]
        known = None if self._again else single_test.read(test, folders, self.runs)
        if known is not None:
            return known
        applying.apply(work, place.point)
        this = building.prepare(work, place.point, self._mode)
        changes = work.series.changes(place.point)
        if not test.python:
            there = building.build_program(this, test.program)
        elif there := test.program in python_tests.owners(changes):
            building.build(this, changes, python=True)
        if not there:
            return Seen(Verdict.ABSENT)
        runner.run_one(this, test.program, test.cases, self.runs, alone, python=test.python)
        seen = single_test.read(test, [alone], self.runs)
        assert seen is not None
        return seen


class CommandJudge(Judge):
    """Runs a shell command in the checkout. build: None: nothing is built for it."""

    def __init__(self, repository: Repository, command: str, build: Mode | None) -> None:
        super().__init__(repository, "command", f"'{command}'", {"RUN": command})
        self._command, self._build = command, build

    def title(self, _: Seen) -> str:
        return "it says:"

    def run(self, place: Place) -> Seen:
        work = place.open()
        applying.apply(work, place.point)
        env = {}
        if self._build is not None:
            this = building.prepare(work, place.point, self._build)
            building.build(this, work.series.changes(place.point), python=True)
            env = {**runtime.program_environment(this), **runtime.python_environment(this)}
        said: list[str] = []
        words = ["sh", "-c", self._command]
        with self._undone():
            code = shell.follow(words, said.append, cwd=self.repository.folder, env=env)
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
        before = repository.branch(), repository.commit_id("HEAD")
        untracked = set(repository.uncommitted()[1])
        try:
            yield
        finally:
            edited, now = repository.uncommitted()
            moved = (repository.branch(), repository.commit_id("HEAD")) != before
            if moved or edited:
                branch, commit = before
                where = ["-B", branch] if branch else ["--detach"]
                # what it has added of a person's files would go with the rest
                mine = "\0".join(untracked).encode()
                words = ("--cached", "--force", "--quiet", "--ignore-unmatch")
                from_input = ("--pathspec-from-file=-", "--pathspec-file-nul")
                if mine:
                    repository.run("--literal-pathspecs", "rm", *words, *from_input, input=mine)
                repository.run("checkout", "--quiet", "--force", *where, str(commit))
                told = ["moved HEAD"] if moved else []
                told += [f"edited {', '.join(edited[:_NAMED])}"] if edited else []
                say(f"{self.name} {' and '.join(told)}; that is put back")
            if left := sorted(set(now) - untracked):
                say(f"{self.name} left files that git does not track: {', '.join(left[:_NAMED])}")
