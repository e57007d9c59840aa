"""The verb that sends the stack to GitHub: submit."""

import click

from xpu_stack.cli.options import Call, verb


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
