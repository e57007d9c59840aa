"""Verbs that show something, and those for the machine and the documents."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from xpu_stack import review as reviewing
from xpu_stack import submit as submitting
from xpu_stack.build import configuration, doctor
from xpu_stack.cli.options import EPILOG, FAST, Call, cli, flag, names, needed, option, verb
from xpu_stack.core.lay import opening
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series import base as bases
from xpu_stack.core.system import console
from xpu_stack.core.system.layout import Layout
from xpu_stack.report import mail as mailing
from xpu_stack.report import status
from xpu_stack.show import differences, unsaved_work


@verb("show")
def show_(
    call: Call,
    change: str | None = option("<stage>/<change>. Default: the topmost that is applied."),
) -> None:
    """Shows the commit of a change, text and diff; one that is not applied is made for it."""
    _git(call, lambda work: ("show", "--patch-with-stat", differences.commit_of(work, change)))


@verb("diff")
def diff_(
    call: Call,
    change: str | None = option(
        "Only the edits of this change, <stage>/<change>. Default: all edits."
    ),
) -> None:
    """Shows what the checkout has that the series has not: what `make export` would write."""
    _git(call, lambda work: ("diff", *differences.edits(work, change), "--"))


@verb("which")
def which_(
    call: Call,
    file: str = needed("A file of the checkout, or a line of it: path:line.", "<path>[:<line>]"),
) -> None:
    """Says which change a file or a line comes from, and where the series keeps it."""
    with call.opened_to_read() as work:
        for line in differences.which(work, file):
            console.say(line)


def _git(call: Call, words: Callable[[Workspace], tuple[str, ...]]) -> None:
    """Has git show something, on the person's terminal."""
    console.leave_output_to_a_program()
    with call.opened_to_read() as work:
        found = words(work)
        if len(work.repository.object_folders) > 1:  # for as long as this is open
            sys.exit(work.repository.show(*found))
    # no lock is held while a person reads
    sys.exit(work.repository.show(*found))


# -- the stack -----------------------------------------------------------------------


_OUT = option(
    "The folder to write to. Default: a folder below .xpu/work.", type=click.Path(path_type=Path)
)


@verb("status", mode=FAST, json=True)
def status_(call: Call, json: bool) -> None:
    """Shows stages and changes: applied, built, tested."""
    with call.opened_to_read() as work:
        found = status.read(work, configuration.results_of(work, call.mode), call.mode)
        if json:
            console.print_json(found)
        else:
            status.show(work, found)


@verb("review")
def review_(
    call: Call,
    since: str | None = option(
        "What to compare with: a commit of this repository (the series as it was there), or the "
        "tip of another stack in the checkout. Default: the stack before the last operation."
    ),
    out: Path | None = _OUT,
) -> None:
    """Writes the stack as pages for a browser and as Markdown."""
    with call.opened_to_read() as work:
        folder = out or call.layout.for_checkout(work.repository.folder) / "review"
        console.say(f"open {reviewing.build(work, since, folder)}")


@verb("mail")
def mail_(call: Call, out: Path | None = _OUT) -> None:
    """Writes the stack as mails, with a cover letter."""
    with call.opened_to_read() as work:
        folder = out or call.layout.for_checkout(work.repository.folder) / "mail"
        for path in mailing.write(work, folder):
            console.say(str(path))


@verb("submit", stage=True)
def submit_(
    call: Call,
    branch: str | None = option(
        "The remote's branch that the pull requests are for. Default: its default branch."
    ),
    fork: str | None = option(
        "Submit from your fork, this remote: for those who cannot push to the repository. "
        "A later pull request then shows the commits of the earlier ones, too.",
        metavar="<remote>",
    ),
    draft: bool = flag("Open new pull requests as drafts."),
    reviewers: str = option("Who to ask for a review: names on GitHub.", default=""),
    dry_run: bool = flag("Only show what would be opened and updated."),
) -> None:
    """Opens and updates the pull requests of the stack, with ghstack or from a fork."""
    asked = submitting.Request(call.stage, branch, dry_run, fork, draft, names(reviewers))
    with call.opened() as work:
        submitting.submit(work, asked)


# -- the machine and the documents ---------------------------------------------------


@verb("doctor", checkout=False)
def doctor_(call: Call) -> None:
    """Says what is installed, what is missing, and how to get it."""
    doctor.show(doctor.examine(call.layout, bases.Base.load(call.layout, call.base)))


@cli.command(epilog=EPILOG)
def clean() -> None:
    """Removes what was built; refuses while a conflict is unresolved or a run is at work."""
    _remove("clean", "work")


@cli.command(epilog=EPILOG)
def distclean() -> None:
    """Removes all that the tool has made; refuses while a checkout has work of yours.

    Work is edits, files, commits, stashes and worktrees, and a conflict that is
    not resolved.
    """
    _remove("distclean", "")


def _remove(verb: str, name: str) -> None:
    layout = Layout.current()
    unsaved_work.refuse_conflicts(layout)
    if verb == "distclean":
        unsaved_work.refuse_checkouts(layout)
    with opening.alone(layout, verb):
        shutil.rmtree(layout.state / name, ignore_errors=True)
        console.put(f"removed {layout.state / name}")


@cli.command("help", hidden=True)
def help_() -> None:
    """Lists the targets and their variables."""
    from xpu_stack.cli import reference

    width = shutil.get_terminal_size().columns
    console.put(reference.overview(Layout.current().repository / "Makefile", width))


@cli.command("reference", hidden=True)
def reference_() -> None:
    """Writes docs/reference.md, and the messages in docs/troubleshooting.md."""
    from xpu_stack.cli import reference

    for path, text in reference.pages(Layout.current().repository).items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            console.put(f"wrote {path}")
