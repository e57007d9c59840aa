"""Verbs that show the stack to others: status, review, mail."""

from pathlib import Path

import click

from xpu_stack import review as reviewing
from xpu_stack.build import configuration
from xpu_stack.cli.options import FAST, Call, verb
from xpu_stack.core.system import console
from xpu_stack.report import mail as mailing
from xpu_stack.report import status

_out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The folder to write to. Default: a folder below .xpu/work.",
)


@verb("status", mode=FAST, json=True)
def status_(call: Call, as_json: bool) -> None:
    """Shows stages and changes: applied, built, tested."""
    with call.opened_to_read() as work:
        found = status.read(work, configuration.results_of(work, call.mode), call.mode)
        if as_json:
            console.print_json(found.as_json)
        else:
            status.show(work, found)


@verb("review")
@click.option(
    "--since",
    help="What to compare with: a commit of this repository (the series as it was there), or the "
    "tip of another stack in the checkout. Default: the stack before the last operation.",
)
@_out_option
def review_(call: Call, since: str | None, out: Path | None) -> None:
    """Writes the stack as pages for a browser and as Markdown."""
    with call.opened_to_read() as work:
        folder = out or call.layout.for_checkout(work.repository.folder) / "review"
        console.say(f"open {reviewing.build(work, since, folder)}")


@verb("mail")
@_out_option
def mail_(call: Call, out: Path | None) -> None:
    """Writes the stack as mails, with a cover letter."""
    with call.opened_to_read() as work:
        folder = out or call.layout.for_checkout(work.repository.folder) / "mail"
        for path in mailing.write(work, folder):
            console.say(str(path))
