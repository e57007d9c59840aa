"""Versions of the series: the commits of its own repository, each to be applied."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from xpu_stack.core.lay import applying
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve.merging import Stop
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ConflictError, InvalidSeriesError, SeriesError, UsageError
from xpu_stack.core.system.git import CommitId, Repository
from xpu_stack.core.system.layout import Layout, settings


@dataclass(frozen=True)
class Version:
    """The series as a commit of its repository has it, or as it is now (no commit).

    files: a folder for its files.
    """

    work: Workspace
    commit: CommitId | None
    shown: str
    files: Path

    def open(self) -> Workspace:
        """The checkout, with this version of the series to be applied to it."""
        if self.commit is None:
            return self.work
        folder = self.files / self.commit
        if not folder.exists():
            repository = Repository(self.work.layout.repository)
            with repository.index() as env:
                repository.run("read-tree", self.commit, env=env)
                repository.run("checkout-index", "--all", f"--prefix={folder}/", env=env)
        layout = Layout(folder, self.work.layout.state)
        return applying.of_base(replace(self.work, layout=layout), self.work.base.name)


@contextmanager
def opened(work: Workspace, good: str, bad: str | None) -> Iterator[list[Version]]:
    """The versions from `good` to `bad` (none: as it is now), oldest first."""
    repository = Repository(work.layout.repository)
    if not repository.is_repository():
        raise UsageError(
            f"'{good}' is not a stage or a change.",
            why="and the series is not in a git repository, so it is not a version of it either",
            next=commands.make("status"),
        )
    first, last = _commit(repository, good), _commit(repository, bad or "HEAD")
    if repository.ask("merge-base", "--is-ancestor", first, last) is None:
        raise UsageError(
            f"The version {good} does not come before {bad or 'HEAD'}.",
            why="the search goes from GOOD up to BAD",
            next=commands.git(repository.folder, "log", "--oneline", good, bad or "HEAD"),
        )
    parts = ("--", "patches", *settings().payload)  # of the series in its own repository
    words = ("rev-list", "--reverse", "--first-parent", f"{first}..{last}", *parts)
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        found = []
        for commit in [first, *map(CommitId, repository.line(*words).split())]:
            title = repository.line("show", "-s", "--format=%h '%s'", commit)
            found.append(Version(work, commit, title, Path(name)))
        if bad is None and repository.line("status", "--porcelain", *parts):
            shown = "the series as it is now, not committed"
            found.append(Version(work, None, shown, Path(name)))
        yield found


def tip(work: Workspace, name: str, base: CommitId, top: str) -> CommitId | None:
    """What the version called `name` makes of `base`, up to the change `top` if it has that.

    None: the series' repository has no such commit. The commits are made beside the checkout.
    """
    repository = Repository(work.layout.repository)
    commit = repository.commit_id(name) if repository.is_repository() else None
    if commit is None:
        return None
    with tempfile.TemporaryDirectory(prefix="stack-") as folder:
        try:
            there = Version(work, commit, name, Path(folder)).open()
        except SeriesError as error:
            raise InvalidSeriesError(
                f"The series of {name} cannot be read.",
                why=f"{error.place}: {error.problem}",
                next=f"{commands.make('review')} # or SINCE=<a later version>",
            ) from error
        ids = [change.id for change in there.series.all_changes()]
        changes = there.series.changes(top if top in ids else there.series.stage_names[-1])
        with progress(len(changes), f"making the commits of {name}") as bar:
            try:
                return applying.builder(there).build(base, changes, there.dropped, bar)[-1]
            except Stop as stop:
                raise ConflictError(
                    f"The series of {name} does not fit the checkout's base.",
                    why=f"its change {stop.id} does not apply to {base[:12]}",
                    next=f"{commands.make('review')} # or SINCE=<another version>",
                ) from None


def _commit(repository: Repository, name: str) -> CommitId:
    found = repository.commit_id(name)
    if found is None:
        raise UsageError(
            f"'{name}' is not a stage, a change or a version of the series.",
            why="the series' repository has no such commit",
            next=f"{commands.make('status')} # or: git log --oneline -- patches",
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
