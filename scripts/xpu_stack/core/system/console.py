"""What the program prints: one console for people, one log file for the rest."""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from xpu_stack.core.system.commands import as_typed
from xpu_stack.core.system.errors import ToolError


class _Console(Console):
    """Goes on when who reads its output has seen enough, as in `make status | head`."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


# emoji: ":100:" is a line of a file
out = _Console(highlight=False, soft_wrap=True, emoji=False)
err = _Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
log = logging.getLogger("xpu_stack")
log.addHandler(logging.NullHandler())  # until a file is opened
_UNBOUNDED = 10_000  # characters: wider than any table


def start_log(folder: Path, verb: str) -> Path:
    """Opens this run's log file; the file of the run before is kept beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verb}.log"
    if path.exists():
        path.replace(folder / f"{verb}.previous.log")
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
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
    text = as_typed(text)
    log.info("%s", text)
    if _talks:
        out.print(escape(text))


def print_json(document: Mapping[str, Any]) -> None:
    """A document for a program, and nothing else on standard output."""
    leave_output_to_a_program()
    out.out(json.dumps(document, indent=1, ensure_ascii=False))


def show_table(table: Table) -> None:
    """Prints a table in full width; on a narrower terminal, columns with a ratio shrink."""
    unbounded = out.options.update(max_width=_UNBOUNDED)
    natural = Measurement.get(out, unbounded, table).maximum
    # a file or a pipe has no width
    table.width = min(natural, out.width) if out.is_terminal else natural
    out.print(table, width=table.width, crop=False, soft_wrap=False)


def show_error(error: ToolError, log_file: Path | None) -> None:
    """The three lines of an error, and where the rest is."""
    next = as_typed(error.next)
    log.error("%s | %s | %s", error.what, error.why, next)
    if error.detail:
        log.error("%s", error.detail)
        err.print(escape(error.detail), style="dim")
    err.print(f"[bold red]error:[/] {escape(error.what)}")
    err.print(f"  [bold]why:[/] {escape(error.why)}")
    err.print(f"  [bold]next:[/] {escape(next)}")
    if log_file is not None:
        err.print(f"  [dim]log:[/]  [dim]{escape(str(log_file))}[/]")


@contextmanager
def progress(total: float | None, what: str, *, may_be_nothing: bool = False) -> Iterator["Bar"]:
    """A bar for work of `total` steps (None: unknown), removed when done.

    may_be_nothing: the work is not mentioned before its first step.
    """
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    log.info("%s ...", what)
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        bar = Bar(bars, bars.add_task(escape(what), total=total, visible=False), what)
        if not may_be_nothing:
            bar.show()
        yield bar
    log.info("%s: done", what)


def say_where_no_bar(text: str) -> None:
    """Reports progress where there is no bar, as in a log."""
    if not err.is_terminal:
        err.print(escape(text))


class Bar:
    """One progress bar."""

    def __init__(self, bars: Progress, task: TaskID, what: str) -> None:
        self._bars = bars
        self._task = task
        self._what = what
        self._shown = False

    def show(self) -> None:
        """Mentions the work, once."""
        if self._shown:
            return
        self._shown = True
        self._bars.update(self._task, visible=True)
        if not err.is_terminal:
            err.print(escape(f"{self._what} ..."))

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
        self.show()
        self._bars.update(
            self._task,
            advance=advance,
            completed=done,
            total=total,
            description=None if what is None else escape(what),
        )
