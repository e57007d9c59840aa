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
from xpu_stack.core.resolve.merging import Merge, Stop, marked, merge
from xpu_stack.core.resolve.resolutions import Resolution, Resolutions
from xpu_stack.core.system import commands, files, transaction
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ConflictError, ToolError, UsageError
from xpu_stack.core.system.git import CommitId, Repository, TreeId
from xpu_stack.core.system.layout import settings


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
    return Resolutions(repository, repository.own_folder / "resolutions")


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
    told = [f"{one}: {why}" for one, why in there.items()]
    if misfit is None:
        drop = goal.command(drop=[stop.id, *there])
        if stop.resolved:
            ids = ", ".join(one[:12] for one in stop.resolved)
            return ConflictError(
                f"Nothing is left of change {stop.number} of {stop.of}, {stop.id}.",
                why=f"its conflict was resolved so before: {ids}",
                next=f"{drop} # or, to be asked again: "
                + commands.make("resolutions", FORGET=stop.resolved[0][:12]),
            )
        return ConflictError(
            f"The base already has change {stop.number} of {stop.of}, {stop.id}.",
            why="applied to it, the change alters nothing",
            next=drop,
            detail="\n".join(told),
        )
    the_base = f"this {goal.request.verb}" if apart and goal.request else "the base"
    the_base += f" on the base {base}" if base else ""
    what = f"Change {stop.number} of {stop.of}, {stop.id}, does not fit {the_base}."
    if misfit.theirs is None:
        return ConflictError(
            what,
            why="its files are not as in the release it was written for, "
            "which the merge needs, and which is not available here",
            next=commands.make("doctor"),
            detail=misfit.messages,
        )
    worktree = work.layout.for_checkout(repository.folder) / "conflict"
    _set_up(repository, stop.onto, misfit, worktree)
    branch = stack.branch(repository)
    waiting = Pending(goal, stop.id, stop.onto, misfit.theirs, worktree, branch, apart)
    record = {**asdict(waiting), "worktree": str(worktree)}
    files.write(_record(repository), json.dumps(record, default=sorted))  # a set
    if told:
        without = f"{commands.make('abort')} && {goal.command(drop=there)}"
        told += [f"to skip it: {without}", ""]
    for file, stages in misfit.stages.items():
        told += _places(worktree / file, file, set(stages), the_base)
    return ConflictError(
        what,
        why=f"{len(misfit.stages)} file(s) in conflict; the checkout is as it was",
        next=f"{commands.line('cd', worktree)} # resolve, git add; then: "
        f"{commands.anywhere('continue')}, or {commands.anywhere('abort')}",
        detail="\n".join([*told, "", misfit.messages.strip()]).strip(),
    )


def _set_up(repository: Repository, onto: CommitId, misfit: Merge, worktree: Path) -> None:
    assert misfit.theirs is not None
    _remove(repository, worktree)
    worktree.parent.mkdir(parents=True, exist_ok=True)
    # Keeps the commits laid so far from git's garbage collection.
    repository.run("update-ref", _pending(), onto)
    options = ("--quiet", "--detach", "--no-checkout")
    repository.run("worktree", "add", *options, str(worktree), onto)
    work = Repository(worktree)
    # what known resolutions have changed in the merge
    merged = merge(repository, onto, misfit.theirs).tree
    resolved = [entry.path for entry in repository.diff(merged, misfit.tree)]
    changed = repository.edits_of(repository.commit(misfit.theirs))
    # the folders that have them: to write all of a large project would take seconds
    paths = [*(entry.path for entry in changed), *misfit.stages, *resolved]
    folders = {path.rpartition("/")[0] for path in paths}
    listed: dict[bool, bytes] = {True: b"", False: b""}
    for path in work.files(onto):
        listed[path.rpartition("/")[0] in folders] += os.fsencode(path) + b"\0"
    work.run("read-tree", onto)
    work.run("update-index", "--skip-worktree", "-z", "--stdin", input=listed[False])
    work.run("checkout-index", "--index", "-z", "--stdin", input=listed[True])
    # a person's own rerere would take the markers out of files that are still to be resolved
    words = ("-c", "rerere.enabled=false", "cherry-pick", "--no-commit", "--allow-empty")
    work.run(*words, misfit.theirs, check=False)
    if resolved:
        paths = [f":(literal){path}" for path in resolved]
        work.run("restore", f"--source={misfit.tree}", "--staged", "--worktree", "--", *paths)


def _remove(repository: Repository, worktree: Path) -> None:
    repository.run("worktree", "remove", "--force", str(worktree), check=False)
    shutil.rmtree(worktree, ignore_errors=True)
    repository.run("worktree", "prune")


def _places(path: Path, file: str, stages: set[int], the_base: str) -> list[str]:
    """What the report says of a file in conflict."""
    if stages == {1, 3}:
        return [f"{file}: {the_base} has deleted it"]
    if stages == {1, 2}:
        return [f"{file}: the change deletes it"]
    hunks = marked(path.read_bytes()) if path.is_file() else []
    places = [f"{file}:{start}-{end}" for start, _, end in hunks]
    return places or [f"{file}: no markers, see below"]


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
    request = waiting.goal.request
    stack.refuse_unsafe(repository, edits=request is not None and request.verb == "edit")
    stack.refuse_foreign(repository, stack.read(repository))
    known = of_edit(repository) if waiting.apart else resolutions.of(work)
    contents, kept = known.record(waiting.change, merged, hunks, resolved), list[Resolution]()
    if waiting.apart:
        transaction.put_all(contents)
    else:
        transaction.write(work.layout, contents)
        edited = {one.path for one in repository.diff(waiting.onto, resolved)}
        for file in sorted(merged.stages.keys() - edited):
            say(f"{file} is as in the base: what {waiting.change} edits in it is left out")
        folders = {path.parent for path in contents}
        kept = [one for one in known.all() if one.folder in folders]
    _forget(repository, waiting)
    return waiting.goal, kept


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
    unmerged = work.run("ls-files", "--unmerged").text.splitlines()
    left = sorted({line.split("\t", 1)[1] for line in unmerged})
    edited = work.run("diff", "--name-only", "--cached", waiting.onto).text.splitlines()
    paths = [(name, waiting.worktree / name) for name in edited]
    named = left or [one for one, path in paths if path.is_file() and marked(path.read_bytes())]
    if named:
        raise ConflictError(
            f"The conflict of {waiting.change} is not resolved yet.",
            why=f"{'unmerged' if left else 'conflict markers'} in {', '.join(named)}",
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
    repository.run("update-ref", "-d", _pending())


def _pending() -> str:
    """Keeps the commits that a conflict needs."""
    return f"refs/worktree/{settings().name}/pending"
