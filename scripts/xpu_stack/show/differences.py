"""The difference that a change makes, and the one that a person's edits make to it.

`make show` and `make diff` find the commits or trees; git shows them.
"""

from xpu_stack.core.edit import export
from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Goal, Workspace
from xpu_stack.core.resolve.merging import Misfit, Stop
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ConflictError, UsageError
from xpu_stack.core.system.git import CommitId


def commit_of(work: Workspace, point: str | None) -> CommitId:
    """The commit of a change: the checkout's, or made beside it. None: the topmost applied."""
    there = stack.read(work.repository)
    commits = {one.trailers.change: one.commit.id for one in there.applied}
    if point is None and not there.applied:
        raise UsageError(
            "No change of the series is applied.",
            why=f"the checkout holds the base {there.base[:12]} alone",
            next=commands.make("show", CHANGE="<stage>/<change>"),
        )
    if point is None:
        return there.tip
    if point in commits:
        return commits[point]
    here = [one.id for one in work.series.changes(point)]
    *_, change = (one for one in here if one == point or one not in work.series.without)
    return commits[change] if change in commits else _made(work, there, change)


def _made(work: Workspace, there: Stack, change: str) -> CommitId:
    """The commit that the series gives a change on the checkout's base."""
    dropped = work.dropped - {change}
    try:
        return applying.made_here(work, there.base, Goal(change, dropped))[-1]
    except Stop as stop:
        raise ConflictError(
            f"{change} has no commit on the checkout's base.",
            why=f"{stop.change.id} does not apply to {there.base[:12]}",
            next=f"{commands.make('apply', STAGE=change)} # says more",
        ) from None


def edits(work: Workspace, change: str | None) -> tuple[str, ...]:
    """What `git diff` is given to show what `make export` would write back, or of one change."""
    there = stack.read(work.repository)
    if change is not None:
        return _edits_of(work, there, change)
    if not there.applied:
        return ("HEAD",)
    made = _made(work, there, there.applied[-1].trailers.change)
    return (applying.carried(work, there, there.base, [made]),)


def _edits_of(work: Workspace, there: Stack, id_: str) -> tuple[str, str]:
    found = [one.trailers.change == id_ for one in there.applied]
    if True not in found:
        raise UsageError(
            f"{id_} is not applied, so nothing of it was edited.",
            why=f"the checkout has {', '.join(one.trailers.change for one in there.applied)}"
            if there.applied
            else "the checkout holds the base alone",
            next=commands.make("show", CHANGE=id_),
        )
    commit = export.with_edits(work.repository, there, export.edits(work.repository, there))[
        found.index(True)
    ]
    change = next((one for one in work.series.all_changes() if one.id == id_), None)
    if change is None:  # a person has begun it
        return commit.parents[0], commit.tree
    # laid on the changes below as they are now, so that edits of those do not show
    old = applying.local_builder(work).attempt(commit.parents[0], change)
    return (_made(work, there, id_) if isinstance(old, Misfit) else old), commit.tree
