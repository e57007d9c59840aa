"""The series on another base: the verb rebase."""

from xpu_stack.core.bases import onto
from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.goal import Goal
from xpu_stack.core.move.workspace import Workspace


def goal(work: Workspace, name: str, stage: str | None, drop: frozenset[str]) -> Goal:
    """What a rebase onto `name` is to reach.

    Without a stage that is asked for: the one that the checkout has, or all.
    What DROP= said on the old base does not count on the new one: each has its own.
    """
    chosen = stage or _point(work)
    work.series.changes(chosen)  # refuses a stage that is not there, before any work
    base = onto.resolve(work.layout, work.repository, name)
    return Goal(chosen, applying.known(work, drop) | work.series.without, base, name)


def _point(work: Workspace) -> str:
    """The stage that the checkout has, or the change, where it has a part of one."""
    applied = stack.read(work.repository).applied
    if not applied:
        return work.series.stage_names[-1]
    last = applied[-1].trailers
    ids = [change.id for change in work.series.changes(last.stage)]
    rest = ids[ids.index(last.change) + 1 :] if last.change in ids else []
    return last.stage if set(rest) <= work.dropped else last.change


def rebase(work: Workspace, aim: Goal) -> bool:
    """Moves the stack; whether anything had to be done."""
    applying.refuse_unsafe(work)
    return applying.reach(work, aim, "rebase")
