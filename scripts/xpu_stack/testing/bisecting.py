"""`make bisect`: which change broke a test, or which version of the series did.

Along the series the test passes at one change and fails at a later one: the
tree is tested at changes between, each time at the middle. When it fails as
soon as it is there, or when the person names a version of the series as the
good one, the search is along the versions: the commits of the series'
repository that alter the series, each applied in turn.

A tree that was tested before is not tested again: its JUnit files are read.
A place that does not build is skipped.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xpu_stack.build import build as building
from xpu_stack.build import cmake
from xpu_stack.build.configuration import Build, Mode, folder_of, results_of
from xpu_stack.core.checkout import applying, conflicts, series_versions
from xpu_stack.core.checkout.applying import Workspace
from xpu_stack.core.checkout.restore import put_back
from xpu_stack.core.series.series import Change, Series
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.git import Repository
from xpu_stack.testing import python_tests, runner, single_test
from xpu_stack.testing.runner import Configuration
from xpu_stack.testing.single_test import OneTest, Seen, Verdict

_SHOWN = 60  # lines of a failure that are shown; JUnit has all
_UNFIT = (ExitCode.BUILD, ExitCode.CONFLICT, ExitCode.SERIES)


@dataclass(frozen=True)
class Range:
    """Where a search ended: good passes, bad fails, and nothing between them could be tested."""

    good: int
    bad: int


def search(good: int, bad: int, passes: Callable[[int], bool | None]) -> Range:
    """Binary search. `passes` returns None for a place that cannot be tested."""
    unfit: set[int] = set()
    while True:
        left = [number for number in range(good + 1, bad) if number not in unfit]
        if not left:
            return Range(good, bad)
        middle = min(left, key=lambda number: abs(2 * number - good - bad))
        answer = passes(middle)
        if answer is None:
            unfit.add(middle)
        elif answer:
            good = middle
        else:
            bad = middle


@dataclass(frozen=True)
class Ends:
    """What a person asked for.

    good, bad: a stage or a change; or, for a search along the versions of the
    series, commits of its repository. point: where each version is tested.
    """

    good: str | None = None
    bad: str | None = None
    point: str | None = None
    again: bool = False


@dataclass(frozen=True)
class Place:
    """A tree to test: a point of a version of the series."""

    shown: str
    point: str
    open: Callable[[], Workspace]


@dataclass
class Judge:
    """Runs one test at places of a checkout."""

    repository: Repository
    test: OneTest
    mode: Mode
    again: bool = False
    runs: tuple[Configuration, ...] = ()
    _seen: dict[str, Seen | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = self.runs or runner.configurations(self.test.change)

    def at(self, place: Place) -> Seen | None:
        """How the test ends there; None if it cannot run."""
        if place.shown not in self._seen:
            self._seen[place.shown] = self._look(place)
            say(f"  {place.shown}: {_told(self._seen[place.shown])}")
        return self._seen[place.shown]

    def passes(self, place: Place) -> bool | None:
        """None: neither."""
        seen = self.at(place)
        known = {Verdict.PASSED: True, Verdict.FAILED: False}
        return known.get(seen.verdict) if seen is not None else None

    def only(self, names: Sequence[str]) -> None:
        """From now on run only these configurations: those in which it failed."""
        self.runs = tuple(run for run in self.runs if run.name in names)

    def must(self, place: Place) -> Seen:
        seen = self.at(place)
        if seen is None:
            raise ToolError(
                f"The test cannot be run at {place.shown}.",
                why="it does not apply or build there; the log says more",
                next="name another place with GOOD= or BAD=",
            )
        return seen

    def _look(self, place: Place) -> Seen | None:
        try:
            return self._run(place)
        except ToolError as error:
            if error.code not in _UNFIT:
                raise
            conflicts.give_up(self.repository)
            say(f"  {place.shown}: {error.what} {error.why}")
            return None

    def _run(self, place: Place) -> Seen:
        work = place.open()
        results = results_of(work, self.mode)
        tree = applying.tree_at(work, place.point)
        alone = results.junit_folder(tree) / "alone" / self.test.key
        folders = [alone, results.junit_folder(tree)]
        known = None if self.again else single_test.read(self.test, folders, self.runs)
        if known is not None:
            return known
        applying.apply(work, place.point)
        this = building.prepare(work, place.point, self.mode)
        if not self._build(this, work.series.changes(place.point)):
            return Seen(Verdict.ABSENT)
        test = self.test
        runner.run_one(this, test.program, test.cases, self.runs, alone, python=test.python)
        seen = single_test.read(self.test, [alone], self.runs)
        assert seen is not None
        return seen

    def _build(self, this: Build, changes: list[Change]) -> bool:
        """Builds what the test needs; False if there is no such test."""
        if not self.test.python:
            return building.build_program(this, self.test.program)
        if self.test.program not in python_tests.owners(changes):
            return False
        building.build(this, changes, python=True)
        return True

    def show(self, place: Place) -> None:
        """Prints the failure there, with the files named as in the checkout."""
        seen = self.must(place)
        say(f"in {seen.failed_in[0]} it says:")
        checkout = self.repository.folder
        built = folder_of(place.open(), self.mode)
        for line in seen.output.splitlines()[-_SHOWN:]:
            for prefix in (os.path.relpath(checkout, built), str(checkout)):
                line = line.replace(f"{prefix}/", "")
            say(f"  {line}")


def _told(seen: Seen | None) -> str:
    if seen is None:
        return "cannot be judged"
    told = f"the test {seen.verdict.value}"
    if seen.failed_in:
        return f"{told} ({', '.join(seen.failed_in)})"
    return f"{told}: {seen.reason}" if seen.reason else told


def bisect(work: Workspace, name: str, mode: Mode, ends: Ends) -> None:
    """Finds what broke the test called `name`, reports it, and restores the checkout."""
    with put_back(work.repository):
        if ends.good is None or _is_point(work.series, ends.good):
            _along_the_series(work, name, mode, ends)
        else:
            with series_versions.opened(work, ends.good, ends.bad) as found:
                _along_versions(work, name, mode, ends, found)


def _is_point(series: Series, name: str) -> bool:
    return name in series.stage_names or name in [change.id for change in series.all_changes()]


def _along_the_series(work: Workspace, name: str, mode: Mode, ends: Ends) -> None:
    changes = work.series.changes(ends.bad or ends.point or work.series.stage_names[-1])
    ids = [change.id for change in changes]
    test = _locate(work, name, mode, ids[-1])
    start = work.series.changes(ends.good)[-1].id if ends.good else test.change
    if start not in ids:
        raise _wrong_way(start, ids[-1])
    places = [Place(one, one, lambda: work) for one in ids[ids.index(start) :]]
    judge = Judge(work.repository, test, mode, ends.again)
    found = _between(judge, places, given=ends.good is not None)
    if found is None:
        say(f"{test.name} fails from the start: since {test.change}, which added it.")
        say("To search the versions of the series: GOOD=<a commit in which it passed>")
        judge.show(places[0])
        return
    titles = {change.id: change.text.title for change in changes}
    suspects = [place.shown for place in places[found.good + 1 : found.bad + 1]]
    _say_found(test, [f"{one}: {titles[one]}" for one in suspects])
    judge.show(places[found.bad])


def _along_versions(
    work: Workspace,
    name: str,
    mode: Mode,
    ends: Ends,
    found: Sequence[series_versions.Version],
) -> None:
    newest = found[-1].open()
    point = ends.point or newest.series.stage_names[-1]
    judge = Judge(work.repository, _locate(newest, name, mode, point), mode, ends.again)
    places = [Place(one.shown, point, one.open) for one in found]
    range_ = _between(judge, places, given=True)
    assert range_ is not None
    _say_found(judge.test, [one.shown for one in found[range_.good + 1 : range_.bad + 1]])
    edited = series_versions.edited(found[range_.good], found[range_.bad])
    say(f"it edits {', '.join(edited) or 'no change'}")
    judge.show(places[range_.bad])


def _locate(work: Workspace, name: str, mode: Mode, point: str) -> OneTest:
    """The test of that name, as the build at `point` knows it."""
    applying.apply(work, point)
    this = building.prepare(work, point, mode)
    return single_test.find(name, work.series.changes(point), cmake.targets(this.folder))


def _between(judge: Judge, places: Sequence[Place], *, given: bool) -> Range | None:
    """Searches from the first place, which must pass, to the last, which must fail.

    None: the first place fails, too, and no person has said that it would pass.
    """
    last = len(places) - 1
    worst = judge.must(places[last])
    if worst.verdict is not Verdict.FAILED:
        raise ToolError(
            f"There is nothing to search: at {places[last].shown} the test {worst.verdict.value}.",
            why=worst.reason or "a search needs a place at which it fails",
            next=commands.make("bisect", TEST=judge.test.name, BAD="<where it fails>")
            + " # AGAIN=1: runs it anew",
            code=ExitCode.USAGE,
        )
    judge.only(worst.failed_in)
    best = judge.must(places[0])
    if best.verdict is Verdict.FAILED and not given:
        return None
    if best.verdict is not Verdict.PASSED:
        raise ToolError(
            f"There is no good end: at {places[0].shown} the test {best.verdict.value}.",
            why="a search needs a place at which it passes",
            next=commands.make("bisect", TEST=judge.test.name, GOOD="<where it passes>"),
            code=ExitCode.USAGE,
        )
    return search(0, last, lambda number: judge.passes(places[number]))


def _wrong_way(good: str, bad: str) -> ToolError:
    return ToolError(
        f"{good} does not come before {bad}.",
        why="the search goes from GOOD up to BAD",
        next="make status # shows the order",
        code=ExitCode.USAGE,
    )


def _say_found(test: OneTest, suspects: list[str]) -> None:
    if len(suspects) == 1:
        say(f"{test.name} was broken by {suspects[0]}")
        return
    say(f"{test.name} was broken by one of these; all but the last could not be tested:")
    for one in suspects:
        say(f"  {one}")
