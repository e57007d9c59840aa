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

from dataclasses import replace

from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Commit
from xpu_stack.report.pull_requests import Entry
from xpu_stack.report.sending import change_of
from xpu_stack.submit.plan import Item, Plan, State, Way, list_of
from xpu_stack.submit.remote import PullRequest


class FromFork(Way):
    """With a branch for each change in a person's fork."""

    def _branch(self, change: str) -> str:
        return f"pr/{self.work.base.name}/{change}"

    def refuse_unready(self, commits: list[Commit]) -> None:
        self.branches.fetch(self._branch("*"))
        push = commands.git(self.branches.checkout, "push", "--dry-run", self.branches.remote)
        self.branches.refuse_unwritable(self._branch("test"), commits[0].id, f"{push} # says more")

    def decide(self, commit: Commit, one: PullRequest | None, below: list[Item]) -> Item:
        branch, fork = self._branch(change_of(commit)), self.branches
        there = fork.commit_of(branch)
        source = fork.repository.tree_of(there) if there else None
        if one is None and source and not self.is_known(commit, source):
            raise ToolError(
                f"The branch {branch} of '{fork.remote}' has other commits.",
                why=f"the tree {source[:12]} is not one that was submitted from here",
                next=commands.git(fork.checkout, "push", fork.remote, "--delete", branch),
            )
        item = super().decide(commit, one, below)
        return replace(item, unfinished=bool(one) and item.change not in self.record.changes)

    def _branches_of(self, change: str, one: PullRequest) -> tuple[str, str]:
        branch, owner = self._branch(change), self.branches.owner
        if (one.owner, one.head) != (owner, branch):
            raise ToolError(
                f"The pull request of {change} is not one that can be updated.",
                why=f"{one.url} goes from {one.owner}:{one.head}, not from {owner}:{branch}",
                next=f"{commands.make('submit')} "
                "# without FORK, or take it out of submitted.yaml for a new one",
            )
        return branch, branch

    def _state(self, commit: Commit, one: PullRequest, below: list[Item]) -> State:
        if self.branches.commit_of(one.head) != commit.id:
            return State.UPDATED
        numbers = [item.pull_request.number for item in below if item.pull_request]
        return State.UNCHANGED if list_of(one) == _header(numbers) else State.TEXT

    async def send(self, plan: Plan, *, draft: bool) -> dict[str, Entry]:
        commits = {self._branch(item.change): item.commit.id for item in plan.items}
        olds = {branch: self.branches.commit_of(branch) for branch in commits}
        moved = {branch: new for branch, new in commits.items() if new != olds[branch]}
        # one that has moved since it was looked at stays
        leases = [f"--force-with-lease=refs/heads/{one}:{olds[one] or ''}" for one in moved]
        self.branches.push(moved, *leases)
        entries: dict[str, Entry] = {}
        for item in plan.items:
            one, header = item.pull_request, _header([its.number for its in entries.values()])
            if one is None:
                head = f"{self.branches.owner}:{self._branch(item.change)}"
                number = await self.github.open(item.text, header, head, self.onto, draft=draft)
            else:
                number = one.number
                if list_of(one) != header:
                    await self.github.edit(number, item.text, header)
            entries[item.change] = Entry(self.github.address(number), item.commit.tree)
        return entries


def _header(below: list[int]) -> str:
    """below: the pull requests of the changes below, oldest first."""
    if not below:
        return ""
    numbers = ", ".join(f"#{number}" for number in below)
    return (
        f"This is on top of {numbers}, and contains those commits until they have landed: "
        "GitHub cannot stack pull requests from a fork. Review the last commit.\n\n"
    )
