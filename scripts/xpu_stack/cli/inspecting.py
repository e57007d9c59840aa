"""Verbs that show changes, with git: show, diff, which."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from xpu_stack.cli.options import Call, verb
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import console
from xpu_stack.show import differences, which


@verb("show")
@click.option("--change", help="<stage>/<change>. Default: the topmost that is applied.")
def show_(call: Call, change: str | None) -> None:
    """Shows the commit of a change, text and diff; one that is not applied is made for it."""
    words = ("show", "--patch-with-stat")
    _git(call, lambda work: (*words, differences.commit_of(work, change)))


@verb("diff")
@click.option(
    "--change", help="Only the edits of this change, <stage>/<change>. Default: all edits."
)
def diff_(call: Call, change: str | None) -> None:
    """Shows what the checkout has that the series has not: what `make export` would write."""
    _git(call, lambda work: ("diff", *differences.edits(work, change), "--"))


@verb("which")
@click.option(
    "--file",
    required=True,
    metavar="<path>[:<line>]",
    help="A file of the checkout, or a line of it: path:line.",
)
def which_(call: Call, file: str) -> None:
    """Says which change a file or a line comes from, and where the series keeps it."""
    with call.opened_to_read() as work:
        for line in which.which(work, file):
            console.say(line)


def _git(call: Call, words: Callable[[Workspace], tuple[str, ...]]) -> None:
    """Has git show something, on the person's terminal."""
    console.leave_output_to_a_program()
    with call.opened_to_read() as work:
        found = words(work)
        if work.repository.has_objects_elsewhere:  # for as long as this is open
            sys.exit(work.repository.show(*found))
    # no lock is held while a person reads
    sys.exit(work.repository.show(*found))
