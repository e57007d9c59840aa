"""What a checkout holds: the table of stages and changes."""

from rich.markup import escape
from rich.table import Table

from xpu_stack import conflict, stack, submitted
from xpu_stack.applying import Workspace
from xpu_stack.build import Mode
from xpu_stack.console import say, show_table
from xpu_stack.git import Commit
from xpu_stack.results import Outcome, Record, Results
from xpu_stack.series import Change
from xpu_stack.stack import Applied

_COLUMNS = ("stage", "change", "title", "commit", "applied", "built", "tested")


def show(work: Workspace, results: Results, mode: Mode) -> None:
    """Prints the table of stages and changes: applied, built, tested."""
    there = stack.read(work.repository)
    applied = {one.trailers.change: one for one in there.applied}
    tip = results.get(work.repository.tree_of("HEAD"))
    table = Table(title=f"{work.repository.folder}, built in the {mode.value} mode")
    entries = submitted.Record.load(work.layout, work.base.name).entries
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
                _applied(change, one),
                _yes(record.built) if one else "",
                _tested(change.id, record) if one else "",
                *([_pull_request(entries.get(change.id), one)] if entries else []),
            )
        table.add_section()
    show_table(table)
    if entries:
        say("their states on GitHub: make submit DRY_RUN=1")
    say(f"base: {there.base} ({work.checkout.provider})")
    _say_more(work, list(there.foreign))


def _record_of(results: Results, one: Applied, tip: Record, tip_id: str) -> Record:
    """What is known of the tree of a change, or of the whole stack above it."""
    own = results.get(one.commit.tree)
    return own if own.tests is not None or one.commit.id == tip_id else tip


def _applied(change: Change, one: Applied | None) -> str:
    if one is None:
        return "no"
    if not one.as_made:
        return "[yellow]changed by hand[/]"
    current = one.commit.message.startswith(change.text.message)
    return "yes" if current else "[yellow]older[/]"


def _pull_request(entry: submitted.Entry | None, one: Applied | None) -> str:
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


def _say_more(work: Workspace, foreign: list[Commit]) -> None:
    for commit in foreign:
        say(f"not part of the series: {commit.id[:12]} {commit.message.splitlines()[0]}")
    waiting = conflict.pending(work.repository)
    if waiting is not None:
        say(f"a conflict of {waiting.change} waits in {waiting.worktree}")
        say("make continue, or make abort")
