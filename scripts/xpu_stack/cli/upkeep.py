"""Verbs for the machine and the documents: doctor, clean, distclean, help, reference."""

import shutil
from pathlib import Path

from xpu_stack.build import doctor
from xpu_stack.cli.options import EPILOG, Call, cli, verb
from xpu_stack.core.lay import opening
from xpu_stack.core.series import base as bases
from xpu_stack.core.system import console
from xpu_stack.core.system.layout import Layout
from xpu_stack.show import unsaved_work


@verb("doctor", checkout=False)
def doctor_(call: Call) -> None:
    """Says what is installed, what is missing, and how to get it."""
    doctor.show(doctor.examine(call.layout, bases.Base.load(call.layout, call.base)))


@cli.command(epilog=EPILOG)
def clean() -> None:
    """Removes what was built; refuses while a conflict is unresolved or a run is at work."""
    layout = Layout.current()
    unsaved_work.refuse_conflicts(layout)
    with opening.alone(layout, "clean"):
        _remove(layout.state / "work")


@cli.command(epilog=EPILOG)
def distclean() -> None:
    """Removes all that the tool has made; refuses while a checkout has work of yours.

    Work is edits, files, commits, stashes and worktrees, and a conflict that is
    not resolved.
    """
    layout = Layout.current()
    unsaved_work.refuse_conflicts(layout)
    unsaved_work.refuse_checkouts(layout)
    with opening.alone(layout, "distclean"):
        _remove(layout.state)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    console.put(f"removed {folder}")


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

    for path in reference.write(Layout.current().repository):
        console.put(f"wrote {path}")
