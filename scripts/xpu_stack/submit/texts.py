"""What a pull request says: its change's text, with what was edited on GitHub since.

Note [Texts edited on GitHub]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
On GitHub a person corrects a title or ticks a box, and a bot adds a line. What
was submitted last is the message of the commit that the pull request was made
from, so the three texts are merged as git merges a file. The texts are written
before anything is pushed: after a push that message is the new one, and in a
run that is cut off the old text would pass for an edit.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ghstack.submit

from xpu_stack.core.series.change import own_text, split_signatures
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.settings import settings
from xpu_stack.submit.github import PullRequest

_HEADER = re.compile(rf"\AThis is on top of #.*\n\n|{ghstack.submit.RE_STACK.pattern}")
_NO_LIST = f"{ghstack.submit.STACK_HEADER}:\n* (to be filled)\n\n"


@dataclass(frozen=True)
class Text:
    """Title and body, without the list of other pull requests; trailers: the series' own."""

    title: str
    body: str
    trailers: tuple[str, ...]

    @classmethod
    def of(cls, title: str, body: str) -> "Text":
        lines = re.findall(rf"^{settings().trailer}-\w+: .+$", body, re.M)
        return cls(title, own_text(_HEADER.sub("", body)), tuple(lines))

    @classmethod
    def of_message(cls, message: str) -> "Text":
        title, _, body = message.strip().partition("\n")
        return cls.of(title, ghstack.submit.strip_mentions(body))

    @classmethod
    def of_pull_request(cls, pull_request: PullRequest) -> "Text":
        return cls.of(pull_request.title, pull_request.body)

    @property
    def rendered(self) -> str:
        """The body with the trailers, as in the message of a commit."""
        body, signatures = split_signatures(self.body)
        return f"{body}\n\n" + "\n".join([*self.trailers, *signatures.splitlines()])

    def below_list_of(self, pull_request: PullRequest) -> str:
        """The body of a pull request that keeps its list of others."""
        found = list_of(pull_request)
        none = _NO_LIST if pull_request.head.startswith("gh/") else ""
        return (f"{found.rstrip()}\n\n" if found else none) + self.rendered


def list_of(pull_request: PullRequest) -> str:
    found = _HEADER.search(pull_request.body)
    return found[0] if found else ""


def merged(change: str, message: str, last: str | None, pull_request: PullRequest) -> Text:
    """The text for a pull request. message: of the commit now; last: as it was submitted."""
    ours, theirs = Text.of_message(message), Text.of_pull_request(pull_request)
    before = Text.of_message(last) if last else theirs
    title = _merged(ours.title, before.title, theirs.title)
    body = _merged(ours.body, before.body, theirs.body)
    if title is None or body is None:
        raise ToolError(
            f"The text of {change} was edited here and on GitHub.",
            why=f"the edits of {pull_request.url} do not fit those of patches/texts/{change}.md",
            next=f"write what it says there into patches/texts/{change}.md, then "
            f"{commands.make('apply')}",
            detail=f"{theirs.title}\n\n{theirs.body}",
        )
    return Text(title, body, ours.trailers)


def _merged(ours: str, before: str, theirs: str) -> str | None:
    """As git merges a file; None: the edits overlap."""
    if theirs in (before, ours):
        return ours
    with tempfile.TemporaryDirectory(prefix="xpu-stack-") as name:
        paths = [Path(name, side) for side in ("ours", "before", "theirs")]
        for path, text in zip(paths, (ours, before, theirs), strict=True):
            path.write_text(f"{text}\n")
        done = shell.run(["git", "merge-file", "--stdout", "--quiet", *paths], check=False)
    return None if done.code else done.text.removesuffix("\n")
