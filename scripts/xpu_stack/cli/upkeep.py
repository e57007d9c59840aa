"""Verbs for the machine: doctor, clean."""

import shutil

import click

from xpu_stack import doctor, ownwork
from xpu_stack.base import Base
from xpu_stack.cli.options import EPILOG, base_option, cli
from xpu_stack.layout import Layout


@cli.command("doctor", epilog=EPILOG)
@base_option
def doctor_(base: str) -> None:
    """Says what is there, what is missing, and how to get it."""
    layout = Layout.current()
    doctor.show(doctor.examine(layout, Base.load(layout, base)))


@cli.command(epilog=EPILOG)
@click.option("--all", "everything", is_flag=True, help="Also checkouts, downloads, environment.")
def clean(everything: bool) -> None:
    """Removes what was built; with --all everything that the tool made.

    Refused while a conflict waits; with --all also when a checkout has work of
    yours in it: edits, files, commits, stashes or work trees.
    """
    layout = Layout.current()
    ownwork.refuse_conflicts(layout)
    if everything:
        ownwork.refuse_checkouts(layout)
    for path in [layout.state] if everything else [layout.state / "work"]:
        shutil.rmtree(path, ignore_errors=True)
        print(f"removed {path}")
