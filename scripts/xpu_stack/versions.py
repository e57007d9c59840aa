"""Versions of the series: the commits of its own repository, each to be applied."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from xpu_stack.applying import Workspace
from xpu_stack.base import Base
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.git import CommitId, Repository
from xpu_stack.layout import Layout
from xpu_stack.series import PAYLOAD_FOLDERS, Series

_PARTS = ("patches", *PAYLOAD_FOLDERS)


@dataclass(frozen=True)
class Version:
    """The series as a commit of its repository has it, or as it is now (no commit)."""

    work: Workspace
    commit: CommitId | None
    shown: str
    folder: Path

    def open(self) -> Workspace:
        """The checkout, with this version of the series to be applied to it."""
        if self.commit is None:
            return self.work
        if not self.folder.exists():
            with Repository(self.work.layout.repository).index(self.commit) as index:
                index.run("checkout-index", "--all", f"--prefix={self.folder}/")
        layout = Layout(self.folder, self.work.layout.state)
        name = self.work.base.name
        return replace(
            self.work, layout=layout, base=Base.load(layout, name), series=Series.load(layout, name)
        )


@contextmanager
def opened(work: Workspace, good: str, bad: str | None) -> Iterator[list[Version]]:
    """The versions from `good` to `bad` (none: as it is now), oldest first."""
    repository = Repository(work.layout.repository)
    if not repository.is_repository():
        raise ToolError(
            f"'{good}' is no stage and no change.",
            why="and the series is in no git repository, in which it could be a version",
            next="make status",
            code=ExitCode.USAGE,
        )
    first, last = _commit(repository, good), _commit(repository, bad or "HEAD")
    if repository.ask("merge-base", "--is-ancestor", first, last) is None:
        raise ToolError(
            f"The version {good} does not come before {bad or 'HEAD'}.",
            why="the search goes from GOOD up to BAD",
            next=f"git log --oneline {good} {bad or 'HEAD'}",
            code=ExitCode.USAGE,
        )
    folder = work.layout.for_checkout(work.repository.folder) / "versions"
    shutil.rmtree(folder, ignore_errors=True)  # of a search that was killed
    try:
        yield list(_versions(work, repository, first, last, folder, now=bad is None))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _versions(
    work: Workspace,
    repository: Repository,
    first: CommitId,
    last: CommitId,
    folder: Path,
    *,
    now: bool,
) -> Iterator[Version]:
    words = ("rev-list", "--reverse", "--first-parent", f"{first}..{last}", "--", *_PARTS)
    for commit in [first, *map(CommitId, repository.line(*words).split())]:
        title = repository.line("show", "-s", "--format=%h '%s'", commit)
        yield Version(work, commit, title, folder / commit)
    if now and repository.line("status", "--porcelain", "--", *_PARTS):
        yield Version(work, None, "the series as it is now, not committed", folder)


def _commit(repository: Repository, name: str) -> CommitId:
    found = repository.commit_id(name)
    if found is None:
        raise ToolError(
            f"'{name}' is no stage, no change and no version of the series.",
            why="the series' repository has no such commit",
            next="make status # or: git log --oneline -- patches",
            code=ExitCode.USAGE,
        )
    return found


def edited(old: Version, new: Version) -> list[str]:
    """The changes that differ between two versions."""
    before, after = (
        {change.id: change.source_digest for change in version.open().series.all_changes()}
        for version in (old, new)
    )
    ids = dict.fromkeys([*before, *after])
    return [one for one in ids if before.get(one) != after.get(one)]
