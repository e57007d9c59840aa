"""Verbs that run Python on what was built: python, shell, own-tests."""

from __future__ import annotations

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
    stage_or_last,
)
from xpu_stack.core.checkout import applying
from xpu_stack.core.system import console
from xpu_stack.core.system.layout import Layout
from xpu_stack.testing import pytorch_tests


def _run(
    stage: str | None,
    base: str,
    pytorch_src: str | None,
    mode: str,
    program: Callable[[configuration.Build], int],
) -> None:
    console.leave_output_to_a_program()
    layout = Layout.current()
    chosen = stage_or_last(layout, base, stage)
    with applying.opened(layout, base, pytorch_src, "python") as work:
        this = interpreter.prepared(work, chosen, Mode(mode))
    sys.exit(program(this))


@cli.command("python", epilog=EPILOG, context_settings={"ignore_unknown_options": True})
@stage_option
@checkout_options
@mode_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def python_(
    stage: str | None, base: str, pytorch_src: str | None, mode: str, words: tuple[str, ...]
) -> None:
    """Runs Python with WORDS; `import torch` gives the patched torch."""
    _run(stage, base, pytorch_src, mode, lambda this: interpreter.python(this, words))


@cli.command("shell", epilog=EPILOG)
@stage_option
@checkout_options
@mode_option
def shell_(stage: str | None, base: str, pytorch_src: str | None, mode: str) -> None:
    """Opens a shell in which `python` imports the patched torch."""
    _run(stage, base, pytorch_src, mode, interpreter.shell)


@cli.command("own-tests", epilog=EPILOG)
@stage_option
@checkout_options
@mode_option
def own_tests(stage: str | None, base: str, pytorch_src: str | None, mode: str) -> None:
    """Runs PyTorch's own tests with and without the series, and compares the results."""
    layout = Layout.current()
    chosen = stage_or_last(layout, base, stage)
    with applying.opened(layout, base, pytorch_src, "own-tests") as work:
        applying.say_result(work, chosen, applying.apply(work, chosen))
        patched = interpreter.prepared(work, chosen, Mode(mode))
        unpatched = building.baseline_of(patched)
        building.build(unpatched, [], python=True)
        pytorch_tests.compare(patched, unpatched)
