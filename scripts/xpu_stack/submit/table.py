"""The table of changes, pull requests and states."""

from collections.abc import Mapping

from rich.table import Table

from xpu_stack.core.system.console import log, show_table
from xpu_stack.report.pull_requests import Entry
from xpu_stack.submit.plan import Plan, State


def show(plan: Plan, entries: Mapping[str, Entry], *, dry: bool) -> None:
    """Prints the table; `entries` has the result of the plan."""
    table = Table(title="what would be submitted" if dry else "submitted")
    for heading in ("change", "title", "pull request", "state"):
        table.add_column(heading)
    for item in plan.items:
        title = item.commit.message.splitlines()[0]
        entry = entries.get(item.change)
        url = entry.pull_request if entry else ""
        if item.pull_request is not None:
            url = item.pull_request.url
        _row(table, item.change, title, url, _words(item.state, item.unfinished))
    for change, state, pull_request in plan.others:
        _row(table, change, pull_request.title, pull_request.url, _words(state))
    show_table(table)


def _row(table: Table, *cells: str) -> None:
    log.info("%s", " | ".join(cells))
    table.add_row(*cells)


def _words(state: State, unfinished: bool = False) -> str:
    return f"{state.value}, of a run that was cut off" if unfinished else state.value
