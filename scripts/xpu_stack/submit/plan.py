"""What a submission finds, and what it would do with each change.

Note [No pull request twice]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
ghstack opens a pull request for every commit without the trailer of one. A run
that ends after GitHub has opened some and before the record is written leaves
pull requests that the series does not know. The remote does: ghstack first
pushes the branches gh/<user>/<n>/{head,base}, then opens the pull requests,
then pushes gh/<user>/<n>/orig with both trailers. So a change that is not in
the record is looked for
  - in the messages of all `orig` branches, which name change and pull request;
  - where there is a `head` and no `orig`, in the open pull request made from
    it, whose text names the change.
What is found goes on as if it had been in the record.

A source id on the remote that neither the record nor the journal nor the
checkout knows was submitted from elsewhere: pushing would undo that, and is
refused.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import ghstack.submit

from xpu_stack.core.series.change_text import trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Commit, TreeId
from xpu_stack.report.pull_requests import Entry, Record
from xpu_stack.submit.github import GitHub, PullRequest
from xpu_stack.submit.preflight import change_of
from xpu_stack.submit.scratch import Scratch

_HEAD = re.compile(r"(gh/[^/]+/[0-9]+)/head\Z")


class State(enum.Enum):
    """What a submission does with a change."""

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

    @property
    def change(self) -> str:
        return change_of(self.commit)


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

    def sources(self, commit: Commit, entry: Entry | None) -> set[str]:
        """The trees that may have been submitted from here for a change."""
        journal = self.journal.get(change_of(commit), [])
        return {commit.tree, *journal, *([entry.source_id] if entry else [])}


async def make(
    commits: list[Commit], base: TreeId, known: Known, scratch: Scratch, github: GitHub, user: str
) -> Plan:
    """Looks at the remote and decides; refuses what would end badly."""
    entries = known.record.entries
    recorded = await github.pull_requests(entry.number for entry in entries.values())
    for pull_request in recorded.values():
        if pull_request.head.split("/")[1:2] not in ([], [user]):
            scratch.fetch(f"gh/{pull_request.head.split('/')[1]}/*")
    found = await _unrecorded(known, recorded, scratch, github, user)
    items = []
    parent = base
    for commit in commits:
        change = change_of(commit)
        entry = entries.get(change)
        one = recorded[entry.number] if entry else _one(change, found)
        items.append(_item(commit, parent, entry, one, known, scratch))
        parent = commit.tree
    return Plan(tuple(items), others(items, known, recorded))


async def _unrecorded(
    known: Known,
    recorded: Mapping[int, PullRequest],
    scratch: Scratch,
    github: GitHub,
    user: str,
) -> dict[str, list[PullRequest]]:
    """Open pull requests of the series' changes that the record lacks, by change."""
    passed = {pull_request.head.removesuffix("/head") for pull_request in recorded.values()}
    heads, origs = scratch.branches(user, "head"), scratch.branches(user, "orig")
    missing = known.series - known.record.entries.keys()
    numbers = set()
    for branch, commit in origs.items():
        message = scratch.message_of(commit) if branch not in passed else ""
        told = trailers(message)
        if told is not None and told.change in missing:
            resolved = ghstack.diff.PullRequestResolved.search(message, github.host)
            if resolved is not None:
                numbers.add(int(resolved.number))
    candidates = list((await github.pull_requests(sorted(numbers))).values())
    candidates += await github.open_from(f"{branch}/head" for branch in heads.keys() - origs.keys())
    by_change: dict[str, list[PullRequest]] = {}
    for one in candidates:
        told = trailers(one.body)
        if one.open and told and told.change in missing and one.number not in known.elsewhere:
            by_change.setdefault(told.change, []).append(one)
    return by_change


def _one(change: str, found: Mapping[str, list[PullRequest]]) -> PullRequest | None:
    several = found.get(change, [])
    if len(several) > 1:
        raise ToolError(
            f"{change} has {len(several)} open pull requests, and none in the record.",
            why=" and ".join(sorted(one.url for one in several)) + " say that they are of it",
            next=f"close all of them but one, then {commands.make('submit')}",
        )
    return several[0] if several else None


def _item(
    commit: Commit,
    parent: TreeId,
    entry: Entry | None,
    pull_request: PullRequest | None,
    known: Known,
    scratch: Scratch,
) -> Item:
    if pull_request is None:
        return Item(commit, parent, State.NEW)
    change = change_of(commit)
    refuse_closed(change, pull_request)
    branch = _branch_of(change, pull_request)
    orig, head = scratch.commit_of(f"{branch}/orig"), scratch.tree_of(f"{branch}/head")
    if head is None:
        raise branch_is_gone(change, pull_request, f"{branch}/head")
    source = head
    if orig is not None:
        message = scratch.message_of(orig)
        _refuse_other_change(change, message, pull_request, known)
        told = ghstack.submit.RE_GHSTACK_SOURCE_ID.search(message)
        source = TreeId(told.group(1)) if told else head
    if source not in known.sources(commit, entry):
        raise from_elsewhere(change, pull_request, source)
    state = _state(commit, parent, pull_request, scratch, branch)
    return Item(commit, parent, state, pull_request, source, orig is None)


def branch_is_gone(change: str, pull_request: PullRequest, branch: str) -> ToolError:
    return ToolError(
        f"The branch of {change} is gone.",
        why=f"{pull_request.url} is open, and {branch} is not on the remote",
        next="restore the branch on the pull request's page",
    )


def from_elsewhere(change: str, pull_request: PullRequest, source: TreeId) -> ToolError:
    return ToolError(
        f"{change} was submitted from elsewhere.",
        why=f"{pull_request.url} shows the tree {source[:12]}, which is not known here",
        next="git pull # the record of that submission, or write "
        f"'{change}: {{pull_request: {pull_request.url}, source_id: {source}}}' into it",
    )


def refuse_closed(change: str, pull_request: PullRequest) -> None:
    if not pull_request.open:
        raise ToolError(
            f"The pull request of {change} is closed.",
            why=f"{pull_request.url} was merged, or closed by hand",
            next=f"merged: move the stack onto it and {commands.make('apply', DROP=change)}; "
            "else reopen it, or take it out of submitted.yaml for a new one",
        )


def _branch_of(change: str, pull_request: PullRequest) -> str:
    found = _HEAD.match(pull_request.head)
    if not found or pull_request.base != f"{found[1]}/base":
        raise ToolError(
            f"The pull request of {change} is not one that can be updated.",
            why=f"{pull_request.url} goes from {pull_request.head} to {pull_request.base}, "
            "not from gh/<user>/<n>/head to gh/<user>/<n>/base",
            next=f"{commands.make('submit', FORK='<its remote>')} "
            "# if it is your fork's; or take it out of "
            f"submitted.yaml, then {commands.make('submit')} for a new one",
        )
    return found[1]


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


def _state(
    commit: Commit, parent: TreeId, pull_request: PullRequest, scratch: Scratch, branch: str
) -> State:
    trees = scratch.tree_of(f"{branch}/base"), scratch.tree_of(f"{branch}/head")
    if trees != (parent, commit.tree):
        return State.UPDATED
    title, _, body = commit.message.strip().partition("\n")
    as_it_is = pull_request.title == title and pull_request.body.strip().endswith(body.strip())
    return State.UNCHANGED if as_it_is else State.TEXT


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
