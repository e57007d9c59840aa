"""A repository on GitHub: ghstack's own fake of the API over a real bare repository.

What the fake lacks of GitHub is added: the list of pull requests by branch, drafts,
and pull requests from a fork, whose branches are in refs/forks/<owner>/ of the fake.
Failures come where they come in life, at the network and at the push.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import ghstack.github_fake
import ghstack.shell
from ghstack.github_fake import GraphQLId
from project import Project, git
from workspace import workspace
from xpu_stack import submit
from xpu_stack.submit.plan import Plan

USER = "person"
Fault = Callable[[str, str, Callable[[], Awaitable[Any]]], Awaitable[Any]]


class Endpoint(ghstack.github_fake.FakeGitHubEndpoint):
    """The fake, with a listing, and a network that can fail."""

    fault: Fault | None = None

    def __init__(self, upstream_sh: ghstack.shell.Shell) -> None:
        super().__init__(upstream_sh)
        self.calls: list[tuple[str, str]] = []
        self.forks: dict[str, Path] = {}  # by owner
        self.drafts: set[int] = set()

    async def arest(self, method: str, path: str, **kwargs: Any) -> Any:
        async def answer() -> Any:
            listed = await self._listed(path)
            return await self._given(method, path, **kwargs) if listed is None else listed

        self.calls.append((method, path))
        return await (self.fault(method, path, answer) if self.fault else answer())

    async def _given(self, method: str, path: str, **kwargs: Any) -> Any:
        for owner, bare in self.forks.items():
            words = ("fetch", "-q", str(bare), f"+refs/heads/*:refs/forks/{owner}/*")
            assert self.state.upstream_sh is not None
            git(Path(self.state.upstream_sh.cwd), *words)
        owner, _, branch = kwargs.get("head", "").rpartition(":")
        if owner:
            kwargs["head"] = f"refs/forks/{owner}/{branch}"
        told = await super().arest(method, path, **kwargs)
        if kwargs.get("draft"):
            self.drafts.add(told["number"])
        if "head" in (told or {}):
            ref = told["head"]["ref"]
            owner, branch = ref.split("/", 3)[2:] if ref.startswith("refs/") else ("pytorch", ref)
            told["head"] = {"ref": branch, "user": {"login": owner}}
        return told

    async def _listed(self, path: str) -> list[Any] | None:
        """GET /repos/{owner}/{repo}/pulls?state=open&per_page={size}&page={number}"""
        asked = urlsplit(path)
        if not re.fullmatch(r"repos/pytorch/pytorch/pulls", asked.path) or not asked.query:
            return None
        query = parse_qs(asked.query)
        assert query["state"] == ["open"]
        size, page = int(query["per_page"][0]), int(query["page"][0])
        found = [one for one in self.state.pull_requests.values() if not one.closed]
        return [
            await self._given("get", f"{asked.path}/{one.number}")
            for one in found[(page - 1) * size : page * size]
        ]


@dataclass
class Upstream:
    """The repository that a project's stack is submitted to."""

    project: Project
    bare: Path
    endpoint: Endpoint

    @classmethod
    def make(cls, project: Project, folder: Path, base: str = "main") -> "Upstream":
        bare = folder / "github.com" / "pytorch" / "pytorch.git"
        bare.mkdir(parents=True)
        endpoint = Endpoint(ghstack.shell.Shell(quiet=True, cwd=str(bare), testing=True))
        asyncio.run(endpoint.state.initialize())
        checkout = project.checkout
        git(checkout, "config", "gc.auto", "0")  # nothing in the background
        git(checkout, "config", "user.name", "A Person")
        git(checkout, "config", "user.email", "person@example.com")
        git(checkout, "remote", "add", "origin", str(bare))
        git(checkout, "push", "-q", "--force", "origin", f"{base}:main")
        git(checkout, "fetch", "-q", "origin")
        return cls(project, bare, endpoint)

    def add_fork(self, folder: Path) -> Path:
        """The person's fork, with a remote `mine` in the checkout."""
        bare = folder / "github.com" / USER / "pytorch.git"
        git(folder, "clone", "-q", "--bare", str(self.bare), str(bare))
        git(self.project.checkout, "remote", "add", "mine", str(bare))
        state = self.endpoint.state
        state.repositories[GraphQLId("1001")] = replace(
            state.repository("pytorch", "pytorch"),
            id=GraphQLId("1001"),
            nameWithOwner=f"{USER}/pytorch",
            isFork=True,
        )
        self.endpoint.forks[USER] = bare
        return bare

    def account(self) -> submit.Account:
        return submit.Account(USER, "github.com", "origin", self.endpoint)

    def submit(self, stage: str | None = None, **asked: Any) -> Plan:
        with workspace(self.project) as work:
            return submit.submit(work, submit.Request(stage, **asked), self.account())

    def states(
        self, stage: str | None = None, *, dry: bool = True, fork: str | None = None
    ) -> dict[str, str]:
        """What a submission does with each change, by the plan."""
        plan = self.submit(stage, dry=dry, fork=fork)
        items = {item.change: item.state.value for item in plan.items}
        return items | {change: state.value for change, state, _ in plan.others}

    # -- what GitHub shows ----------------------------------------------------------

    def open(self) -> dict[int, str]:
        """The open pull requests and their titles."""
        found = self.endpoint.state.pull_requests.values()
        return {one.number: one.title for one in found if not one.closed}

    def closed(self) -> list[int]:
        found = self.endpoint.state.pull_requests.values()
        return [one.number for one in found if one.closed]

    def pull_request(self, number: int) -> ghstack.github_fake.PullRequest:
        (one,) = [one for one in self.endpoint.state.pull_requests.values() if one.number == number]
        return one

    def close(self, number: int) -> None:
        self.pull_request(number).closed = True

    def diff(self, number: int) -> str:
        """What the page of a pull request shows: from where head and base parted."""
        one = self.pull_request(number)
        return git(
            self.bare,
            "diff",
            "--no-color",
            "--full-index",
            f"{one.baseRefName}...{one.headRefName}",
        )

    def refs(self) -> str:
        return git(self.bare, "for-each-ref")

    def record(self) -> str:
        path = self.project.folder / "patches/v1.13.1/submitted.yaml"
        return path.read_text() if path.exists() else ""


def lost() -> aiohttp.ClientError:
    return aiohttp.ServerDisconnectedError()
