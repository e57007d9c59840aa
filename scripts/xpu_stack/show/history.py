"""The log of moves, to be read by a person or a program: `make history`."""

from dataclasses import asdict
from datetime import datetime, timezone

from xpu_stack.core.move import moves
from xpu_stack.core.move.moves import Move
from xpu_stack.core.system.console import say, show_table
from xpu_stack.core.system.git import Repository


def show(repository: Repository) -> None:
    """Prints the operations, newest first, with the STEPS that undo or redo needs for each."""
    done, undone = moves.history(repository)
    if not done and not undone:
        say("no operation has been recorded")
        return
    say(str(repository.folder))
    redo = [(f"redo STEPS={number}", *_shown(one)) for number, one in enumerate(undone, start=1)]
    undo = [(f"undo STEPS={number}", *_shown(one)) for number, one in enumerate(done, start=1)]
    headings = ("to revert", "when", "operation", "before", "after")
    show_table(headings, redo[::-1] + undo, cut="operation")


def _shown(one: Move) -> tuple[str, str, str, str]:
    when = datetime.fromtimestamp(one.when).astimezone() if one.when else None
    time = when.strftime("%Y-%m-%d %H:%M") if when else ""
    return time, str(one.operation), one.before.commit[:12], one.after.commit[:12]


def as_json(repository: Repository) -> dict[str, object]:
    """The operations for `--json`, newest first."""
    done, undone = moves.history(repository)
    listed = [*((one, True) for one in reversed(undone)), *((one, False) for one in done)]
    return {"version": 1, "moves": [_told(repository, one, state) for one, state in listed]}


def _told(repository: Repository, one: Move, is_undone: bool) -> dict[str, object]:
    when = datetime.fromtimestamp(one.when, timezone.utc).isoformat() if one.when else None
    files = repository.files(one.edit) if one.edit else {}
    return {
        "time": when,
        "verb": one.operation.verb,
        "about": one.operation.about,
        "undone": is_undone,
        "before": asdict(one.before),
        "after": asdict(one.after),
        "files": sorted({name.partition("/")[2] for name in files}),
    }
