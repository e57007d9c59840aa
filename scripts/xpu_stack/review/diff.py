"""The diff of a commit, taken apart: files, hunks, lines, and the words that differ."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from xpu_stack.core.system.git import Commit, Repository

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
# Two lines with less in common than this are shown as one gone and one new.
_ALIKE = 0.4
# Ratios of pairs are taken in blocks up to this many lines on a side.
_LARGEST_BLOCK = 60

Span = tuple[int, int]


@dataclass(frozen=True)
class Line:
    """A line of a hunk. kind: ' ' in both, '-' old, '+' new, '\\' a remark of git."""

    kind: str
    text: str
    old: int | None = None  # line numbers, from 1
    new: int | None = None
    words: tuple[Span, ...] = ()  # the parts of text that its counterpart has not


@dataclass(frozen=True)
class Hunk:
    header: str
    place: str  # what git says the hunk is in, a function say
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class FileDiff:
    """What a commit does to one file."""

    path: str
    old_path: str
    status: str  # new, deleted, renamed, changed
    notes: tuple[str, ...]  # modes, a binary file
    hunks: tuple[Hunk, ...]
    raw: str  # the diff as git prints it

    @property
    def added(self) -> int:
        return sum(line.kind == "+" for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "-" for hunk in self.hunks for line in hunk.lines)


def parse(repository: Repository, commit: Commit) -> tuple[FileDiff, ...]:
    """The files that `commit` changes, as its only parent compares."""
    text = repository.run(
        "diff-tree",
        "-p",
        "-r",
        # no commit id in the first line: there are two trees
        "--no-commit-id",
        # a moved file is shown as moved, not as one gone and one new
        "--find-renames",
        # the ids of the blobs can be looked up, now and in a year
        "--full-index",
        # a person's own viewers and filters are not for us
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        # diff.noprefix and diff.mnemonicPrefix would change the form
        "--src-prefix=a/",
        "--dst-prefix=b/",
        # keeps functions together where lines repeat
        "--diff-algorithm=histogram",
        commit.parents[0],
        commit.id,
    ).text
    parts = re.split(r"^(?=diff --git )", text, flags=re.MULTILINE)
    return tuple(_file(part) for part in parts if part.startswith("diff --git "))


# What the lines above the hunks begin with, and what they say.
_STATUS = {"new file mode ": "new", "deleted file mode ": "deleted", "rename from ": "renamed"}
_OLD_PATH = ("rename from ", "--- a/")
_PATH = ("rename to ", "+++ b/")
_NOTES = ("old mode ", "new mode ", "Binary files ", "new file mode 100755", "new file mode 120000")


def _file(raw: str) -> FileDiff:
    # Only "\n" ends a line: form feeds and the like are text.
    lines = raw.removesuffix("\n").split("\n")
    first = next((n for n, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    head = lines[1:first]
    status = [word for start, word in _STATUS.items() if any(one.startswith(start) for one in head)]
    old_path, path = _after(head, _OLD_PATH), _after(head, _PATH)
    if not (path or old_path):  # no lines: a mode, an empty or a binary file, of one name
        words = lines[0].removeprefix("diff --git ")
        path = words[len(words) // 2 + 1 :].removeprefix("b/")
    return FileDiff(
        path=path or old_path,
        old_path=old_path or path,
        status=status[0] if status else "changed",
        notes=tuple(line for line in head if line.startswith(_NOTES)),
        hunks=tuple(_hunks(lines[first:])),
        raw=raw,
    )


def _after(lines: list[str], starts: tuple[str, ...]) -> str:
    """The rest of the first line that begins with one of `starts`, or ""."""
    for line in lines:
        for start in starts:
            if line.startswith(start):
                # git ends a path that has a blank in it with a tab
                return line.removeprefix(start).removesuffix("\t")
    return ""


def _hunks(lines: list[str]) -> Iterator[Hunk]:
    starts = [n for n, line in enumerate(lines) if line.startswith("@@ ")]
    for start, end in pairwise([*starts, len(lines)]):
        match = _HUNK.match(lines[start])
        assert match is not None, lines[start]
        numbered = _numbered(lines[start + 1 : end], int(match[1]), int(match[2]))
        header = lines[start].removesuffix(match[3]).strip()
        yield Hunk(header, match[3], tuple(_with_words(list(numbered))))


def _numbered(lines: list[str], old: int, new: int) -> Iterator[Line]:
    for line in lines:
        kind, text = line[:1] or " ", line[1:].removesuffix("\r")
        in_old, in_new = kind in " -", kind in " +"
        yield Line(kind, text, old if in_old else None, new if in_new else None)
        old, new = old + in_old, new + in_new


# -- words -------------------------------------------------------------------


def _with_words(lines: list[Line]) -> list[Line]:
    """Marks the words that differ where a line is an edit of another."""
    result, at = list(lines), 0
    while at < len(lines):
        olds = _run(lines, at, "-")
        news = _run(lines, at + olds, "+")
        for old, new in _pairs(lines[at : at + olds], lines[at + olds : at + olds + news]):
            one, other = at + old, at + olds + new
            spans = differing(lines[one].text, lines[other].text)
            result[one] = replace(lines[one], words=spans[0])
            result[other] = replace(lines[other], words=spans[1])
        at += max(olds + news, 1)
    return result


def _run(lines: list[Line], start: int, kind: str) -> int:
    end = start
    while end < len(lines) and lines[end].kind == kind:
        end += 1
    return end - start


def _pairs(olds: list[Line], news: list[Line]) -> Iterator[tuple[int, int]]:
    """Which old line became which new one, in order."""
    if max(len(olds), len(news)) > _LARGEST_BLOCK:
        return
    start = 0
    for old, line in enumerate(olds):
        ratios = [
            (_alike(line.text, other.text), -new)
            for new, other in enumerate(news[start:], start=start)
        ]
        best, negative = max(ratios, default=(0.0, 0))
        if best >= _ALIKE:
            yield old, -negative
            start = 1 - negative


def _alike(one: str, other: str) -> float:
    a, b = _WORD.findall(one.strip()), _WORD.findall(other.strip())
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def differing(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The parts of each of two lines that the other has not."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    codes = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    changed = [code for code in codes if code[0] != "equal"]
    return (
        _spans(a, [(code[1], code[2]) for code in changed]),
        _spans(b, [(code[3], code[4]) for code in changed]),
    )


def _spans(words: list[str], ranges: list[Span]) -> tuple[Span, ...]:
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    return tuple((places[start], places[end]) for start, end in ranges if start < end)
