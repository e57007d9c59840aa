"""Verbs that move a checkout: apply, continue, abort."""

import click

from xpu_stack import applying, conflict, console
from xpu_stack.cli.options import EPILOG, checkout_options, cli, stage_option, stage_or_last
from xpu_stack.layout import Layout


@cli.command(epilog=EPILOG)
@stage_option
@checkout_options
@click.option("--drop", default="", help="Changes that the base has already, to do without.")
def apply(stage: str | None, base: str, pytorch_src: str | None, drop: str) -> None:
    """Brings the checkout to a stage, up or down."""
    layout = Layout.current()
    chosen = stage_or_last(layout, base, stage)
    with applying.opened(layout, base, pytorch_src, "apply") as work:
        changed = applying.apply(work, chosen, frozenset(drop.replace(",", " ").split()))
        applying.say_result(work, chosen, changed)


@cli.command("continue", epilog=EPILOG)
@checkout_options
def continue_(base: str, pytorch_src: str | None) -> None:
    """Goes on after a conflict was resolved."""
    with applying.opened(Layout.current(), base, pytorch_src, "continue") as work:
        stage = conflict.resolve(work.repository)
        changed = applying.apply(work, stage)
        applying.say_result(work, stage, changed)


@cli.command(epilog=EPILOG)
@checkout_options
def abort(base: str, pytorch_src: str | None) -> None:
    """Gives a conflict up; the checkout stays as it is."""
    with applying.opened(Layout.current(), base, pytorch_src, "abort") as work:
        change = conflict.abort(work.repository)
        console.say(f"the conflict of {change} is given up; the checkout is as it was")
