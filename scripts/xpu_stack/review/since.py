"""What became of each change since an earlier version of the stack.

Changes are matched by the name in their trailers, not by what git thinks alike,
so that a reordered or rewritten change is compared with itself.
"""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from xpu_stack import moves
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.git import Commit, CommitId, Repository
from xpu_stack.text import trailers

_DEEPEST = 1000
_PAIR = re.compile(r"^\s*\d+:\s+[0-9a-f]+ (=|!) \s*\d+:\s+[0-9a-f]+")


@dataclass(frozen=True)
class Since:
    """One change, then and now."""

    change: str
    title: str
    status: str  # same, changed, new, dropped
    old: CommitId | None
    moved: bool  # it stands elsewhere among the changes that both versions have
    text: str  # git's range-diff of the two where it is not empty


@dataclass(frozen=True)
class Earlier:
    """An earlier version of the stack."""

    name: str  # in a sentence
    tip: CommitId
    changes: dict[str, Commit]  # by change, oldest first


def find(repository: Repository, name: str | None, now: list[Commit]) -> Earlier | None:
    """The version that a person named, or the one before the last move.

    A move up or down the same stack leaves no earlier version: then None.
    """
    tip = repository.commit_id(name) if name else _before_last_move(repository)
    if tip is None:
        if name is None:
            return None
        raise ToolError(
            f"There is no commit '{name}' to compare with.",
            why="SINCE names the tip of an earlier version of the stack",
            next=f"git -C {repository.folder} log --oneline --all",
            code=ExitCode.USAGE,
        )
    changes = {
        found.change: commit
        for commit in reversed(repository.history(tip, _DEEPEST))
        if (found := trailers(commit.message))
    }
    if not changes and name is not None:
        raise ToolError(
            f"'{name}' holds no change of the series.",
            why=f"no commit of {tip[:12]} has the series' trailers",
            next=f"git -C {repository.folder} log {name}",
            code=ExitCode.USAGE,
        )
    ours, theirs = {commit.id for commit in now}, {commit.id for commit in changes.values()}
    if name is None and (ours <= theirs or theirs <= ours):
        return None
    return Earlier(name or "the version before", tip, changes)


def _before_last_move(repository: Repository) -> CommitId | None:
    last = moves.entry(repository, 0)
    return last.before.tip if last else None


def compare(repository: Repository, earlier: Earlier, now: dict[str, Commit]) -> list[Since]:
    """Each change of now, in order; then those that are no longer there."""
    moved = _moved(list(earlier.changes), list(now))
    result = []
    for change, commit in now.items():
        old = earlier.changes.get(change)
        title = commit.message.splitlines()[0]
        if old is None:
            result.append(Since(change, title, "new", None, False, ""))
            continue
        text = "" if old.id == commit.id else range_diff(repository, old, commit)
        status = "changed" if text else "same"
        result.append(Since(change, title, status, old.id, change in moved, text))
    for change, old in earlier.changes.items():
        if change not in now:
            title = old.message.splitlines()[0]
            result.append(Since(change, title, "dropped", old.id, False, ""))
    return result


def _moved(before: list[str], now: list[str]) -> set[str]:
    """The changes that stand outside the runs which both versions have in common."""
    a = [change for change in before if change in now]
    b = [change for change in now if change in before]
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    kept = {change for block in blocks for change in a[block.a : block.a + block.size]}
    return set(a) - kept


def range_diff(repository: Repository, old: Commit, new: Commit) -> str:
    """How the commit itself, text and patch, differs; "" where it does not."""
    text = repository.run(
        "range-diff",
        # plain text: colours are ours
        "--no-color",
        # notes are a person's own
        "--no-notes",
        # these two are the same change, however little is left of it
        "--creation-factor=999",
        f"{old.parents[0]}..{old.id}",
        f"{new.parents[0]}..{new.id}",
    ).text
    lines = text.splitlines()
    if lines and not _PAIR.match(lines[0]):
        return text.rstrip("\n")  # one has no patch at all: git's own words
    return "\n".join(_without_digest([line.removeprefix("    ") for line in lines[1:]]))


def _without_digest(lines: list[str]) -> list[str]:
    """Leaves out the digest, which differs whenever anything below does."""
    hunks: list[list[str]] = []
    for line in lines:
        if line.startswith("@@ ") or not hunks:
            hunks.append([])
        hunks[-1].append(line)
    kept = []
    for hunk in hunks:
        rest = [line for line in hunk if not re.match(r"[ +-]\s+XPU-Digest: ", line)]
        if any(line[:1] in ("+", "-") for line in rest):
            kept += rest
    return kept
