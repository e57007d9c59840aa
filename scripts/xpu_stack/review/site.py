"""Writes the pages: one static folder, read from the disk, and Markdown to paste."""

import re
import shutil
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.untrusted import visible
from xpu_stack.review import graph, highlight
from xpu_stack.review.diff import FileDiff, Hunk, Line
from xpu_stack.review.model import Page, Review, gather

_TEMPLATES = Path(__file__).parent / "templates"
_LARGEST_PAGE = 2_000_000  # characters of diffs; the rest is on pages of its own
_ROW = 110  # characters around the text of a line
_MARKER = "review.css"  # a folder that has it was written here
_LARGE = 400  # changed lines; a larger file of the base starts folded
# GitHub takes 65,536 characters in a description.
_PASTE_LIMIT = 60_000
_RANGE_LIMIT = 20_000  # of that, for a range-diff


def build(work: Workspace, since: str | None, out: Path) -> Path:
    """Writes the stack's pages to the folder `out`, in place of earlier ones.

    since: a commit, branch or tag, the tip of an earlier version of the stack;
    None: the one before the last move, when it differs. Returns the index.
    """
    # the folder is replaced as a whole; it must not be someone's own
    if out.exists() and not (out / _MARKER).exists() and (out.is_file() or any(out.iterdir())):
        raise ToolError(
            f"{out} is not replaced.",
            why="it has files in it that are not the review's",
            next=commands.line("mv", out, f"{out}.mine"),
        )
    review = gather(work, since)
    with files.folder(out) as draft, progress(len(review.pages), "writing the pages") as bar:
        (draft / "markdown").mkdir()
        site = _Site(work.repository, review, draft)
        for page in review.pages:
            bar.step(page.id)
            site.change(page)
        site.index()
    return out / "index.html"


_Row = tuple[Line, Markup]
_Part = list[tuple[Hunk, list[_Row]]]


class _Site:
    def __init__(self, repository: Repository, review: Review, out: Path) -> None:
        self._repository = repository
        self._review = review
        self._out = out
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self._markdown.add_render_rule("image", _link)
        self._templates = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=select_autoescape(["html"]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(review=review, large=_LARGE, range_limit=_RANGE_LIMIT)
        self._templates.filters.update(markdown=self._render, bar=bar, cell=cell, fenced=fenced)
        self._templates.filters.update(code_cell=code_cell)

    def index(self) -> None:
        self._write("index.html", "index.html", page=None, graph=graph.draw(self._review))
        self._write("markdown/index.md", "index.md")
        for name in ("review.css", "review.js"):
            shutil.copyfile(_TEMPLATES / name, self._out / name)

    def change(self, page: Page) -> None:
        diffs, room = {}, _LARGEST_PAGE
        for number, file in enumerate(page.files, start=1):
            parts = list(_parts(file, self._rows(page, file)))
            shown: _Part = []
            size = (
                sum(len(html) + _ROW for _, lines in parts[0] for _, html in lines) if parts else 0
            )
            if parts and size <= room:
                room -= size
                shown = parts.pop(0)
            names = [f"{page.slug}-{number}-{part}.html" for part in range(1, len(parts) + 1)]
            for name, hunks in zip(names, parts, strict=True):
                facts = {"page": page, "file": file, "number": number, "hunks": hunks}
                self._write(name, "part.html", **facts)
            diffs[file.path] = shown, names
        self._write(f"{page.slug}.html", "change.html", page=page, diffs=diffs)
        self._write(f"markdown/{page.slug}.md", "change.md", page=page, files=_pasted(page))

    def _write(self, name: str, template: str, **facts: Any) -> None:
        text = self._templates.get_template(template).render(**facts)
        (self._out / name).write_text(visible(text.rstrip("\n")) + "\n", encoding="utf-8")

    def _render(self, text: str) -> Markup:
        return Markup(self._markdown.render(text))  # noqa: S704 (it escapes HTML)

    def _rows(self, page: Page, file: FileDiff) -> list[list[_Row]]:
        """The lines of each hunk, with their HTML."""
        old = self._source(f"{page.commit}^", file.old_path) if file.status != "new" else []
        new = self._source(page.commit, file.path) if file.status != "deleted" else []

        def row(line: Line) -> _Row:
            lines, number = (old, line.old) if line.kind == "-" else (new, line.new)
            pieces = lines[number - 1] if number and number <= len(lines) else []
            if "".join(text for _, text in pieces) != line.text:
                pieces = [("", line.text)]  # what is no UTF-8, or ends in CR
            html = highlight.html(pieces, line.words, "del" if line.kind == "-" else "ins")
            return line, Markup(html)  # noqa: S704 (its text is escaped)

        return [[row(line) for line in hunk.lines] for hunk in file.hunks]

    def _source(self, commit: str, path: str) -> list[list[highlight.Piece]]:
        content = self._repository.blob_at(commit, path) or b""
        return highlight.lines(path, content.decode(errors="backslashreplace"))


def _link(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """A link in place of an image: the pages fetch nothing."""
    image = tokens[index]
    source = str(image.attrs["src"])
    return f'<a href="{escape(source)}">{escape(image.content or source)}</a>'


def _parts(file: FileDiff, rows: list[list[_Row]]) -> Iterator[_Part]:
    """The diff of a file, in parts that a page has room for."""
    part: _Part = []
    room = _LARGEST_PAGE
    for hunk, lines in zip(file.hunks, rows, strict=True):
        start = 0
        for number, (_, html) in enumerate(lines):
            room -= len(html) + _ROW
            if room < 0 and (part or number > start):
                yield [*part, (hunk, lines[start:number])]
                part, start, room = [], number, _LARGEST_PAGE - len(html) - _ROW
        part.append((hunk, lines[start:]))
    if part:
        yield part


def _pasted(page: Page) -> list[FileDiff]:
    """The files whose diffs fit into a description, in order."""
    chosen, room = [], _PASTE_LIMIT - len(page.body) - 100 * len(page.files)
    if page.since is not None and len(page.since.text) <= _RANGE_LIMIT:
        room -= len(page.since.text)
    for file in page.files:
        room -= len(file.raw) + 200
        if room > 0:
            chosen.append(file)
    return chosen


def bar(file: FileDiff) -> tuple[int, int]:
    """Five squares at most: how many for lines added, how many for removed."""
    total = file.added + file.removed
    if not total:
        return 0, 0
    squares = min(5, total)
    plus = round(squares * file.added / total)
    if file.added and file.removed:
        plus = min(max(plus, 1), max(squares - 1, 1))
    return plus, squares - plus


def cell(text: str) -> str:
    """Text that stands in a cell of a Markdown table."""
    return re.sub(r"([\\|\[`])", r"\\\1", text).replace("<", "&lt;")


def code_cell(text: str) -> str:
    """A name as code, in a cell of a Markdown table."""
    runs = re.findall("`+", text)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    blank = " " if runs else ""
    return f"{fence}{blank}{text}{blank}{fence}".replace("|", "\\|")


def fenced(text: str, language: str) -> str:
    """A block of code, in a fence that its text does not have."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"
