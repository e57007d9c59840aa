"""`make bisect`: which change broke a test or a command, or which version of the series did.

Along the series it passes at one change and fails at a later one: the tree is
judged at changes between, each time at the middle. When it fails as soon as it
is there, or when the person names a version of the series as the good one, the
search is along the versions: the commits of the series' repository that alter
the series, each applied in turn. A place that does not build is skipped.
"""

from collections.abc import Callable, Sequence

from xpu_stack.core.lay.opening import put_back
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.series import NO_STAGE
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import UsageError
from xpu_stack.show import versions
from xpu_stack.testing.judges import Judge, Place, Verdict

_PASSES = {Verdict.PASSED: True, Verdict.FAILED: False}


def search(good: int, bad: int, passes: Callable[[int], bool | None]) -> tuple[int, int]:
    """Binary search between a number that passes and one that fails; the two where it ends.

    Nothing between these could be tested: `passes` has returned None.
    """
    unfit: set[int] = set()
    while left := [number for number in range(good + 1, bad) if number not in unfit]:
        middle = min(left, key=lambda number: abs(2 * number - good - bad))
        answer = passes(middle)
        if answer is None:
            unfit.add(middle)
        elif answer:
            good = middle
        else:
            bad = middle
    return good, bad


def bisect(
    work: Workspace, judge: Judge, good: str | None, bad: str | None, point: str | None
) -> None:
    """Finds what broke what `judge` runs, reports it, and restores the checkout.

    good, bad: a stage or a change; or, for a search along the versions of the
    series, commits of its repository. point: where each version is tested.
    """
    with put_back(work.repository):
        ids = (change.id for change in work.series.all_changes())
        if good is None or good in (NO_STAGE, *work.series.stage_names, *ids):
            _along_the_series(work, judge, good, bad or point)
        else:
            with versions.opened(work, good, bad) as found:
                _along_versions(judge, point, found)


def _along_the_series(work: Workspace, judge: Judge, good: str | None, bad: str | None) -> None:
    changes = work.series.changes(bad or work.series.stage_names[-1])
    ids = [NO_STAGE, *(change.id for change in changes)]
    judge.begin(work, ids[-1])
    start = judge.start
    if good is not None:
        start = [NO_STAGE, *(change.id for change in work.series.changes(good))][-1]
    if start not in ids:
        raise UsageError(
            f"{start} does not come before {ids[-1]}.",
            why="the search goes from GOOD up to BAD",
            next=f"{commands.make('status')} # shows the order",
        )
    titles = {change.id: f"{change.id}: {change.text.title}" for change in changes}
    below = ids[ids.index(start) :]
    places = [Place(one, titles.get(one, one), one, lambda: work) for one in below]
    found = _between(judge, places, given=good is not None)
    if found is None:
        since = f"since {start}, which added it" if start != NO_STAGE else "at the base already"
        say(f"{judge.name} fails from the start: {since}.")
        say("To search the versions of the series: GOOD=<a commit in which it passed>")
    judge.show(places[found[1] if found else 0])


def _along_versions(judge: Judge, point: str | None, found: Sequence[versions.Version]) -> None:
    newest = found[-1].open()
    point = point or newest.series.stage_names[-1]
    judge.begin(newest, point)
    places = [Place(one.shown, one.shown, point, one.open) for one in found]
    ended = _between(judge, places, given=True)
    assert ended is not None
    good, bad = ended
    say(f"it edits {', '.join(versions.edited(found[good], found[bad])) or 'no change'}")
    judge.show(places[bad])


def _between(judge: Judge, places: Sequence[Place], *, given: bool) -> tuple[int, int] | None:
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
    judge.runs = tuple(run for run in judge.runs if run in worst.failed_in)
    best = judge.must(places[0])
    if best.verdict is Verdict.FAILED and not given:
        return None
    if best.verdict is not Verdict.PASSED:
        raise UsageError(
            f"There is no good end: at {places[0].shown} the {judge.what} {best.verdict.value}.",
            why="a search needs a place at which it passes",
            next=commands.make("bisect", **judge.asked, GOOD="<where it passes>"),
        )
    good, bad = search(0, last, lambda number: _PASSES.get(judge.at(places[number]).verdict))
    suspects = places[good + 1 : bad + 1]
    if len(suspects) == 1:
        say(f"{judge.name} was broken by {suspects[0].named}")
    else:
        say(f"{judge.name} was broken by one of these; all but the last could not be tested:")
        for one in suspects:
            say(f"  {one.named}")
    return good, bad
