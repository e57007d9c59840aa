"""The table of changes, pull requests and states."""

from collections.abc import Mapping

from xpu_stack.core.system.console import log, say, show_table
from xpu_stack.report.pull_requests import Entry
from xpu_stack.submit.plan import Plan


def show(plan: Plan, entries: Mapping[str, Entry], *, dry: bool) -> None:
    """Prints the table; `entries` has the result of the plan."""
    rows = []
    for item in plan.items:
        title = item.commit.message.splitlines()[0]
        entry = entries.get(item.change)
        url = entry.pull_request if entry else ""
        if item.pull_request is not None:
            url = item.pull_request.url
        told = item.state.value + (", of a run that was cut off" if item.unfinished else "")
        rows.append((item.change, title, url, told))
    for change, state, pull_request in plan.others:
        rows.append((change, pull_request.title, pull_request.url, state.value))
    for row in rows:
        log.info("%s", " | ".join(row))
    say("what would be submitted" if dry else "submitted")
    show_table(("change", "title", "pull request", "state"), rows, cut="title")
    for item in plan.items:
        if item.keeps_edits:
            say(f"{item.change}: what was edited on GitHub in the text stays there")
