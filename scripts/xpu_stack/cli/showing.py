"""Verbs that show the stack to others: status, review, mail."""

from pathlib import Path

import click

from xpu_stack import review as reviewing
from xpu_stack.build import configuration
from xpu_stack.build.modes import Mode
from xpu_stack.cli.options import EPILOG, checkout_options, cli, json_option, mode_option
from xpu_stack.core.lay import opening
from xpu_stack.core.system import console
from xpu_stack.core.system.layout import Layout
from xpu_stack.report import mail as mailing
from xpu_stack.report import status


@cli.command("status", epilog=EPILOG)
@checkout_options
@mode_option
@json_option
def status_(base: str, pytorch_src: str | None, mode: str, as_json: bool) -> None:
    """Shows stages and changes: applied, built, tested."""
    with opening.opened_to_read(Layout.current(), base, pytorch_src, "status") as work:
        built = configuration.results_of(work, Mode(mode))
        found = status.read(work, built, Mode(mode))
        if as_json:
            console.print_json(found.as_json)
        else:
            status.show(work, found)


@cli.command("review", epilog=EPILOG)
@checkout_options
@click.option(
    "--since",
    help="What to compare with: a commit of this repository (the series as it was there), or the "
    "tip of another stack in the checkout. Default: the stack before the last operation.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The folder to write to. Default: a folder below .xpu/work.",
)
def review_(base: str, pytorch_src: str | None, since: str | None, out: Path | None) -> None:
    """Writes the stack as pages for a browser and as Markdown."""
    layout = Layout.current()
    with opening.opened_to_read(layout, base, pytorch_src, "review") as work:
        folder = out or layout.for_checkout(work.repository.folder) / "review"
        console.say(f"open {reviewing.build(work, since, folder)}")


@cli.command("mail", epilog=EPILOG)
@checkout_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The folder to write to. Default: a folder below .xpu/work.",
)
def mail_(base: str, pytorch_src: str | None, out: Path | None) -> None:
    """Writes the stack as mails, with a cover letter."""
    layout = Layout.current()
    with opening.opened_to_read(layout, base, pytorch_src, "mail") as work:
        folder = out or layout.for_checkout(work.repository.folder) / "mail"
        for path in mailing.write(work, folder):
            console.say(str(path))
