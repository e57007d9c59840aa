"""Verbs that build and test a wheel: wheel, test-wheel, extension, test-extension."""

from contextlib import ExitStack

import click

from xpu_stack.build import build as building
from xpu_stack.build.modes import Mode
from xpu_stack.cli.options import (
    EPILOG,
    checkout_options,
    cli,
    stage_option,
)
from xpu_stack.core.lay import applying, opening
from xpu_stack.core.system.layout import Layout

wheel_mode_option = click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.FULL.value,
    show_default=True,
    help="full: everything is compiled. fast: for this machine only, from the fast build.",
)


@cli.command("wheel", epilog=EPILOG)
@stage_option
@checkout_options
@wheel_mode_option
def wheel_(stage: str | None, base: str, pytorch_src: str | None, mode: str) -> None:
    """Builds a torch wheel of a stage."""
    from xpu_stack.wheel import making

    with ExitStack() as held:
        with opening.opened(Layout.current(), base, pytorch_src, "wheel", stage) as work:
            chosen = work.series.point(stage)
            applying.say_result(work, chosen, applying.apply(work, chosen))
            order = making.prepare(work, chosen, Mode(mode), held)
        making.make(order)


@cli.command("test-wheel", epilog=EPILOG)
@stage_option
@checkout_options
@wheel_mode_option
def test_wheel_(stage: str | None, base: str, pytorch_src: str | None, mode: str) -> None:
    """Installs the wheel of a stage in an empty environment, and tests it there."""
    from xpu_stack.wheel import identity, trial

    with opening.opened(Layout.current(), base, pytorch_src, "test-wheel", stage) as work:
        chosen = work.series.point(stage)
        applying.say_result(work, chosen, applying.apply(work, chosen))
        this = identity.of(work, chosen, Mode(mode))
    trial.run(work, this)


@cli.command("extension", epilog=EPILOG)
@checkout_options
def extension_(base: str, pytorch_src: str | None) -> None:
    """Builds the wheel that is installed beside a stock torch; TORCH names which."""
    from xpu_stack.wheel import extension

    with opening.opened(Layout.current(), base, pytorch_src, "extension") as work:
        chosen = work.series.point(None)
        applying.say_result(work, chosen, applying.apply(work, chosen))
        this = building.prepare(work, chosen, Mode.FAST)
        building.build(this, [], python=True)  # no tests
        extension.make(this)


@cli.command("test-extension", epilog=EPILOG)
@checkout_options
def test_extension_(base: str, pytorch_src: str | None) -> None:
    """Installs that wheel beside torch in an empty environment, and tests it there."""
    from xpu_stack.wheel import extension_trial

    with opening.opened_to_read(Layout.current(), base, pytorch_src, "test-extension") as work:
        extension_trial.run(work)
