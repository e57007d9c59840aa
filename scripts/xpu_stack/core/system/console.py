"""What the program prints: one console for people, one log file for the rest.

Texts are shown without passwords, and with no character that hides another.
"""

import contextlib
import functools
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from xpu_stack.core.system.errors import ToolError

# rich is imported where it is used: most runs of the tool print a line or two.
if TYPE_CHECKING:
    from rich.progress import Progress

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # until a file is opened

_CREDENTIALS = re.compile(r"(https?://)[^/\s'\"]+@")
_COLOUR = re.compile(r"(\x1b\[[\d;]*m)")
# Control characters but tabs and ends of lines, and those that change the direction of a
# text or have no width.
_HIDDEN = re.compile(
    r"(?!\r\n)[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def redacted(text: str) -> str:
    """A text whose addresses have no name and password."""
    return _CREDENTIALS.sub(r"\1***@", text)


def visible(text: str) -> str:
    """A text with [U+202E] and the like in place of characters that cannot be seen."""
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


def start_log(folder: Path, verb: str) -> Path:
    """Opens this run's log file; the file of the run before is kept beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):  # another person's
        folder.chmod(0o700)
    path = folder / f"{verb}.log"
    with contextlib.suppress(FileNotFoundError):  # or another run has moved it
        path.replace(folder / f"{verb}.previous.log")
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(_Formatter("%(asctime)s %(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.DEBUG)
    log.propagate = False
    return path


_talks = True


def leave_output_to_a_program() -> None:
    """From now on only errors and progress are shown, and nothing on standard output."""
    global _talks
    _talks = False


def say(text: str) -> None:
    """A line for the person, and for the log."""
    log.info("%s", text)
    if _talks:
        put(redacted(text))


def put(text: str) -> None:
    """Prints a text; goes on when its reader has seen enough, as in `status | head`."""
    if sys.stdout.isatty():  # colours are left as they are
        pieces = enumerate(_COLOUR.split(text))
        text = "".join(piece if n % 2 else visible(piece) for n, piece in pieces)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(document: Mapping[str, Any]) -> None:
    """A document for a program, and nothing else on standard output."""
    leave_output_to_a_program()
    put(json.dumps(document, indent=1, ensure_ascii=False))


def warn(text: str) -> None:
    """A line for the person that is no result."""
    print(visible(redacted(text)), file=sys.stderr, flush=True)


def coloured(text: str, colour: str) -> str:
    """A text in a colour, where standard output shows colours; NO_COLOR= turns them off."""
    return _styled(sys.stdout, text, fg=colour)


def _styled(stream: TextIO, text: str, **style: Any) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return click.style(text, **style) if stream.isatty() and not plain else text


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, cut: str = "") -> None:
    """Prints rows in columns, "-" for an empty cell.

    On a narrower terminal the column `cut` is shortened.
    """
    table = [[cell or "-" for cell in row] for row in (headings, *rows)]
    widths = [
        max(len(click.unstyle(cell)) for cell in column) for column in zip(*table, strict=True)
    ]
    if cut and sys.stdout.isatty():
        over = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        column = headings.index(cut)
        widths[column] = min(widths[column], max(widths[column] - over, len(cut)))
    for row in table:
        put("  ".join(map(_fitted, row, widths)).rstrip())


def _fitted(cell: str, width: int) -> str:
    plain = click.unstyle(cell)
    return cell + " " * (width - len(plain)) if len(plain) <= width else f"{plain[: width - 1]}…"


def show_error(error: ToolError, log_file: Path | None) -> None:
    """The three lines of an error, and where the rest is."""

    def show(label: str, text: str, dim: bool = False, **style: Any) -> None:
        text = _styled(sys.stderr, visible(redacted(text)), dim=dim)
        print(_styled(sys.stderr, label, dim=dim, **style) + text, file=sys.stderr)

    log.error("%s | %s | %s", error.what, error.why, error.next)
    if error.detail:
        log.error("%s", error.detail)
        show("", error.detail, dim=True)
    show("error: ", error.what, fg="red", bold=True)
    show("  why: ", error.why, bold=True)
    show("  next: ", error.next, bold=True)
    if log_file is not None:
        show("  log:  ", str(log_file), dim=True)


@contextmanager
def progress(total: float | None, what: str, *, may_be_nothing: bool = False) -> Iterator["Bar"]:
    """A bar for work of `total` steps (None: unknown), removed when done.

    may_be_nothing: the work is not mentioned before its first step.
    """
    log.info("%s ...", what)
    with contextlib.ExitStack() as until:
        bar = Bar(total, what, until)
        if not may_be_nothing:
            bar.at()
        yield bar
    log.info("%s: done", what)


class Bar:
    """One progress bar; where standard error is no terminal, a line."""

    def __init__(self, total: float | None, what: str, until: contextlib.ExitStack) -> None:
        self._total, self._what, self._until = total, what, until

    def step(self, what: str | None = None) -> None:
        self.at(what, advance=1)

    def at(self, what: str | None = None, **numbers: float | None) -> None:
        """Shows what it does now. numbers: `advance`, or `completed`, and `total`"""
        if self._bars is not None:
            told: dict[str, Any] = {"description": what, **numbers}
            self._bars.update(self._bars.task_ids[0], **told)

    @functools.cached_property
    def _bars(self) -> "Progress | None":
        """Shown from the first step on."""
        if not sys.stderr.isatty():
            warn(f"{self._what} ...")
            return None
        from rich import console, progress

        columns = [
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
        ]
        shown = console.Console(stderr=True)
        bars = progress.Progress(*columns, console=shown, transient=True)
        bars.add_task(self._what, total=self._total)
        return self._until.enter_context(bars)
