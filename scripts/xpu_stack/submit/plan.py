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

Note [Texts edited on GitHub]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
On GitHub a person corrects a title or ticks a box, and a bot adds a line. What
was submitted last is the message of the commit that the pull request was made
from, so the three texts are merged as git merges a file. The texts are written
before anything is pushed: after a push that message is the new one, and in a
run that is cut off the old text would pass for an edit.
"""

import enum
import re
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import ghstack.submit

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.change import own_text, split_signatures, trailers
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Commit, CommitId, TreeId
from xpu_stack.core.system.layout import settings
from xpu_stack.report.pull_requests import Entry, Journal, Record, numbers_of_other_bases
from xpu_stack.report.sending import change_of
from xpu_stack.submit.preflight import Problems
from xpu_stack.submit.remote import PullRequest, Remote

# -- texts: as in the message of a commit, title, body and trailers ------------------


_LIST = re.compile(rf"\AThis is on top of #.*\n\n|{ghstack.submit.RE_STACK.pattern}")
_NO_LIST = f"{ghstack.submit.STACK_HEADER}:\n* (to be filled)\n\n"


def text_of_commit(message: str) -> str:
    """The text that a commit gives its pull request."""
    title, newline, body = message.strip().partition("\n")
    return _text(title + newline + ghstack.submit.strip_mentions(body), message)


def text_of(one: PullRequest) -> str:
    """The text of a pull request, without its list of others."""
    return _text(f"{one.title}\n\n{_LIST.sub('', one.body)}", one.body)


def list_of(one: PullRequest) -> str:
    """What stands above the text: the list of others, to be filled by ghstack where it lacks."""
    found = _LIST.search(one.body)
    none = _NO_LIST if one.head.startswith("gh/") else ""
    return f"{found[0].rstrip()}\n\n" if found else none


def _text(words: str, of: str) -> str:
    """`words` with the series' trailers of another text."""
    lines = re.findall(rf"^{settings().trailer}-\w+: .+$", of, re.M)
    body, signatures = split_signatures(own_text(words))
    return f"{body}\n\n" + "\n".join([*lines, *signatures.splitlines()])


def _merged(change: str, message: str, last: str, one: PullRequest) -> str:
    """The text for a pull request. message: of the commit now; last: as it was submitted."""
    ours, theirs = own_text(text_of_commit(message)), own_text(text_of(one))
    before = own_text(text_of_commit(last)) if last else theirs
    with tempfile.TemporaryDirectory(prefix="xpu-stack-") as name:
        paths = [Path(name, side) for side in ("ours", "before", "theirs")]
        for path, text in zip(paths, (ours, before, theirs), strict=True):
            path.write_text(f"{text}\n")
        done = shell.run(["git", "merge-file", "--stdout", "--quiet", *paths], check=False)
    if done.code:
        raise ToolError(
            f"The text of {change} was edited here and on GitHub.",
            why=f"the edits of {one.url} do not fit those of patches/texts/{change}.md",
            next=f"write what it says there into patches/texts/{change}.md, then "
            f"{commands.make('apply')}",
            detail=theirs,
        )
    return _text(done.text, message)


# -- what to do -----------------------------------------------------------------------


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
    state: State
    text: str  # for its pull request, see Note [Texts edited on GitHub]
    pull_request: PullRequest | None = None
    source_id: TreeId | None = None  # of what was submitted last
    unfinished: bool = False  # of a run that was cut off after it opened the pull request

    @property
    def change(self) -> str:
        return change_of(self.commit)


@dataclass(frozen=True)
class Plan:
    """All changes to submit, oldest first, and those with a pull request besides."""

    items: list[Item]
    others: list[tuple[str, State, PullRequest]]


@dataclass(frozen=True)
class Way(ABC):
    """How commits come into pull requests, and whose pull requests they are.

    github: has the pull requests; branches: takes the pushes; onto: the branch of
    `github` in which the stack is to land; sender: who sends the commits.
    """

    work: Workspace
    record: Record
    github: Remote
    branches: Remote
    onto: str
    sender: str

    @abstractmethod
    def refuse_unready(self, commits: list[Commit]) -> None:
        """Refuses a remote that takes no push; brings what is known of its branches up to date."""

    @abstractmethod
    async def send(self, plan: Plan, *, draft: bool) -> dict[str, Entry]:
        """Pushes, opens and updates; the pull request of each change."""

    @abstractmethod
    def _branches_of(self, change: str, one: PullRequest) -> tuple[str, str]:
        """The branch of a pull request that is of this way, and the one with its last message.

        The second is missing where a run was cut off.
        """

    @abstractmethod
    def _state(self, commit: Commit, one: PullRequest, below: list[Item], /) -> State:
        """What to do about all but the text itself."""

    def decide(self, commit: Commit, one: PullRequest | None, below: list[Item]) -> Item:
        """What to do with a commit that has this pull request, above those decided on so far."""
        change, repository = change_of(commit), self.branches.repository
        if one is None:
            return Item(commit, State.NEW, text_of_commit(commit.message))
        if not one.open:
            raise ToolError(
                f"The pull request of {change} is closed.",
                why=f"{one.url} was merged, or closed by hand",
                next=f"merged: move the stack onto it and {commands.make('apply', DROP=change)}; "
                "else reopen it, or take it out of submitted.yaml for a new one",
            )
        branch, last = self._branches_of(change, one)
        head, submitted = self.branches.commit_of(branch), self.branches.commit_of(last)
        if head is None:
            raise ToolError(
                f"The branch of {change} is gone.",
                why=f"{one.url} is open, and {branch} is not on the remote",
                next="restore the branch on the pull request's page",
            )
        message = repository.commit(submitted).message if submitted else ""
        told = trailers(message)
        if told and told.change != change and told.change in self.work.series.by_id:
            raise ToolError(
                f"{change} and {told.change} are mixed up.",
                why=f"the record gives {one.url} to {change}, and it shows {told.change}",
                next="git log -p -- patches/*/submitted.yaml # find the mistake and correct it",
            )
        tree = repository.tree_of(head)
        known = ghstack.submit.RE_GHSTACK_SOURCE_ID.search(message)
        source = TreeId(known[1]) if known else tree
        for shown in (source, tree):
            if not self.is_known(commit, shown):
                raise self._elsewhere(change, shown, one, branch, head)
        text, state = _merged(change, commit.message, message, one), self._state(commit, one, below)
        if state is State.UNCHANGED and text != text_of(one):
            state = State.TEXT
        return Item(commit, state, text, one, source, unfinished=submitted is None)

    def is_known(self, commit: Commit, tree: TreeId) -> bool:
        """Whether a tree may have been submitted from here for a commit's change."""
        change = change_of(commit)
        entry = self.record.changes.get(change)
        journal = Journal(self.work.repository).trees().get(change, [])
        return tree in (commit.tree, *journal, entry and entry.source_id)

    def _elsewhere(
        self, change: str, tree: TreeId, one: PullRequest, branch: str, head: CommitId
    ) -> ToolError:
        """Shows what was pushed from elsewhere, which must not be replaced."""
        checkout, remote = self.branches.checkout, self.branches.remote
        shown = self.branches.repository.line("show", "--stat", "--format=%h '%s' by %an", head)
        entry = f"{change}: {{pull_request: {one.url}, source_id: {tree}}}"
        return ToolError(
            f"{change} was submitted from elsewhere.",
            why=f"{one.url} shows the tree {tree[:12]}, which is not known here",
            next=f"git pull # the record of that submission; or see {branch} with "
            f"{commands.git(checkout, 'fetch', remote, branch)}, "
            f"make its edits yours, and write '{entry}' into submitted.yaml",
            detail=f"{one.url} has\n{shown}",
        )


async def make(commits: list[Commit], way: Way, problems: Problems) -> Plan:
    """Looks at GitHub and decides on each change; notes what would end badly."""
    known, github, work = way.record.changes, way.github, way.work
    recorded = await github.pull_requests(entry.number for entry in known.values())
    found = {change: [recorded[entry.number]] for change, entry in known.items()}
    missing = {change_of(commit) for commit in commits} - known.keys()
    if missing:
        elsewhere = numbers_of_other_bases(work.layout, work.base.name)
        for one in await github.open_pull_requests():
            told = trailers(one.body)
            if told and told.change in missing and one.number not in elsewhere:
                found.setdefault(told.change, []).append(one)
    items: list[Item] = []
    for commit in commits:
        with problems.noted():
            its = _only(change_of(commit), found.pop(change_of(commit), []))
            items.append(way.decide(commit, its, items))
    gone = {True: State.DROPPED, False: State.GONE}  # by whether it is open
    others = [
        (change, State.ABOVE if change in work.series.by_id else gone[one.open], one)
        for change, (one,) in found.items()
    ]
    return Plan(items, others)


def _only(change: str, found: list[PullRequest]) -> PullRequest | None:
    if len(found) > 1:
        raise ToolError(
            f"{change} has {len(found)} open pull requests, and none in the record.",
            why=" and ".join(sorted(one.url for one in found)) + " say that they are of it",
            next=f"close all of them but one, then {commands.make('submit')}",
        )
    return next(iter(found), None)
