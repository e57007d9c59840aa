"""Bringing a checkout to a stage of the series, on the base it has or on another."""

import hashlib
import json
from dataclasses import replace
from itertools import chain

from xpu_stack.core.bases import providers
from xpu_stack.core.lay.builder import Builder, Finding, Fit, Survey
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.workspace import Goal
from xpu_stack.core.move.workspace import Workspace as Workspace
from xpu_stack.core.resolve import conflicts, resolutions
from xpu_stack.core.resolve.merging import Stop, merge
from xpu_stack.core.series.base import Base
from xpu_stack.core.series.change import own_text
from xpu_stack.core.series.series import NO_STAGE, Series
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import ConflictError, ToolError, UsageError
from xpu_stack.core.system.git import CommitId

_MEMO = "memo.json"  # the commits made last: a cache, checked against git
_MEMO_FORM = "4"  # raise it when the same input would give other commits


def of_base(work: Workspace, base: str) -> Workspace:
    """The checkout, with the series as it is now on a base."""
    series = Series.load(work.layout, base)
    return replace(work, base=Base.load(work.layout, base), series=series)


def apply(work: Workspace, stage: str, drop: frozenset[str] = frozenset()) -> bool:
    """Brings the checkout to `stage`; whether anything had to be done."""
    dropped = work.dropped | known(work, drop)
    commit, there = work.base.git.commit, stack.read(work.repository).base
    fetched = work.repository.commit_id("refs/heads/base") if work.own else None
    if commit in ("", there) or there != fetched:
        return reach(work, Goal(stage, dropped), "apply")
    # the tool's own checkout still has the base as it was fetched before
    base = providers.release(work.layout, work.base, work.repository)
    say(f"the base {work.base.name} is now {base[:12]}")
    changed = reach(work, Goal(stage, dropped, base, base), "rebase")
    work.repository.run("update-ref", "refs/heads/base", base)
    return changed


def reach(work: Workspace, goal: Goal, verb: str) -> bool:
    """Moves the checkout to a goal, unless work could be lost; whether anything had to be done."""
    repository = work.repository
    conflicts.refuse_pending(repository)
    stack.refuse_unsafe(repository)
    there = stack.read(repository)
    stack.refuse_foreign(repository, there)
    if goal.base not in (None, there.base):
        _refuse_left_behind(work, there, goal.base)
    after = state_at(work, there, goal)
    operation = moves.Operation(verb, goal.onto or goal.stage)
    if after == moves.current(repository):
        left = moves.left(repository)
        if left is not None and left.keys() != there.by_change.keys():
            # a person moved the branch there; that this was asked for is to be known
            moves.move(repository, operation, after)
        return False
    with progress(None, f"changing the checkout to '{goal.stage}'"):
        moves.move(repository, operation, after)
    return True


def state_at(work: Workspace, there: stack.Stack, goal: Goal) -> moves.State:
    """What the checkout is at a goal, with the person's own commits above; nothing is moved."""
    base = goal.base or there.base
    tip = carried(work, there, base, expected(work, base, goal))
    skipped = goal.dropped - work.series.without  # what is not for the base may be later
    return moves.State(stack.branch(work.repository), tip, tip, tuple(sorted(skipped)))


def _refuse_left_behind(work: Workspace, there: stack.Stack, base: CommitId) -> None:
    """Refuses a move from commits that a person has made below the stack, and that only it has."""
    repository, branch = work.repository, stack.branch(work.repository)
    log = moves.entries(repository)
    if not log:
        return
    known = [log[-1].before.commit, *(one.after.commit for one in log if one.verb == "rebase")]
    others = (f"--exclude={branch}", "--branches", "--remotes", "--tags")
    own = repository.line("rev-list", there.base, "--not", base, *known, *others).split()
    if own:
        commit = repository.commit(CommitId(own[0]))
        raise ToolError(
            f"{len(own)} commit(s) of your own below the stack would be on no branch.",
            why=f"only '{branch}' has them; the newest is {stack.named(commit)}",
            next=commands.git(repository.folder, "branch", "mine", own[0][:12])
            + " # then the same command",
        )


def carried(work: Workspace, there: stack.Stack, base: CommitId, made: list[CommitId]) -> CommitId:
    """The top when the person's own commits above the stack are put on new commits of it."""
    repository, tip = work.repository, made[-1] if made else base
    if tip == there.tip and made:
        return there.above[-1].id if there.above else tip
    for commit in there.above:
        merged = merge(repository, tip, commit.id)
        if not made:
            why = "without the stack it would become a part of the base"
        elif merged.stages:
            why = f"in conflict: {', '.join(merged.stages)}"
        elif len(commit.parents) > 1:
            why = "it is a merge"
        elif merged.tree == repository.tree_of(tip):
            say(f"your own {stack.named(commit)} alters nothing there, and is left out")
            continue
        else:
            tip = repository.commit_again(commit.id, merged.tree, tip)
            continue
        raise ConflictError(
            f"Your own commit {stack.named(commit)} cannot be put on the new stack.",
            why=why,
            next=f"{stack.set_aside(repository, there)} # then the same command, and: "
            + commands.git(repository.folder, "cherry-pick", f"{there.tip[:12]}..mine"),
        )
    return tip


def current_goal(work: Workspace, there: stack.Stack) -> Goal:
    """The goal that the checkout is at. there: has a change."""
    return Goal(there.applied[-1].trailers.change, work.dropped)


def given(work: Workspace, there: stack.Stack) -> list[CommitId]:
    """The commits that the series gives now in place of those that are there."""
    return expected(work, there.base, current_goal(work, there))


def outdated(work: Workspace, there: stack.Stack) -> frozenset[str]:
    """The changes of which the series gives other files, or another text or author."""
    series, laying = work.series, builder(work, fetch=False)
    here = [one for one in there.applied if one.trailers.change in series.by_id]
    if not here:
        return frozenset()
    goal = Goal(here[-1].trailers.change, work.dropped)
    made, _ = _made_before(work, there.base, goal)
    left = [one for one in here if one.commit.id not in (made or ())]
    return frozenset(
        change.id
        for change, commit in ((series.by_id[one.trailers.change], one.commit) for one in left)
        if own_text(commit.message) != change.text.message
        or commit.author != series.author_of(change)
        or laying.attempt(commit.parents[0], change) != commit.tree
    )


def made_here(work: Workspace, base: CommitId, goal: Goal) -> list[CommitId]:
    """As `expected`, for what only reads: nothing is fetched, and a conflict is a Stop."""
    made, _ = _made_before(work, base, goal)
    changes = work.series.changes(goal.stage)
    return made or builder(work, fetch=False).build(base, changes, goal.dropped)


def expected(work: Workspace, base: CommitId, goal: Goal) -> list[CommitId]:
    """The commits that the series gives on `base`, made if they are not there."""
    made, key = _made_before(work, base, goal)
    if made is None:
        made = _build(work, base, goal)
        try:
            memo = work.repository.own_folder / _MEMO
            files.write(memo, json.dumps({"key": key, "commits": made}))
        except OSError as error:  # it is a cache
            log.info("not kept for the next run: %s", error)
    return made


def _made_before(work: Workspace, base: CommitId, goal: Goal) -> tuple[list[CommitId] | None, str]:
    """The commits, if they were made last, and the key of what they are made from."""
    changes = [one for one in work.series.changes(goal.stage) if one.id not in work.series.without]
    parts = [_MEMO_FORM, base, *sorted(goal.dropped), *(c.id + c.source_digest for c in changes)]
    parts += [work.series.author, *map(work.series.author_of, changes)]
    key = hashlib.sha256("\0".join([*parts, resolutions.of(work).digest()]).encode()).hexdigest()
    try:
        data = json.loads((work.repository.own_folder / _MEMO).read_text())
    except (FileNotFoundError, ValueError):
        return None, key
    commits = [CommitId(commit) for commit in data["commits"]]
    there = not commits or work.repository.commit_id(commits[-1])
    return commits if data["key"] == key and there else None, key


def _build(work: Workspace, base: CommitId, goal: Goal) -> list[CommitId]:
    laying, changes = builder(work), work.series.changes(goal.stage)
    stopped = None
    try:
        with progress(len(changes), "making the commits") as bar:
            made = laying.build(base, changes, goal.dropped, bar)
    except Stop as stop:
        stopped = stop
    for line in chain(*laying.told.values()):
        say(line)
    if stopped is None:
        return made
    found = {
        one.change.id: f"{one.fit.value}, the base has {one.similarity}"
        for one in findings(work, base, goal, laying)
        if one.fit in (Fit.THERE, Fit.OTHER)
    }
    raise conflicts.report(work, stopped, goal, found)


def builder(work: Workspace, *, fetch: bool = True) -> Builder:
    """What lays the series' changes on a base in this checkout. fetch: the release, if need be."""

    def pristine() -> CommitId | None:
        there = fetch or (work.layout.checkout(work.base.name) / ".git").exists()
        return providers.pristine_commit(work.layout, work.base, work.repository) if there else None

    return Builder(work.repository, work.series, pristine, resolutions.of(work))


def findings(
    work: Workspace, base: CommitId, goal: Goal, laying: Builder | None = None
) -> list[Finding]:
    """What would become of every change of a goal on `base`."""
    changes = [one for one in work.series.changes(goal.stage) if one.id not in work.series.without]
    survey = Survey(laying or builder(work), base)  # what it has made serves again
    found = []
    with progress(len(changes), "looking at every change") as bar:
        for change in changes:
            bar.step(change.id)
            found.append(survey.look_at(change))
    return found


def say_result(work: Workspace, stage: str, changed: bool) -> None:
    """One line on what the checkout is now."""
    there, state = stack.read(work.repository), "is now" if changed else "is already"
    kind = "change" if "/" in stage else "stage"
    what = f"{kind} '{stage}'" if stage != NO_STAGE else "the base alone"
    own = f", and {len(there.above)} commit(s) of your own above" if there.above else ""
    on = f"{len(there.applied)} change(s) on {there.base[:12]}{own}"
    say(f"{work.repository.folder} {state} at {what}: {on}")
    log.info("provider: %s", work.provider)


def known(work: Workspace, drop: frozenset[str]) -> frozenset[str]:
    """The changes named to be dropped, each of which there must be."""
    for name in sorted(drop - work.series.by_id.keys()):
        raise UsageError(
            f"There is no change '{name}' to drop.",
            why=f"the changes are: {', '.join(sorted(work.series.by_id))}",
            next=commands.make("status"),
        )
    return drop


def rebase_goal(work: Workspace, name: str, stage: str | None, drop: frozenset[str]) -> Goal:
    """What a rebase onto `name` is to reach.

    Without a stage that is asked for: the one that the checkout has, or all.
    What DROP= said on the old base does not count on the new one: each has its own.
    """
    applied = stack.read(work.repository).applied
    if not stage and applied:  # the change, where it has a part of a stage
        last = applied[-1].trailers
        ids = [change.id for change in work.series.changes(last.stage)]
        rest = ids[ids.index(last.change) + 1 :] if last.change in ids else []
        stage = last.stage if set(rest) <= work.dropped else last.change
    chosen = work.series.point(stage)  # refuses a stage that is not there, before any work
    base = providers.resolve(work.layout, work.repository, name)
    return Goal(chosen, known(work, drop) | work.series.without, base, name)
