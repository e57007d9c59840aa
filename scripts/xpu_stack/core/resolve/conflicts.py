"""A change that does not fit: the report, and the way on.

The checkout stays as it was. The change is laid on the fork in a work tree
beside it, with git's own conflict markers and index, where every tool for
conflicts works. `make continue` keeps the resolution with the series, see
Note [Resolutions], so that the same conflict is not asked twice.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Goal, Request, Workspace
from xpu_stack.core.resolve import resolutions
from xpu_stack.core.resolve.merging import Misfit, Stop, merge
from xpu_stack.core.resolve.resolutions import Hunks, Resolution, Resolutions
from xpu_stack.core.system import commands, files, transaction
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ConflictError, ToolError, UsageError
from xpu_stack.core.system.git import CommitId, Repository, TreeId
from xpu_stack.core.system.settings import settings


@dataclass(frozen=True)
class Pending:
    """A conflict that waits for a person.

    apart: the resolution is kept for this operation only, see `of_edit`.
    """

    goal: Goal
    change: str
    onto: CommitId
    pristine: CommitId
    worktree: Path
    branch: str  # of the stack
    apart: bool


def of_edit(repository: Repository) -> Resolutions:
    """How the conflicts of an edit of the series were resolved, until it is done.

    The change and the series are other ones then: the conflict will not come back.
    """
    folder = repository.own_folder / "resolutions"
    before = folder.with_name("answers")  # as the folder was called
    if before.exists() and not folder.exists():
        before.rename(folder)
    return Resolutions(repository, folder)


def forget_resolutions(repository: Repository) -> None:
    shutil.rmtree(of_edit(repository).folder, ignore_errors=True)


def _record(repository: Repository) -> Path:
    return repository.own_folder / "conflict.json"


def pending(repository: Repository) -> Pending | None:
    data = files.load(_record(repository))
    if data is None:
        return None
    goal = data["goal"]
    goal["dropped"] = frozenset(goal["dropped"])
    goal["request"] = Request(**goal["request"]) if goal.get("request") else None
    told = {"branch": settings().name, "apart": False, **data}  # an earlier version had neither
    return Pending(**{**told, "goal": Goal(**goal), "worktree": Path(data["worktree"])})


def refuse_pending(repository: Repository) -> None:
    waiting = pending(repository)
    if waiting is not None:
        raise ConflictError(
            f"A conflict of {waiting.change} waits to be resolved.",
            why=f"its files are in {waiting.worktree}",
            next=f"{commands.make('continue')} # or: {commands.make('abort')}",
        )


def _already_there(stop: Stop, goal: Goal, there: Mapping[str, str]) -> ToolError:
    drop = goal.command(drop=[stop.change.id, *there])
    if stop.resolved:
        ids = ", ".join(one[:12] for one in stop.resolved)
        return ConflictError(
            f"Nothing is left of change {stop.number} of {stop.of}, {stop.change.id}.",
            why=f"its conflict was resolved so before: {ids}",
            next=f"{drop} # or, to be asked again: "
            + commands.make("resolutions", FORGET=stop.resolved[0][:12]),
        )
    return ConflictError(
        f"The base already has change {stop.number} of {stop.of}, {stop.change.id}.",
        why="applied to it, the change alters nothing",
        next=drop,
        detail="\n".join(_told(there)),
    )


def _told(there: Mapping[str, str]) -> list[str]:
    return [f"{change}: {why}" for change, why in there.items()]


def report(
    work: Workspace,
    stop: Stop,
    goal: Goal,
    there: Mapping[str, str],
    *,
    apart: bool = False,
    base: str = "",
) -> ToolError:
    """Sets the work tree up and says what is in it.

    there: the changes that the base seems to have, and why; apart: the change met
    an edit of the series, and not the base; base: its name, where it is not the checkout's.
    """
    misfit, repository = stop.misfit, work.repository
    if misfit is None:
        return _already_there(stop, goal, there)
    the_base = f"this {goal.request.verb}" if apart and goal.request else "the base"
    the_base += f" on the base {base}" if base else ""
    what = f"Change {stop.number} of {stop.of}, {stop.change.id}, does not fit {the_base}."
    if misfit.pristine is None:
        return ConflictError(
            what,
            why="its files are not as in the release it was written for, "
            "which the merge needs, and which is not available here",
            next=commands.make("doctor"),
            detail=misfit.messages,
        )
    worktree = work.layout.for_checkout(repository.folder) / "conflict"
    _set_up(repository, stop.onto, misfit, worktree)
    places = [place for file in misfit.files for place in _places(worktree, file, the_base)]
    branch = stack.branch(repository)
    waiting = Pending(goal, stop.change.id, stop.onto, misfit.pristine, worktree, branch, apart)
    record = {**asdict(waiting), "worktree": str(worktree)}
    record["goal"]["dropped"] = sorted(goal.dropped)
    files.write(_record(repository), json.dumps(record))
    told = _told(there)
    if told:
        without = f"{commands.make('abort')} && {goal.command(drop=there)}"
        told += [f"to skip it: {without}", ""]
    return ConflictError(
        what,
        why=f"{len(misfit.files)} file(s) in conflict; the checkout is as it was",
        next=f"{commands.line('cd', worktree)} # resolve, git add; then: "
        f"{commands.anywhere('continue')}, or {commands.anywhere('abort')}",
        detail="\n".join([*told, *places, "", misfit.messages.strip()]).strip(),
    )


def _set_up(repository: Repository, onto: CommitId, misfit: Misfit, worktree: Path) -> None:
    assert misfit.pristine is not None
    assert misfit.merged is not None
    _remove(repository, worktree)
    worktree.parent.mkdir(parents=True, exist_ok=True)
    # Keeps the commits laid so far from git's garbage collection.
    repository.run("update-ref", _pending(), onto)
    options = ("--quiet", "--detach", "--no-checkout")
    repository.run("worktree", "add", *options, str(worktree), onto)
    work = Repository(worktree)
    changed = repository.edits_of(repository.commit(misfit.pristine))
    _fill(work, onto, [*(entry.path for entry in changed), *misfit.files, *misfit.resolved])
    # a person's own rerere would take the markers out of files that are still to be resolved
    words = ("-c", "rerere.enabled=false", "cherry-pick", "--no-commit", "--allow-empty")
    work.run(*words, misfit.pristine, check=False)
    if misfit.resolved:
        paths = [f":(literal){path}" for path in misfit.resolved]
        work.run("restore", f"--source={misfit.merged}", "--staged", "--worktree", "--", *paths)


def _fill(work: Repository, onto: CommitId, paths: list[str]) -> None:
    """Writes the folders that have `paths`: all of a large project would take seconds."""
    work.run("read-tree", onto)
    folders = {path.rpartition("/")[0] for path in paths}
    listed: dict[bool, bytes] = {True: b"", False: b""}
    for path in work.files(onto):
        listed[path.rpartition("/")[0] in folders] += os.fsencode(path) + b"\0"
    work.run("update-index", "--skip-worktree", "-z", "--stdin", input=listed[False])
    work.run("checkout-index", "--index", "-z", "--stdin", input=listed[True])


def _remove(repository: Repository, worktree: Path) -> None:
    repository.run("worktree", "remove", "--force", str(worktree), check=False)
    shutil.rmtree(worktree, ignore_errors=True)
    repository.run("worktree", "prune")


def _hunks(path: Path) -> list[str]:
    """The conflicts of a file, as first-last line numbers."""
    found, start = [], None
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.startswith(b"<<<<<<< "):
            start = number
        elif line.startswith(b">>>>>>> ") and start is not None:
            found.append(f"{start}-{number}")
            start = None
    return found


def _places(worktree: Path, file: str, the_base: str) -> list[str]:
    """What the report says of a file in conflict."""
    unmerged = Repository(worktree).run("ls-files", "--unmerged", "--", file).text.splitlines()
    stages = {line.split("\t")[0].split(" ")[2] for line in unmerged}
    if stages == {"1", "3"}:
        return [f"{file}: {the_base} has deleted it"]
    if stages == {"1", "2"}:
        return [f"{file}: the change deletes it"]
    path = worktree / file
    hunks = [f"{file}:{hunk}" for hunk in _hunks(path)] if path.is_file() else []
    return hunks or [f"{file}: no markers, see below"]


def resolve(work: Workspace, *, empty: bool = False) -> tuple[Goal, list[Resolution]]:
    """Keeps what a person made of the conflict; what to go on with, and what was kept.

    empty: a resolution that has nothing of either side is meant.
    """
    repository = work.repository
    waiting = _waiting(repository)
    stack.choose(repository, waiting.branch)
    resolved = _resolved(waiting)
    merged = merge(repository, waiting.onto, waiting.pristine)
    hunks = resolutions.hunks_of(repository, merged)
    _refuse_nothing_left(repository, waiting, hunks, resolved, empty=empty)
    request = waiting.goal.request
    stack.refuse_unsafe(repository, edits=request is not None and request.verb == "edit")
    stack.refuse_foreign(repository, stack.read(repository))
    known = of_edit(repository) if waiting.apart else resolutions.of(work)
    contents = known.record(waiting.change, merged, hunks, resolved)
    if waiting.apart:
        for path, content in contents.items():
            path.unlink(missing_ok=True)
            if content is not None:
                transaction.put(path, *content)
        _forget(repository, waiting)
        return waiting.goal, []
    transaction.write(work.layout, contents)
    _forget(repository, waiting)
    paths = list(merged.stages)
    now, before = (repository.files(tree, paths) for tree in (resolved, waiting.onto))
    for file in paths:
        if now.get(file) == before.get(file):
            say(f"{file} is as in the base: what {waiting.change} edits in it is left out")
    folders = {path.parent for path in contents}
    return waiting.goal, [one for one in resolutions.of(work).all() if one.folder in folders]


def _refuse_nothing_left(
    repository: Repository,
    waiting: Pending,
    hunks: Mapping[str, Hunks],
    resolved: TreeId,
    *,
    empty: bool,
) -> None:
    if resolved == repository.tree_of(waiting.onto) and not waiting.apart:
        raise ConflictError(
            f"Nothing of {waiting.change} is left in the resolution.",
            why="the files are as they are without the change",
            next=f"{commands.make('abort')} && {waiting.goal.command(drop=[waiting.change])} "
            f"# or put the change's edits in, git add, and {commands.make('continue')}",
        )
    places = [] if empty else resolutions.emptied(repository, hunks, resolved)
    if places:
        raise ConflictError(
            "The resolution keeps neither side of a conflict.",
            why=f"all lines were removed: {', '.join(places)}",
            next=f"put in what is missing, git add, and {commands.make('continue')}; "
            f"or, if it is meant: {commands.make('continue', EMPTY='1')}",
        )


def _resolved(waiting: Pending) -> TreeId:
    """The tree of a conflict that has been resolved."""
    work = Repository(waiting.worktree)
    if not work.folder.is_dir():
        raise ConflictError(
            f"The files of the conflict of {waiting.change} are gone.",
            why=f"there is no folder {work.folder}",
            next=f"{commands.make('abort')} "
            "# then the command that it came from: it sets them up again",
        )
    left = sorted(
        {line.split("\t", 1)[1] for line in work.run("ls-files", "--unmerged").text.splitlines()}
    )
    marked = [
        file
        for file in work.run("diff", "--name-only", "--cached", waiting.onto).text.splitlines()
        if (waiting.worktree / file).is_file() and _hunks(waiting.worktree / file)
    ]
    if left or marked:
        raise ConflictError(
            f"The conflict of {waiting.change} is not resolved yet.",
            why=f"{'unmerged' if left else 'conflict markers'} in {', '.join(left or marked)}",
            next=f"fix them, {commands.git(waiting.worktree, 'add', '<file>')}, "
            f"then: {commands.make('continue')}",
        )
    # git looks at a file that was not written, too, where a person has put it there
    work.run("-c", "core.sparseCheckout=true", "add", "--update", "--sparse")
    return TreeId(work.line("write-tree"))


def abort(repository: Repository) -> str:
    """Gives the conflict up; the checkout is as it was all the time."""
    waiting = _waiting(repository)
    _forget(repository, waiting)
    forget_resolutions(repository)
    return waiting.change


def give_up(repository: Repository) -> None:
    """Gives up a conflict if one waits: for a search, which goes around it."""
    if pending(repository) is not None:
        abort(repository)


def _waiting(repository: Repository) -> Pending:
    waiting = pending(repository)
    if waiting is None:
        raise UsageError(
            "There is no conflict to continue.",
            why="the last run left none",
            next=commands.make("status"),
        )
    return waiting


def _forget(repository: Repository, waiting: Pending) -> None:
    _record(repository).unlink()
    _remove(repository, waiting.worktree)
    for ref in (_pending(), f"refs/{settings().name}/pending"):  # the latter: of an earlier version
        repository.run("update-ref", "-d", ref)


def _pending() -> str:
    """Keeps the commits that a conflict needs."""
    return f"refs/worktree/{settings().name}/pending"
