"""Applying the series to a checkout: the verbs apply, continue and abort."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xpu_stack import conflict, lock, providers, stack
from xpu_stack.base import Base
from xpu_stack.chain import AlreadyThere, Builder, Stop
from xpu_stack.console import log, progress, say
from xpu_stack.errors import ToolError
from xpu_stack.git import CommitId, Repository, TreeId
from xpu_stack.layout import Layout
from xpu_stack.series import NO_STAGE, Change, Series
from xpu_stack.switch import Switch

_DROP = "xpu-stack.drop"  # in the checkout's configuration
_MEMO_FORM = "1"  # raise it when the same input would give other commits


@dataclass(frozen=True)
class Workspace:
    """What every verb on a checkout works with."""

    layout: Layout
    base: Base
    series: Series
    checkout: providers.Checkout

    @property
    def repository(self) -> Repository:
        return self.checkout.repository


@contextmanager
def opened(layout: Layout, base: str, pytorch_src: str | None, verb: str) -> Iterator[Workspace]:
    """The checkout, fetched if need be, whole, and locked for this run."""
    loaded = Base.load(layout, base)
    series = Series.load(layout, base)
    with lock.held(layout.state / "lock", verb, str(layout.state)):
        checkout = providers.checkout(layout, loaded, pytorch_src)
    folder = checkout.repository.git_dir / "xpu-stack"
    with lock.held(folder / "lock", verb, str(checkout.repository.folder)):
        if Switch(checkout.repository).recover():
            say("an earlier run was cut off while it changed the checkout; its move is finished")
        yield Workspace(layout, loaded, series, checkout)


def apply(work: Workspace, stage: str, drop: frozenset[str] = frozenset()) -> bool:
    """Brings the checkout to `stage`; whether anything had to be done."""
    changes = work.series.changes(stage)
    repository = work.repository
    conflict.refuse_pending(repository)
    stack.refuse_unsafe(repository, stack.BRANCH)
    there = stack.read(repository)
    stack.refuse_foreign(repository, there)
    wanted = expected(work, there.base, stage, changes, _remember_dropped(work, drop))
    tip = wanted[-1] if wanted else there.base
    if tip == there.tip and repository.branch() == stack.BRANCH:
        return False
    with progress(None, f"changing the checkout to '{stage}'"):
        Switch(repository).to(tip, stack.BRANCH)
    return True


def tree_at(work: Workspace, point: str) -> TreeId:
    """The tree that `point` of the series gives on the checkout's base; nothing is moved."""
    there = stack.read(work.repository)
    made = expected(work, there.base, point, work.series.changes(point), dropped(work))
    return work.repository.tree_of(made[-1] if made else there.base)


def adopt(work: Workspace) -> None:
    """Makes a checkout's commits the series' own, after they were exported.

    The files are those of the series already, edited or committed by hand.
    """
    there = stack.read(work.repository)
    made = given(work, there)
    if made[-1] != there.tip:
        Switch(work.repository).to(made[-1], stack.BRANCH)


def given(work: Workspace, there: stack.Stack) -> list[CommitId]:
    """The commits that the series gives now in place of those that are there."""
    last = there.applied[-1].trailers.change
    return expected(work, there.base, last, work.series.changes(last), dropped(work))


def expected(
    work: Workspace,
    base: CommitId,
    stage: str,
    changes: list[Change],
    dropped: frozenset[str],
) -> list[CommitId]:
    """The commits that the series gives on `base`, made if they are not there."""
    memo = _Memo(work.repository, base, changes, dropped)
    known = memo.commits()
    if known is not None:
        return known
    with progress(len(changes), "making the commits") as bar:

        def step(change: Change) -> None:
            bar.step(f"{change.id} ({changes.index(change) + 1}/{len(changes)})")

        builder = Builder(
            work.repository,
            work.series,
            lambda: providers.pristine_commit(work.layout, work.base, work.repository),
            step,
        )
        try:
            made = builder.build(base, changes, dropped)
        except Stop as stop:
            if isinstance(stop.reason, AlreadyThere):
                raise conflict.already_there(stop.reason, stage) from None
            raise conflict.report(work.repository, work.layout, stop.reason, stage) from None
    memo.keep(made)
    return made


def _remember_dropped(work: Workspace, drop: frozenset[str]) -> frozenset[str]:
    """The changes that this checkout does without; `drop` names further ones."""
    known = {change.id for change in work.series.all_changes()}
    for name in sorted(drop):
        if name not in known:
            raise ToolError(
                f"There is no change '{name}' to drop.",
                why=f"the changes are: {', '.join(sorted(known))}",
                next="make status",
            )
    listed = work.repository.ask("config", "--get-all", _DROP) or ""
    before = frozenset(listed.split())
    for name in sorted(drop - before):
        work.repository.run("config", "--add", _DROP, name)
    return (before | drop) & known


def dropped(work: Workspace) -> frozenset[str]:
    """The changes that this checkout does without."""
    return _remember_dropped(work, frozenset())


class _Memo:
    """The commits made last from the same input: a cache, checked against git.

    The same input gives the same ids anyway; this saves making them again.
    """

    def __init__(
        self, repository: Repository, base: CommitId, changes: list[Change], dropped: frozenset[str]
    ) -> None:
        parts = [_MEMO_FORM, base, *sorted(dropped), *(c.id + c.source_digest for c in changes)]
        self._key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        self._path = repository.git_dir / "xpu-stack" / "memo.json"
        self._repository = repository

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
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps({"key": self._key, "commits": commits}))
        draft.replace(self._path)


def say_result(work: Workspace, stage: str, changed: bool) -> None:
    """One line on what the checkout is now."""
    there = stack.read(work.repository)
    name = work.repository.folder
    state = "is now" if changed else "is already"
    kind = "change" if "/" in stage else "stage"
    what = f"{kind} '{stage}'" if stage != NO_STAGE else "the base alone"
    say(f"{name} {state} at {what}: {len(there.applied)} change(s) on {there.base[:12]}")
    log.info("provider: %s", work.checkout.provider)
