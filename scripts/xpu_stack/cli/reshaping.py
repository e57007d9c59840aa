"""Verbs that edit the changes of the series: drop, undrop, fold, split, move, rename, edit."""

from __future__ import annotations

import click

from xpu_stack.cli.options import Call, verb
from xpu_stack.core.edit import reshape
from xpu_stack.core.lay import applying
from xpu_stack.core.move import rewrite, stack
from xpu_stack.core.move.workspace import Request, Workspace
from xpu_stack.core.series import series
from xpu_stack.core.system import console

_SHOWN = 20  # files that are listed


def say_edited(work: Workspace, edit: rewrite.Rewrite) -> None:
    """What was done to the series' files, and where the checkout is."""
    for path in list(edit.after)[:_SHOWN]:
        done = "wrote" if edit.after[path] else "removed"
        console.say(f"{done} {path.relative_to(work.layout.repository)}")
    if len(edit.after) > _SHOWN:
        console.say(f"and {len(edit.after) - _SHOWN} more")
    applying.say_result(work, stack.read(work.repository).stage or series.NO_STAGE, True)


def _needed(name: str, help: str, metavar: str = "<stage>/<change>") -> click.Option:
    return click.Option([f"--{name}"], required=True, metavar=metavar, help=help)


def _declare(name: str, help: str, *options: click.Option) -> None:
    """Declares a verb: what it does with a change, and its options beside CHANGE."""

    def run(call: Call, **given: str | bool | None) -> None:
        told = {one.upper(): "1" if text is True else text for one, text in given.items() if text}
        with call.opened() as work:
            if name == "undrop":
                edit = reshape.undrop(work, told["CHANGE"])
            else:
                edit = reshape.run(work, Request(name, told))
            say_edited(work, edit)

    verb(name, help=help, params=[_needed("change", "The change that is meant."), *options])(run)


_declare("drop", "Removes a change from the series.")
_declare("undrop", "Brings back a change that was dropped, or that this checkout skips.")
_declare(
    "fold",
    "Makes a change a part of another one; their texts are joined.",
    click.Option(
        ["--into"],
        metavar="<stage>/<change>",
        help="The change to fold it into. Default: the one below.",
    ),
)
_declare(
    "split",
    "Makes some files of a change a change of their own, with a copy of its text.",
    _needed(
        "files", "The files that the new change takes: paths, folders or patterns.", "'<path> ...'"
    ),
    _needed("name", "The new change."),
    click.Option(
        ["--title"], required=True, help="The title of the new change, in the imperative."
    ),
    click.Option(
        ["--before"], is_flag=True, help="Put the new change below the other, not above it."
    ),
)
_declare(
    "move",
    "Puts a change at another place in the series.",
    _needed("after", "What comes before it then. 'base': nothing.", "<change or stage>"),
)
_declare(
    "rename",
    "Gives a change another name; its pull request stays with it.",
    _needed("to", "Its new name."),
)
_declare("edit", "Puts the uncommitted edits into a change, and rebuilds those above it.")
