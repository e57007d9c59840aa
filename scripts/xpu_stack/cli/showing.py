"""Verbs that show the stack to others: status, review, mail, submit."""

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


@verb("submit", stage=True)
@click.option(
    "--branch",
    help="The remote's branch that the pull requests are for. Default: its default branch.",
)
@click.option(
    "--fork",
    metavar="<remote>",
    help="Submit from your fork, this remote: for those who cannot push to the repository. "
    "A later pull request then shows the commits of the earlier ones, too.",
)
@click.option("--draft", is_flag=True, help="Open new pull requests as drafts.")
@click.option("--reviewers", default="", help="Who to ask for a review: names on GitHub.")
@click.option("--dry-run", is_flag=True, help="Only show what would be opened and updated.")
def submit_(
    call: Call, branch: str | None, fork: str | None, draft: bool, reviewers: str, dry_run: bool
) -> None:
    """Opens and updates the pull requests of the stack, with ghstack or from a fork."""
    # ghstack and its HTTP client take half a second to load: for this verb only.
    from xpu_stack import submit as submitting

    with call.opened() as work:
        account = submitting.configured(work.repository.folder)
        names = tuple(reviewers.replace(",", " ").split())
        request = submitting.Request(call.stage, branch, dry_run, fork, draft, names)
        submitting.submit(work, account, request)
