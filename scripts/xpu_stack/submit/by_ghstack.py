"""Pull requests by ghstack: the chain of commits that it is given, and its run."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import Any

import ghstack.logs
import ghstack.shell
import ghstack.submit
import ghstack.trailers

from xpu_stack.core.system import commands
from xpu_stack.core.system.console import log
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Commit, CommitId, TreeId
from xpu_stack.report.pull_requests import Entry
from xpu_stack.report.sending import as_sent, change_of
from xpu_stack.submit.plan import Item, Plan, State, Way
from xpu_stack.submit.remote import PullRequest, interrupted

_HEAD = re.compile(r"(gh/([^/]+)/[0-9]+/)head")
_MARKS = ("! [", "remote:", "fatal:")  # what git begins a complaint with


class _Shell(ghstack.shell.Shell):
    """ghstack's shell, whose pushes arrive as a whole or not at all.

    Of a base and a head that one push is to move, a remote may take one and
    reject the other; the next run would then leave the head beside its base,
    and the pull request would show the changes below it too.
    """

    async def agit(self, *args: str, **kwargs: Any) -> Any:
        if args[0] == "push":
            args = ("push", "--atomic", *args[1:])
        return await super().agit(*args, **kwargs)


class ByGhstack(Way):
    """With branches gh/<user>/<n>/base, head and orig, which has the message, in the repository."""

    def refuse_unready(self, commits: list[Commit]) -> None:
        user = self.github.account.username
        self.branches.fetch(f"gh/{user}/*")
        from_fork = commands.make("submit", FORK="<the remote of your fork>")
        access = "or get write access: ghstack pushes branches gh/<user>/... to the repository"
        base = commits[0].parents[0]
        self.branches.refuse_unwritable(f"gh/{user}/0/base", base, f"{from_fork} # {access}")

    def _branches_of(self, change: str, one: PullRequest) -> tuple[str, str]:
        head = _HEAD.fullmatch(one.head)
        here = one.owner.lower() == self.github.owner.lower()
        if not here or not head or one.base != f"{head[1]}base":
            raise ToolError(
                f"The pull request of {change} is not one that can be updated.",
                why=f"{one.url} goes from {one.head} to {one.base}, "
                "not from gh/<user>/<n>/head to gh/<user>/<n>/base",
                next=f"{commands.make('submit', FORK='<its remote>')} "
                "# if it is your fork's; or take it out of "
                f"submitted.yaml, then {commands.make('submit')} for a new one",
            )
        if self.branches.commit_of(one.head) is None:  # another person's
            self.branches.fetch(f"gh/{head[2]}/*")
        return one.head, f"{head[1]}orig"

    def _state(self, commit: Commit, one: PullRequest, _: list[Item]) -> State:
        tree_of = self.branches.repository.tree_of
        base, head = map(self.branches.commit_of, (one.base, one.head))
        shown = base and head and (tree_of(base), tree_of(head))
        same = shown == (tree_of(commit.parents[0]), commit.tree)
        return State.UNCHANGED if same else State.UPDATED

    async def send(self, plan: Plan, *, draft: bool) -> dict[str, Entry]:
        base = plan.items[0].commit.parents[0]
        repository, account, tip = self.branches.repository, self.github.account, base
        # an interrupted run has not pushed all the branches that ghstack needs
        self.branches.push(
            {
                self._branches_of(item.change, one)[1]: self._commit(item, base, item.source_id)
                for item in plan.items
                if item.unfinished and (one := item.pull_request)
            }
        )
        for item in plan.items:
            tip = self._commit(item, tip)
        repository.run("update-ref", "--no-deref", "HEAD", tip)
        with _captured() as said:
            try:
                done = await ghstack.submit.main(
                    msg=None,
                    username=account.username,
                    github=account.endpoint,
                    sh=_Shell(cwd=str(repository.folder)),
                    update_fields=False,  # the texts have been written
                    github_url=account.host,
                    remote_name=account.remote,
                    base_opt=self.onto,
                    draft=draft,
                    # one base branch for each pull request: in the direct style a
                    # reordered pair can make GitHub take one for merged
                    direct_opt=False,
                )
            except Exception as error:
                # Whatever it was: what was done is found again by the next run.
                lines = said.getvalue().splitlines()
                told = [line for line in lines if line.strip().startswith(_MARKS)]
                raise interrupted("\n".join(told) or str(error) or type(error).__name__) from error
        return {
            change_of(repository.commit(CommitId(one.orig))): Entry(
                self.github.address(int(one.number)), one.elab_diff.diff.source_id
            )
            for one in done
        }

    def _commit(self, item: Item, parent: CommitId, tree: TreeId | None = None) -> CommitId:
        """The commit of an item, or with another tree, as ghstack is to see it."""
        commit, message = item.commit, item.commit.message
        if item.pull_request:
            url = item.pull_request.url
            lines = [f"ghstack-source-id: {item.source_id}", f"Pull-Request: {url}"]
            message = ghstack.trailers.interpret_trailers(message.rstrip(), lines) + "\n"
        commit = replace(commit, message=message, tree=tree or commit.tree)
        return as_sent(self.branches.repository, commit, self.sender, parent)


@contextmanager
def _captured() -> Iterator[io.StringIO]:
    """What ghstack and its git print goes to the log file; secrets are taken out."""
    said, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(said), root.level
    handler.setFormatter(ghstack.logs.formatter)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            yield said
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        log.info("ghstack said:\n%s", said.getvalue())
