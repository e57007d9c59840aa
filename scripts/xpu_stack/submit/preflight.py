"""What must be true of the checkout before anything is submitted.

ghstack submits whatever stands above the remote's branch, and believes what
commit messages say of pull requests. So nothing is given to it but the series'
own commits, and messages that it would misread are refused.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import ghstack.diff
import ghstack.submit

from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.change import own_text
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import MissingError, SeriesError, ToolError, UsageError
from xpu_stack.core.system.git import Commit, CommitId, Repository
from xpu_stack.report.sending import change_of


class Problems(list[ToolError]):
    """Errors that are collected, and raised together."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """An error in here is one of them."""
        try:
            yield
        except ToolError as error:
            self.append(error)

    def refuse(self) -> None:
        """Raises the first that was found, with the others listed above it."""
        if self:
            first, *others = self
            told = []
            for one in others:
                told += [one.detail, f"also: {one.what}\n  why: {one.why}\n  next: {one.next}"]
            first.detail = "\n".join(filter(None, [*told, first.detail]))
            raise first


# -- the checkout --------------------------------------------------------------------


_GHSTACK = re.compile(r"^((ghstack-source-id|Pull-Request): .+)$", re.M)
_OWN = ("XPU-Change", "XPU-Stage", "XPU-Digest")
_OWN_LINE = re.compile(rf"^({'|'.join(_OWN)}): ", re.M)


def commits_of_series(work: Workspace, stage: str | None, problems: Problems) -> list[Commit]:
    """The series' commits in the checkout, up to `stage`, oldest first."""
    repository = work.repository
    conflicts.refuse_pending(repository)
    with problems.noted():
        stack.refuse_unsafe(repository)
    there = stack.read(repository)
    _refuse_damaged(repository, there)
    _refuse_doubled(there)
    _refuse_altered(work, there)
    commits = _as_series_gives(work, there)
    for commit in commits:
        with problems.noted():
            _refuse_misread(commit)
    if stage is None:
        return commits
    wanted = {change.id for change in work.series.changes(stage)} - work.dropped
    chosen = [commit for commit in commits if change_of(commit) in wanted]
    if not chosen or len(chosen) < len(wanted):
        raise ToolError(
            f"The checkout stops before '{stage}'.",
            why=f"it is at {there.applied[-1].trailers.change}",
            next=commands.make("apply", STAGE=stage),
        )
    return chosen


def _refuse_damaged(repository: Repository, there: Stack) -> None:
    """A commit with half of its trailers is of the series, and no longer known as such."""
    known = len(there.applied) + len(there.foreign) + len(there.above)
    for commit in repository.history(repository.head, known + 1):
        found = _OWN_LINE.findall(commit.message)
        if found and sorted(found) != sorted(_OWN):
            title = commit.message.splitlines()[0]
            raise ToolError(
                f"The trailers of {commit.id[:12]} '{title}' are damaged.",
                why=f"it must have each of {', '.join(_OWN)} once, and has {', '.join(found)}",
                next=f"{commands.git(repository.folder, 'branch', '-m', 'mine')} && "
                f"{commands.git(repository.folder, 'switch', '--detach', '<base>')} && "
                f"{commands.make('apply')}",
            )


def _refuse_doubled(there: Stack) -> None:
    """A squash or a split by hand leaves ghstack's lines twice; it then mixes changes up."""
    lines = [(one, *told) for one in there.applied for told in _GHSTACK.findall(one.commit.message)]
    for one, line, kind in lines:
        first = next(other for other, its, _ in lines if its == line)
        where = "" if first is one else f"in {first.commit.id[:12]} too"
        if [its for other, _, its in lines if other is one].count(kind) > 1:
            where = "beside another of its kind"
        if where:
            raise ToolError(
                f"The commit of {one.trailers.change} has the same ghstack line twice.",
                why=f"'{line}' stands {where}",
                next=f"{commands.make('apply')} # gives the commits without ghstack's lines",
            )


def _refuse_altered(work: Workspace, there: Stack) -> None:
    """Refuses commits that a person has reordered, edited or added."""
    repository = work.repository
    here = [one.trailers.change for one in there.applied]
    order = [change for change in work.series.by_id if change in here]
    if sorted(here) == sorted(order) and here != order:
        raise ToolError(
            "The commits are not in the order of the series.",
            why=f"the checkout has {' '.join(here)}",
            next=f"{commands.make('export')} # adopts the order; then {commands.make('submit')}",
        )
    edited = [one for one in there.applied if not one.as_made]
    if edited and not (there.foreign or there.above):
        raise ToolError(
            f"The commit of {edited[0].trailers.change} was changed by hand.",
            why=f"{edited[0].commit.id[:12]} is not what the series gives",
            next=f"{commands.make('export')} # then {commands.make('submit')}",
        )
    if there.above:
        raise ToolError(
            f"{len(there.above)} commit(s) on the stack are of no change.",
            why=f"{stack.named(there.above[0])} would not be submitted",
            next=stack.set_aside(repository, there),
        )
    stack.refuse_foreign(repository, there)
    if not there.applied:
        raise UsageError(
            "There is nothing to submit.",
            why=f"no change of the series is applied in {repository.folder}",
            next=commands.make("apply"),
        )


def _as_series_gives(work: Workspace, there: Stack) -> list[Commit]:
    """The commits that the series gives; the checkout must have the same.

    Ids may differ by the lines that a ghstack run by hand has added.
    """
    ids = applying.given(work, there)
    commits = work.repository.history(ids[-1], len(ids))[::-1]
    here, wanted = (
        [(change_of(one), own_text(one.message), one.tree, one.author) for one in several]
        for several in ([one.commit for one in there.applied], commits)
    )
    if here != wanted:
        raise ToolError(
            "The checkout is at another version of the series.",
            why="the series' files were edited since they were applied",
            next=f"{commands.make('apply')} # then {commands.make('submit')}",
        )
    return commits


def _refuse_misread(commit: Commit) -> None:
    """A text in which ghstack would see something else than words."""
    resolved = ghstack.diff.PullRequestResolved
    problems = {
        "names a pull request in the form of ghstack's trailer, which would be updated": (
            resolved.search(commit.message, r"[^/\s]+")
        ),
        "has ghstack's own mark '[ghstack-poisoned]'": "[ghstack-poisoned]" in commit.message,
        "has a list after a line 'Stack...:', which ghstack would replace by its own": (
            ghstack.submit.RE_STACK.search(commit.message)
        ),
    }
    for problem, found in problems.items():
        if found:
            raise SeriesError(f"patches/texts/{change_of(commit)}.md", problem)


# -- the remote, as the checkout knows it ----------------------------------------


def refuse_unready(repository: Repository, *asked: str | None) -> None:
    """Refuses a repository from which ghstack cannot make and push commits to these remotes."""
    remotes = [remote for remote in asked if remote]
    for remote in remotes:
        if repository.ask("remote", "get-url", "--push", "--", remote) is None:
            raise MissingError(
                f"The checkout has no remote '{remote}'.",
                why="pull requests are made from the branches that are pushed there",
                next=f"{commands.git(repository.folder, 'remote', 'add', remote, '<address>')} && "
                + commands.git(repository.folder, "fetch", remote),
            )
    if repository.line("rev-parse", "--is-shallow-repository") == "true":
        raise ToolError(
            "The checkout is a shallow clone.",
            why="ghstack must see what the stack and the remote have in common",
            next=commands.git(repository.folder, "fetch", "--unshallow", *remotes[:1]),
        )


def tracked(repository: Repository, remote: str, branch: str, base: CommitId) -> CommitId:
    """The remote's branch as fetched last; the stack's base must be in it."""
    tip = repository.commit_id(f"refs/remotes/{remote}/{branch}")
    fetch = commands.git(repository.folder, "fetch", remote, branch)
    if tip is None:
        raise ToolError(
            f"The checkout does not know the branch '{branch}' of '{remote}'.",
            why=f"there is no {remote}/{branch}; pull requests are made against it",
            next=fetch,
        )
    if repository.run("merge-base", "--is-ancestor", base, tip, check=False).code:
        raise ToolError(
            f"The stack's base {base[:12]} is not in '{branch}' of '{remote}'.",
            why="ghstack would open a pull request for every commit that is not in it",
            next=f"{commands.make('submit', BRANCH='<the branch that has it>')} "
            f"# or first: {fetch}",
        )
    return tip
