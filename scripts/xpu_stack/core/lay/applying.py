"""Bringing a checkout to a stage of the series, on the base it has or on another."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

from xpu_stack.core.bases import onto, providers
from xpu_stack.core.lay.builder import Builder
from xpu_stack.core.lay.survey import Finding, Survey
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.workspace import Goal
from xpu_stack.core.move.workspace import Workspace as Workspace
from xpu_stack.core.resolve import conflicts, resolutions
from xpu_stack.core.resolve.merging import Stop, merge
from xpu_stack.core.series.base import Base
from xpu_stack.core.series.change import Change, own_text
from xpu_stack.core.series.series import NO_STAGE, Series
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import ConflictError, ToolError, UsageError
from xpu_stack.core.system.git import Commit, CommitId, TreeId

_MEMO_FORM = "4"  # raise it when the same input would give other commits


def of_base(work: Workspace, base: str) -> Workspace:
    """The checkout, with the series as it is now on a base."""
    series = Series.load(work.layout, base)
    return replace(work, base=Base.load(work.layout, base), series=series)


def apply(work: Workspace, stage: str, drop: frozenset[str] = frozenset()) -> bool:
    """Brings the checkout to `stage`; whether anything had to be done."""
    refuse_unsafe(work)
    dropped = work.dropped | known(work, drop)
    commit, there = work.base.git.commit, stack.read(work.repository).base
    fetched = work.repository.commit_id("refs/heads/base") if work.checkout.own else None
    if commit in ("", there) or there != fetched:
        return reach(work, Goal(stage, dropped), "apply")
    # the tool's own checkout still has the base as it was fetched before
    base = providers.release(work.layout, work.base, work.repository)
    say(f"the base {work.base.name} is now {base[:12]}")
    changed = reach(work, Goal(stage, dropped, base, base), "rebase")
    work.repository.run("update-ref", "refs/heads/base", base)
    return changed


def refuse_unsafe(work: Workspace) -> None:
    """Refuses a checkout in which a move could lose a person's work."""
    conflicts.refuse_pending(work.repository)
    stack.refuse_unsafe(work.repository)
    stack.refuse_foreign(work.repository, stack.read(work.repository))


def reach(work: Workspace, goal: Goal, verb: str) -> bool:
    """Moves a safe checkout to a goal; whether anything had to be done."""
    repository = work.repository
    there = stack.read(repository)
    base = goal.base or there.base
    if base != there.base:
        _refuse_left_behind(work, there, base)
    made = expected(work, base, goal)
    skipped = goal.dropped - work.series.without  # what is not for the base may be later
    after = moves.State.of_stack(repository, carried(work, there, base, made), skipped)
    operation = moves.Operation(verb, goal.onto or goal.stage)
    if after == moves.current(repository):
        if moves.applied(repository) not in (None, there.by_change.keys()):
            # a person moved the branch there; that this was asked for is to be known
            moves.move(repository, operation, after)
        return False
    with progress(None, f"changing the checkout to '{goal.stage}'"):
        moves.move(repository, operation, after)
    return True


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
    if there.above and not made:
        why = "without the stack it would become a part of the base"
        raise _notcarried(work, there, there.above[0], why)
    if tip == there.tip:
        return there.above[-1].id if there.above else tip
    for commit in there.above:
        merged = merge(repository, tip, commit.id)
        if merged.stages or len(commit.parents) > 1:
            why = f"in conflict: {', '.join(merged.stages)}" if merged.stages else "it is a merge"
            raise _notcarried(work, there, commit, why)
        if merged.tree == repository.tree_of(tip):
            say(f"your own {stack.named(commit)} alters nothing there, and is left out")
        else:
            tip = repository.commit_again(commit.id, merged.tree, tip)
    return tip


def _notcarried(work: Workspace, there: stack.Stack, commit: Commit, why: str) -> ToolError:
    return ConflictError(
        f"Your own commit {stack.named(commit)} cannot be put on the new stack.",
        why=why,
        next=f"{stack.set_aside(work.repository, there)} # then the same command, and: "
        + commands.git(work.repository.folder, "cherry-pick", f"{there.tip[:12]}..mine"),
    )


def tree_at(work: Workspace, point: str) -> TreeId:
    """The tree that `point` of the series gives on the checkout's base; nothing is moved."""
    there = stack.read(work.repository)
    made = expected(work, there.base, Goal(point, work.dropped))
    return work.repository.tree_of(carried(work, there, there.base, made))


def made_here(work: Workspace, base: CommitId, goal: Goal) -> list[CommitId]:
    """As `expected`, for what only reads: nothing is fetched, and a conflict is a Stop."""
    changes = work.series.changes(goal.stage)
    made = _Memo(work, base, changes, goal.dropped).commits()
    return local_builder(work).build(base, changes, goal.dropped) if made is None else made


def adopt(work: Workspace, edit: TreeId | None, operation: moves.Operation) -> None:
    """Makes a checkout's commits the series' own, after they were exported.

    The files are those of the series already, edited or committed by hand: none
    is touched. edit: what the export did to the series, see rewrite.py.
    """
    there = stack.read(work.repository)
    goal = _goal_of(work, there)
    made = expected(work, there.base, goal)
    tip = carried(work, there, there.base, made)
    if edit is not None or made[-1] != there.tip:
        after = moves.State.of_stack(work.repository, tip, goal.dropped - work.series.without)
        moves.move(work.repository, operation, after, edit, files=False)


def given(work: Workspace, there: stack.Stack) -> list[CommitId]:
    """The commits that the series gives now in place of those that are there."""
    return expected(work, there.base, _goal_of(work, there))


def outdated(work: Workspace, there: stack.Stack) -> frozenset[str]:
    """The changes of which the series gives other files, or another text or author."""
    series, builder = work.series, local_builder(work)
    here = [one for one in there.applied if one.trailers.change in series.by_id]
    if not here:
        return frozenset()
    changes = series.changes(here[-1].trailers.change)
    made = set(_Memo(work, there.base, changes, work.dropped).commits() or ())

    def differs(change: Change, commit: Commit) -> bool:
        return (
            own_text(commit.message) != change.text.message
            or commit.author != series.author_of(change)
            or builder.attempt(commit.parents[0], change) != commit.tree
        )

    left = [(one.trailers.change, one.commit) for one in here if one.commit.id not in made]
    return frozenset(id_ for id_, commit in left if differs(series.by_id[id_], commit))


def local_builder(work: Workspace) -> Builder:
    """What lays changes with what is here: nothing is fetched."""
    release = work.layout.checkout(work.base.name) / ".git"
    if release.exists():
        return builder(work, lambda _: None)
    return Builder(work.repository, work.series, lambda: None)


def _goal_of(work: Workspace, there: stack.Stack) -> Goal:
    return Goal(there.applied[-1].trailers.change, work.dropped)


def expected(work: Workspace, base: CommitId, goal: Goal) -> list[CommitId]:
    """The commits that the series gives on `base`, made if they are not there."""
    changes = work.series.changes(goal.stage)
    memo = _Memo(work, base, changes, goal.dropped)
    made = memo.commits()
    if made is None:
        made = _build(work, base, goal, changes)
        memo.keep(made)
    return made


def _build(work: Workspace, base: CommitId, goal: Goal, changes: list[Change]) -> list[CommitId]:
    stopped = None
    with progress(len(changes), "making the commits") as bar:

        def step(change: Change) -> None:
            bar.step(f"{change.id} ({changes.index(change) + 1}/{len(changes)})")

        laying = builder(work, step)
        made: list[CommitId] = []
        try:
            made = laying.build(base, changes, goal.dropped)
        except Stop as stop:
            stopped = stop
    for change, used in laying.used.items():
        for one in used:
            say(f"{change}: the conflict in {one.file} is resolved by {one.id[:12]}")
    for change, names in laying.spaced.items():
        say(f"{change}: merged without regard to white space: {', '.join(names)}")
    if stopped is None:
        return made
    found = {
        one.change.id: f"{one.fit.value}, the base has {one.similarity}"
        for one in findings(work, base, goal, laying)
        if one.can_be_dropped
    }
    raise conflicts.report(work, stopped, goal, found)


def builder(work: Workspace, step: Callable[[Change], None]) -> Builder:
    """What lays the series' changes on a base in this checkout."""
    return Builder(
        work.repository,
        work.series,
        lambda: providers.pristine_commit(work.layout, work.base, work.repository),
        step,
        resolutions.of(work),
    )


def findings(
    work: Workspace, base: CommitId, goal: Goal, laying: Builder | None = None
) -> list[Finding]:
    """What would become of every change of a goal on `base`."""
    changes = [one for one in work.series.changes(goal.stage) if one.id not in goal.dropped]
    survey = Survey(laying or builder(work, lambda _: None), base)  # what it has made serves again
    found = []
    with progress(len(changes), "looking at every change") as bar:
        for change in changes:
            bar.step(change.id)
            found.append(survey.look_at(change))
    return found


def known(work: Workspace, drop: frozenset[str]) -> frozenset[str]:
    """The changes named to be dropped, each of which there must be."""
    for name in sorted(drop - work.series.by_id.keys()):
        raise UsageError(
            f"There is no change '{name}' to drop.",
            why=f"the changes are: {', '.join(sorted(work.series.by_id))}",
            next=commands.make("status"),
        )
    return drop


class _Memo:
    """The commits made last from the same input: a cache, checked against git.

    The same input gives the same ids anyway; this saves making them again.
    """

    def __init__(
        self, work: Workspace, base: CommitId, changes: list[Change], dropped: frozenset[str]
    ) -> None:
        parts = [_MEMO_FORM, base, *sorted(dropped), *(c.id + c.source_digest for c in changes)]
        parts += [work.series.author, *(work.series.author_of(change) for change in changes)]
        parts.append(resolutions.of(work).digest())
        self._key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        self._path = work.repository.own_folder / "memo.json"
        self._repository = work.repository

    def commits(self) -> list[CommitId] | None:
        try:
            data = json.loads(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return None
        if data.get("key") != self._key:
            return None
        commits = [CommitId(commit) for commit in data["commits"]]
        if commits and self._repository.commit_id(commits[-1]) is None:
            return None
        return commits

    def keep(self, commits: list[CommitId]) -> None:
        try:
            files.write(self._path, json.dumps({"key": self._key, "commits": commits}))
        except OSError as error:  # it is a cache
            log.info("not kept for the next run: %s", error)


def say_result(work: Workspace, stage: str, changed: bool) -> None:
    """One line on what the checkout is now."""
    there = stack.read(work.repository)
    name = work.repository.folder
    state = "is now" if changed else "is already"
    kind = "change" if "/" in stage else "stage"
    what = f"{kind} '{stage}'" if stage != NO_STAGE else "the base alone"
    own = f", and {len(there.above)} commit(s) of your own above" if there.above else ""
    say(f"{name} {state} at {what}: {len(there.applied)} change(s) on {there.base[:12]}{own}")
    log.info("provider: %s", work.checkout.provider)


def rebase_goal(work: Workspace, name: str, stage: str | None, drop: frozenset[str]) -> Goal:
    """What a rebase onto `name` is to reach.

    Without a stage that is asked for: the one that the checkout has, or all.
    What DROP= said on the old base does not count on the new one: each has its own.
    """
    chosen = stage or _point(work)
    work.series.changes(chosen)  # refuses a stage that is not there, before any work
    base = onto.resolve(work.layout, work.repository, name)
    return Goal(chosen, known(work, drop) | work.series.without, base, name)


def _point(work: Workspace) -> str:
    """The stage that the checkout has, or the change, where it has a part of one."""
    applied = stack.read(work.repository).applied
    if not applied:
        return work.series.stage_names[-1]
    last = applied[-1].trailers
    ids = [change.id for change in work.series.changes(last.stage)]
    rest = ids[ids.index(last.change) + 1 :] if last.change in ids else []
    return last.stage if set(rest) <= work.dropped else last.change


def rebase(work: Workspace, aim: Goal) -> bool:
    """Moves the stack; whether anything had to be done."""
    refuse_unsafe(work)
    return reach(work, aim, "rebase")
