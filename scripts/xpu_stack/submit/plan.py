"""What a submission finds, and what it would do with each change.

Note [No pull request twice]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
ghstack opens a pull request for every commit without the trailer of one. A run
that ends after GitHub has opened some and before the record is written leaves
pull requests that the series does not know, and so does a person whose record
is not shared yet. Their texts name the change. So a change that is not in the
record is looked for in all open pull requests, and what is found is treated as
if it had been in the record.

A tree on the remote that neither the record nor the journal nor the checkout
knows was submitted from elsewhere, or has a reviewer's commit on it: pushing
would undo that, and is refused.
"""

import enum
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import ghstack.submit

from xpu_stack.core.series.change import trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Commit, TreeId
from xpu_stack.report.pull_requests import Record
from xpu_stack.submit.github import GitHub, PullRequest
from xpu_stack.submit.preflight import change_of
from xpu_stack.submit.problems import Problems
from xpu_stack.submit.scratch import Scratch
from xpu_stack.submit.texts import Text, merged

_HEAD = re.compile(r"gh/([^/]+)/[0-9]+/head\Z")


class State(enum.Enum):
    NEW = "new"
    UPDATED = "updated"
    TEXT = "text updated"
    UNCHANGED = "unchanged"
    ABOVE = "left as it is"  # submitted before, and not in what is submitted now
    DROPPED = "dropped: close it by hand"
    GONE = "dropped, and closed"


@dataclass(frozen=True)
class Item:
    """A change to submit, and what there is of it on GitHub."""

    commit: Commit
    parent: TreeId
    state: State
    pull_request: PullRequest | None = None
    source_id: TreeId | None = None  # of what was submitted last
    unfinished: bool = False  # opened by a run that did not come to push `orig`
    text: Text | None = None  # for a pull request that exists, see Note [Texts edited on GitHub]

    @property
    def change(self) -> str:
        return change_of(self.commit)

    @property
    def keeps_edits(self) -> bool:
        """Whether the text has what was edited on GitHub."""
        ours = Text.of_message(self.commit.message)
        return self.text not in (None, ours)


@dataclass(frozen=True)
class Plan:
    """All changes to submit, oldest first, and those with a pull request besides."""

    items: tuple[Item, ...]
    others: tuple[tuple[str, State, PullRequest], ...]


@dataclass(frozen=True)
class Known:
    """What the plan is made from, besides GitHub."""

    record: Record
    journal: Mapping[str, list[str]]
    series: frozenset[str]  # all changes that the series has
    elsewhere: set[int]  # pull requests of other bases

    def has(self, commit: Commit, tree: TreeId) -> bool:
        """Whether a tree may have been submitted from here for a commit's change."""
        change = change_of(commit)
        entry = self.record.entries.get(change)
        journal = self.journal.get(change, [])
        return tree in (commit.tree, *journal, *([entry.source_id] if entry else []))

    def refuse_unknown(
        self, commit: Commit, tree: TreeId, one: PullRequest, branch: str, scratch: Scratch
    ) -> None:
        """Refuses to replace what was pushed from elsewhere, and shows it."""
        if self.has(commit, tree):
            return
        change, here, remote = change_of(commit), scratch.checkout, scratch.remote
        tip = scratch.commit_of(branch)
        assert tip is not None
        shown = scratch.repository.line("show", "--stat", "--format=%h '%s' by %an", tip)
        entry = f"{change}: {{pull_request: {one.url}, source_id: {tree}}}"
        raise ToolError(
            f"{change} was submitted from elsewhere.",
            why=f"{one.url} shows the tree {tree[:12]}, which is not known here",
            next=f"git pull # the record of that submission; or see {branch} with "
            f"{commands.git(here, 'fetch', remote, branch)}, make its edits yours, "
            f"and write '{entry}' into submitted.yaml",
            detail=f"{one.url} has\n{shown}",
        )


async def make(
    commits: list[Commit],
    base: TreeId,
    known: Known,
    scratch: Scratch,
    github: GitHub,
    user: str,
    problems: Problems,
) -> Plan:
    """Looks at the remote and decides; refuses what would end badly."""
    found = await Found.on(github, commits, known)
    heads = [_HEAD.match(one.head) for one in found.all()]
    for name in sorted({head[1] for head in heads if head} - {user}):
        scratch.fetch(f"gh/{name}/*")
    items: list[Item] = []
    parent = base
    for commit in commits:
        with problems.noted():
            items.append(_item(commit, parent, found, known, scratch, github))
        parent = commit.tree
    return Plan(tuple(items), others(items, known, found.recorded))


@dataclass(frozen=True)
class Found:
    """The pull requests on GitHub: the record's by number; open ones that it lacks by change."""

    record: Record
    recorded: Mapping[int, PullRequest]
    unrecorded: Mapping[str, list[PullRequest]]

    @classmethod
    async def on(cls, github: GitHub, commits: list[Commit], known: Known) -> "Found":
        entries = known.record.entries
        recorded = await github.pull_requests(entry.number for entry in entries.values())
        missing = {change_of(commit) for commit in commits} - entries.keys()
        unrecorded: dict[str, list[PullRequest]] = {}
        if missing:
            async for one in github.open_pull_requests():
                told = trailers(one.body)
                if told and told.change in missing and one.number not in known.elsewhere:
                    unrecorded.setdefault(told.change, []).append(one)
        return cls(known.record, recorded, unrecorded)

    def all(self) -> list[PullRequest]:
        return [*self.recorded.values(), *itertools.chain(*self.unrecorded.values())]

    def of(self, change: str) -> PullRequest | None:
        """The pull request of a change; refuses several."""
        entry = self.record.entries.get(change)
        if entry:
            return self.recorded[entry.number]
        several = self.unrecorded.get(change, [])
        if len(several) > 1:
            raise ToolError(
                f"{change} has {len(several)} open pull requests, and none in the record.",
                why=" and ".join(sorted(one.url for one in several)) + " say that they are of it",
                next=f"close all of them but one, then {commands.make('submit')}",
            )
        return several[0] if several else None


def _item(
    commit: Commit, parent: TreeId, found: Found, known: Known, scratch: Scratch, github: GitHub
) -> Item:
    change = change_of(commit)
    pull_request = found.of(change)
    if pull_request is None:
        return Item(commit, parent, State.NEW)
    refuse_closed(change, pull_request)
    branch = _branch_of(change, pull_request, github)
    orig, head = scratch.commit_of(f"{branch}/orig"), scratch.tree_of(f"{branch}/head")
    if head is None:
        raise branch_is_gone(change, pull_request, f"{branch}/head")
    source, message = head, None
    if orig is not None:
        message = scratch.message_of(orig)
        _refuse_other_change(change, message, pull_request, known)
        told = ghstack.submit.RE_GHSTACK_SOURCE_ID.search(message)
        source = TreeId(told.group(1)) if told else head
    for tree in (source, head):
        known.refuse_unknown(commit, tree, pull_request, f"{branch}/head", scratch)
    text = merged(change, commit.message, message, pull_request)
    state = State.UPDATED
    if (scratch.tree_of(f"{branch}/base"), head) == (parent, commit.tree):
        state = state_of_text(text, pull_request)
    return Item(commit, parent, state, pull_request, source, orig is None, text)


def state_of_text(text: Text, pull_request: PullRequest) -> State:
    return State.UNCHANGED if Text.of_pull_request(pull_request) == text else State.TEXT


def branch_is_gone(change: str, pull_request: PullRequest, branch: str) -> ToolError:
    return ToolError(
        f"The branch of {change} is gone.",
        why=f"{pull_request.url} is open, and {branch} is not on the remote",
        next="restore the branch on the pull request's page",
    )


def refuse_closed(change: str, pull_request: PullRequest) -> None:
    if not pull_request.open:
        raise ToolError(
            f"The pull request of {change} is closed.",
            why=f"{pull_request.url} was merged, or closed by hand",
            next=f"merged: move the stack onto it and {commands.make('apply', DROP=change)}; "
            "else reopen it, or take it out of submitted.yaml for a new one",
        )


def _branch_of(change: str, pull_request: PullRequest, github: GitHub) -> str:
    branch, end = pull_request.head.removesuffix("/head"), pull_request.base
    here = pull_request.owner.lower() == github.owner.lower()
    if not here or not _HEAD.match(pull_request.head) or end != f"{branch}/base":
        raise ToolError(
            f"The pull request of {change} is not one that can be updated.",
            why=f"{pull_request.url} goes from {pull_request.head} to {end}, "
            "not from gh/<user>/<n>/head to gh/<user>/<n>/base",
            next=f"{commands.make('submit', FORK='<its remote>')} "
            "# if it is your fork's; or take it out of "
            f"submitted.yaml, then {commands.make('submit')} for a new one",
        )
    return branch


def _refuse_other_change(
    change: str, message: str, pull_request: PullRequest, known: Known
) -> None:
    told = trailers(message)
    if told is not None and told.change != change and told.change in known.series:
        raise ToolError(
            f"{change} and {told.change} are mixed up.",
            why=f"the record gives {pull_request.url} to {change}, and it shows {told.change}",
            next="git log -p -- patches/*/submitted.yaml # find the mistake and correct it",
        )


def others(
    items: Iterable[Item], known: Known, recorded: Mapping[int, PullRequest]
) -> tuple[tuple[str, State, PullRequest], ...]:
    submitted = {item.change for item in items}
    others = []
    for change, entry in known.record.entries.items():
        pull_request = recorded[entry.number]
        if change in submitted:
            continue
        if change in known.series:
            others.append((change, State.ABOVE, pull_request))
        else:
            state = State.DROPPED if pull_request.open else State.GONE
            others.append((change, state, pull_request))
    return tuple(others)
