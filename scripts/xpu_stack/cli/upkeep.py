"""Verbs for the machine and the documents: doctor, clean, help, reference."""

import shutil

import click

from xpu_stack.build import doctor
from xpu_stack.cli.options import EPILOG, base_option, cli
from xpu_stack.core.checkout import unsaved_work
from xpu_stack.core.series import base as bases
from xpu_stack.core.system.layout import Layout


@cli.command("doctor", epilog=EPILOG)
@base_option
def doctor_(base: str) -> None:
    """Says what is installed, what is missing, and how to get it."""
    layout = Layout.current()
    doctor.show(doctor.examine(layout, bases.Base.load(layout, base)))


@cli.command(epilog=EPILOG)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also checkouts, downloads and the Python environment.",
)
def clean(everything: bool) -> None:
    """Removes what was built; with --all everything that the tool has made.

    Refuses while a conflict is unresolved; with --all also when a checkout has
    edits, files, commits, stashes or worktrees of yours in it.
    """
    layout = Layout.current()
    unsaved_work.refuse_conflicts(layout)
    if everything:
        unsaved_work.refuse_checkouts(layout)
    for path in [layout.state] if everything else [layout.state / "work"]:
        shutil.rmtree(path, ignore_errors=True)
        print(f"removed {path}")


@cli.command("help", hidden=True)
def help_() -> None:
    """Lists the targets and their variables."""
    from xpu_stack.cli import reference

    width = shutil.get_terminal_size().columns
    click.echo(reference.overview(Layout.current().repository / "Makefile", width))


@cli.command("reference", hidden=True)
def reference_() -> None:
    """Writes docs/reference.md, and the messages in docs/troubleshooting.md."""
    from xpu_stack.cli import reference

    for path in reference.write(Layout.current().repository):
        click.echo(f"wrote {path}")
