"""In whose name commits leave this machine.

The series' commits are by the authors that the series names, and committed by the
series itself, so that their ids do not depend on who applies it. Those that are
sent are committed by the person who sends them. That person is also the author of
a change for which the series names no author that mail can reach.
"""

from dataclasses import dataclass

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series import authors
from xpu_stack.core.series.change import own_text, split_signatures, trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import InvalidSeriesError, MissingError
from xpu_stack.core.system.git import Commit, CommitId, Identity, Repository, TreeId


@dataclass(frozen=True)
class Publisher:
    """Who sends commits. default: the author of changes that name none."""

    sender: str
    default: str

    @classmethod
    def of(cls, work: Workspace, commits: list[Commit]) -> "Publisher":
        """The person that git's configuration names; refused if a commit cannot be sent."""
        publisher = cls(_sender(work.repository), work.series.author)
        for commit in commits:
            _refuse_unreachable(commit, publisher.author(commit))
        return publisher

    def author(self, commit: Commit) -> str:
        without = commit.author == self.default and not authors.is_reachable(commit.author)
        return self.sender if without else commit.author

    def commit(
        self,
        repository: Repository,
        like: Commit,
        parent: CommitId,
        message: str = "",
        tree: TreeId | None = None,
    ) -> CommitId:
        """A commit as it is sent, on `parent`; with another message or tree, if given."""
        author = Identity.of(self.author(like), like.when)
        who = Identity.of(self.sender, like.when)
        return repository.commit_tree(
            tree or like.tree, [parent], message or like.message, who, author
        )


def _sender(repository: Repository) -> str:
    found = authors.of_git(repository)
    if found is None or not authors.is_reachable(found):
        raise MissingError(
            "Commits cannot be sent in your name.",
            why=f"git's configuration names {found}, an address that cannot receive mail"
            if found
            else "git's configuration has no user.name or no user.email",
            next="git config --global user.name <name> && git config --global user.email <address>",
        )
    return found


def _refuse_unreachable(commit: Commit, author: str) -> None:
    told = trailers(commit.message)
    assert told is not None
    if not authors.is_reachable(author):
        raise InvalidSeriesError(
            f"The author of {told.change} has an address that cannot receive mail.",
            why=f"its commit {commit.id[:12]} is by {author}",
            next=f"correct the change's author in patches/series.yaml, then "
            f"{commands.make('apply')}",
        )
    for line in split_signatures(own_text(commit.message))[1].splitlines():
        if not authors.is_reachable(line.partition(": ")[2]):
            raise InvalidSeriesError(
                f"The text of {told.change} is signed with an address that cannot receive mail.",
                why=f"patches/texts/{told.change}.md has the line '{line}'",
                next=f"correct it there, then {commands.make('apply')}",
            )
