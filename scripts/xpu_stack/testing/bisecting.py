"""`make bisect`: which change broke a test or a command, or which version of the series did.

Along the series it passes at one change and fails at a later one: the tree is
judged at changes between, each time at the middle. When it fails as soon as it
is there, or when the person names a version of the series as the good one, the
search is along the versions: the commits of the series' repository that alter
the series, each applied in turn.

A place that does not build is skipped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xpu_stack.build import build as building
from xpu_stack.build import cmake
from xpu_stack.build.configuration import Mode
from xpu_stack.core.lay import applying
from xpu_stack.core.lay.search import put_back
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import UsageError
from xpu_stack.show import versions
from xpu_stack.testing import single_test
from xpu_stack.testing.judges import CommandJudge, Judge, Place, TestJudge
from xpu_stack.testing.single_test import Verdict


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
class Asked:
    """What is to be judged: a test of the series, or a command.

    build: what the command runs with is built first, in this mode.
    """

    test: str | None = None
    mode: Mode = Mode.FAST
    again: bool = False
    command: str | None = None
    build: bool = False

    def judge(self, work: Workspace, point: str) -> Judge:
        """What judges; `point` has the test."""
        if self.command is not None:
            return CommandJudge(work.repository, self.command, self.mode if self.build else None)
        assert self.test is not None

        def targets() -> list[cmake.Target]:
            applying.apply(work, point)
            return cmake.targets(building.prepare(work, point, self.mode).folder)

        test = single_test.find(self.test, work.series.changes(point), targets)
        return TestJudge(work.repository, test, self.mode, again=self.again)


@dataclass(frozen=True)
class Ends:
    """What a person asked for.

    good, bad: a stage or a change; or, for a search along the versions of the
    series, commits of its repository. point: where each version is tested.
    """

    good: str | None = None
    bad: str | None = None
    point: str | None = None


def bisect(work: Workspace, asked: Asked, ends: Ends) -> None:
    """Finds what broke the test or the command, reports it, and restores the checkout."""
    with put_back(work.repository):
        ids = (change.id for change in work.series.all_changes())
        if ends.good in (None, NO_STAGE, *work.series.stage_names, *ids):
            _along_the_series(work, asked, ends)
        else:
            assert ends.good is not None
            with versions.opened(work, ends.good, ends.bad) as found:
                _along_versions(asked, ends, found)


def _along_the_series(work: Workspace, asked: Asked, ends: Ends) -> None:
    changes = work.series.changes(ends.bad or ends.point or work.series.stage_names[-1])
    ids = [NO_STAGE, *(change.id for change in changes)]
    judge = asked.judge(work, ids[-1])
    start = judge.start
    if ends.good is not None:
        start = [NO_STAGE, *(change.id for change in work.series.changes(ends.good))][-1]
    if start not in ids:
        raise UsageError(
            f"{start} does not come before {ids[-1]}.",
            why="the search goes from GOOD up to BAD",
            next=f"{commands.make('status')} # shows the order",
        )
    places = [Place(one, one, lambda: work) for one in ids[ids.index(start) :]]
    found = _between(judge, places, given=ends.good is not None)
    if found is None:
        since = f"since {start}, which added it" if start != NO_STAGE else "at the base already"
        say(f"{judge.name} fails from the start: {since}.")
        say("To search the versions of the series: GOOD=<a commit in which it passed>")
        judge.show(places[0])
        return
    titles = {change.id: change.text.title for change in changes}
    suspects = [place.shown for place in places[found.good + 1 : found.bad + 1]]
    _say_found(judge, [f"{one}: {titles[one]}" for one in suspects])
    judge.show(places[found.bad])


def _along_versions(asked: Asked, ends: Ends, found: Sequence[versions.Version]) -> None:
    newest = found[-1].open()
    point = ends.point or newest.series.stage_names[-1]
    judge = asked.judge(newest, point)
    places = [Place(one.shown, point, one.open) for one in found]
    range_ = _between(judge, places, given=True)
    assert range_ is not None
    _say_found(judge, [one.shown for one in found[range_.good + 1 : range_.bad + 1]])
    edited = versions.edited(found[range_.good], found[range_.bad])
    say(f"it edits {', '.join(edited) or 'no change'}")
    judge.show(places[range_.bad])


def _between(judge: Judge, places: Sequence[Place], *, given: bool) -> Range | None:
    """Searches from the first place, which must pass, to the last, which must fail.

    None: the first place fails, too, and no person has said that it would pass.
    """
    last = len(places) - 1
    worst = judge.must(places[last])
    if worst.verdict is not Verdict.FAILED:
        raise UsageError(
            f"There is nothing to search: at {places[last].shown} the {judge.what} "
            f"{worst.verdict.value}.",
            why=worst.reason or "a search needs a place at which it fails",
            next=commands.make("bisect", **judge.asked, BAD="<where it fails>")
            + (" # AGAIN=1: runs it anew" if "TEST" in judge.asked else ""),
        )
    judge.only(worst.failed_in)
    best = judge.must(places[0])
    if best.verdict is Verdict.FAILED and not given:
        return None
    if best.verdict is not Verdict.PASSED:
        raise UsageError(
            f"There is no good end: at {places[0].shown} the {judge.what} {best.verdict.value}.",
            why="a search needs a place at which it passes",
            next=commands.make("bisect", **judge.asked, GOOD="<where it passes>"),
        )
    return search(0, last, lambda number: judge.passes(places[number]))


def _say_found(judge: Judge, suspects: list[str]) -> None:
    if len(suspects) == 1:
        say(f"{judge.name} was broken by {suspects[0]}")
        return
    say(f"{judge.name} was broken by one of these; all but the last could not be tested:")
    for one in suspects:
        say(f"  {one}")
