"""What would become of every change on another base: `make rebase DRY_RUN=1`."""

from collections import Counter

from xpu_stack.core.lay import applying
from xpu_stack.core.lay.survey import Finding, Fit
from xpu_stack.core.move.workspace import Goal, Workspace
from xpu_stack.core.system.console import say, show_table


def show(work: Workspace, aim: Goal) -> None:
    """Prints what would become of every change; moves nothing."""
    assert aim.base is not None
    found = applying.findings(work, aim.base, aim)
    say(f"The series on {aim.onto} ({aim.base[:12]})")
    headings = ("change", "result", "files", "hunks", "new files", "lines")
    show_table(headings, [(one.change.id, one.fit.value, *_figures(one)) for one in found])
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


def _figures(one: Finding) -> tuple[str, str, str, str]:
    files = str(len(one.files)) if one.files else ""
    hunks = str(one.hunks) if one.files else ""
    if one.similarity is None:
        return files, hunks, "", ""
    there = f"{one.similarity.files_there} of {one.similarity.files}"
    return files, hunks, there, f"{one.similarity.share:.0%}"
