"""What was done, `make history`, and what would become of it elsewhere, `make rebase DRY_RUN=1`."""

from collections import Counter
from dataclasses import asdict
from datetime import datetime, timezone

from xpu_stack.core.lay import applying
from xpu_stack.core.lay.builder import Fit
from xpu_stack.core.move import moves
from xpu_stack.core.move.moves import Move
from xpu_stack.core.move.workspace import Goal, Workspace
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
    when = _when(one)
    time = when.astimezone().strftime("%Y-%m-%d %H:%M") if when else ""
    return time, str(one), one.before.commit[:12], one.after.commit[:12]


def _when(one: Move) -> datetime | None:
    return datetime.fromtimestamp(one.when, timezone.utc) if one.when else None


def as_json(repository: Repository) -> dict[str, object]:
    """The operations for `--json`, newest first."""
    done, undone = moves.history(repository)
    told = []
    listed = [*((one, True) for one in reversed(undone)), *((one, False) for one in done)]
    for one, is_undone in listed:
        when, files = _when(one), repository.files(one.edit) if one.edit else {}
        about = {"verb": one.verb, "about": one.about, "undone": is_undone}
        sides = {"before": asdict(one.before), "after": asdict(one.after)}
        names = sorted({name.partition("/")[2] for name in files})
        told.append({"time": when and when.isoformat(), **about, **sides, "files": names})
    return {"version": 1, "moves": told}


# -- another base --------------------------------------------------------------------


def preview(work: Workspace, aim: Goal) -> None:
    """Prints what would become of every change; moves nothing."""
    assert aim.base is not None
    found = applying.findings(work, aim.base, aim)
    say(f"The series on {aim.onto} ({aim.base[:12]})")
    rows = []
    for one in found:
        at = one.similarity
        hunks = sum(count for _, count in one.files)
        conflicts = (str(len(one.files)), str(hunks)) if one.files else ("", "")
        has = (f"{at.files_there} of {at.files}", f"{at.share:.0%}") if at else ("", "")
        rows.append((one.change.id, one.fit.value, *conflicts, *has))
    show_table(("change", "result", "files", "hunks", "new files", "lines"), rows)
    say("files, hunks: in conflict; new files, lines: what the base has of those the change adds")
    for one in found:
        for file, hunks in one.files:
            say(f"{one.change.id}: {file}: {f'{hunks} hunk(s)' if hunks else 'the whole file'}")
    counts = Counter(one.fit for one in found)
    words = ", ".join(f"{counts[fit]} {fit.value}" for fit in Fit if counts[fit])
    say(f"{len(found)} change(s): {words or 'none'}")
    there = [one.change.id for one in found if one.fit is Fit.THERE]
    if other := [one.change.id for one in found if one.fit is Fit.OTHER]:
        skipping = aim.command(there + other)
        say(f"to skip those that the base has in another form too: {skipping}")
    say(f"next: {aim.command(there)}")
