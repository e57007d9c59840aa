"""Verbs that run Python on what was built: python, shell, own-tests."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

import click

from xpu_stack.build import build as building
from xpu_stack.build import configuration, interpreter
from xpu_stack.build.modes import Mode
from xpu_stack.cli.options import (
    EPILOG,
    checkout_options,
    cli,
    mode_option,
    stage_option,
)
from xpu_stack.core.lay import applying, opening
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, console
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.layout import Layout
from xpu_stack.testing import device_tests, pytorch_tests, release_tests


def _run(
    verb: str,
    stage: str | None,
    base: str,
    pytorch_src: str | None,
    mode: str,
    program: Callable[[configuration.Build], int],
) -> None:
    console.leave_output_to_a_program()

    def prepared(work: Workspace, alone: bool) -> configuration.Build | None:
        made = interpreter.prepared if alone else interpreter.standing
        return made(work, work.series.point(stage), Mode(mode))

    layout = Layout.current()
    with opening.opened_to_run(layout, base, pytorch_src, verb, stage, prepared) as this:
        code = program(this)
    sys.exit(code)


@cli.command("python", epilog=EPILOG, context_settings={"ignore_unknown_options": True})
@stage_option
@checkout_options
@mode_option
@click.option("--file", metavar="<path>", help="The program to run.")
@click.option("--code", metavar="<text>", help="The program itself, as with `python -c`.")
@click.option(
    "--args",
    metavar="<words>",
    default="",
    help="What Python or the program is given, separated and quoted as in a shell.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def python_(
    stage: str | None,
    base: str,
    pytorch_src: str | None,
    mode: str,
    file: str | None,
    code: str | None,
    args: str,
    words: tuple[str, ...],
) -> None:
    """Runs Python with ARGS, on FILE or CODE; `import torch` gives the patched torch.

    On the command line, what follows `--` is handed on as it is.
    """
    given = (*_program(file, code), *_split(args), *words)
    _run("python", stage, base, pytorch_src, mode, lambda this: interpreter.python(this, given))


def _program(file: str | None, code: str | None) -> tuple[str, ...]:
    if file is not None and code is not None:
        raise UsageError(
            "FILE= and CODE= are both given.",
            why="Python runs one program",
            next=commands.make("python", FILE=file),
        )
    return ("-c", code) if code is not None else (file,) if file is not None else ()


def _split(args: str) -> list[str]:
    try:
        return shlex.split(args)
    except ValueError as error:
        raise UsageError(
            "ARGS= cannot be split into words.",
            why=f"{error}: {args}",
            next=f"{commands.make('python', CODE='...')} # takes any text as it is",
        ) from None


@cli.command("shell", epilog=EPILOG)
@stage_option
@checkout_options
@mode_option
def shell_(stage: str | None, base: str, pytorch_src: str | None, mode: str) -> None:
    """Opens a shell in which `python` imports the patched torch."""
    _run("shell", stage, base, pytorch_src, mode, interpreter.shell)


@cli.command("own-tests", epilog=EPILOG)
@stage_option
@checkout_options
@mode_option
@click.option(
    "--device",
    type=click.Choice(["xpu"]),
    help="Run them on this device type, and compare with the CPU.",
)
@click.option("--publish", is_flag=True, help="Also write the table into docs/operators.md.")
def own_tests(
    stage: str | None,
    base: str,
    pytorch_src: str | None,
    mode: str,
    device: str | None,
    publish: bool,
) -> None:
    """Runs PyTorch's own tests: with and without the series, or on a DEVICE.

    For an installed package: an earlier release's tests of XPU, on the extension.
    """
    layout = Layout.current()
    with opening.opened(layout, base, pytorch_src, "own-tests", stage) as work:
        chosen = work.series.point(stage)
        applying.say_result(work, chosen, applying.apply(work, chosen))
        patched = interpreter.prepared(work, chosen, Mode(mode))
        if device is not None:
            device_tests.run(patched, device, layout.repository / "docs" if publish else None)
            return
        if patched.torch is not None:
            release_tests.run(patched)
            return
        unpatched = building.baseline_of(patched)
        building.build(unpatched, [], python=True)
        pytorch_tests.compare(patched, unpatched)
