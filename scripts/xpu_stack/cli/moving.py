"""Verbs that move a checkout: apply, rebase, continue, abort, undo, redo, history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from xpu_stack.cli.options import (
    EPILOG,
    checkout_options,
    cli,
    json_option,
    stage_option,
)
from xpu_stack.cli.reshaping import say_edited
from xpu_stack.core.edit import reshape
from xpu_stack.core.edit import undo as undoing
from xpu_stack.core.lay import applying, opening
from xpu_stack.core.lay import rebase as rebasing
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series import series
from xpu_stack.core.system import console
from xpu_stack.core.system.layout import Layout
from xpu_stack.show import history, preview

_Command = Callable[..., Any]

_drop_option = click.option(
    "--drop", default="", help="Changes to skip, because the base already has them."
)

_branch_option = click.option(
    "--branch",
    help="The branch of the stack, where one repository has several. Default: HEAD's if it has a "
    "stack, or xpu-stack; xpu-stack-<folder> where another worktree has that checked out.",
)


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.replace(",", " ").split())


def _choose(work: Workspace, branch: str | None) -> None:
    if branch:
        stack.choose(work.repository, branch)


@cli.command(epilog=EPILOG)
@stage_option
@checkout_options
@_drop_option
@_branch_option
def apply(
    stage: str | None, base: str, pytorch_src: str | None, drop: str, branch: str | None
) -> None:
    """Moves the checkout up or down to a stage."""
    with opening.opened(Layout.current(), base, pytorch_src, "apply", stage) as work:
        chosen = work.series.point(stage)
        _choose(work, branch)
        changed = applying.apply(work, chosen, _names(drop))
        applying.say_result(work, chosen, changed)


@cli.command("rebase", epilog=EPILOG)
@click.option(
    "--onto",
    required=True,
    metavar="<ref, path or release>",
    help="The new base: a ref or commit of the checkout, the path of another checkout or source "
    "tree, or source-package:<version> (a release in patches/drift.yaml).",
)
@click.option("--stage", help="Up to and including this stage. Default: the stage that is applied.")
@checkout_options
@_drop_option
@_branch_option
@click.option("--dry-run", is_flag=True, help="Only show what would happen to each change.")
def rebase_(
    onto: str,
    stage: str | None,
    base: str,
    pytorch_src: str | None,
    drop: str,
    branch: str | None,
    dry_run: bool,
) -> None:
    """Moves the series to another base."""
    with opening.opened(Layout.current(), base, pytorch_src, "rebase") as work:
        _choose(work, branch)
        goal = rebasing.goal(work, onto, stage, _names(drop))
        if dry_run:
            preview.show(work, goal)
            return
        changed = rebasing.rebase(work, goal)
        applying.say_result(work, goal.stage, changed)


def _steps_option(what: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--steps", type=click.IntRange(1), default=1, show_default=True, help=f"How many to {what}."
    )


@cli.command("undo", epilog=EPILOG)
@_steps_option("revert")
@checkout_options
def undo_(steps: int, base: str, pytorch_src: str | None) -> None:
    """Reverts the last operation on the checkout and the series; repeated, the one before it."""
    with opening.opened(Layout.current(), base, pytorch_src, "undo") as work:
        for one in undoing.undo(work, steps):
            console.say(f"undone: {one.operation}")
        _say_where(work)


@cli.command("redo", epilog=EPILOG)
@_steps_option("do again")
@checkout_options
def redo_(steps: int, base: str, pytorch_src: str | None) -> None:
    """Does an operation again that undo has reverted."""
    with opening.opened(Layout.current(), base, pytorch_src, "redo") as work:
        for one in undoing.redo(work, steps):
            console.say(f"done again: {one.operation}")
        _say_where(work)


def _say_where(work: Workspace) -> None:
    applying.say_result(work, stack.read(work.repository).stage or series.NO_STAGE, True)


@cli.command("history", epilog=EPILOG)
@json_option
@checkout_options
def history_(as_json: bool, base: str, pytorch_src: str | None) -> None:
    """Lists the operations that undo and redo can go through."""
    with opening.opened_to_read(Layout.current(), base, pytorch_src, "history") as work:
        if as_json:
            console.print_json(history.as_json(work.repository))
        else:
            history.show(work.repository)


@cli.command("continue", epilog=EPILOG)
@checkout_options
@click.option("--empty", is_flag=True, help="Accept a resolution that keeps neither side.")
def continue_(base: str, pytorch_src: str | None, empty: bool) -> None:
    """Continues after a conflict was resolved."""
    with opening.opened(Layout.current(), base, pytorch_src, "continue") as work:
        goal, kept = conflicts.resolve(work, empty=empty)
        for one in kept:
            console.say(f"kept with the series: {one}")
        if goal.request is not None:
            say_edited(work, reshape.run(work, goal.request))
            return
        applying.refuse_unsafe(work)
        changed = applying.reach(work, goal, goal.verb)
        applying.say_result(work, goal.stage, changed)


@cli.command(epilog=EPILOG)
@checkout_options
def abort(base: str, pytorch_src: str | None) -> None:
    """Discards a conflict; the checkout stays as it is."""
    with opening.opened(Layout.current(), base, pytorch_src, "abort") as work:
        change = conflicts.abort(work.repository)
        console.say(f"the conflict of {change} is discarded; the checkout is as it was")
