"""The root of the command line, and what its verbs have in common."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from xpu_stack.build import build as building
from xpu_stack.build import configuration
from xpu_stack.build.configuration import Mode
from xpu_stack.core.lay import applying, opening
from xpu_stack.core.move import workspace
from xpu_stack.core.series.base import Differences, base_names
from xpu_stack.core.series.change import Change
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


def _show_it_in_commands(
    _: click.Context, option: click.Parameter, value: str | None
) -> str | None:
    if value is not None and value != option.default:
        name = str(option.name)
        takes = [verb for verb in cli.commands if name in {one.name for one in options_of(verb)}]
        # make reads a path from the project's folder
        from_here = name == "pytorch_src" and Path.cwd() != REPOSITORY
        shown = str(Path(value).expanduser().absolute()) if from_here else value
        commands.works_in(name.upper(), shown, takes)
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


def _base(context: click.Context, option: click.Parameter, value: str) -> str | None:
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
    return _show_it_in_commands(context, option, value)


def names(listed: str) -> tuple[str, ...]:
    """The words of a variable such as DROP, which commas may separate, too."""
    return tuple(listed.replace(",", " ").split())


def option(help: str, **settings: Any) -> Any:
    """The default of a verb's parameter that is an option."""
    return {"help": help, **settings}


def needed(help: str, metavar: str | None = None) -> Any:
    """An option that must be given."""
    return option(help, metavar=metavar, required=True)


def flag(help: str, **settings: Any) -> Any:
    """An option that takes no value."""
    return option(help, is_flag=True, **settings)


_STAGE = option(
    "Up to and including this stage, or this change (stage/change). 'base' means none. "
    "Default: the last stage."
)
_BASE = option("The PyTorch release.", default=DEFAULT_BASE, show_default=True, callback=_base)
_SOURCE = option(
    "Your own checkout, changed in place. Default: a checkout that the tool fetches.",
    type=click.Path(),
    callback=_show_it_in_commands,
)
_JSON = flag("Print a JSON document; docs/reference.md has its fields.")


def mode(default: Mode, help: str) -> Any:
    """The option that chooses what is compiled."""
    modes = click.Choice([one.value for one in Mode])
    return option(help, type=modes, default=default.value, show_default=True)


FAST = mode(
    Mode.FAST,
    "fast: unchanged code comes from the distribution's PyTorch packages, after a check that "
    "both builds are ABI-compatible. full: everything is compiled.",
)


@dataclass(frozen=True)
class Call(opening.Call):
    """What a verb is called with: which checkout it works on, up to which stage, built how."""

    mode: Mode = Mode.FAST

    @contextmanager
    def applied(self) -> Iterator[tuple[workspace.Workspace, str]]:
        """The checkout at the stage, and the stage's name."""
        with self.opened() as work:
            stage = work.series.point(self.stage)
            applying.say_result(work, stage, applying.apply(work, stage))
            yield work, stage

    @contextmanager
    def built(self) -> Iterator[tuple[configuration.Build, list[Change]]]:
        """The stage, applied and built, and the changes in it."""
        with self.applied() as (work, stage):
            this, changes = building.prepare(work, stage, self.mode), work.series.changes(stage)
            building.build(this, changes)
            yield this, changes


def verb(
    name: str,
    *,
    stage: bool = False,
    checkout: bool = True,
    mode: Any = None,
    json: bool = False,
    more: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> Callable[[_Command], click.Command]:
    """Declares a verb. Its function is given the call, and then the options of its own.

    These are its parameters that have an option as default, and `more`. An option has the
    name of its parameter. checkout: it works on a checkout, not on the series alone.
    """

    def declare(function: _Command) -> click.Command:
        parameters = inspect.signature(function).parameters
        own = {one: it.default for one, it in parameters.items() if isinstance(it.default, dict)}
        options = {
            **({"stage": _STAGE} if stage else {}),
            **own,
            **more,
            "base": _BASE,
            **({"pytorch_src": _SOURCE} if checkout else {}),
            **({"mode": mode} if mode else {}),
            **({"json": _JSON} if json else {}),
        }

        @functools.wraps(function)
        def run(
            base: str, pytorch_src: str | None = None, mode: str = Mode.FAST.value, **own: Any
        ) -> None:
            point = own.pop("stage") if stage else None
            called = Call(Layout.current(), name, base, pytorch_src, point, Mode(mode))
            function(called, **own)

        params: list[click.Parameter] = [
            click.Option([f"--{one.rstrip('_').replace('_', '-')}", one], **told)
            for one, told in options.items()
        ]
        return cli.command(name, epilog=EPILOG, params=params, **settings)(run)

    return declare
