"""Pull requests from a person's fork, for those who cannot push to the repository itself.

Note [Pull requests from a fork]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A pull request goes from a branch of any fork to a branch of the repository. So
it cannot stand on another pull request, whose branch is in the fork, and
ghstack refuses a fork. Here each change gets a branch of its own in the fork,
pr/<base>/<change>, that ends with the change's commit, and a pull request for
the branch in which the stack is to land. A later one contains the commits of
the earlier ones until those have landed; its text says so.

The name of the branch tells whose pull request it is. A run that was cut off
after it opened one, and before the record was written, is completed by the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import Commit, TreeId
from xpu_stack.report.pull_requests import Entry
from xpu_stack.submit import plan as planning
from xpu_stack.submit import run
from xpu_stack.submit.account import Account
from xpu_stack.submit.github import FAILURES, GitHub, PullRequest, information
from xpu_stack.submit.plan import Found, Item, Known, Plan, State
from xpu_stack.submit.preflight import change_of
from xpu_stack.submit.problems import Problems
from xpu_stack.submit.scratch import Scratch
from xpu_stack.submit.texts import Text, list_of, merged


@dataclass(frozen=True)
class Fork:
    """A person's fork. scratch: with the fork as its remote."""

    scratch: Scratch
    owner: str
    base: str

    @classmethod
    async def of(cls, account: Account, beside: Scratch, remote: str, base: str) -> "Fork":
        scratch = replace(beside, remote=remote)
        info = await information(account, scratch, remote)
        owner, name = info["name_with_owner"]["owner"], info["name_with_owner"]["name"]
        if not info["is_fork"]:
            raise UsageError(
                f"{owner}/{name} is not a fork.",
                why="FORK= names the remote of your own fork on GitHub",
                next=commands.git(scratch.checkout, "remote", "-v"),
            )
        return cls(scratch, owner, base)

    def branch(self, change: str) -> str:
        return f"pr/{self.base}/{change}"

    def refuse_unready(self, commit: Commit) -> None:
        """Brings what is known of its branches up to date; refuses one that takes no push."""
        self.scratch.fetch(self.branch("*"))
        push = commands.git(self.scratch.checkout, "push", "--dry-run", self.scratch.remote)
        self.scratch.refuse_unwritable(self.branch("test"), commit.id, f"{push} # says more")


async def make(
    commits: list[Commit], known: Known, fork: Fork, github: GitHub, problems: Problems
) -> Plan:
    """Looks at the fork and its pull requests, and decides; refuses what would end badly."""
    found = await Found.on(github, commits, known)
    items: list[Item] = []
    for commit in commits:
        with problems.noted():
            items.append(_item(commit, items, found.of(change_of(commit)), known, fork))
    return Plan(tuple(items), planning.others(items, known, found.recorded))


def _item(
    commit: Commit, below: list[Item], pull_request: PullRequest | None, known: Known, fork: Fork
) -> Item:
    change = change_of(commit)
    branch = fork.branch(change)
    there, source = fork.scratch.commit_of(branch), fork.scratch.tree_of(branch)
    if pull_request is not None:
        planning.refuse_closed(change, pull_request)
        _refuse_other(change, pull_request, fork)
        if source is None or there is None:
            raise planning.branch_is_gone(change, pull_request, branch)
        known.refuse_unknown(commit, source, pull_request, branch, fork.scratch)
        text = merged(change, commit.message, fork.scratch.message_of(there), pull_request)
        state = State.UPDATED
        if there == commit.id:
            state = planning.state_of_text(text, pull_request)
            numbers = [one.pull_request.number for one in below if one.pull_request]
            if list_of(pull_request) != _header(numbers):
                state = State.TEXT
        unfinished = change not in known.record.entries
        return Item(commit, commit.tree, state, pull_request, source, unfinished, text)
    if source is not None and not known.has(commit, source):
        raise ToolError(
            f"The branch {branch} of '{fork.scratch.remote}' has other commits.",
            why=f"the tree {source[:12]} is not one that was submitted from here",
            next=commands.git(
                fork.scratch.checkout, "push", fork.scratch.remote, "--delete", branch
            ),
        )
    return Item(commit, commit.tree, State.NEW)


def _refuse_other(change: str, pull_request: PullRequest, fork: Fork) -> None:
    if (pull_request.owner, pull_request.head) != (fork.owner, fork.branch(change)):
        raise ToolError(
            f"The pull request of {change} is not one that can be updated.",
            why=f"{pull_request.url} goes from {pull_request.owner}:{pull_request.head}, "
            f"not from {fork.owner}:{fork.branch(change)}",
            next=f"{commands.make('submit')} "
            "# without FORK, or take it out of submitted.yaml for a new one",
        )


def _header(below: list[int]) -> str:
    """below: the pull requests of the changes below, oldest first."""
    if not below:
        return ""
    numbers = ", ".join(f"#{number}" for number in below)
    return (
        f"This is on top of {numbers}, and contains those commits until they have landed: "
        "GitHub cannot stack pull requests from a fork. Review the last commit.\n\n"
    )


async def send(
    plan: Plan, fork: Fork, github: GitHub, onto: str, *, draft: bool
) -> Mapping[str, Entry]:
    """Pushes the branches, opens and updates the pull requests; those of each change."""
    _push(plan, fork)
    entries: dict[str, Entry] = {}
    below: list[int] = []
    try:
        for item in plan.items:
            text = item.text or Text.of_message(item.commit.message)
            body = _header(below) + text.rendered
            if item.pull_request is None:
                head = f"{fork.owner}:{fork.branch(item.change)}"
                number = await github.open(text.title, body, head, onto, draft=draft)
            else:
                number = item.pull_request.number
                if list_of(item.pull_request) != _header(below):
                    await github.edit(number, text.title, body)
            entries[item.change] = Entry(github.address(number), TreeId(item.commit.tree))
            below.append(number)
    except FAILURES as error:
        raise run.cut_off(str(error) or type(error).__name__) from error
    return entries


def _push(plan: Plan, fork: Fork) -> None:
    """All branches arrive, or none; one that has moved since it was looked at stays."""
    words, specs = [], []
    for item in plan.items:
        ref = f"refs/heads/{fork.branch(item.change)}"
        there = fork.scratch.commit_of(fork.branch(item.change))
        if there != item.commit.id:
            words.append(f"--force-with-lease={ref}:{there or ''}")
            specs.append(f"{item.commit.id}:{ref}")
    if specs:
        fork.scratch.push(*words, specs=specs)
