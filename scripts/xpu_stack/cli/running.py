"""Verbs that run Python on what was built: python, shell, own-tests."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

import click

from xpu_stack.build import build as building
from xpu_stack.build import configuration, interpreter
from xpu_stack.cli.options import FAST, Call, verb
from xpu_stack.core.lay import opening
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, console
from xpu_stack.core.system.errors import UsageError
from xpu_stack.testing import device_tests, pytorch_tests, release_tests


def _run(call: Call, program: Callable[[configuration.Build], int]) -> None:
    console.leave_output_to_a_program()

    def prepared(work: Workspace, alone: bool) -> configuration.Build | None:
        made = interpreter.prepared if alone else interpreter.standing
        return made(work, work.series.point(call.stage), call.mode)

    with opening.opened_to_run(
        call.layout, call.base, call.pytorch_src, call.verb, call.stage, prepared
    ) as this:
        code = program(this)
    sys.exit(code)


@verb("python", stage=True, mode=FAST, context_settings={"ignore_unknown_options": True})
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
    call: Call, file: str | None, code: str | None, args: str, words: tuple[str, ...]
) -> None:
    """Runs Python with ARGS, on FILE or CODE; `import torch` gives the patched torch.

    On the command line, what follows `--` is handed on as it is.
    """
    given = (*_program(file, code), *_split(args), *words)
    _run(call, lambda this: interpreter.python(this, given))


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


@verb("shell", stage=True, mode=FAST)
def shell_(call: Call) -> None:
    """Opens a shell in which `python` imports the patched torch."""
    _run(call, interpreter.shell)


@verb("own-tests", stage=True, mode=FAST)
@click.option(
    "--device",
    type=click.Choice(["xpu"]),
    help="Run them on this device type, and compare with the CPU.",
)
@click.option("--publish", is_flag=True, help="Also write the table into docs/operators.md.")
def own_tests(call: Call, device: str | None, publish: bool) -> None:
    """Runs PyTorch's own tests: with and without the series, or on a DEVICE.

    For an installed package: an earlier release's tests of XPU, on the extension.
    """
    with call.applied() as (work, stage):
        patched = interpreter.prepared(work, stage, call.mode)
        if device is not None:
            docs = call.layout.repository / "docs" if publish else None
            device_tests.run(patched, device, docs)
        elif patched.torch is not None:
            release_tests.run(patched)
        else:
            unpatched = building.baseline_of(patched)
            building.build(unpatched, [], python=True)
            pytorch_tests.compare(patched, unpatched)
