"""A repository on GitHub: its branches, by git, and its pull requests, by ghstack's endpoint.

Note [ghstack beside the checkout]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
ghstack writes two trailers into the commits that it has submitted, the pull
request and a source id, and moves HEAD to commits of its own. Were the series'
commits to carry them, their ids would depend on who submitted what and when,
and a commit that lost them in a rebase would open a second pull request.

So the series' commits never have them. What ghstack is to know is kept in the
record (../report/pull_requests.py) and is put into a chain of commits made for this one run, in
a repository that has the checkout's objects by reference and its own refs,
index and HEAD. There ghstack runs, fetches and pushes. The checkout is only
read: neither its branches nor its view of the remote change, whatever happens.
"""

import asyncio
import configparser
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import ghstack.config
import ghstack.github
import ghstack.github_real
import ghstack.github_utils
import ghstack.shell

from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.errors import MissingError, ToolError
from xpu_stack.core.system.git import CommitId, Repository
from xpu_stack.report.sending import borrowed


@dataclass(frozen=True)
class Account:
    """Who submits, where to, and the way there."""

    username: str
    host: str  # github.com, or a company's own
    remote: str
    endpoint: ghstack.github.GitHubEndpoint


def configured(checkout: Path) -> Account:
    """The account that ghstack would use in this checkout, without ever asking a person."""
    before = Path.cwd()
    os.chdir(checkout)  # ghstack looks for its file from the current folder upwards
    try:
        path, _ = ghstack.config.find_config_path()
        written = configparser.ConfigParser()
        written.read(path)
        # What is missing, ghstack asks for at the terminal, or in a browser.
        wanted = {"github_url", "github_username"}
        if not ghstack.config.is_gh_cli_available() and "OAUTH_TOKEN" not in os.environ:
            wanted.add("github_oauth")
        missing = [name for name in sorted(wanted) if not written.has_option("ghstack", name)]
        if missing:
            raise MissingError(
                "ghstack is not configured.",
                why=f"{path} lacks {', '.join(missing)} in [ghstack]",
                next=f"write them into {path}; a token needs the scope 'repo'",
            )
        config = ghstack.config.read_config()
    finally:
        os.chdir(before)
    endpoint = ghstack.github_real.RealGitHubEndpoint(
        oauth_token=config.github_oauth,
        proxy=config.proxy,
        github_url=config.github_url,
        max_retries=config.max_retries,
        initial_backoff_seconds=config.initial_backoff_seconds,
    )
    return Account(config.github_username, config.github_url, config.remote_name, endpoint)


@contextmanager
def beside(checkout: Repository) -> Iterator[Repository]:
    """A repository with the checkout's objects, remotes and settings, for ghstack to work in."""
    with borrowed(checkout) as repository:
        # The person's remotes, addresses, credentials and name, and then what
        # makes this a repository of its own.
        config = repository.git_path("config")
        own = config.read_text()
        config.write_text(f"[include]\n\tpath = {checkout.git_path('config')}\n{own}")
        repository.run("config", "core.worktree", str(repository.folder))
        # after a fetch git would tidy up in the background, while the folder goes
        repository.run("config", "maintenance.auto", "false")
        yield repository


_PAGE = 100  # the most that GitHub lists at once


@dataclass(frozen=True)
class PullRequest:
    """A pull request. head and base: names of branches."""

    number: int
    url: str
    open: bool
    title: str
    body: str
    head: str
    base: str
    owner: str  # of the repository that has `head`; "" where that is gone


@dataclass(frozen=True)
class Remote:
    """What a remote of the checkout is on GitHub, and its branches as `repository` sees them."""

    account: Account
    repository: Repository  # see Note [ghstack beside the checkout]
    checkout: Path
    remote: str
    owner: str
    name: str
    is_fork: bool
    default_branch: str

    @classmethod
    async def of(
        cls, account: Account, repository: Repository, checkout: Path, remote: str
    ) -> "Remote":
        told = await _told(
            ghstack.github_utils.get_github_repo_info(
                github=account.endpoint,
                sh=ghstack.shell.Shell(quiet=True, cwd=str(repository.folder)),
                github_url=account.host,
                remote_name=remote,
            )
        )
        whole, facts = told["name_with_owner"], (told["is_fork"], told["default_branch"])
        return cls(account, repository, checkout, remote, whole["owner"], whole["name"], *facts)

    # -- its branches ---------------------------------------------------------

    def commit_of(self, branch: str) -> CommitId | None:
        return self.repository.commit_id(f"refs/remotes/{self.remote}/{branch}")

    def fetch(self, branches: str) -> None:
        """Brings the branches of that form up to date, such as gh/<user>/*."""
        refs = f"+refs/heads/{branches}:refs/remotes/{self.remote}/{branches}"
        # what a person's remote says of tags and of pruning is not for here
        result = self._git("fetch", "--no-tags", "--prune", "--", self.remote, refs)
        if result.code:
            raise MissingError(
                f"The remote '{self.remote}' cannot be read.",
                why=_telling(result.complaint),
                next=f"{commands.git(self.checkout, 'fetch', self.remote)} # says more",
            )

    def refuse_unwritable(self, branch: str, commit: CommitId, next: str) -> None:
        """A push that is not carried out: the remote has to agree to receive it."""
        spec = f"{commit}:refs/heads/{branch}"
        result = self._git("push", "--no-verify", "--dry-run", "--", self.remote, spec)
        if result.code:
            raise MissingError(
                f"'{self.remote}' does not let you push.", why=_telling(result.complaint), next=next
            )

    def push(self, commits: Mapping[str, CommitId], *options: str) -> None:
        """Moves branches to commits: all of it arrives, or nothing."""
        specs = [f"{commit}:refs/heads/{branch}" for branch, commit in commits.items()]
        if specs:
            result = self._git(
                "push", "--no-verify", "--atomic", *options, "--", self.remote, *specs
            )
            if result.code:
                raise interrupted(result.complaint)

    def _git(self, *words: str) -> shell.Result:
        return self.repository.run(*words, env={"GIT_TERMINAL_PROMPT": "0"}, check=False)

    # -- its pull requests ----------------------------------------------------

    def address(self, number: int) -> str:
        return f"https://{self.account.host}/{self.owner}/{self.name}/pull/{number}"

    def _path(self, number: int) -> str:
        return f"repos/{self.owner}/{self.name}/pulls/{number}"

    async def pull_requests(self, numbers: Iterable[int]) -> dict[int, PullRequest]:
        get = self.account.endpoint.aget
        asked = (_told(get(self._path(number))) for number in numbers)
        return {one["number"]: self._pull_request(one) for one in await asyncio.gather(*asked)}

    async def open_pull_requests(self) -> list[PullRequest]:
        """All that are open. GitHub's search would miss those of the last seconds."""
        found: list[PullRequest] = []
        while True:
            page = len(found) // _PAGE + 1
            path = f"repos/{self.owner}/{self.name}/pulls?state=open&per_page={_PAGE}&page={page}"
            listed = await _told(self.account.endpoint.aget(path))
            found += map(self._pull_request, listed)
            if len(listed) < _PAGE:
                return found

    async def open(self, text: str, above: str, head: str, base: str, *, draft: bool) -> int:
        """Opens a pull request; its number. head: owner:branch; text and above: as in `edit`."""
        title, _, body = text.partition("\n\n")
        told = await _told(
            self.account.endpoint.apost(
                f"repos/{self.owner}/{self.name}/pulls",
                title=title,
                body=above + body,
                head=head,
                base=base,
                draft=draft,
                maintainer_can_modify=True,
            ),
            interrupted,
        )
        return int(told["number"])

    async def edit(self, number: int, text: str, above: str) -> None:
        """Writes a pull request's text: its title and a body below the words `above`."""
        title, _, body = text.partition("\n\n")
        edit = self.account.endpoint.apatch(self._path(number), title=title, body=above + body)
        await _told(edit, interrupted)

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        def refused(said: str) -> ToolError:
            return MissingError(
                f"{', '.join(names)} could not be asked for a review of #{number}.",
                why=_one_line(said),
                next=commands.make("submit", REVIEWERS="<names on GitHub>"),
            )

        path = f"{self._path(number)}/requested_reviewers"
        await _told(self.account.endpoint.apost(path, reviewers=[*names]), refused)

    def _pull_request(self, told: Any) -> PullRequest:
        return PullRequest(
            number=told["number"],
            url=self.address(told["number"]),
            open=told["state"] == "open",
            title=told["title"],
            body=(told["body"] or "").replace("\r\n", "\n"),
            head=told["head"]["ref"],
            base=told["base"]["ref"],
            owner=(told["head"].get("user") or {}).get("login", ""),
        )


# -- what goes wrong ---------------------------------------------------------------


def _no_answer(said: str) -> ToolError:
    return MissingError(
        "GitHub gave no usable answer.",
        why=_one_line(said),
        next=f"{commands.make('submit', DRY_RUN='1')} "
        "# once the connection and the token are in order",
    )


def interrupted(said: str) -> ToolError:
    return MissingError(
        "The submission was interrupted.",
        why=_telling(said)[:200],
        next=f"{commands.make('submit')} # continues, and opens nothing twice",
    )


async def _told(call: Awaitable[Any], refused: Callable[[str], ToolError] = _no_answer) -> Any:
    """GitHub's answer. refused: the error where it cannot be reached, or says no."""
    try:
        return await call
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, RuntimeError) as error:
        raise refused(str(error).strip() or type(error).__name__) from error


def _one_line(said: str) -> str:
    return " ".join(said.splitlines())[:200]


def _telling(said: str) -> str:
    """The line of what git said that says most."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("!", "remote:", "ERROR", "fatal:"))]
    return (told or lines or ["git gave no reason"])[0]
