"""`make which`: the change that a file or a line of the checkout comes from, by git blame."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Applied, Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import ZERO, CommitId, Repository

# as compilers write it: path, path:line, path:line:column
_PLACE = re.compile(r"(.+?)(?::(\d+))?(?::\d+)?:?\Z", re.DOTALL)


def which(work: Workspace, place: str) -> list[str]:
    """What is said of a file, or of path:line."""
    found = _PLACE.match(place)
    path, line = (found[1], found[2]) if found else (place, None)
    there = stack.read(work.repository)
    name = _in_checkout(work.repository, path)
    if line is not None:
        return [_of_line(_Series(work, there), name, int(line))]
    touching = _touching(work.repository, there, name)
    if not touching:
        _refuse_untracked(work.repository, name)
        return [f"{name}: {_base(work, there)}"]
    series = _Series(work, there)
    return [f"{name}: {series.told(one, name)}" for one in touching]


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


def _base(work: Workspace, there: Stack) -> str:
    return f"of the base {work.base.name} ({there.base[:12]}), of no change"


def _refuse_untracked(repository: Repository, name: str) -> None:
    if repository.ask("ls-files", "--error-unmatch", "--", f":(literal){name}") is None:
        raise _untracked(repository, name)


def _untracked(repository: Repository, name: str) -> ToolError:
    return UsageError(
        f"git does not track {name} in the checkout.",
        why=f"a path is looked up in {repository.folder}",
        next=commands.git(repository.folder, "status"),
    )


def _of_line(series: "_Series", name: str, line: int) -> str:
    work, there = series.work, series.there
    _refuse_untracked(work.repository, name)
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
    commit, number, *_ = head.split(" ")
    then = next(one for one in about if one.startswith("filename ")).partition(" ")[2]
    return f"{name}:{line}: {_of_commit(series, commit, name, then, number, 'boundary' in about)}"


def _of_commit(
    series: "_Series", commit: str, name: str, then: str, number: str, boundary: bool
) -> str:
    """then, number: the file's name in that commit, and the line's number."""
    work, there = series.work, series.there
    if commit == ZERO:
        touching = _touching(work.repository, there, name)
        goes = (
            f"{commands.make('export')} writes it to {touching[-1].trailers.change}"
            if touching
            else ""
        )
        return f"an edit that is not committed; {goes or 'no change touches the file yet'}"
    if boundary:
        return _base(work, there)
    one = next((one for one in there.applied if one.commit.id == commit), None)
    if one is None:
        (own,) = work.repository.history(CommitId(commit), 1)
        return f"your own commit {stack.named(own)}, of no change"
    return series.told(one, then, number)


@dataclass(frozen=True)
class _Series:
    """Where the series keeps what its commits have."""

    work: Workspace
    there: Stack

    def told(self, one: Applied, name: str, line: str = "") -> str:
        title = one.commit.message.splitlines()[0]
        kept = self._kept(one.trailers.change, name, line)
        return f"{one.trailers.change} '{title}' ({one.commit.id[:12]}), {kept}"

    def _kept(self, id_: str, name: str, line: str) -> str:
        change = next((one for one in self.work.series.all_changes() if one.id == id_), None)
        if change is not None:
            top = self.work.layout.repository
            for file in change.files:
                if file.target == name:
                    return f"kept in {file.source.relative_to(top)}" + (f":{line}" if line else "")
            if change.patch is not None and name in change.patched_paths():
                return f"kept in {change.patch.relative_to(top)}"
            below = [path for path in change.touched_paths() if Path(name) in Path(path).parents]
            if below:
                return f"{len(below)} file(s) there"
        return f"not in the series yet: {commands.make('export')}"
