"""Verbs for the machine: doctor, clean."""

import shutil
from pathlib import Path

import click

from xpu_stack import doctor, stack
from xpu_stack.base import Base
from xpu_stack.cli.options import EPILOG, base_option, cli
from xpu_stack.git import Repository
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

    A checkout with work of yours in it is refused.
    """
    layout = Layout.current()
    if everything:
        for folder in sorted(layout.state.glob("pytorch-*/")):
            if (folder / ".git").exists():
                _refuse_own_work(folder)
    for path in [layout.state] if everything else [layout.state / "work"]:
        shutil.rmtree(path, ignore_errors=True)
        print(f"removed {path}")


def _refuse_own_work(folder: Path) -> None:
    repository = Repository(folder)
    stack.refuse_unsafe(repository, stack.BRANCH)
    stack.refuse_foreign(repository, stack.read(repository))
