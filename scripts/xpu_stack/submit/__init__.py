"""`make submit`: the stack as pull requests, by the real ghstack or from a person's fork.

Before anything is sent: the checkout must hold the series' own commits and
nothing else (preflight.py), the remote must take a push (remote.py), and what
GitHub has must be what the series knows of (plan.py). Then ghstack runs, beside
the checkout (by_ghstack.py), or the branches of a fork are pushed (fork.py), and
what came of it goes into the series (../report/pull_requests.py).

May import: core, report.

Exit codes: 2, 3, 4 and 6 as in errors.py; 4 also for a connection that fails.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import log, progress, say, show_table
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import Commit
from xpu_stack.report.pull_requests import Entry, Journal, Record
from xpu_stack.report.sending import sender
from xpu_stack.submit import plan as planning
from xpu_stack.submit import preflight
from xpu_stack.submit.by_ghstack import ByGhstack
from xpu_stack.submit.fork import FromFork
from xpu_stack.submit.plan import Plan, State, Way, list_of, text_of, text_of_commit
from xpu_stack.submit.preflight import Problems
from xpu_stack.submit.remote import Account, Remote, beside, configured

__all__ = ["Account", "Request", "submit"]


@dataclass(frozen=True)
class Request:
    """What is asked for. stage: up to it, or all; branch: where it is to land.

    fork: the remote of the person's fork, to make the pull requests from there;
    draft: new ones are drafts.
    """

    stage: str | None = None
    branch: str | None = None
    dry: bool = False
    fork: str | None = None
    draft: bool = False
    reviewers: tuple[str, ...] = ()


def submit(work: Workspace, request: Request, account: Account | None = None) -> Plan:
    """Submits the stack, or shows what would be done; what was planned.

    account: None: the one that ghstack is configured for.
    """
    return asyncio.run(_submit(work, request, account))


async def _submit(work: Workspace, request: Request, account: Account | None) -> Plan:
    problems, checkout = Problems(), work.repository
    commits: list[Commit] = []
    person, ready = "", False
    with problems.noted():
        account = account or configured(checkout.folder)
    with problems.noted():
        commits = preflight.commits_of_series(work, request.stage, problems)
    with problems.noted():
        preflight.refuse_unready(checkout, account.remote if account else None, request.fork)
        ready = True
    with problems.noted():
        person = sender(work, commits)
    if not (account and commits and ready and person):
        problems.refuse()
    assert account is not None
    with beside(checkout) as repository:
        with problems.noted(), progress(None, "looking at the remote and its pull requests"):
            github = await Remote.of(account, repository, checkout.folder, account.remote)
            way = await _way(work, request, commits, github, person)
            plan = await planning.make(commits, way, problems)
        problems.refuse()
        if request.dry:
            _show(plan, way.record.changes, dry=True)
            say("DRY_RUN=1: nothing was sent, and nothing was changed")
            return plan
        journal = Journal(checkout)
        journal.add({item.change: item.commit.tree for item in plan.items})
        with progress(None, "submitting"):
            for item in plan.items:  # see Note [Texts edited on GitHub]
                one = item.pull_request
                if one and item.text != text_of(one):
                    await github.edit(one.number, item.text, list_of(one))
            done = await way.send(plan, draft=request.draft)
    _keep(way, plan, done)
    journal.clear()
    _show(plan, done, dry=False)
    if request.reviewers:
        for entry in done.values():
            await github.ask_reviewers(entry.number, request.reviewers)
        say(f"asked for a review: {', '.join(request.reviewers)}")
    return plan


async def _way(
    work: Workspace, request: Request, commits: list[Commit], github: Remote, person: str
) -> Way:
    """The way that was asked for, once it is known to be open."""
    if github.is_fork:
        raise ToolError(
            f"{github.owner}/{github.name} is a fork.",
            why=f"'{github.remote}' must be the repository that the changes are to land in",
            next="write remote_name = <its remote> into ~/.ghstackrc; to submit from the "
            f"fork then: {commands.make('submit', FORK=github.remote)}",
        )
    record = Record.load(work.layout, work.base.name)
    onto = record.branch or request.branch or github.default_branch
    if request.branch not in (None, onto):
        raise ToolError(
            f"The stack was submitted for '{onto}'.",
            why=f"its pull requests cannot be moved to '{request.branch}'",
            next=f"{commands.make('submit')} # without BRANCH",
        )
    tip = preflight.tracked(work.repository, github.remote, onto, commits[0].parents[0])
    github.repository.run("update-ref", f"refs/remotes/{github.remote}/{onto}", tip)
    way: Way = ByGhstack(work, record, github, github, onto, person)
    if request.fork:
        fork = await Remote.of(github.account, github.repository, github.checkout, request.fork)
        if not fork.is_fork:
            raise UsageError(
                f"{fork.owner}/{fork.name} is not a fork.",
                why="FORK= names the remote of your own fork on GitHub",
                next=commands.git(fork.checkout, "remote", "-v"),
            )
        way = FromFork(work, record, github, fork, onto, person)
    way.refuse_unready(commits)
    return way


def _keep(way: Way, plan: Plan, done: Mapping[str, Entry]) -> None:
    """Writes the record: in the order of the series, and what is left over last."""
    work, known = way.work, {**way.record.changes, **done}
    kept = known.keys() - {change for change, state, _ in plan.others if state is State.GONE}
    order = [*work.series.by_id, *known]
    fresh = Record(way.onto, {change: known[change] for change in order if change in kept})
    if fresh != way.record:
        path = fresh.save(work.layout, work.base.name)
        say(f"wrote {path.relative_to(work.layout.repository)}: commit it with the series")


def _show(plan: Plan, entries: Mapping[str, Entry], *, dry: bool) -> None:
    rows = []
    for item in plan.items:
        entry = entries.get(item.change)
        url = item.pull_request.url if item.pull_request else entry.pull_request if entry else ""
        told = item.state.value + (", of a run that was cut off" if item.unfinished else "")
        rows.append((item.change, item.commit.message.splitlines()[0], url, told))
    for change, state, one in plan.others:
        rows.append((change, one.title, one.url, state.value))
    for row in rows:
        log.info("%s", " | ".join(row))
    say("what would be submitted" if dry else "submitted")
    show_table(("change", "title", "pull request", "state"), rows, cut="title")
    for item in plan.items:
        if item.pull_request and item.text != text_of_commit(item.commit.message):
            say(f"{item.change}: what was edited on GitHub in the text stays there")
