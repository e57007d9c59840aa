"""What the program prints: one console for people, one log file for the rest."""

import contextlib
import functools
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.untrusted import on_terminal, redacted, visible

# rich is imported where it is used: most runs of the tool print a line or two.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # until a file is opened


@functools.cache
def _err() -> "Console":
    """Standard error, in colours where it has them."""
    from rich.console import Console

    # ":100:" is a line of a file
    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


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


def put(text: str, end: str = "\n") -> None:
    """Prints a text; goes on when its reader has seen enough, as in `status | head`."""
    if sys.stdout.isatty():
        text = on_terminal(text)
    try:
        print(text, end=end, flush=True)
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
    shown = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return click.style(text, fg=colour) if shown else text


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

    def escape(text: str) -> str:
        return _plain(visible(redacted(text)))

    err = _err()
    log.error("%s | %s | %s", error.what, error.why, error.next)
    if error.detail:
        log.error("%s", error.detail)
        err.print(escape(error.detail), style="dim")
    err.print(f"[bold red]error:[/] {escape(error.what)}")
    err.print(f"  [bold]why:[/] {escape(error.why)}")
    err.print(f"  [bold]next:[/] {escape(error.next)}")
    if log_file is not None:
        err.print(f"  [dim]log:[/]  [dim]{escape(str(log_file))}[/]")


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


def say_where_no_bar(text: str) -> None:
    """Reports progress where there is no bar, as in a log."""
    if not sys.stderr.isatty():
        warn(text)


class Bar:
    """One progress bar; where standard error is no terminal, a line."""

    def __init__(self, total: float | None, what: str, until: contextlib.ExitStack) -> None:
        self._total, self._what, self._until = total, what, until
        self._bars: Progress | None = None
        self._shown = False

    def step(self, what: str | None = None) -> None:
        self.at(advance=1, what=what)

    def at(
        self,
        *,
        advance: float | None = None,
        done: float | None = None,
        total: float | None = None,
        what: str | None = None,
    ) -> None:
        if not self._shown:
            self._shown = True
            self._show()
        if self._bars is not None:
            self._bars.update(
                self._bars.task_ids[0],
                advance=advance,
                completed=done,
                total=total,
                description=None if what is None else _plain(what),
            )

    def _show(self) -> None:
        if not sys.stderr.isatty():
            warn(f"{self._what} ...")
            return
        from rich import progress

        columns = [
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
        ]
        bars = progress.Progress(*columns, console=_err(), transient=True)
        self._bars = self._until.enter_context(bars)
        self._bars.add_task(_plain(self._what), total=self._total)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
