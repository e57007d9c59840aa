"""Verbs that show changes, with git: show, diff, which."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from xpu_stack.cli.options import EPILOG, checkout_options, cli
from xpu_stack.core.lay import opening
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import console
from xpu_stack.core.system.layout import Layout
from xpu_stack.show import differences, which


@cli.command("show", epilog=EPILOG)
@click.option("--change", help="<stage>/<change>. Default: the topmost that is applied.")
@checkout_options
def show_(change: str | None, base: str, pytorch_src: str | None) -> None:
    """Shows the commit of a change, text and diff; one that is not applied is made for it."""
    words = ("show", "--patch-with-stat")
    _git(base, pytorch_src, lambda work: (*words, differences.commit_of(work, change)))


@cli.command("diff", epilog=EPILOG)
@click.option(
    "--change", help="Only the edits of this change, <stage>/<change>. Default: all edits."
)
@checkout_options
def diff_(change: str | None, base: str, pytorch_src: str | None) -> None:
    """Shows what the checkout has that the series has not: what `make export` would write."""
    _git(base, pytorch_src, lambda work: ("diff", *differences.edits(work, change), "--"))


@cli.command("which", epilog=EPILOG)
@click.option(
    "--file",
    required=True,
    metavar="<path>[:<line>]",
    help="A file of the checkout, or a line of it: path:line.",
)
@checkout_options
def which_(file: str, base: str, pytorch_src: str | None) -> None:
    """Says which change a file or a line comes from, and where the series keeps it."""
    with opening.opened_to_read(Layout.current(), base, pytorch_src, "which") as work:
        for line in which.which(work, file):
            console.say(line)


def _git(base: str, pytorch_src: str | None, words: Callable[[Workspace], tuple[str, ...]]) -> None:
    """Has git show something, on the person's terminal."""
    console.leave_output_to_a_program()
    with opening.opened_to_read(Layout.current(), base, pytorch_src, "show") as work:
        found = words(work)
        if work.repository.has_objects_elsewhere:  # for as long as this is open
            sys.exit(work.repository.show(*found))
    # no lock is held while a person reads
    sys.exit(work.repository.show(*found))
