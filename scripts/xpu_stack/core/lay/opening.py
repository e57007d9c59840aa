"""Opening a checkout for a verb: fetched if need be, whole, and locked."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from xpu_stack.core.bases import providers
from xpu_stack.core.lay import applying, search
from xpu_stack.core.move import moves, rewrite, stack
from xpu_stack.core.move.switch import Switch
from xpu_stack.core.move.workspace import RESHAPING, Workspace
from xpu_stack.core.series import base as bases
from xpu_stack.core.series.base import Base
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands, lock, transaction
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.layout import Layout

# the verbs that write the series: what they read is not written by another run
_WRITE = {"export", "undo", "redo", "continue", *RESHAPING}
# of checkouts, and of what is made from them; building.prepare links to those of a person's
_LOCKS = ("*/.git/xpu-stack/lock", "work/*/lock", "work/*/*/lock")
_T = TypeVar("_T")


@contextmanager
def opened(
    layout: Layout, base: str, source: str | None, verb: str, stage: str | None = None
) -> Iterator[Workspace]:
    """The checkout, fetched if need be, whole, and locked for this run.

    stage: what a person asks for, which is refused before any work if there is none.
    """
    with ExitStack() as held:
        if verb in _WRITE:
            held.enter_context(transaction.alone(layout, verb))
        work = _workspace(layout, base, source, verb, stage)
        held.enter_context(lock.held(_lock_file(work), verb, str(work.repository.folder)))
        _recover(work)
        if verb not in ("undo", "abort"):
            _refuse_other_base(work)
        yield work


@contextmanager
def opened_to_run(
    layout: Layout,
    base: str,
    source: str | None,
    verb: str,
    stage: str | None,
    prepare: Callable[[Workspace, bool], _T | None],
) -> Iterator[_T]:
    """What `prepare` makes in the checkout, which no run changes meanwhile; see lock.shared."""
    work = _workspace(layout, base, source, verb, stage)

    def prepared(alone: bool) -> _T | None:
        if alone:
            _recover(work)
        _refuse_other_base(work)
        return prepare(work, alone)

    what = str(work.repository.folder)
    with lock.shared(_lock_file(work), verb, what, prepared) as made:
        yield made


@contextmanager
def opened_to_read(layout: Layout, base: str, source: str | None, verb: str) -> Iterator[Workspace]:
    """The checkout for a verb that changes nothing in it.

    A build that is at work does not hold it up, and it may be on a disk that
    cannot be written: objects that are made are kept elsewhere then, for the run.
    """
    work = _workspace(layout, base, source, verb)
    with tempfile.TemporaryDirectory() as objects:
        if os.access(work.repository.object_folder, os.W_OK):
            with lock.tried(_lock_file(work), verb) as alone:
                if alone:
                    _recover(work)
        else:
            work.repository.keep_objects_in(Path(objects))
        _refuse_other_base(work)
        yield work


def _workspace(
    layout: Layout, base: str, source: str | None, verb: str, stage: str | None = None
) -> Workspace:
    loaded = Base.load(layout, base)
    series = Series.load(layout, base)
    series.point(stage)
    with lock.awaited(layout.state / "lock", verb):
        checkout = providers.checkout(layout, loaded, source)
    return Workspace(layout, loaded, series, checkout)


@contextmanager
def alone(layout: Layout, verb: str) -> Iterator[None]:
    """Keeps other runs from all that was built and checked out below the tool's own folder."""
    state = layout.state
    found = [path for one in _LOCKS for path in state.glob(one) if path.exists()]
    with ExitStack() as held:
        for path in sorted({path.resolve() for path in found}):
            held.enter_context(lock.held(path, verb, str(state)))
        yield


def _lock_file(work: Workspace) -> Path:
    return work.repository.own_folder / "lock"


def _recover(work: Workspace) -> None:
    if Switch(work.repository).recover():
        say("an earlier run was interrupted while it changed the checkout; that is now complete")
    search.recover(work.repository)
    _make_up_for(work)


def _refuse_other_base(work: Workspace) -> None:
    """Refuses a checkout that stands on another base of the series than is meant."""
    commits = {} if work.checkout.own or work.base.git.commit else bases.commits(work.layout)
    if not commits:
        return
    here = stack.read(work.repository).base
    for name, commit in commits.items():
        if work.repository.ask("merge-base", "--is-ancestor", commit, here) is not None:
            raise UsageError(
                f"This checkout is on the base {name}, not on {work.base.name}.",
                why=f"{commit[:12]}, which patches/{name}/base.yaml names, is in its history",
                next=commands.make("status", BASE=name) + " # BASE= with every command",
            )


def _make_up_for(work: Workspace) -> None:
    """Moves the checkout after an edit of the series that was cut off before its move."""
    found = rewrite.cut_off(work)
    if found is None:
        return
    operation, edit, to, base = found
    rewrite.done(work.repository)  # whatever becomes of it, it is tried once
    if to is None:
        applying.adopt(applying.of_base(work, base), edit, operation)
    else:
        moves.move(work.repository, operation, to, edit)
    verb = operation.verb
    say(f"an earlier {verb} was interrupted after it wrote the series; the checkout now follows it")
