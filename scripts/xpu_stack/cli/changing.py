"""Verbs that move a checkout, and those that edit the series."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click

from xpu_stack.cli.options import DEFAULT_BASE, Call, flag, names, needed, option, verb
from xpu_stack.core.bases import providers
from xpu_stack.core.edit import export as exporting
from xpu_stack.core.edit import reshape
from xpu_stack.core.lay import applying
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.workspace import Request, Workspace
from xpu_stack.core.resolve import conflicts, resolutions
from xpu_stack.core.series import series, series_file
from xpu_stack.core.series.base import base_names
from xpu_stack.core.system import commands, console, git, transaction
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.show import checking, history

_DROP = option("Changes to skip, because the base already has them.", default="")
_BRANCH = option(
    "The branch of the stack, where one repository has several. Default: HEAD's if it has a "
    "stack, or xpu-stack; xpu-stack-<folder> where another worktree has that checked out."
)


@verb("apply", stage=True)
def apply(call: Call, drop: str = _DROP, branch: str | None = _BRANCH) -> None:
    """Moves the checkout up or down to a stage."""
    with call.opened(branch) as work:
        chosen = work.series.point(call.stage)
        applying.say_result(work, chosen, applying.apply(work, chosen, frozenset(names(drop))))


@verb("rebase")
def rebase_(
    call: Call,
    onto: str = needed(
        "The new base: a ref or commit of the checkout, the path of another checkout or source "
        "tree, or source-package:<version> (a release in patches/drift.yaml).",
        "<ref, path or release>",
    ),
    stage: str | None = option(
        "Up to and including this stage. Default: the stage that is applied."
    ),
    drop: str = _DROP,
    branch: str | None = _BRANCH,
    dry_run: bool = flag("Only show what would happen to each change."),
) -> None:
    """Moves the series to another base."""
    with call.opened(branch) as work:
        goal = applying.rebase_goal(work, onto, stage, frozenset(names(drop)))
        if dry_run:
            history.preview(work, goal)
        else:
            applying.say_result(work, goal.stage, applying.reach(work, goal, "rebase"))


def _steps(help: str) -> Any:
    return option(help, type=click.IntRange(1), default=1, show_default=True)


@verb("undo")
def undo_(call: Call, steps: int = _steps("How many to revert.")) -> None:
    """Reverts the last operation on the checkout and the series; repeated, the one before it."""
    with call.opened() as work:
        for one in reshape.undo_or_redo(work, "undo", steps):
            console.say(f"undone: {one}")
        _say_where(work)


@verb("redo")
def redo_(call: Call, steps: int = _steps("How many to do again.")) -> None:
    """Does an operation again that undo has reverted."""
    with call.opened() as work:
        for one in reshape.undo_or_redo(work, "redo", steps):
            console.say(f"done again: {one}")
        _say_where(work)


def _say_where(work: Workspace) -> None:
    applying.say_result(work, stack.read(work.repository).stage or series.NO_STAGE, True)


@verb("history", json=True)
def history_(call: Call, json: bool) -> None:
    """Lists the operations that undo and redo can go through."""
    with call.opened_to_read() as work:
        if json:
            console.print_json(history.as_json(work.repository))
        else:
            history.show(work.repository)


@verb("continue")
def continue_(
    call: Call, empty: bool = flag("Accept a resolution that keeps neither side.")
) -> None:
    """Continues after a conflict was resolved."""
    with call.opened() as work:
        goal, kept = conflicts.resolve(work, empty=empty)
        for one in kept:
            console.say(f"kept with the series: {one}")
        if goal.request is not None:
            say_edited(work, reshape.run(work, goal.request))
        else:
            applying.say_result(work, goal.stage, applying.reach(work, goal, goal.verb))


@verb("abort")
def abort(call: Call) -> None:
    """Discards a conflict; the checkout stays as it is."""
    with call.opened() as work:
        change = conflicts.abort(work.repository)
        console.say(f"the conflict of {change} is discarded; the checkout is as it was")


# -- the changes of the series -------------------------------------------------------


_SHOWN = 20  # files that are listed


def say_edited(work: Workspace, edit: moves.Rewrite) -> None:
    """What was done to the series' files, and where the checkout is."""
    for path in list(edit.after)[:_SHOWN]:
        done = "wrote" if edit.after[path] else "removed"
        console.say(f"{done} {path.relative_to(work.layout.repository)}")
    if len(edit.after) > _SHOWN:
        console.say(f"and {len(edit.after) - _SHOWN} more")
    _say_where(work)


_CHANGE = "<stage>/<change>"


def _declare(name: str, help: str, /, **options: Any) -> None:
    """Declares a verb: what it does with a change, and its options beside CHANGE."""

    def run(call: Call, **given: str | bool | None) -> None:
        told = {one.upper(): "1" if text is True else text for one, text in given.items() if text}
        with call.opened() as work:
            if name == "undrop":
                say_edited(work, reshape.undrop(work, told["CHANGE"]))
            else:
                say_edited(work, reshape.run(work, Request(name, told)))

    change = needed("The change that is meant.", _CHANGE)
    verb(name, help=help, more={"change": change, **options})(run)


_declare("drop", "Removes a change from the series.")
_declare("undrop", "Brings back a change that was dropped, or that this checkout skips.")
_declare(
    "fold",
    "Makes a change a part of another one; their texts are joined.",
    into=option("The change to fold it into. Default: the one below.", metavar=_CHANGE),
)
_declare(
    "split",
    "Makes some files of a change a change of their own, with a copy of its text.",
    files=needed(
        "The files that the new change takes: paths, folders or patterns.", "'<path> ...'"
    ),
    name=needed("The new change.", _CHANGE),
    title=needed("The title of the new change, in the imperative."),
    before=flag("Put the new change below the other, not above it."),
)
_declare(
    "move",
    "Puts a change at another place in the series.",
    after=needed("What comes before it then. 'base': nothing.", "<change or stage>"),
)
_declare(
    "rename",
    "Gives a change another name; its pull request stays with it.",
    to=needed("Its new name.", _CHANGE),
)
_declare("edit", "Puts the uncommitted edits into a change, and rebuilds those above it.")


# -- the series itself ---------------------------------------------------------------


@verb("export")
def export(
    call: Call,
    like: str = option(
        "For a base that is not there yet: the base that the stack came from.",
        default=DEFAULT_BASE,
        show_default=True,
    ),
) -> None:
    """Writes edits and amended commits back into the series; with a new BASE, adds that base."""
    layout = call.layout
    there = call.base if call.base in base_names(layout) else like
    with replace(call, base=there).opened() as work:
        written = exporting.export(work, call.base)
        for path, content in written.items():
            verb = "removed" if content is None else "wrote"
            console.say(f"{verb} {path.relative_to(layout.repository)}")
        console.say(f"{len(written)} file(s) of the series differ from before")


@verb("new")
def new_(
    call: Call,
    change: str = needed("The new change. Its stage may be new, too.", _CHANGE),
    title: str | None = option("In the imperative. Default: a line for you to fill in."),
    after: str | None = option(
        "The change or stage that comes before it. Default: the last of its stage."
    ),
) -> None:
    """Adds an empty change to the series, and its stage if that is new."""
    layout = call.layout
    with ExitStack() as held:
        work = None
        if call.pytorch_src or (layout.checkout(call.base) / ".git").exists():
            work = held.enter_context(call.opened())
        else:
            held.enter_context(transaction.alone(layout, "new"))
        contents = series_file.with_new(layout, call.base, change, title, after)
        if work:
            reshape.begin(work, change, contents)
        else:
            transaction.write(layout, contents)
    for path in contents:
        console.say(f"wrote {path.relative_to(layout.repository)}")
    apply = commands.make("apply", STAGE=change)
    console.say(f"next: {apply}, edit, git add, git commit --amend, {commands.make('export')}")


@verb("check", checkout=False, json=True)
def check(call: Call, json: bool) -> None:
    """Validates the series without touching a checkout."""
    if json:
        console.leave_output_to_a_program()
    try:
        with call.opened_to_read() as work:
            release = providers.release(work.layout, work.base, work.repository)
            changes = checking.check(work, release)
    except SeriesError as error:
        if json:
            console.print_json(checking.as_json(call.base, None, error.problems))
        raise
    if json:
        console.print_json(checking.as_json(call.base, changes))
    console.say(f"{changes} change(s) are in order")


@verb("resolutions", checkout=False)
def resolutions_(
    call: Call,
    show: str | None = option(
        "What was made of a conflict: an id, or its beginning.", metavar="<id>"
    ),
    forget: str | None = option("The next apply asks again.", metavar="<id>"),
) -> None:
    """Lists how conflicts were resolved; shows or forgets one."""
    layout, repository = call.layout, git.Repository(call.layout.repository)
    kept = resolutions.Resolutions(repository, layout.resolutions(call.base))
    if forget is not None:
        one = kept.one(forget)
        transaction.write(layout, dict.fromkeys(one.folder.glob("*")))
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
