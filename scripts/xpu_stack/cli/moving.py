"""Verbs that move a checkout: apply, rebase, continue, abort, undo, redo, history."""

from __future__ import annotations

import click

from xpu_stack.cli.options import Call, verb
from xpu_stack.cli.reshaping import say_edited
from xpu_stack.core.edit import reshape
from xpu_stack.core.edit import undo as undoing
from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series import series
from xpu_stack.core.system import console
from xpu_stack.show import history, preview

_COUNT = click.IntRange(1)
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


@verb("apply", stage=True)
@_drop_option
@_branch_option
def apply(call: Call, drop: str, branch: str | None) -> None:
    """Moves the checkout up or down to a stage."""
    with call.opened() as work:
        chosen = work.series.point(call.stage)
        _choose(work, branch)
        changed = applying.apply(work, chosen, _names(drop))
        applying.say_result(work, chosen, changed)


@verb("rebase")
@click.option(
    "--onto",
    required=True,
    metavar="<ref, path or release>",
    help="The new base: a ref or commit of the checkout, the path of another checkout or source "
    "tree, or source-package:<version> (a release in patches/drift.yaml).",
)
@click.option("--stage", help="Up to and including this stage. Default: the stage that is applied.")
@_drop_option
@_branch_option
@click.option("--dry-run", is_flag=True, help="Only show what would happen to each change.")
def rebase_(
    call: Call, onto: str, stage: str | None, drop: str, branch: str | None, dry_run: bool
) -> None:
    """Moves the series to another base."""
    with call.opened() as work:
        _choose(work, branch)
        goal = applying.rebase_goal(work, onto, stage, _names(drop))
        if dry_run:
            preview.show(work, goal)
            return
        changed = applying.rebase(work, goal)
        applying.say_result(work, goal.stage, changed)


@verb("undo")
@click.option("--steps", type=_COUNT, default=1, show_default=True, help="How many to revert.")
def undo_(call: Call, steps: int) -> None:
    """Reverts the last operation on the checkout and the series; repeated, the one before it."""
    with call.opened() as work:
        for one in undoing.undo(work, steps):
            console.say(f"undone: {one.operation}")
        _say_where(work)


@verb("redo")
@click.option("--steps", type=_COUNT, default=1, show_default=True, help="How many to do again.")
def redo_(call: Call, steps: int) -> None:
    """Does an operation again that undo has reverted."""
    with call.opened() as work:
        for one in undoing.redo(work, steps):
            console.say(f"done again: {one.operation}")
        _say_where(work)


def _say_where(work: Workspace) -> None:
    applying.say_result(work, stack.read(work.repository).stage or series.NO_STAGE, True)


@verb("history", json=True)
def history_(call: Call, as_json: bool) -> None:
    """Lists the operations that undo and redo can go through."""
    with call.opened_to_read() as work:
        if as_json:
            console.print_json(history.as_json(work.repository))
        else:
            history.show(work.repository)


@verb("continue")
@click.option("--empty", is_flag=True, help="Accept a resolution that keeps neither side.")
def continue_(call: Call, empty: bool) -> None:
    """Continues after a conflict was resolved."""
    with call.opened() as work:
        goal, kept = conflicts.resolve(work, empty=empty)
        for one in kept:
            console.say(f"kept with the series: {one}")
        if goal.request is not None:
            say_edited(work, reshape.run(work, goal.request))
            return
        applying.refuse_unsafe(work)
        changed = applying.reach(work, goal, goal.verb)
        applying.say_result(work, goal.stage, changed)


@verb("abort")
def abort(call: Call) -> None:
    """Discards a conflict; the checkout stays as it is."""
    with call.opened() as work:
        change = conflicts.abort(work.repository)
        console.say(f"the conflict of {change} is discarded; the checkout is as it was")
