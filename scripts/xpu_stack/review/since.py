"""What became of each change since an earlier version of the stack.

Changes are matched by the name in their trailers, not by what git thinks alike,
so that a reordered or rewritten change is compared with itself.
"""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from xpu_stack.core.move import moves
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.change import trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.git import Commit, CommitId, Repository
from xpu_stack.show import versions

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


def find(work: Workspace, name: str | None, there: Stack) -> Earlier | None:
    """The version that a person named, or the one before the last move.

    A name is that of the tip of another stack in the checkout, or of a commit
    of the series' own repository: the series as it was there. HEAD~5, which is
    in both, is the latter: in the checkout it is a part of this same stack.
    A move up or down the same stack leaves no earlier version: then None.
    """
    now = [one.commit.id for one in there.applied]
    if name is None:
        last = moves.last(work.repository)
        return _other(work.repository, last.before.tip if last else None, "the version before", now)
    found = _other(work.repository, work.repository.commit_id(name), name, now)
    if found is None:
        top = there.applied[-1].trailers.change
        tip = versions.tip(work, name, there.base, top)
        if tip is None:
            raise UsageError(
                f"'{name}' is not an earlier version of the stack.",
                why="SINCE names a commit of this repository, a version of the series, "
                "or the tip of another stack in the checkout",
                next=commands.git(work.layout.repository, "log", "--oneline"),
            )
        found = Earlier(name, tip, _changes(work.repository, tip))
    return found


def _other(
    repository: Repository, tip: CommitId | None, name: str, now: list[CommitId]
) -> Earlier | None:
    """The stack at `tip`; None where there is none, or only a part of this one, or more of it."""
    changes = _changes(repository, tip) if tip is not None else {}
    ours, theirs = set(now), {commit.id for commit in changes.values()}
    if tip is None or ours <= theirs or theirs <= ours:
        return None
    return Earlier(name, tip, changes)


def _changes(repository: Repository, tip: CommitId) -> dict[str, Commit]:
    return {
        found.change: commit
        for commit in reversed(repository.history(tip, _DEEPEST))
        if (found := trailers(commit.message))
    }


def compare(repository: Repository, earlier: Earlier, now: dict[str, Commit]) -> list[Since]:
    """Each change of now, in order; then those that are no longer there."""
    # those outside the runs which both versions have in common
    a = [change for change in earlier.changes if change in now]
    b = [change for change in now if change in earlier.changes]
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    moved = set(a) - {change for one in blocks for change in a[one.a : one.a + one.size]}
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
