"""The diff of a commit, taken apart: files, lines, and the words that differ; as HTML.

The colours are in review.css: no style that Pygments brings can be read on the
backgrounds of a diff, light and dark.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from html import escape
from itertools import chain, groupby, pairwise
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from xpu_stack.core.system.git import DIFF, Commit, Repository

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
# Two lines with less in common than this are shown as one gone and one new.
_ALIKE = 0.4
# Ratios of pairs are taken in blocks up to this many lines on a side.
_LARGEST_BLOCK = 60

Span = tuple[int, int]


@dataclass(frozen=True)
class Line:
    """A line of a diff. kind: ' ' in both, '-' old, '+' new, '@' of a hunk, '\\' of git."""

    kind: str
    text: str
    old: int | None = None  # line numbers, from 1
    new: int | None = None
    words: tuple[Span, ...] = ()  # the parts of text that its counterpart has not


@dataclass(frozen=True)
class FileDiff:
    """What a commit does to one file."""

    path: str
    old_path: str
    status: str  # new, deleted, renamed, changed
    notes: tuple[str, ...]  # modes, a binary file
    lines: tuple[Line, ...]
    raw: str  # the diff as git prints it

    @property
    def added(self) -> int:
        return sum(line.kind == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "-" for line in self.lines)


def parse(repository: Repository, commit: Commit) -> tuple[FileDiff, ...]:
    """The files that `commit` changes, as its only parent compares."""
    # a moved file is shown as moved, not as one gone and one new
    words = ("diff-tree", *DIFF, "--find-renames", commit.parents[0], commit.id)
    text = repository.run(*words).text
    parts = re.split(r"^(?=diff --git )", text, flags=re.MULTILINE)
    return tuple(_file(part) for part in parts if part.startswith("diff --git "))


# What the lines above the hunks begin with, and what they say.
_STATUS = {"new file mode": "new", "deleted file mode": "deleted", "rename from": "renamed"}
_TOLD = re.compile(rf"({'|'.join(_STATUS)}|rename to) (.+)")
# one name twice, in quotes where it has a control character, which git escapes
_SAME = re.compile(r'diff --git ("?)a/(.+)\1 \1b/\2\1')
_NOTES = ("old mode ", "new mode ", "Binary files ", "new file mode 100755", "new file mode 120000")


def _file(raw: str) -> FileDiff:
    # Only "\n" ends a line: form feeds and the like are text.
    lines = raw.removesuffix("\n").split("\n")
    first = next((n for n, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    told = {it[1]: it[2] for line in lines[1:first] if (it := _TOLD.fullmatch(line))}
    same = _SAME.fullmatch(lines[0])
    path = same[2] if same else told["rename to"]
    return FileDiff(
        path=path,
        old_path=told.get("rename from", path),
        status=next((word for start, word in _STATUS.items() if start in told), "changed"),
        notes=tuple(line for line in lines[1:first] if line.startswith(_NOTES)),
        lines=_with_words(_numbered(lines[first:])),
        raw=raw,
    )


def _numbered(lines: list[str]) -> Iterator[Line]:
    old = new = 0
    for line in lines:
        kind, text = line[:1] or " ", line[1:].removesuffix("\r")
        if kind == "@":
            found = _HUNK.match(line)
            assert found is not None, line
            old, new = int(found[1]), int(found[2])
            yield Line(kind, line)
            continue
        in_old, in_new = kind in " -", kind in " +"
        yield Line(kind, text, old if in_old else None, new if in_new else None)
        old, new = old + in_old, new + in_new


# -- words -------------------------------------------------------------------


def _with_words(lines: Iterator[Line]) -> tuple[Line, ...]:
    """Marks the words that differ where a line is an edit of another."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.kind)]
    for olds, news in pairwise(runs):
        if olds[0].kind == "-" and news[0].kind == "+":
            for old, new in _pairs(olds, news):
                ours, theirs = differing(olds[old].text, news[new].text)
                olds[old] = replace(olds[old], words=ours)
                news[new] = replace(news[new], words=theirs)
    return tuple(chain.from_iterable(runs))


def _pairs(olds: list[Line], news: list[Line]) -> Iterator[tuple[int, int]]:
    """Which old line became which new one, in order."""
    if max(len(olds), len(news)) > _LARGEST_BLOCK:
        return
    start = 0
    for old, line in enumerate(olds):
        ratios = [_matcher(line.text.strip(), other.text.strip()).ratio() for other in news[start:]]
        best = max(ratios, default=0.0)
        if best >= _ALIKE:
            start += ratios.index(best) + 1
            yield old, start - 1


def _matcher(old: str, new: str) -> SequenceMatcher[str]:
    return SequenceMatcher(None, _WORD.findall(old), _WORD.findall(new), autojunk=False)


def differing(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The parts of each of two lines that the other has not."""
    codes = [code for code in _matcher(old, new).get_opcodes() if code[0] != "equal"]
    return _spans(old, [code[1:3] for code in codes]), _spans(new, [code[3:5] for code in codes])


def _spans(line: str, ranges: list[Span]) -> tuple[Span, ...]:
    places = [0, *(word.end() for word in _WORD.finditer(line))]
    return tuple((places[start], places[end]) for start, end in ranges if start < end)


# -- as HTML -------------------------------------------------------------------------


# More than this is shown without colours: lexing would take seconds.
_LARGEST = 500_000
# The text must stay as it is, so that line numbers agree with the diff's.
_AS_IT_IS: dict[str, Any] = {"stripnl": False, "ensurenl": False}

Piece = tuple[str, str]  # a CSS class, or "", and text


def lines(path: str, source: str) -> list[list[Piece]]:
    """The lines of a file, each cut into pieces of one kind."""
    result: list[list[Piece]] = [[]]
    for kind, text in _lexer(path, source).get_tokens(source):
        css = STANDARD_TYPES.get(kind, "")
        for number, part in enumerate(text.split("\n")):
            if number:
                result.append([])
            if part:
                result[-1].append((css, part))
    return result


def _lexer(path: str, source: str) -> Lexer:
    if len(source) <= _LARGEST:
        # A template is what it becomes, and PyTorch's .h files are C++.
        name = re.sub(r"\.h$", ".hpp", path.removesuffix(".in"))
        with suppress(ClassNotFound):
            return get_lexer_for_filename(name, **_AS_IT_IS)
    return TextLexer(**_AS_IT_IS)


def html(pieces: list[Piece], words: tuple[Span, ...], mark: str) -> str:
    """One line as HTML; `mark` is the element around the words that differ."""
    differing = {place for span in words for place in range(*span)}
    letters = [(css, letter) for css, text in pieces for letter in text]
    runs = groupby(enumerate(letters), lambda one: (one[1][0], one[0] in differing))
    out = []
    for (css, differs), run in runs:
        part = escape("".join(letter for _, (_, letter) in run))
        part = f'<span class="{css}">{part}</span>' if css else part
        out.append(f"<{mark}>{part}</{mark}>" if differs else part)
    return "".join(out)
