"""Verbs for the series itself: new, export, check, resolutions."""

from dataclasses import replace

import click

from xpu_stack.cli.options import DEFAULT_BASE, Call, verb
from xpu_stack.core.bases import providers
from xpu_stack.core.edit import export as exporting
from xpu_stack.core.resolve import resolutions
from xpu_stack.core.series import new_change
from xpu_stack.core.series.base import base_names
from xpu_stack.core.system import commands, console, git, lock, transaction
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.show import checking


@verb("export")
@click.option(
    "--like",
    default=DEFAULT_BASE,
    show_default=True,
    help="For a base that is not there yet: the base that the stack came from.",
)
def export(call: Call, like: str) -> None:
    """Writes edits and amended commits back into the series; with a new BASE, adds that base."""
    layout = call.layout
    there = call.base if call.base in base_names(layout) else like
    with replace(call, base=there).opened() as work:
        written = exporting.export(work, call.base)
        for source in written:
            verb = "removed" if source.content is None else "wrote"
            console.say(f"{verb} {source.path.relative_to(layout.repository)}")
        console.say(f"{len(written)} file(s) of the series differ from before")


@verb("new", checkout=False)
@click.option(
    "--change",
    required=True,
    metavar="<stage>/<change>",
    help="The new change. Its stage may be new, too.",
)
@click.option("--title", help="In the imperative. Default: a line for you to fill in.")
@click.option(
    "--after", help="The change or stage that comes before it. Default: the last of its stage."
)
def new_(call: Call, change: str, title: str | None, after: str | None) -> None:
    """Adds an empty change to the series, and its stage if that is new."""
    layout = call.layout
    with lock.held(layout.state / "lock", "new", str(layout.state)):
        for path in new_change.begin(layout, call.base, change, title, after):
            console.say(f"wrote {path.relative_to(layout.repository)}")
    apply = commands.make("apply", STAGE=change)
    console.say(f"next: {apply}, edit, git add, git commit --amend, {commands.make('export')}")


@verb("check", checkout=False, json=True)
def check(call: Call, as_json: bool) -> None:
    """Validates the series without touching a checkout."""
    if as_json:
        console.leave_output_to_a_program()
    try:
        with call.opened_to_read() as work:
            release = providers.release(work.layout, work.base, work.repository)
            changes = checking.check(work, release)
    except SeriesError as error:
        if as_json:
            console.print_json(checking.as_json(call.base, None, error.problems))
        raise
    if as_json:
        console.print_json(checking.as_json(call.base, changes, []))
    console.say(f"{changes} change(s) are in order")


@verb("resolutions", checkout=False)
@click.option(
    "--show", metavar="<id>", help="What was made of a conflict: an id, or its beginning."
)
@click.option("--forget", metavar="<id>", help="The next apply asks again.")
def resolutions_(call: Call, show: str | None, forget: str | None) -> None:
    """Lists how conflicts were resolved; shows or forgets one."""
    layout, repository = call.layout, git.Repository(call.layout.repository)
    kept = resolutions.Resolutions(repository, layout.resolutions(call.base))
    if forget is not None:
        one = kept.one(forget)
        transaction.write(layout, kept.without(one))
        console.say(f"forgotten: {one}")
    elif show is not None:
        one = kept.one(show)
        console.say(str(one))
        console.say(one.shown(repository))
        console.say(f"to change it, edit what is in {one.folder.relative_to(layout.repository)}")
    else:
        found = kept.all()
        for one in found:
            console.say(str(one))
        console.say(f"{len(found)} conflict(s) of the series on {call.base} have been resolved")
