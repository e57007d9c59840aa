"""What a checkout holds: stages and changes, as a table or as JSON."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from xpu_stack.build.configuration import Mode, Record, Results
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
_COLUMNS = ("change", "title", "commit", "applied", "built", "tested", "pull request")
_APPLIED, _NOT_APPLIED = "applied", "not applied"


Document = dict[str, Any]


def read(work: Workspace, results: Results, mode: Mode) -> Document:
    """docs/reference.md describes it; a field may be added, and none changes its meaning."""
    with ThreadPoolExecutor() as pool:
        uncommitted = pool.submit(work.repository.uncommitted)  # looks at all files meanwhile
        there = stack.read(work.repository)
        waiting = conflicts.pending(work.repository)
        changes = _changes(work, there, results)
        edited, untracked = uncommitted.result()
    applied, known = there.by_change, work.series.by_id
    return {
        "version": 1,
        "checkout": str(work.repository.folder),
        "base": work.base.name,
        "base_commit": there.base,
        "provider": work.provider,
        "mode": mode.value,
        "changes": changes,
        # a person's own on the stack, in it, and of changes that the series does not have
        "above": [_other(commit) for commit in there.above],
        "foreign": [_other(commit) for commit in there.foreign],
        "unknown": [_other(applied[one].commit, one) for one in applied if one not in known],
        "edited": edited,
        "untracked": untracked,
        "conflict": waiting and {"change": waiting.change, "worktree": str(waiting.worktree)},
    }


def _other(commit: Commit, change: str | None = None) -> Document:
    return {"commit": commit.id, "title": commit.message.splitlines()[0], "change": change}


def _changes(work: Workspace, there: Stack, results: Results) -> list[Document]:
    outdated, dropped = applying.outdated(work, there), work.dropped
    left = (moves.left(work.repository) or {}) if there.applied else {}  # by the last move
    tip = results.get(work.repository.tree_of("HEAD"))
    sent = pull_requests.Record.load(work.layout, work.base.name).changes
    found = []
    for id_, change in work.series.by_id.items():
        one, entry = there.by_change.get(id_), sent.get(id_)
        record = results.get(one.commit.tree) if one else Record()
        if one and record.tests is None and one.commit.id != there.tip:
            record = tip  # of the whole stack above it
        if one is None:
            state = "taken out" if id_ in left else _NOT_APPLIED
            state = "skipped" if id_ in dropped else state
        else:
            state = "older" if id_ in outdated else _APPLIED
            state = state if one.as_made else "changed by hand"
        tests = (record.tests or {}).get(id_)
        shown = {
            "id": id_,
            "title": change.text.title,
            "author": one.commit.author if one else work.series.author_of(change),
            "state": state,
            "commit": one and one.commit.id,
            "built": record.built if one else None,
            "tests": tests and asdict(tests),
            "pull_request": entry
            and {
                "url": entry.pull_request,
                "number": entry.number,
                "outdated": one is not None and one.commit.tree != entry.source_id,
            },
        }
        found.append(shown)
    return found


# -- as a table ------------------------------------------------------------------


def show(work: Workspace, status: Document) -> None:
    changes = status["changes"]
    built = any(one["built"] for one in changes)
    say(status["checkout"] + (f", built in the {status['mode']} mode" if built else ""))
    sent = any(one["pull_request"] for one in changes)
    columns = _COLUMNS if sent else _COLUMNS[:-1]
    show_table(columns, [_row(one)[: len(columns)] for one in changes], cut="title")
    if sent:
        say(f"their states on GitHub: {commands.make('submit', DRY_RUN='1')}")
    say(f"base: {status['base_commit']} ({status['provider']})")
    names = stack.branches(work.repository)
    if names and names != [work.repository.branch()]:
        folders = {branch: folder for folder, branch in work.repository.worktrees().items()}
        told = [f"{one} (in {folders[one]})" if one in folders else one for one in names]
        say(f"stacks in this repository: {', '.join(told)}")
    for kind, what in (
        ("foreign", "not part of the series"),
        ("above", "your own, kept above the stack"),
        ("unknown", "of a change that the series does not have"),
    ):
        for one in status[kind]:
            change = f", {one['change']}" if one["change"] else ""
            say(f"{what}{change}: {one['commit'][:12]} '{one['title']}'")
    for kind, what in (("edited", "edited"), ("untracked", "not tracked")):
        names = status[kind]
        more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        if names:
            say(f"{what}, not exported: {', '.join(names[:_SHOWN])}{more}")
    if waiting := status["conflict"]:
        say(f"a conflict of {waiting['change']} waits in {waiting['worktree']}")
        say(f"{commands.make('continue')}, or {commands.make('abort')}")


def _row(one: Document) -> tuple[str, ...]:
    plain = {_APPLIED: "yes", _NOT_APPLIED: "no"}
    sent, number = one["pull_request"], "none"
    if sent:
        number = f"#{sent['number']}"
        number = coloured(f"{number}, to be updated", "yellow") if sent["outdated"] else number
    return (
        one["id"],
        one["title"],
        (one["commit"] or "")[:12],
        plain.get(one["state"]) or coloured(one["state"], "yellow"),
        {True: "yes", False: "no", None: ""}[one["built"]],
        _tested(one["tests"]) if one["commit"] else "",
        number,
    )


def _tested(tests: Document | None) -> str:
    if tests is None:
        return "no"
    if tests["failed"]:
        return coloured(f"{tests['failed']} failed", "red")
    skipped = f", {tests['skipped']} skipped" if tests["skipped"] else ""
    return f"{tests['passed']} passed{skipped}" if tests["passed"] or skipped else "no tests"
