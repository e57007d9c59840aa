"""What a checkout holds: the table of stages and changes."""

from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from xpu_stack.build.configuration import Mode
from xpu_stack.build.results import Outcome, Record, Results
from xpu_stack.core.checkout import applying, conflicts, export, moves, stack
from xpu_stack.core.checkout.applying import Workspace
from xpu_stack.core.checkout.stack import Applied, Stack
from xpu_stack.core.system.console import say, show_table
from xpu_stack.report import pull_requests

_SHOWN = 5  # files that are named
_COLUMNS = ("stage", "change", "title", "commit", "applied", "built", "tested")


def show(work: Workspace, results: Results, mode: Mode) -> None:
    """Prints the table of stages and changes: applied, built, tested."""
    there = stack.read(work.repository)
    applied = {one.trailers.change: one for one in there.applied}
    state = _State.of(work, there)
    tip = results.get(work.repository.tree_of("HEAD"))
    table = Table(title=f"{work.repository.folder}, built in the {mode.value} mode")
    entries = pull_requests.Record.load(work.layout, work.base.name).entries
    for heading in _COLUMNS + (("pull request",) if entries else ()):
        gives_way = heading == "title"  # on a narrow terminal
        table.add_column(heading, no_wrap=True, ratio=1 if gives_way else None)
    for stage in work.series.stages:
        for change in stage.changes:
            one = applied.get(change.id)
            record = _record_of(results, one, tip, there.tip) if one else Record()
            table.add_row(
                stage.name if change.number == 1 else "",
                change.name,
                escape(change.text.title),
                one.commit.id[:12] if one else "",
                state.of_change(change.id, one),
                _yes(record.built) if one else "",
                _tested(change.id, record) if one else "",
                *([_pull_request(entries.get(change.id), one)] if entries else []),
            )
        table.add_section()
    show_table(table)
    if entries:
        say("their states on GitHub: make submit DRY_RUN=1")
    say(f"base: {there.base} ({work.checkout.provider})")
    _say_more(work, there)


def _record_of(results: Results, one: Applied, tip: Record, tip_id: str) -> Record:
    """What is known of the tree of a change, or of the whole stack above it."""
    own = results.get(one.commit.tree)
    return own if own.tests is not None or one.commit.id == tip_id else tip


@dataclass(frozen=True)
class _State:
    """What became of changes that are not just applied."""

    outdated: frozenset[str]
    dropped: frozenset[str]
    left: frozenset[str]  # applied by the last move

    @classmethod
    def of(cls, work: Workspace, there: Stack) -> "_State":
        left = moves.applied(work.repository) or frozenset()
        dropped = work.dropped
        return cls(applying.outdated(work, there), dropped, left if there.applied else frozenset())

    def of_change(self, change: str, one: Applied | None) -> str:
        if one is None:
            if change in self.dropped:
                return "[yellow]dropped[/]"
            return "[yellow]taken out[/]" if change in self.left else "no"
        if not one.as_made:
            return "[yellow]changed by hand[/]"
        return "[yellow]older[/]" if change in self.outdated else "yes"


def _pull_request(entry: pull_requests.Entry | None, one: Applied | None) -> str:
    """Its number, and whether it shows the files that are applied."""
    if entry is None:
        return "none"
    shows_other = one is not None and one.commit.tree != entry.source_id
    return f"#{entry.number}" + (", [yellow]to be updated[/]" if shows_other else "")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _tested(change: str, record: Record) -> str:
    outcome: Outcome | None = (record.tests or {}).get(change)
    if outcome is None:
        return "no"
    if not outcome.total:
        return "no tests"
    if outcome.failed:
        return f"[red]{outcome.failed} failed[/]"
    return f"{outcome.passed} passed" + (f", {outcome.skipped} skipped" if outcome.skipped else "")


def _say_more(work: Workspace, there: Stack) -> None:
    for commit in there.foreign:
        say(f"not part of the series: {stack.named(commit)}")
    for commit in there.above:
        say(f"your own, kept above the stack: {stack.named(commit)}")
    known = {change.id for change in work.series.all_changes()}
    for one in there.applied:
        if one.trailers.change not in known:
            name = stack.named(one.commit)
            say(f"of a change that the series does not have, {one.trailers.change}: {name}")
    _say_files("edited, not exported", export.edited_files(work.repository))
    _say_files("not tracked, not exported", export.untracked_files(work.repository))
    waiting = conflicts.pending(work.repository)
    if waiting is not None:
        say(f"a conflict of {waiting.change} waits in {waiting.worktree}")
        say("make continue, or make abort")


def _say_files(what: str, names: list[str]) -> None:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    if names:
        say(f"{what}: {', '.join(names[:_SHOWN])}{more}")
