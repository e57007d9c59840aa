"""What a checkout holds: stages and changes, as a table or as JSON."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from xpu_stack.build.configuration import Mode
from xpu_stack.build.results import Outcome, Record, Results
from xpu_stack.core.lay import applying
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import coloured, say, show_table
from xpu_stack.core.system.git import Commit
from xpu_stack.report import pull_requests

_SHOWN = 5  # files that are named
_COLUMNS = ("change", "title", "commit", "applied", "built", "tested")
_APPLIED, _NOT_APPLIED = "applied", "not applied"


@dataclass(frozen=True)
class PullRequest:
    """What the series knows of it. outdated: it shows other files than are applied."""

    url: str
    number: int
    outdated: bool


@dataclass(frozen=True)
class ChangeStatus:
    """A change of the series. commit, built, tests: None where it is not applied."""

    id: str
    title: str
    author: str
    state: str  # applied, not applied, skipped, taken out, changed by hand or older
    commit: str | None
    built: bool | None
    tests: Outcome | None  # None also where they have not run
    pull_request: PullRequest | None


@dataclass(frozen=True)
class OtherCommit:
    """A commit of the stack that is of no change of the series."""

    commit: str
    title: str
    change: str | None = None  # which its trailer names


@dataclass(frozen=True)
class Conflict:
    change: str
    worktree: str


@dataclass(frozen=True)
class Status:
    """A checkout. above: a person's own commits on the stack; foreign: those in it."""

    checkout: str
    base: str
    base_commit: str
    provider: str
    mode: str
    changes: tuple[ChangeStatus, ...]
    above: tuple[OtherCommit, ...]
    foreign: tuple[OtherCommit, ...]
    unknown: tuple[OtherCommit, ...]
    edited: tuple[str, ...]
    untracked: tuple[str, ...]
    conflict: Conflict | None

    @property
    def as_json(self) -> dict[str, Any]:
        """docs/reference.md describes it; a field may be added, and none changes its meaning."""
        return {"version": 1, **asdict(self)}


def read(work: Workspace, results: Results, mode: Mode) -> Status:
    with ThreadPoolExecutor() as pool:  # git looks at all files meanwhile
        return _read(work, results, mode, pool.submit(work.repository.uncommitted))


def _read(
    work: Workspace,
    results: Results,
    mode: Mode,
    uncommitted: "Future[tuple[list[str], list[str]]]",
) -> Status:
    there = stack.read(work.repository)
    known = {change.id for change in work.series.all_changes()}
    waiting = conflicts.pending(work.repository)
    changes = tuple(_changes(work, there, results))
    edited, untracked = uncommitted.result()
    return Status(
        checkout=str(work.repository.folder),
        base=work.base.name,
        base_commit=there.base,
        provider=work.checkout.provider,
        mode=mode.value,
        changes=changes,
        above=tuple(_other(commit) for commit in there.above),
        foreign=tuple(_other(commit) for commit in there.foreign),
        unknown=tuple(
            _other(one.commit, one.trailers.change)
            for one in there.applied
            if one.trailers.change not in known
        ),
        edited=tuple(edited),
        untracked=tuple(untracked),
        conflict=Conflict(waiting.change, str(waiting.worktree)) if waiting else None,
    )


def _other(commit: Commit, change: str | None = None) -> OtherCommit:
    return OtherCommit(commit.id, commit.message.splitlines()[0], change)


def _changes(work: Workspace, there: Stack, results: Results) -> list[ChangeStatus]:
    applied = there.by_change
    outdated, dropped = applying.outdated(work, there), work.dropped
    left = (moves.applied(work.repository) or ()) if there.applied else ()  # by the last move
    tip = results.get(work.repository.tree_of("HEAD"))
    entries = pull_requests.Record.load(work.layout, work.base.name).entries
    found = []
    for change in work.series.all_changes():
        one = applied.get(change.id)
        record = results.get(one.commit.tree) if one else Record()
        if one and record.tests is None and one.commit.id != there.tip:
            record = tip  # of the whole stack above it
        if one is None:
            state = "taken out" if change.id in left else _NOT_APPLIED
            state = "skipped" if change.id in dropped else state
        else:
            state = "older" if change.id in outdated else _APPLIED
            state = state if one.as_made else "changed by hand"
        found.append(
            ChangeStatus(
                change.id,
                change.text.title,
                one.commit.author if one else work.series.author_of(change),
                state,
                one.commit.id if one else None,
                record.built if one else None,
                (record.tests or {}).get(change.id),
                PullRequest(
                    entry.pull_request,
                    entry.number,
                    one is not None and one.commit.tree != entry.source_id,
                )
                if (entry := entries.get(change.id))
                else None,
            )
        )
    return found


# -- as a table ------------------------------------------------------------------


def show(work: Workspace, status: Status) -> None:
    built = any(one.built for one in status.changes)
    say(status.checkout + (f", built in the {status.mode} mode" if built else ""))
    rows = [_row(one) for one in status.changes]
    submitted = any(one.pull_request for one in status.changes)
    if submitted:
        show_table((*_COLUMNS, "pull request"), rows, cut="title")
        say(f"their states on GitHub: {commands.make('submit', DRY_RUN='1')}")
    else:
        show_table(_COLUMNS, [row[:-1] for row in rows], cut="title")
    say(f"base: {status.base_commit} ({status.provider})")
    names = stack.branches(work.repository)
    if names and names != [work.repository.branch()]:
        folders = {branch: folder for folder, branch in work.repository.worktrees().items()}
        told = [f"{one} (in {folders[one]})" if one in folders else one for one in names]
        say(f"stacks in this repository: {', '.join(told)}")
    _say_more(status)


def _row(one: ChangeStatus) -> tuple[str, ...]:
    plain = {_APPLIED: "yes", _NOT_APPLIED: "no"}
    return (
        one.id,
        one.title,
        one.commit[:12] if one.commit else "",
        plain.get(one.state) or coloured(one.state, "yellow"),
        {True: "yes", False: "no", None: ""}[one.built],
        _tested(one.tests) if one.commit else "",
        _told(one.pull_request),
    )


def _told(pull_request: PullRequest | None) -> str:
    """Its number, and whether it shows the files that are applied."""
    if pull_request is None:
        return "none"
    number = f"#{pull_request.number}"
    return coloured(f"{number}, to be updated", "yellow") if pull_request.outdated else number


def _tested(outcome: Outcome | None) -> str:
    if outcome is None:
        return "no"
    if not outcome.total:
        return "no tests"
    if outcome.failed:
        return coloured(f"{outcome.failed} failed", "red")
    return f"{outcome.passed} passed" + (f", {outcome.skipped} skipped" if outcome.skipped else "")


def _say_more(status: Status) -> None:
    for one in status.foreign:
        say(f"not part of the series: {_named(one)}")
    for one in status.above:
        say(f"your own, kept above the stack: {_named(one)}")
    for one in status.unknown:
        say(f"of a change that the series does not have, {one.change}: {_named(one)}")
    _say_files("edited, not exported", status.edited)
    _say_files("not tracked, not exported", status.untracked)
    if status.conflict is not None:
        say(f"a conflict of {status.conflict.change} waits in {status.conflict.worktree}")
        say(f"{commands.make('continue')}, or {commands.make('abort')}")


def _named(one: OtherCommit) -> str:
    return f"{one.commit[:12]} '{one.title}'"


def _say_files(what: str, names: tuple[str, ...]) -> None:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    if names:
        say(f"{what}: {', '.join(names[:_SHOWN])}{more}")
