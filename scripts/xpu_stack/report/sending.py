"""In whose name commits leave this machine.

The series' commits are by the authors that the series names, and committed by the
series itself, so that their ids do not depend on who applies it. Those that are
sent are committed by the person who sends them. That person is also the author of
a change for which the series names no author that mail can reach.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series import authors
from xpu_stack.core.series.change import own_text, split_signatures, trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import InvalidSeriesError, MissingError
from xpu_stack.core.system.git import Commit, CommitId, Repository


def sender(work: Workspace, commits: list[Commit]) -> str:
    """The person that git's configuration names; refused if a commit cannot be sent."""
    found = authors.of_git(work.repository)
    if found is None or not authors.is_reachable(found):
        raise MissingError(
            "Commits cannot be sent in your name.",
            why=f"git's configuration names {found}, an address that cannot receive mail"
            if found
            else "git's configuration has no user.name or no user.email",
            next="git config --global user.name <name> && git config --global user.email <address>",
        )
    for commit in commits:
        change = change_of(commit)
        if commit.author != work.series.author and not authors.is_reachable(commit.author):
            raise InvalidSeriesError(
                f"The author of {change} has an address that cannot receive mail.",
                why=f"its commit {commit.id[:12]} is by {commit.author}",
                next="correct the change's author in patches/series.yaml, then "
                + commands.make("apply"),
            )
        for line in split_signatures(own_text(commit.message))[1].splitlines():
            if not authors.is_reachable(line.partition(": ")[2]):
                raise InvalidSeriesError(
                    f"The text of {change} is signed with an address that cannot receive mail.",
                    why=f"patches/texts/{change}.md has the line '{line}'",
                    next=f"correct it there, then {commands.make('apply')}",
                )
    return found


def as_sent(repository: Repository, commit: Commit, sender: str, parent: CommitId) -> CommitId:
    """A commit as `sender` sends it, on `parent`."""
    author = commit.author if authors.is_reachable(commit.author) else sender
    message, when = commit.message, commit.when
    return repository.commit_tree(commit.tree, [parent], message, sender, when, author)


def change_of(commit: Commit) -> str:
    """The change that a commit of the series is of."""
    found = trailers(commit.message)
    assert found is not None
    return found.change


@contextmanager
def borrowed(checkout: Repository) -> Iterator[Repository]:
    """A new repository that has the checkout's objects, and nothing else of it."""
    with TemporaryDirectory(prefix="xpu-stack-") as name:
        repository = Repository(Path(name))
        repository.run("init", "--quiet", "--template=")
        objects = "".join(f"{folder}\n" for folder in checkout.object_folders)
        repository.git_path("objects/info/alternates").write_text(objects)
        yield repository
