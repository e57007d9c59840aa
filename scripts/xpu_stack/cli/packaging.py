"""Verbs that build and test a wheel: wheel, test-wheel, extension, test-extension."""

from contextlib import ExitStack

from xpu_stack.build import build as building
from xpu_stack.build.configuration import Mode
from xpu_stack.cli.options import Call, verb

_FULL = (
    Mode.FULL,
    "full: everything is compiled. fast: for this machine only, from the fast build.",
)


@verb("wheel", stage=True, mode=_FULL)
def wheel_(call: Call) -> None:
    """Builds a torch wheel of a stage."""
    from xpu_stack.wheel import making

    with ExitStack() as held:
        with call.applied() as (work, stage):
            order = making.prepare(work, stage, call.mode, held)
        making.make(order)


@verb("test-wheel", stage=True, mode=_FULL)
def test_wheel_(call: Call) -> None:
    """Installs the wheel of a stage in an empty environment, and tests it there."""
    from xpu_stack.wheel import identity, trial

    with call.applied() as (work, stage):
        this = identity.of(work, stage, call.mode)
    trial.run(work, this)


@verb("extension")
def extension_(call: Call) -> None:
    """Builds the wheel that is installed beside a stock torch; TORCH names which."""
    from xpu_stack.wheel import extension

    with call.applied() as (work, stage):
        this = building.prepare(work, stage, call.mode)
        building.build(this, [], python=True)  # no tests
        extension.make(this)


@verb("test-extension")
def test_extension_(call: Call) -> None:
    """Installs that wheel beside torch in an empty environment, and tests it there."""
    from xpu_stack.wheel import extension_trial

    with call.opened_to_read() as work:
        extension_trial.run(work)
