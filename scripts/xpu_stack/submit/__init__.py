"""`make submit`: the stack as pull requests, by the real ghstack or from a person's fork.

Before anything is sent: the checkout must hold the series' own commits and
nothing else (preflight.py), the remote must take a push (scratch.py), and what
GitHub has must be what the series knows of (plan.py). Then ghstack runs, beside
the checkout (run.py), or the branches of a fork are pushed (fork.py), and what
came of it goes into the series (../report/pull_requests.py).

May import: core, report.

Exit codes: 2, 3, 4 and 6 as in errors.py; 4 also for a connection that fails.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import log, progress, say, show_table
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Commit
from xpu_stack.report import pull_requests
from xpu_stack.report.publisher import Publisher
from xpu_stack.submit import fork as forking
from xpu_stack.submit import plan as planning
from xpu_stack.submit import preflight, run, scratch
from xpu_stack.submit.account import Account, configured
from xpu_stack.submit.fork import Fork
from xpu_stack.submit.github import GitHub
from xpu_stack.submit.plan import Plan, State
from xpu_stack.submit.problems import Problems

__all__ = ["Account", "Request", "configured", "submit"]


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


def submit(work: Workspace, account: Account, request: Request) -> Plan:
    """Submits the stack, or shows what would be done; what was planned."""
    problems = Problems()
    commits: list[Commit] = []
    publisher, ready = None, False
    with problems.noted():
        commits = preflight.commits_of_series(work, request.stage, problems)
    with problems.noted():
        remotes = [account.remote, *([request.fork] if request.fork else [])]
        preflight.refuse_unready(work.repository, *remotes)
        ready = True
    with problems.noted():
        publisher = Publisher.of(work, commits)
    if not (commits and ready and publisher):
        problems.refuse()
    assert publisher is not None
    with scratch.beside(work.repository, account.remote) as beside:
        return asyncio.run(_submit(work, account, request, commits, publisher, beside, problems))


async def _submit(
    work: Workspace,
    account: Account,
    request: Request,
    commits: list[Commit],
    publisher: Publisher,
    beside: scratch.Scratch,
    problems: Problems,
) -> Plan:
    known = pull_requests.Record.load(work.layout, work.base.name)
    journal = pull_requests.Journal(work.repository)
    base = stack.read(work.repository).base
    with progress(None, "looking at the remote and its pull requests"):
        github = await GitHub.of(account, beside)
        onto = _branch(known, request, github)
        tip = preflight.tracked(work.repository, account.remote, onto, base)
        beside.repository.run("update-ref", f"refs/remotes/{account.remote}/{onto}", tip)
        facts = planning.Known(
            known,
            journal.trees(),
            frozenset(change.id for change in work.series.all_changes()),
            pull_requests.numbers_of_other_bases(work.layout, work.base.name),
        )
        fork = None
        if request.fork:
            fork = await Fork.of(account, beside, request.fork, work.base.name)
            fork.refuse_unready(commits[0])
            plan = await forking.make(commits, facts, fork, github, problems)
        else:
            user = account.username
            beside.fetch(f"gh/{user}/*")
            from_fork = commands.make("submit", FORK="<the remote of your fork>")
            access = "or get write access: ghstack pushes branches gh/<user>/... to the repository"
            beside.refuse_unwritable(f"gh/{user}/0/base", base, f"{from_fork} # {access}")
            tree = work.repository.tree_of(base)
            plan = await planning.make(commits, tree, facts, beside, github, user, problems)
    problems.refuse()
    if request.dry:
        _show(plan, known.entries, dry=True)
        say("DRY_RUN=1: nothing was sent, and nothing was changed")
        return plan
    journal.add({item.change: item.commit.tree for item in plan.items})
    with progress(None, "submitting"):
        await run.write_texts(plan, github)
        if fork:
            done = await forking.send(plan, fork, github, onto, draft=request.draft)
        else:
            run.finish(plan, base, publisher, beside)
            chain = run.chain(plan, base, publisher, beside)
            done = await run.ghstack_submit(
                beside, chain, onto, account, github, draft=request.draft
            )
    _keep(work, known, plan, onto, done)
    journal.clear()
    _show(plan, done, dry=False)
    if request.reviewers:
        numbers = [entry.number for entry in done.values()]
        await github.ask_reviewers(numbers, list(request.reviewers))
        say(f"asked for a review: {', '.join(request.reviewers)}")
    return plan


def _branch(known: pull_requests.Record, request: Request, github: GitHub) -> str:
    if known.branch and request.branch not in (None, known.branch):
        raise ToolError(
            f"The stack was submitted for '{known.branch}'.",
            why=f"its pull requests cannot be moved to '{request.branch}'",
            next=f"{commands.make('submit')} # without BRANCH",
        )
    return known.branch or request.branch or github.default_branch


def _keep(
    work: Workspace,
    known: pull_requests.Record,
    plan: Plan,
    onto: str,
    done: Mapping[str, pull_requests.Entry],
) -> None:
    """Writes the record: in the order of the series, and what is left over last."""
    gone = {change for change, state, _ in plan.others if state is State.GONE}
    entries = {**known.entries, **done}
    order = [change.id for change in work.series.all_changes() if change.id in entries]
    order += [change for change in entries if change not in order and change not in gone]
    fresh = pull_requests.Record(onto, {change: entries[change] for change in order})
    if fresh != known:
        path = fresh.save(work.layout, work.base.name)
        say(f"wrote {path.relative_to(work.layout.repository)}: commit it with the series")


def _show(plan: Plan, entries: Mapping[str, pull_requests.Entry], *, dry: bool) -> None:
    rows = []
    for item in plan.items:
        title = item.commit.message.splitlines()[0]
        entry = entries.get(item.change)
        url = entry.pull_request if entry else ""
        if item.pull_request is not None:
            url = item.pull_request.url
        told = item.state.value + (", of a run that was cut off" if item.unfinished else "")
        rows.append((item.change, title, url, told))
    for change, state, pull_request in plan.others:
        rows.append((change, pull_request.title, pull_request.url, state.value))
    for row in rows:
        log.info("%s", " | ".join(row))
    say("what would be submitted" if dry else "submitted")
    show_table(("change", "title", "pull request", "state"), rows, cut="title")
    for item in plan.items:
        if item.keeps_edits:
            say(f"{item.change}: what was edited on GitHub in the text stays there")
