"""What must be true of the checkout before anything is submitted.

ghstack submits whatever stands above the remote's branch, and believes what
commit messages say of pull requests. So nothing is given to it but the series'
own commits, and messages that it would misread are refused.
"""

import re

import ghstack.diff
import ghstack.submit

from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.change import own_text, trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import MissingError, SeriesError, ToolError, UsageError
from xpu_stack.core.system.git import Commit, CommitId, Repository
from xpu_stack.submit.problems import Problems

_GHSTACK = re.compile(r"^(ghstack-source-id|Pull-Request): (.+)$", re.M)
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
    _refuse_reordered(work, there)
    _refuse_edited(there)
    _refuse_own(repository, there)
    stack.refuse_foreign(repository, there)
    _refuse_empty(repository, there)
    commits = _as_series_gives(work, there)
    for commit in commits:
        with problems.noted():
            _refuse_misread(work, commit)
    return commits if stage is None else _up_to(work, there, commits, stage)


def _refuse_damaged(repository: Repository, there: Stack) -> None:
    """A commit with half of its trailers is of the series, and no longer known as such."""
    below = repository.history(there.base, 1)
    for commit in [*(one.commit for one in there.applied), *there.foreign, *there.above, *below]:
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
    seen: dict[str, Commit] = {}
    for one in there.applied:
        lines = [match.group(0) for match in _GHSTACK.finditer(one.commit.message)]
        names = [line.split(":")[0] for line in lines]
        double = next((line for line in lines if names.count(line.split(":")[0]) > 1), None)
        double = double or next((line for line in lines if line in seen), None)
        if double:
            raise ToolError(
                f"The commit of {one.trailers.change} has the same ghstack line twice.",
                why=f"'{double}' stands "
                + (
                    "beside another of its kind"
                    if names.count(double.split(":")[0]) > 1
                    else f"in {seen[double].id[:12]} too"
                ),
                next=f"{commands.make('apply')} # gives the commits without ghstack's lines",
            )
        seen |= dict.fromkeys(lines, one.commit)


def _refuse_reordered(work: Workspace, there: Stack) -> None:
    here = _changes(there)
    order = [change.id for change in work.series.all_changes() if change.id in here]
    if sorted(here) == sorted(order) and here != order:
        raise ToolError(
            "The commits are not in the order of the series.",
            why=f"the checkout has {' '.join(here)}",
            next=f"{commands.make('export')} # adopts the order; then {commands.make('submit')}",
        )


def _refuse_edited(there: Stack) -> None:
    for one in there.applied:
        if not one.as_made and not (there.foreign or there.above):
            raise ToolError(
                f"The commit of {one.trailers.change} was changed by hand.",
                why=f"{one.commit.id[:12]} is not what the series gives",
                next=f"{commands.make('export')} # then {commands.make('submit')}",
            )


def _refuse_own(repository: Repository, there: Stack) -> None:
    if there.above:
        raise ToolError(
            f"{len(there.above)} commit(s) on the stack are of no change.",
            why=f"{stack.named(there.above[0])} would not be submitted",
            next=stack.set_aside(repository, there),
        )


def _refuse_empty(repository: Repository, there: Stack) -> None:
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
    commits = list(reversed(work.repository.history(ids[-1], len(ids))))
    here, wanted = _changes(there), [change_of(commit) for commit in commits]
    pairs = zip(there.applied, commits, strict=False)
    if here != wanted or not all(_same(one.commit, commit) for one, commit in pairs):
        raise ToolError(
            "The checkout is at another version of the series.",
            why="the series' files were edited since they were applied",
            next=f"{commands.make('apply')} # then {commands.make('submit')}",
        )
    return commits


def _same(here: Commit, given: Commit) -> bool:
    told = own_text(here.message) == own_text(given.message)
    return told and here.tree == given.tree and here.author == given.author


def _up_to(work: Workspace, there: Stack, commits: list[Commit], stage: str) -> list[Commit]:
    dropped = work.dropped
    wanted = {change.id for change in work.series.changes(stage)} - dropped
    chosen = [commit for commit in commits if change_of(commit) in wanted]
    if not chosen or len(chosen) < len(wanted):
        raise ToolError(
            f"The checkout stops before '{stage}'.",
            why=f"it is at {there.applied[-1].trailers.change}",
            next=commands.make("apply", STAGE=stage),
        )
    return chosen


def _refuse_misread(work: Workspace, commit: Commit) -> None:
    """A text in which ghstack would see something else than words."""
    for found, problem in (
        (
            ghstack.diff.PullRequestResolved.search(commit.message, r"[^/\s]+"),
            "names a pull request in the form of ghstack's trailer, which would be updated",
        ),
        ("[ghstack-poisoned]" in commit.message, "has ghstack's own mark '[ghstack-poisoned]'"),
        (
            ghstack.submit.RE_STACK.search(commit.message),
            "has a list after a line 'Stack...:', which ghstack would replace by its own",
        ),
    ):
        if found:
            change = change_of(commit)
            text = work.layout.patches / "texts" / f"{change}.md"
            raise SeriesError(text.relative_to(work.layout.repository).as_posix(), problem)


def change_of(commit: Commit) -> str:
    found = trailers(commit.message)
    assert found is not None
    return found.change


def _changes(there: Stack) -> list[str]:
    return [one.trailers.change for one in there.applied]


# -- the remote, as the checkout knows it ----------------------------------------


def refuse_unready(repository: Repository, *remotes: str) -> None:
    """Refuses a repository from which ghstack cannot make and push commits."""
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
            next=commands.git(repository.folder, "fetch", "--unshallow", remotes[0]),
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
