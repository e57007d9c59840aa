"""Verbs that edit the changes of the series: drop, undrop, fold, split, move, rename, edit."""

from __future__ import annotations

import click

from xpu_stack.cli.options import EPILOG, checkout_options, cli
from xpu_stack.core.edit import reshape
from xpu_stack.core.lay import applying, opening
from xpu_stack.core.move import goal, rewrite, stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series import series
from xpu_stack.core.system import console
from xpu_stack.core.system.layout import Layout

_SHOWN = 20  # files that are listed

_change_option = click.option(
    "--change", required=True, metavar="<stage>/<change>", help="The change that is meant."
)


def _run(verb: str, base: str, pytorch_src: str | None, **options: str | None) -> None:
    given = {name: value for name, value in options.items() if value}
    with opening.opened(Layout.current(), base, pytorch_src, verb) as work:
        say_edited(work, reshape.run(work, goal.Request(verb, given)))


def say_edited(work: Workspace, edit: rewrite.Rewrite) -> None:
    """What was done to the series' files, and where the checkout is."""
    for path in list(edit.after)[:_SHOWN]:
        done = "wrote" if edit.after[path] else "removed"
        console.say(f"{done} {path.relative_to(work.layout.repository)}")
    if len(edit.after) > _SHOWN:
        console.say(f"and {len(edit.after) - _SHOWN} more")
    applying.say_result(work, stack.read(work.repository).stage or series.NO_STAGE, True)


@cli.command(epilog=EPILOG)
@_change_option
@checkout_options
def drop(change: str, base: str, pytorch_src: str | None) -> None:
    """Removes a change from the series."""
    _run("drop", base, pytorch_src, CHANGE=change)


@cli.command(epilog=EPILOG)
@_change_option
@checkout_options
def undrop(change: str, base: str, pytorch_src: str | None) -> None:
    """Brings back a change that was dropped, or that this checkout skips."""
    with opening.opened(Layout.current(), base, pytorch_src, "undrop") as work:
        say_edited(work, reshape.undrop(work, change))


@cli.command(epilog=EPILOG)
@_change_option
@click.option(
    "--into", metavar="<stage>/<change>", help="The change to fold it into. Default: the one below."
)
@checkout_options
def fold(change: str, into: str | None, base: str, pytorch_src: str | None) -> None:
    """Makes a change a part of another one; their texts are joined."""
    _run("fold", base, pytorch_src, CHANGE=change, INTO=into)


@cli.command(epilog=EPILOG)
@_change_option
@click.option(
    "--files",
    required=True,
    metavar="'<path> ...'",
    help="The files that the new change takes: paths, folders or patterns.",
)
@click.option("--name", required=True, metavar="<stage>/<change>", help="The new change.")
@click.option("--title", required=True, help="The title of the new change, in the imperative.")
@click.option("--before", is_flag=True, help="Put the new change below the other, not above it.")
@checkout_options
def split(
    change: str,
    files: str,
    name: str,
    title: str,
    before: bool,
    base: str,
    pytorch_src: str | None,
) -> None:
    """Makes some files of a change a change of their own, with a copy of its text."""
    told = {"FILES": files, "NAME": name, "TITLE": title, "BEFORE": "1" if before else None}
    _run("split", base, pytorch_src, CHANGE=change, **told)


@cli.command(epilog=EPILOG)
@_change_option
@click.option(
    "--after",
    required=True,
    metavar="<change or stage>",
    help="What comes before it then. 'base': nothing.",
)
@checkout_options
def move(change: str, after: str, base: str, pytorch_src: str | None) -> None:
    """Puts a change at another place in the series."""
    _run("move", base, pytorch_src, CHANGE=change, AFTER=after)


@cli.command(epilog=EPILOG)
@_change_option
@click.option("--to", required=True, metavar="<stage>/<change>", help="Its new name.")
@checkout_options
def rename(change: str, to: str, base: str, pytorch_src: str | None) -> None:
    """Gives a change another name; its pull request stays with it."""
    _run("rename", base, pytorch_src, CHANGE=change, TO=to)


@cli.command(epilog=EPILOG)
@_change_option
@checkout_options
def edit(change: str, base: str, pytorch_src: str | None) -> None:
    """Puts the uncommitted edits into a change, and rebuilds those above it."""
    _run("edit", base, pytorch_src, CHANGE=change)
