"""The root of the command line, and the options that several verbs have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from xpu_stack.build.modes import Mode
from xpu_stack.core.series.base import Differences, base_names
from xpu_stack.core.system import commands
from xpu_stack.core.system.commands import REPOSITORY
from xpu_stack.core.system.errors import ExitCode, UsageError
from xpu_stack.core.system.layout import Layout

EPILOG = "Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in ExitCode) + "."

DEFAULT_BASE = "v1.13.1"

_Command = Callable[..., Any]


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.option(
    "--variables",
    is_flag=True,
    help="Also take options from variables of the environment, e.g. --stage from STAGE, "
    "as the Makefile's targets do.",
)
@click.pass_context
def cli(context: click.Context, variables: bool) -> None:
    """Lands an XPU runtime in a PyTorch checkout, stage by stage."""
    if variables:
        for one in options_of(str(context.invoked_subcommand)):
            one.envvar = variable_of(one)


def options_of(verb: str) -> list[click.Option]:
    """The options of a verb that a person is told of."""
    known = [one for one in cli.commands[verb].params if isinstance(one, click.Option)]
    return [one for one in known if not one.hidden]


def variable_of(option: click.Option) -> str:
    """The variable of Make for an option: STAGE for --stage."""
    return max(option.opts, key=len).lstrip("-").replace("-", "_").upper()


stage_option = click.option(
    "--stage",
    help="Up to and including this stage, or this change (stage/change). 'base' means none. "
    "Default: the last stage.",
)

mode_option = click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.FAST.value,
    show_default=True,
    help="fast: unchanged code comes from the distribution's PyTorch packages, after a check that "
    "both builds are ABI-compatible. full: everything is compiled.",
)


def _show_it_in_commands(
    _: click.Context, option: click.Parameter, value: str | None
) -> str | None:
    if value is not None and value != option.default:
        takes = [name for name, verb in cli.commands.items() if _takes(verb, option)]
        assert option.name is not None
        # make reads a path from the project's folder
        from_here = option.name == "pytorch_src" and Path.cwd() != REPOSITORY
        shown = str(Path(value).expanduser().absolute()) if from_here else value
        commands.works_in(option.name.upper(), shown, takes)
    return value


# What makes no sense for an installed package, and why.
_OF_SOURCE_TREES = {
    "rebase": "there is nothing to move the new files to",
    "wheel": "make extension packs what is built for it",
    "test-wheel": "make test-extension tests what is built for it",
    "tidy": "the shared files are checked with the other base",
    "bench": "the benchmark is built with the other base",
    "bench-tools": "the tool is measured on a source tree",
    "mail": "there is nobody to mail the new files alone to",
    "submit": "there is no pull request to make",
}


_OF_PACKAGES = ("extension", "test-extension")


def _base(context: click.Context, option: click.Parameter, value: str) -> str:
    verb, layout = str(context.info_name), Layout.current()
    if verb in _OF_SOURCE_TREES and (own := Differences.load(layout, value)).of_package:
        raise UsageError(
            f"'make {verb}' is not for the base {value}.",
            why=f"it is an installed package: {_OF_SOURCE_TREES[verb]}",
            next=commands.make(verb, BASE=own.like),
        )
    if verb in _OF_PACKAGES and not Differences.load(layout, value).of_package:
        names = [one for one in base_names(layout) if Differences.load(layout, one).of_package]
        raise UsageError(
            f"'make {verb}' is not for the base {value}.",
            why=f"it is for an installed package; the bases that are one: {', '.join(names)}",
            next=commands.make(verb, BASE=next(iter(names), "<name>")),
        )
    _show_it_in_commands(context, option, value)
    return value


def _takes(verb: click.Command, option: click.Parameter) -> bool:
    return any(one.name == option.name for one in verb.params)


base_option = click.option(
    "--base",
    default=DEFAULT_BASE,
    show_default=True,
    callback=_base,
    help="The PyTorch release.",
)


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON document; docs/reference.md has its fields.",
)


def checkout_options(function: _Command) -> _Command:
    """Which checkout a verb works on."""
    source = click.option(
        "--pytorch-src",
        type=click.Path(),
        callback=_show_it_in_commands,
        help="Your own checkout, changed in place. Default: a checkout that the tool fetches.",
    )
    return base_option(source(function))
