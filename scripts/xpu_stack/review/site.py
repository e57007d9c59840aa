"""Writes the pages: one static folder, read from the disk, and Markdown to paste.

The stack is drawn as a rail of changes, base first, and arcs to what they use. The labels
stand beside it as HTML, in rows as high as the rail's, so that they stay readable at any
width.
"""

import itertools
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
from xpu_stack.core.system.console import progress, visible
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Repository
from xpu_stack.review import diff
from xpu_stack.review.diff import FileDiff, Line
from xpu_stack.review.model import Page, Review, gather

ROW = 72  # pixels from one change to the next; review.css has the same
_LANE = 12  # pixels between two arcs
_NEAR = 26  # from the rail to the first arc
_RIGHT = 18  # from the rail to the right edge


def draw(review: Review) -> dict[str, Any]:
    """Where the rail is, and the arcs; neighbours are joined by the rail already."""
    lanes = _lanes(_shortest(review))
    x = _LANE * (max(lanes.values(), default=-1) + 1) + _NEAR
    arcs = []
    for (of, user), lane in lanes.items():
        top, bottom, left = _y(of), _y(user), x - _NEAR - _LANE * lane
        bend = min(16, (bottom - top) // 2)
        path = (
            f"M{x} {top} C{left} {top} {left} {top} {left} {top + bend}"
            f" L{left} {bottom - bend} C{left} {bottom} {left} {bottom} {x} {bottom}"
        )
        arcs.append((path, review.pages[of - 1].slug, review.pages[user - 1].slug))
    return {"width": x + _RIGHT, "x": x, "arcs": arcs}


def _y(number: int) -> int:
    """Where the change of that number is on the rail."""
    return ROW * number + ROW // 2


def _shortest(review: Review) -> list[tuple[int, int]]:
    """(used, user) by number, without those that follow from others."""
    links = []
    reach: dict[str, set[str]] = {}
    for page in review.pages:
        far = {one for used in page.uses for one in reach[used]}
        reach[page.id] = far | page.uses.keys()
        links += [(review.page(used).number, page.number) for used in page.uses.keys() - far]
    return [(of, user) for of, user in links if user - of > 1]


def _lanes(links: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """A lane for each arc, short ones nearest to the rail, none over another."""
    lanes: dict[tuple[int, int], int] = {}
    for of, user in sorted(links, key=lambda link: (link[1] - link[0], link)):
        taken = {lanes[other] for other in lanes if of < other[1] and other[0] < user}
        lanes[of, user] = next(lane for lane in itertools.count() if lane not in taken)
    return lanes


# -- the pages -----------------------------------------------------------------------


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


class _Site:
    def __init__(self, repository: Repository, review: Review, out: Path) -> None:
        self._repository, self._review, self._out = repository, review, out
        markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        markdown.add_render_rule("image", _link)
        self._templates = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=select_autoescape(["html"]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        numbered = {page.number: page for page in review.pages}
        self._templates.globals.update(
            review=review, numbered=numbered, large=_LARGE, range_limit=_RANGE_LIMIT
        )
        self._templates.filters.update(
            markdown=lambda text: Markup(markdown.render(text)),  # noqa: S704 (it escapes HTML)
            bar=bar,
            cell=cell,
            code_cell=code_cell,
            fenced=fenced,
            y=_y,
        )

    def index(self) -> None:
        self._write("index.html", "index.html", page=None, rail=draw(self._review))
        self._write("markdown/index.md", "index.md")
        for name in ("review.css", "review.js"):
            shutil.copyfile(_TEMPLATES / name, self._out / name)

    def change(self, page: Page) -> None:
        diffs, room = {}, _LARGEST_PAGE
        for number, file in enumerate(page.files, start=1):
            parts, shown = _parts(list(self._rows(page, file))), list[_Row]()
            if parts and (size := sum(map(_size, parts[0]))) <= room:
                shown, room = parts.pop(0), room - size
            names = [f"{page.slug}-{number}-{part}.html" for part in range(1, len(parts) + 1)]
            for name, rows in zip(names, parts, strict=True):
                self._write(name, "part.html", page=page, file=file, number=number, rows=rows)
            diffs[file.path] = shown, names
        self._write(f"{page.slug}.html", "change.html", page=page, diffs=diffs)
        self._write(f"markdown/{page.slug}.md", "change.md", page=page, files=_pasted(page))

    def _write(self, name: str, template: str, **facts: Any) -> None:
        text = self._templates.get_template(template).render(**facts)
        (self._out / name).write_text(visible(text.rstrip("\n")) + "\n", encoding="utf-8")

    def _rows(self, page: Page, file: FileDiff) -> Iterator[_Row]:
        """The lines of a diff, with their HTML."""
        old = self._source(f"{page.commit}^", file.old_path) if file.status != "new" else []
        new = self._source(page.commit, file.path) if file.status != "deleted" else []
        for line in file.lines:
            lines, number = (old, line.old) if line.kind == "-" else (new, line.new)
            pieces = lines[number - 1] if number and number <= len(lines) else []
            if "".join(text for _, text in pieces) != line.text:
                pieces = [("", line.text)]  # what is no UTF-8, or ends in CR
            html = diff.html(pieces, line.words, "del" if line.kind == "-" else "ins")
            yield line, Markup(html)  # noqa: S704 (its text is escaped)

    def _source(self, commit: str, path: str) -> list[list[diff.Piece]]:
        content = self._repository.blob_at(commit, path) or b""
        return diff.lines(path, content.decode(errors="backslashreplace"))


def _link(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """A link in place of an image: the pages fetch nothing."""
    image = tokens[index]
    source = str(image.attrs["src"])
    return f'<a href="{escape(source)}">{escape(image.content or source)}</a>'


def _size(row: _Row) -> int:
    return len(row[1]) + _ROW


def _parts(rows: list[_Row]) -> list[list[_Row]]:
    """The diff of a file, in parts that a page has room for."""
    ends = itertools.accumulate(map(_size, rows))
    runs = itertools.groupby(zip(rows, ends, strict=True), lambda one: one[1] // _LARGEST_PAGE)
    return [[row for row, _ in run] for _, run in runs]


def _pasted(page: Page) -> list[FileDiff]:
    """The files whose diffs fit into a description, in order."""
    since = len(page.since.text) if page.since else 0
    room = _PASTE_LIMIT - len(page.body) - 100 * len(page.files)
    room -= since if since <= _RANGE_LIMIT else 0
    ends = itertools.accumulate(len(file.raw) + 200 for file in page.files)
    return [file for file, end in zip(page.files, ends, strict=True) if end < room]


def bar(file: FileDiff) -> tuple[int, int]:
    """Five squares at most: how many for lines added, how many for removed."""
    total = file.added + file.removed
    squares = min(5, total)
    plus = round(squares * file.added / max(total, 1))
    if file.added and file.removed:
        plus = min(max(plus, 1), max(squares - 1, 1))
    return plus, squares - plus


def cell(text: str) -> str:
    """Text that stands in a cell of a Markdown table."""
    return re.sub(r"([\\|\[`])", r"\\\1", text).replace("<", "&lt;")


def code_cell(text: str) -> str:
    """A name as code, in a cell of a Markdown table."""
    fence, blank = _fence(text), " " if "`" in text else ""
    return f"{fence}{blank}{text}{blank}{fence}".replace("|", "\\|")


def fenced(text: str, language: str) -> str:
    """A block of code, in a fence that its text does not have."""
    fence = _fence(f"`` {text}")
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _fence(text: str) -> str:
    return "`" * (max(map(len, re.findall("`*", text))) + 1)
