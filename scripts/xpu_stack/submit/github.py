"""GitHub's pull requests, as far as a submission must know them."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp
import ghstack.github
import ghstack.github_utils
import ghstack.shell

from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import MissingError, ToolError
from xpu_stack.submit.account import Account
from xpu_stack.submit.scratch import Scratch

# What ghstack's endpoint raises when GitHub cannot be reached, or says no.
FAILURES = (aiohttp.ClientError, asyncio.TimeoutError, OSError, RuntimeError)
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
    owner: str = ""  # of the repository that has `head`


@dataclass(frozen=True)
class GitHub:
    """The repository on GitHub that the checkout's remote is."""

    endpoint: ghstack.github.GitHubEndpoint
    host: str
    owner: str
    name: str
    default_branch: str

    @classmethod
    async def of(cls, account: Account, scratch: Scratch) -> "GitHub":
        info = await information(account, scratch, account.remote)
        owner, name = info["name_with_owner"]["owner"], info["name_with_owner"]["name"]
        if info["is_fork"]:
            raise ToolError(
                f"{owner}/{name} is a fork.",
                why=f"'{account.remote}' must be the repository that the changes are to land in",
                next="write remote_name = <its remote> into ~/.ghstackrc; to submit from the "
                f"fork then: {commands.make('submit', FORK=account.remote)}",
            )
        return cls(account.endpoint, account.host, owner, name, info["default_branch"])

    def address(self, number: int) -> str:
        return f"https://{self.host}/{self.owner}/{self.name}/pull/{number}"

    async def pull_requests(self, numbers: Iterable[int]) -> dict[int, PullRequest]:
        found = await asyncio.gather(*(self._get(f"pulls/{number}") for number in numbers))
        return {one["number"]: self._pull_request(one) for one in found}

    async def open_pull_requests(self) -> AsyncIterator[PullRequest]:
        """All that are open. GitHub's search would miss those of the last seconds."""
        for page in itertools.count(1):
            listed = await self._get(f"pulls?state=open&per_page={_PAGE}&page={page}")
            for one in listed:
                yield self._pull_request(one)
            if len(listed) < _PAGE:
                return

    async def open(self, title: str, body: str, head: str, base: str, *, draft: bool) -> int:
        """Opens a pull request; its number. head: owner:branch."""
        told = await self.endpoint.apost(
            f"repos/{self.owner}/{self.name}/pulls",
            title=title,
            body=body,
            head=head,
            base=base,
            draft=draft,
            maintainer_can_modify=True,
        )
        return int(told["number"])

    async def edit(self, number: int, title: str, body: str) -> None:
        path = f"repos/{self.owner}/{self.name}/pulls/{number}"
        await self.endpoint.apatch(path, title=title, body=body)

    async def ask_reviewers(self, numbers: Iterable[int], names: list[str]) -> None:
        for number in numbers:
            path = f"repos/{self.owner}/{self.name}/pulls/{number}/requested_reviewers"
            try:
                await self.endpoint.apost(path, reviewers=names)
            except FAILURES as error:
                raise MissingError(
                    f"{', '.join(names)} could not be asked for a review of #{number}.",
                    why=_said(error),
                    next=commands.make("submit", REVIEWERS="<names on GitHub>"),
                ) from error

    async def _get(self, path: str) -> Any:
        try:
            return await self.endpoint.aget(f"repos/{self.owner}/{self.name}/{path}")
        except FAILURES as error:
            raise _silent(error) from error

    def _pull_request(self, told: Any) -> PullRequest:
        return PullRequest(
            number=told["number"],
            url=self.address(told["number"]),
            open=told["state"] == "open",
            title=told["title"],
            body=(told["body"] or "").replace("\r\n", "\n"),
            head=told["head"]["ref"],
            base=told["base"]["ref"],
            owner=(told["head"].get("user") or {}).get("login", ""),  # none: the fork is gone
        )


async def information(
    account: Account, scratch: Scratch, remote: str
) -> ghstack.github_utils.GitHubRepoInfo:
    try:
        return await ghstack.github_utils.get_github_repo_info(
            github=account.endpoint,
            sh=ghstack.shell.Shell(quiet=True, cwd=str(scratch.repository.folder)),
            github_url=account.host,
            remote_name=remote,
        )
    except FAILURES as error:
        raise _silent(error) from error


def _said(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return " ".join(said)[:200] if said else type(error).__name__


def _silent(error: Exception) -> ToolError:
    return MissingError(
        "GitHub gave no usable answer.",
        why=_said(error),
        next=f"{commands.make('submit', DRY_RUN='1')} "
        "# once the connection and the token are in order",
    )
