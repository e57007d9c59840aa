"""A repository beside the checkout, for ghstack to work in.

Note [ghstack beside the checkout]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
ghstack writes two trailers into the commits that it has submitted, the pull
request and a source id, and moves HEAD to commits of its own. Were the series'
commits to carry them, their ids would depend on who submitted what and when,
and a commit that lost them in a rebase would open a second pull request.

So the series' commits never have them. What ghstack is to know is kept in the
record (../submitted.py) and is put into a chain of commits made for this one run, in
a repository that has the checkout's objects by reference and its own refs,
index and HEAD. There ghstack runs, fetches and pushes. The checkout is only
read: neither its branches nor its view of the remote change, whatever happens.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.errors import MissingError, ToolError
from xpu_stack.core.system.git import CommitId, Repository, TreeId


@dataclass(frozen=True)
class Scratch:
    """The repository, and the remote as it is seen from there."""

    repository: Repository
    remote: str
    checkout: Path

    def fetch(self, branches: str) -> None:
        """Brings the branches of that form up to date, such as gh/<user>/*."""
        refs = f"+refs/heads/{branches}:refs/remotes/{self.remote}/{branches}"
        result = self.repository.run(
            # what a person's remote says of tags and of pruning is not for here
            "fetch",
            "--no-tags",
            "--prune",
            "--",
            self.remote,
            refs,
            env={"GIT_TERMINAL_PROMPT": "0"},
            check=False,
        )
        if result.code:
            raise MissingError(
                f"The remote '{self.remote}' cannot be read.",
                why=_reason(result),
                next=f"{commands.git(self.checkout, 'fetch', self.remote)} # says more",
            )

    def refuse_unwritable(self, branch: str, commit: CommitId, next: str) -> None:
        """A push that is not carried out: the remote has to agree to receive it."""
        result = self._push("--dry-run", specs=[f"{commit}:refs/heads/{branch}"])
        if result.code:
            raise MissingError(
                f"'{self.remote}' does not let you push.", why=_reason(result), next=next
            )

    def push(self, *options: str, specs: list[str]) -> None:
        """All of it arrives, or nothing."""
        result = self._push("--atomic", *options, specs=specs)
        if result.code:
            raise interrupted(_reason(result))

    def _push(self, *options: str, specs: list[str]) -> shell.Result:
        words = ("push", "--no-verify", *options, "--", self.remote, *specs)
        return self.repository.run(*words, env={"GIT_TERMINAL_PROMPT": "0"}, check=False)

    def commit_of(self, branch: str) -> CommitId | None:
        return self.repository.commit_id(f"refs/remotes/{self.remote}/{branch}")

    def tree_of(self, branch: str) -> TreeId | None:
        commit = self.commit_of(branch)
        return self.repository.tree_of(commit) if commit else None

    def message_of(self, commit: CommitId) -> str:
        return self.repository.history(commit, 1)[0].message


@contextmanager
def beside(checkout: Repository, remote: str) -> Iterator[Scratch]:
    """A scratch repository with the checkout's objects, remotes and settings."""
    with tempfile.TemporaryDirectory(prefix="xpu-stack-") as name:
        repository = Repository(Path(name))
        repository.run("init", "--quiet")
        objects = repository.git_path("objects/info/alternates")
        objects.write_text(f"{checkout.git_path('objects')}\n")
        # The person's remotes, addresses, credentials and name, and then what
        # makes this a repository of its own.
        config = repository.git_path("config")
        own = config.read_text()
        config.write_text(f"[include]\n\tpath = {checkout.git_path('config')}\n{own}")
        for setting in (
            f"core.worktree={name}",
            # after a fetch git would tidy up in the background, while the
            # folder goes
            "gc.auto=0",
            "maintenance.auto=false",
        ):
            repository.run("config", *setting.split("=", 1))
        yield Scratch(repository, remote, checkout.folder)


def interrupted(why: str) -> ToolError:
    return MissingError(
        "The submission was interrupted.",
        why=why[:200],
        next=f"{commands.make('submit')} # continues, and opens nothing twice",
    )


def _reason(result: shell.Result) -> str:
    """The line of git's complaint that says most."""
    lines = result.complaint.splitlines()
    told = [line for line in lines if line.lstrip().startswith(("!", "remote:", "ERROR", "fatal:"))]
    return (told or lines or ["git gave no reason"])[0].strip()
