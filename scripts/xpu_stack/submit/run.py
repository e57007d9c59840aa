"""ghstack's part: the chain of commits that it is given, and its run."""

import io
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import ghstack.logs
import ghstack.shell
import ghstack.submit
import ghstack.trailers

from xpu_stack.core.series.change import trailers
from xpu_stack.core.system.console import log
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import CommitId, TreeId
from xpu_stack.report.publisher import Publisher
from xpu_stack.report.pull_requests import Entry
from xpu_stack.submit.account import Account
from xpu_stack.submit.github import FAILURES, GitHub
from xpu_stack.submit.plan import Item, Plan
from xpu_stack.submit.scratch import Scratch, interrupted
from xpu_stack.submit.texts import Text


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


def chain(plan: Plan, base: CommitId, publisher: Publisher, scratch: Scratch) -> CommitId:
    """The commits with ghstack's trailers where there is a pull request; the tip."""
    tip = base
    for item in plan.items:
        tip = publisher.commit(scratch.repository, item.commit, tip, _with_trailers(item))
    return tip


def _with_trailers(item: Item) -> str:
    message = item.commit.message
    if item.pull_request is None:
        return message
    lines = [f"ghstack-source-id: {item.source_id}", f"Pull-Request: {item.pull_request.url}"]
    return str(ghstack.trailers.interpret_trailers(message.rstrip(), lines)) + "\n"


def finish(plan: Plan, base: CommitId, publisher: Publisher, scratch: Scratch) -> None:
    """Pushes the `orig` branch that an interrupted run did not; ghstack needs it."""
    specs = []
    for item in plan.items:
        if item.unfinished and item.pull_request is not None:
            message, tree = _with_trailers(item), item.source_id
            orig = publisher.commit(scratch.repository, item.commit, base, message, tree)
            branch = item.pull_request.head.removesuffix("/head")
            specs.append(f"{orig}:refs/heads/{branch}/orig")
    if specs:
        scratch.push(specs=specs)


async def write_texts(plan: Plan, github: GitHub) -> None:
    """Gives the pull requests that exist the plan's texts."""
    for item in plan.items:
        one, text = item.pull_request, item.text
        if one is not None and text not in (None, Text.of_pull_request(one)):
            assert text is not None
            try:
                await github.edit(one.number, text.title, text.below_list_of(one))
            except FAILURES as error:
                raise cut_off(str(error) or type(error).__name__) from error


async def ghstack_submit(
    scratch: Scratch, tip: CommitId, onto: str, account: Account, github: GitHub, *, draft: bool
) -> dict[str, Entry]:
    """Runs ghstack on the chain; the pull request and source id of each change."""
    repository = scratch.repository
    repository.run("update-ref", "--no-deref", "HEAD", tip)
    with _captured() as said:
        try:
            done = await ghstack.submit.main(
                msg=None,
                username=account.username,
                github=github.endpoint,
                sh=_Shell(cwd=str(repository.folder)),
                update_fields=False,  # the texts have been written, see write_texts
                repo_owner_opt=github.owner,
                repo_name_opt=github.name,
                github_url=account.host,
                remote_name=account.remote,
                base_opt=onto,
                draft=draft,
                # one base branch for each pull request: in the direct style a
                # reordered pair can make GitHub take one for merged
                direct_opt=False,
            )
        except Exception as error:
            # Whatever it was: what was done is found again by the next run.
            raise cut_off(str(error) or type(error).__name__, said.getvalue()) from error
    entries = {}
    for diff in done:
        told = trailers(scratch.message_of(CommitId(diff.orig)))
        assert told is not None
        entries[told.change] = Entry(
            github.address(int(diff.number)), TreeId(diff.elab_diff.diff.source_id)
        )
    return entries


def cut_off(reason: str, said: str = "") -> ToolError:
    """An error that says why; said: by the programs, of which git's complaint says most."""
    told = [line.strip() for line in said.splitlines()]
    marked = [line for line in told if line.startswith(("! [", "remote:", "fatal:"))]
    return interrupted((marked or [line for line in reason.splitlines() if line.strip()])[0])


@contextmanager
def _captured() -> Iterator[io.StringIO]:
    """What ghstack and its git print goes to the log file; secrets are taken out."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(ghstack.logs.formatter)
    root = logging.getLogger()
    level = root.level
    with ExitStack() as undo:
        undo.callback(root.setLevel, level)
        undo.callback(root.removeHandler, handler)
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        undo.enter_context(redirect_stdout(said))
        undo.enter_context(redirect_stderr(said))
        try:
            yield said
        finally:
            log.info("ghstack said:\n%s", said.getvalue())
