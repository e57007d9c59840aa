"""A change of the series: its text, its new files, its patch, and the message of its commit.

A text is a title, a blank line, and the sections Motivation, Design and
Additional Context with underlined headings: valid Markdown that has no line
which begins with git's comment character, so that it survives an editor. The
message of a commit is the text and three trailers:

    <trailer>-Change: device/runtime
    <trailer>-Stage: device 1/2
    <trailer>-Digest: <sha256 of title, text, tree and author>

A person who makes a commit a change of its own writes the first of them.
The digest tells a commit as the tool made it, of this or an earlier version of
the series, from one that a person has changed since. A text may end with lines
such as Signed-off-by, which join the trailers: `git commit -s` adds them. ghstack adds lines of its
own to the messages; they are no part of the digest.
"""

import functools
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from xpu_stack.core.system import patch
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.core.system.git import Commit, TreeId
from xpu_stack.core.system.layout import CONTROL, settings
from xpu_stack.core.system.objects import mode_of

SECTIONS = ("Motivation", "Design", "Additional Context")
TITLE_LIMIT = 72
UNWRITTEN = "To be written:"  # begins a line that waits for its words

_HEADINGS = {f"{name}\n{'-' * len(name)}": name for name in SECTIONS}
_HEADING = re.compile(rf"^({'|'.join(_HEADINGS)})$", re.MULTILINE)

_GHSTACK_LINE = re.compile(
    r"^(ghstack-source-id|ghstack-comment-id|Pull[ -][Rr]equest(?:[ -]resolved)?): "
)
_SIGNATURE = re.compile(r"[A-Z][A-Za-z-]*-by: \S.*")
# its list of the stack, below its heading; any other list is a person's
_GHSTACK_STACK = re.compile(r"^Stack from \[ghstack\].*(?:\n\* (?:__->__ )?#\d+.*)*\n{,2}", re.M)

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")


@dataclass(frozen=True)
class ChangeText:
    """Title and body of a change."""

    title: str
    body: str

    @classmethod
    def read(cls, path: Path, shown: str) -> "ChangeText":
        """Reads and checks a text; errors point at file and line."""
        try:
            return cls.parse(path.read_text(encoding="utf-8"), shown)
        except FileNotFoundError:
            raise SeriesError(
                shown, "every change has a text; this one is not there", do="write"
            ) from None
        except UnicodeDecodeError:
            raise SeriesError(shown, "is not UTF-8") from None

    @classmethod
    def parse(cls, text: str, shown: str) -> "ChangeText":
        """Checks a text; `shown` is how errors name it."""
        text = _tidied(text.replace("\r\n", "\n"))
        lines = text.split("\n")
        for number, line in enumerate(lines, start=1):
            _check_line(line, f"{shown}:{number}")
        title = lines[0].strip()
        if not title or len(title) > TITLE_LIMIT:
            problem = f"the title must have 1 to {TITLE_LIMIT} characters, not {len(title)}"
            raise SeriesError(f"{shown}:1", problem)
        if len(lines) < 2 or lines[1].strip():
            raise SeriesError(f"{shown}:2", "a blank line must follow the title")
        _check_sections(split_signatures(text)[0], shown)
        return cls(title, "\n".join(line.rstrip() for line in lines[2:]).strip())

    @property
    def message(self) -> str:
        return f"{self.title}\n\n{self.body}"


def split_signatures(text: str) -> tuple[str, str]:
    """A text without the lines Signed-off-by and the like at its end, and these."""
    body, _, last = text.strip().rpartition("\n\n")
    if all(_SIGNATURE.fullmatch(line) for line in last.split("\n")):
        return body.rstrip(), last
    return text, ""


def _tidied(text: str) -> str:
    return "\n\n".join(filter(None, split_signatures(text)))


def template(title: str, motivation: str = "") -> str:
    """The text of a new change; `unwritten` finds what is still to be filled in."""
    motivation, signatures = split_signatures(motivation)
    told = [
        motivation or f"{UNWRITTEN} why it is needed.",
        f"{UNWRITTEN} what it does, and how.",
        f"{UNWRITTEN} what else a reader must know; or: None.",
    ]
    parts = (f"{heading}\n{one}" for heading, one in zip(_HEADINGS, told, strict=True))
    return "\n\n".join([title, *parts, *filter(None, [signatures])]) + "\n"


def joined(text: str, other: str) -> str:
    """The first text with what the sections of the other say added to its own."""
    title, *own = _HEADING.split(text)
    added = _HEADING.split(other)
    parts = [title.strip()]
    for heading, *both in zip(own[::2], own[1::2], added[2::2], strict=True):
        told = [one for one in map(str.strip, both) if one.strip(". ") != "None"]
        parts.append(f"{heading}\n" + ("\n\n".join(dict.fromkeys(told)) or "None."))
    return "\n\n".join(parts)


def unwritten(text: ChangeText) -> int | None:
    """The line of a text where something is still to be written."""
    lines = enumerate(text.message.splitlines(), start=1)
    return next((number for number, line in lines if line.startswith(UNWRITTEN)), None)


def _check_line(line: str, place: str) -> None:
    """Refuses what a commit's message cannot carry, or no reader sees."""
    for one in line:
        if one != "\t" and (CONTROL.match(one) or one == "\ufeff"):
            raise SeriesError(place, f"has the character U+{ord(one):04X}, which is not for a text")
    if _trailer().match(line):
        raise SeriesError(place, "trailers are written by the tool")
    if _GHSTACK_LINE.match(line) or _GHSTACK_STACK.match(line):
        raise SeriesError(place, "the line is as one of ghstack's, and would go")


def _check_sections(text: str, shown: str) -> None:
    before, *parts = _HEADING.split(text)
    sections = [_HEADINGS[heading] for heading in parts[::2]]
    number = before.count("\n") + 1
    for section, told in zip(sections, parts[1::2], strict=True):
        if not told.strip():
            raise SeriesError(f"{shown}:{number}", f"the section '{section}' is empty")
        number += told.count("\n") + 1
    if tuple(sections) != SECTIONS:
        missing = [section for section in SECTIONS if section not in sections]
        raise SeriesError(
            shown,
            f"needs the sections {', '.join(SECTIONS)}, in this order, underlined with '-'"
            + (f"; missing: {', '.join(missing)}" if missing else ""),
        )


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Trailers:
    """What the trailers of a commit of the series say."""

    change: str  # <stage>/<change>
    stage: str
    digest: str


def compose(text: ChangeText, change: str, place: str, tree: TreeId, author: str) -> str:
    """The message of a change's commit. place: <stage> <n>/<of>"""
    body, signatures = split_signatures(text.message)
    return (
        f"{body}\n\n"
        f"{settings().trailer}-Change: {change}\n"
        f"{settings().trailer}-Stage: {place}\n"
        f"{settings().trailer}-Digest: {digest(text.message, tree, author)}\n"
        # last: `git commit -s` adds no line that is the last already
        + (f"{signatures}\n" if signatures else "")
    )


@functools.cache
def trailers(message: str) -> Trailers | None:
    """The series' trailers of a message, or None for a commit of someone else."""
    found = dict(_trailer().findall(message))
    if "Change" not in found:
        return None
    return Trailers(found["Change"], found["Change"].partition("/")[0], found.get("Digest", ""))


def own_text(message: str) -> str:
    """A commit's message without the series' trailers and without ghstack's lines."""
    lines = [
        line
        for line in _GHSTACK_STACK.sub("", message).splitlines()
        if not (_trailer().match(line) or _GHSTACK_LINE.match(line))
    ]
    return _tidied("\n".join(lines).strip())


@functools.cache
def is_as_made(commit: Commit) -> bool:
    """Whether a commit with our trailers is just as the tool made it."""
    found, text = trailers(commit.message), own_text(commit.message)
    return found is not None and found.digest in (
        digest(text, commit.tree, commit.author),
        digest(text, commit.tree),  # of a stack applied before changes had authors
    )


@functools.cache
def _trailer() -> re.Pattern[str]:
    return re.compile(rf"^{settings().trailer}-(Change|Stage|Digest): (.+)$", re.MULTILINE)


def split_id(id_: str) -> tuple[str, str] | None:
    """Stage and name of a change's id, or None where it is none."""
    stage, slash, name = id_.partition("/")
    return (stage, name) if slash and NAME.match(stage) and NAME.match(name) else None


@dataclass(frozen=True)
class PayloadFile:
    """A new file: where it is kept, and its path in the project's tree."""

    source: Path
    kept_at: str  # <payload folder>/<stage>/<target>
    target: str

    @property
    def mode(self) -> int:
        return mode_of(self.source)

    @property
    def digest(self) -> bytes:
        if self.source.is_symlink():
            return hashlib.sha256(self.content).digest()
        sum = hashlib.sha256()
        with self.source.open("rb") as file:
            while piece := file.read(1 << 20):  # not at once: it may be large
                sum.update(piece)
        return sum.digest()

    @property
    def content(self) -> bytes:
        """As git has it: of a link, what it points to."""
        if self.source.is_symlink():
            return os.fsencode(self.source.readlink())
        return self.source.read_bytes()


def closest(file: str, claims: Mapping[str, object]) -> str:
    """The claim on a payload file, which may be on a folder that it is in; "": there is none."""
    places = [file, *map(str, PurePosixPath(file).parents)]
    return next((one for one in places if one in claims), "")


@dataclass(frozen=True)
class Change:
    """One commit, one pull request."""

    stage: str
    name: str
    number: int  # in its stage, from 1
    of: int  # how many changes the stage has
    text: ChangeText
    files: Sequence[PayloadFile]
    patch: Path | None
    place: str
    author: str | None = None  # name <address>; None: the series' author

    @property
    def id(self) -> str:
        return f"{self.stage}/{self.name}"

    @property
    def is_begun(self) -> bool:
        """Whether it has content; a new one has only a text."""
        return bool(self.files) or self.patch is not None

    def patched_paths(self) -> list[str]:
        """The files of the base, or of earlier changes, that the patch edits."""
        if self.patch is None:
            return []
        paths = sorted(patch.originals(self.patch.read_bytes()))
        for path in paths:
            if {"..", ".git", ""} & set(path.split("/")):
                raise SeriesError(self.place, f"{self.id}: its patch edits '{path}': no such place")
        return paths

    def touched_paths(self) -> list[str]:
        """The files that it edits, and those that it adds."""
        return self.patched_paths() + [file.target for file in self.files]

    @cached_property
    def source_digest(self) -> str:
        """A digest of all that the change is made from."""
        sum = hashlib.sha256(self.text.message.encode())
        sum.update(f"\0{self.number}/{self.of}\0".encode())
        for file in self.files:
            sum.update(f"{file.target}\0{file.mode:o}\0".encode())
            sum.update(file.digest)
        if self.patch is not None:
            sum.update(self.patch.read_bytes())
        return sum.hexdigest()


@dataclass(frozen=True)
class Stage:
    """A run of changes that leaves the tree building and its tests passing."""

    name: str
    summary: str
    changes: tuple[Change, ...]
