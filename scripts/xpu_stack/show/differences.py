"""What changes and edits make of the files: `make show`, `diff` and `which`.

`make show` and `make diff` find the commits or trees; git shows them.
"""

import os
import re
from pathlib import Path

from xpu_stack.core.edit import export
from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Applied, Stack
from xpu_stack.core.move.workspace import Goal, Workspace
from xpu_stack.core.resolve.merging import Merge, Stop
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ConflictError, ToolError, UsageError
from xpu_stack.core.system.git import ZERO, CommitId, Repository


def commit_of(work: Workspace, point: str | None) -> CommitId:
    """The commit of a change: the checkout's, or made beside it. None: the topmost applied."""
    there = stack.read(work.repository)
    commits = {change: one.commit.id for change, one in there.by_change.items()}
    if point is None and not commits:
        raise UsageError(
            "No change of the series is applied.",
            why=f"the checkout holds the base {there.base[:12]} alone",
            next=commands.make("show", CHANGE="<stage>/<change>"),
        )
    if point is None:
        return there.tip
    if point not in commits:
        here = [one.id for one in work.series.changes(point)]
        *_, point = (one for one in here if one == point or one not in work.series.without)
    return commits[point] if point in commits else _made(work, there, point)


def _made(work: Workspace, there: Stack, change: str) -> CommitId:
    """The commit that the series gives a change on the checkout's base."""
    dropped = work.dropped - {change}
    try:
        return applying.made_here(work, there.base, Goal(change, dropped))[-1]
    except Stop as stop:
        raise ConflictError(
            f"{change} has no commit on the checkout's base.",
            why=f"{stop.id} does not apply to {there.base[:12]}",
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
    here = list(there.by_change)
    if id_ not in here:
        raise UsageError(
            f"{id_} is not applied, so nothing of it was edited.",
            why=f"the checkout has {', '.join(here)}"
            if here
            else "the checkout holds the base alone",
            next=commands.make("show", CHANGE=id_),
        )
    edited = export.edits(work.repository, there)
    commit = export.with_edits(work.repository, there, edited)[here.index(id_)]
    change = work.series.by_id.get(id_)
    if change is None:  # a person has begun it
        return commit.parents[0], commit.tree
    # laid on the changes below as they are now, so that edits of those do not show
    old = applying.builder(work, fetch=False).attempt(commit.parents[0], change)
    return (_made(work, there, id_) if isinstance(old, Merge) else old), commit.tree


# -- which change --------------------------------------------------------------------


# as compilers write it: path, path:line, path:line:column
_PLACE = re.compile(r"(.+?)(?::(\d+))?(?::\d+)?:?\Z", re.DOTALL)


def which(work: Workspace, place: str) -> list[str]:
    """What is said of a file, or of path:line."""
    found = _PLACE.match(place)
    path, line = (found[1], found[2]) if found else (place, None)
    there = stack.read(work.repository)
    name = _in_checkout(work.repository, path)
    touching = _touching(work.repository, there, name)
    if (line or not touching) and work.repository.ask(
        "ls-files", "--error-unmatch", "--", f":(literal){name}"
    ) is None:
        raise _untracked(work.repository, name)
    if line:
        return [f"{name}:{line}: {_of_line(work, there, name, line)}"]
    told = [_of_change(work, one, name) for one in touching] or [_of_base(work, there)]
    return [f"{name}: {one}" for one in told]


def _in_checkout(repository: Repository, path: str) -> str:
    """A path as git has it; it may be absolute, or of the folder that the person is in."""
    top = repository.folder.resolve()
    for near in (Path.cwd() / path, top / path):
        full = Path(os.path.normpath(near.parent.resolve() / near.name))  # it may end in ".."
        if os.path.lexists(full) and full.is_relative_to(top):
            return full.relative_to(top).as_posix()
    if not (top / path).resolve().is_relative_to(top):
        raise _untracked(repository, path)
    return Path(path).as_posix()


def _touching(repository: Repository, there: Stack, name: str) -> list[Applied]:
    words = ("--first-parent", "--format=%H", f"{there.base}..HEAD", "--", f":(literal){name}")
    ids = set(repository.line("log", *words).split())
    return [one for one in there.applied if one.commit.id in ids]


def _of_base(work: Workspace, there: Stack) -> str:
    return f"of the base {work.base.name} ({there.base[:12]}), of no change"


def _untracked(repository: Repository, name: str) -> ToolError:
    return UsageError(
        f"git does not track {name} in the checkout.",
        why=f"a path is looked up in {repository.folder}",
        next=commands.git(repository.folder, "status"),
    )


def _of_line(work: Workspace, there: Stack, name: str, line: str) -> str:
    # a person's list of commits to skip would name another one
    words = ("--ignore-revs-file=", "--porcelain", "-L", f"{line},{line}")
    result = work.repository.run("blame", *words, f"^{there.base}", "--", name, check=False)
    if result.code:
        raise UsageError(
            f"There is no line {line} in {name}.",
            why=result.complaint.splitlines()[0].removeprefix("fatal: "),
            next=commands.make("which", FILE=name),
        )
    head, *about = result.text.splitlines()
    commit, number, *_ = head.split(" ")  # with the line's number there
    if commit == ZERO:
        touching = _touching(work.repository, there, name)
        goes = "no change touches the file yet"
        if touching:
            goes = f"{commands.make('export')} writes it to {touching[-1].trailers.change}"
        return f"an edit that is not committed; {goes}"
    if "boundary" in about:
        return _of_base(work, there)
    one = next((one for one in there.applied if one.commit.id == commit), None)
    if one is None:
        own = work.repository.commit(CommitId(commit))
        return f"your own commit {stack.named(own)}, of no change"
    then = next(one for one in about if one.startswith("filename ")).partition(" ")[2]
    return _of_change(work, one, then, f":{number}")


def _of_change(work: Workspace, one: Applied, name: str, line: str = "") -> str:
    """What a change is, and where the series keeps what its commit has of a file."""
    change, top, places = work.series.by_id.get(one.trailers.change), work.layout.repository, {}
    if change and change.patch:
        places = dict.fromkeys(change.patched_paths(), str(change.patch.relative_to(top)))
    if change:
        places |= {file.target: f"{file.source.relative_to(top)}{line}" for file in change.files}
    below = [path for path in places if Path(name) in Path(path).parents]
    if name in places:
        kept = f"kept in {places[name]}"
    elif below:
        kept = f"{len(below)} file(s) there"
    else:
        kept = f"not in the series yet: {commands.make('export')}"
    title = one.commit.message.splitlines()[0]
    return f"{one.trailers.change} '{title}' ({one.commit.id[:12]}), {kept}"
