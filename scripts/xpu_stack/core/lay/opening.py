"""Opening a checkout for a verb: fetched if need be, whole, and locked.

Note [Back from a search]
~~~~~~~~~~~~~~~~~~~~~~~~~
The moves of a search (bisect) have a log of their own, which begins with where the
checkout was and goes when it is back there. A kill that cannot be caught leaves the
log: the next command, whichever it is, finds it and puts the checkout back first. When
a person has committed or switched branches since, the checkout is left alone.
"""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from xpu_stack.core.bases import providers
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.switch import Switch
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series import base as bases
from xpu_stack.core.series.base import Base
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands, lock, transaction
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.layout import Layout

# the verbs that write the series: what they read is not written by another run
_WRITE = {"export", "new", "undo", "redo", "continue"}
_WRITE |= {"drop", "undrop", "fold", "split", "move", "rename", "edit"}  # see core.edit.plan
# of checkouts, and of what is made from them; building.prepare links to those of a person's
_LOCKS = ("*/.git/xpu-stack/lock", "work/*/lock", "work/*/*/lock")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Call:
    """A verb, and the checkout that a person wants it to work on.

    pytorch_src: None: a checkout that the tool fetches. stage: refused before any work
    if there is none; None: the last.
    """

    layout: Layout
    verb: str
    base: str
    pytorch_src: str | None
    stage: str | None = None

    @contextmanager
    def opened(self, branch: str | None = None) -> Iterator[Workspace]:
        """The checkout, locked for this run. branch: of the stack, where a person names one."""
        with ExitStack() as held:
            if self.verb in _WRITE:
                held.enter_context(transaction.alone(self.layout, self.verb))
            work = self._workspace()
            held.enter_context(lock.held(_lock(work), self.verb, str(work.repository.folder)))
            _recover(work)
            if self.verb not in ("undo", "abort"):
                _refuse_other_base(work)
            if branch:
                stack.choose(work.repository, branch)
            yield work

    @contextmanager
    def opened_to_run(self, prepare: Callable[[Workspace, bool], _T | None]) -> Iterator[_T]:
        """What `prepare` makes in the checkout, which no run changes meanwhile; see lock.shared."""
        work = self._workspace()

        def prepared(alone: bool) -> _T | None:
            if alone:
                _recover(work)
            _refuse_other_base(work)
            return prepare(work, alone)

        with lock.shared(_lock(work), self.verb, str(work.repository.folder), prepared) as made:
            yield made

    @contextmanager
    def opened_to_read(self) -> Iterator[Workspace]:
        """The checkout for a verb that changes nothing in it.

        A build that is at work does not hold it up, and it may be on a disk that
        cannot be written: objects that are made are kept elsewhere then, for the run.
        """
        work = self._workspace()
        with tempfile.TemporaryDirectory() as objects:
            if os.access(work.repository.object_folders[0], os.W_OK):
                with lock.tried(_lock(work), self.verb) as alone:
                    if alone:
                        _recover(work)
            else:
                work.repository.keep_objects_in(Path(objects))
            _refuse_other_base(work)
            yield work

    def _workspace(self) -> Workspace:
        base, series = Base.load(self.layout, self.base), Series.load(self.layout, self.base)
        series.point(self.stage)
        with lock.awaited(self.layout.state / "lock", self.verb):
            repository = providers.checkout(self.layout, base, self.pytorch_src)
        return Workspace(self.layout, base, series, repository, own=not self.pytorch_src)


@contextmanager
def alone(layout: Layout, verb: str) -> Iterator[None]:
    """Keeps other runs from all that was built and checked out below the tool's own folder."""
    state = layout.state
    found = {path.resolve() for one in _LOCKS for path in state.glob(one) if path.exists()}
    with ExitStack() as held:
        for path in sorted(found):
            held.enter_context(lock.held(path, verb, str(state)))
        yield


def _lock(work: Workspace) -> Path:
    return work.repository.own_folder / "lock"


def _refuse_other_base(work: Workspace) -> None:
    """Refuses a checkout that stands on another base of the series than is meant."""
    if work.own or work.base.git.commit:
        return
    for name, commit in bases.commits(work.layout).items():
        here = stack.read(work.repository).base
        if work.repository.ask("merge-base", "--is-ancestor", commit, here) is not None:
            raise UsageError(
                f"This checkout is on the base {name}, not on {work.base.name}.",
                why=f"{commit[:12]}, which patches/{name}/base.yaml names, is in its history",
                next=commands.make("status", BASE=name) + " # BASE= with every command",
            )


def _recover(work: Workspace) -> None:
    repository = work.repository
    if Switch(repository).recover():
        say("an earlier run was interrupted while it changed the checkout; that is now complete")
    if not repository.commit_id(stack.search_log()):
        return
    now, made = moves.current(repository), moves.entries(repository)
    if now.where in (made[-1].before.where, made[0].after.where):
        _go_back(repository)
        say("an earlier search was interrupted; the checkout is back where it was before")
        return
    repository.run("update-ref", "-d", stack.search_log())
    say(
        "an earlier search was interrupted; the checkout has changed since, and is left as is: "
        f"at {now.commit[:12]}"
    )


# -- a search ------------------------------------------------------------------------


@contextmanager
def put_back(repository: Repository) -> Iterator[None]:
    """HEAD, its branch, the files and the tool's own refs are as before, afterwards."""
    conflicts.refuse_pending(repository)  # the person's; one that comes up is the search's
    start = moves.current(repository)
    moves.move(repository, moves.Operation("search"), start, log=stack.search_log())
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        # From here on a second Ctrl-C waits: going back takes a moment.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _go_back(repository)
        finally:
            signal.signal(signal.SIGINT, interrupt)
            signal.signal(signal.SIGTERM, before)


def _go_back(repository: Repository) -> None:
    start = moves.entries(repository)[-1].before
    if conflicts.pending(repository):
        conflicts.abort(repository)
    if repository.commit_id("HEAD") != start.commit:
        try:
            stack.refuse_unsafe(repository)
        except ToolError as error:
            raise ToolError(
                "The checkout could not be put back where it was before the search.",
                why=f"it was edited meanwhile: {error.why}",
                next=f"{commands.git(repository.folder, 'stash')} && "
                f"{commands.make('status')} # puts it back",
            ) from error
    with progress(None, "putting the checkout back"):
        if moves.current(repository) != start:
            moves.move(repository, moves.Operation("return"), start)
        repository.run("update-ref", "-d", stack.search_log())
