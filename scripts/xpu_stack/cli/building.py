"""Verbs that build and run: build, test, sanitize, tidy, bench."""

from __future__ import annotations

import click

from xpu_stack.bench import run, tools
from xpu_stack.build import build as building
from xpu_stack.build import configuration
from xpu_stack.build.configuration import Mode, Sanitizer
from xpu_stack.cli.options import FAST, Call, verb
from xpu_stack.core.lay import applying
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series import series
from xpu_stack.core.system import commands, console
from xpu_stack.core.system.errors import TestError, UsageError
from xpu_stack.testing import bisecting, runner, tidy

_again_option = click.option(
    "--again", is_flag=True, help="Run tests again that passed before and have not changed."
)
_SANITIZERS = [one.value for one in Sanitizer if one.value]


@verb("build", stage=True, mode=FAST)
def build_(call: Call) -> None:
    """Applies and builds a stage."""
    with call.applied() as (work, stage):
        this = building.prepare(work, stage, call.mode)
        steps = building.build(this, work.series.changes(stage))
        console.say(f"built '{stage}' in {steps} step(s): {this.folder}")


@verb("test", stage=True, mode=FAST)
@_again_option
@click.option("--each", is_flag=True, help="Test after each change, not only after each stage.")
@click.option("--last", is_flag=True, help="Test only the last stage, with all that is below it.")
def test_(call: Call, again: bool, each: bool, last: bool) -> None:
    """Applies, builds and tests each stage in order."""
    if call.stage == series.NO_STAGE:
        raise UsageError(
            "The base has no tests of the series.",
            why="STAGE=base applies nothing",
            next=commands.make("test"),
        )
    with call.opened() as work:
        chosen = work.series.point(call.stage)
        points = work.series.points(chosen, each=each)
        points = points[-1:] if last else points
        for number, point in enumerate(points, start=1):
            console.say(f"-- {point} ({number}/{len(points)})")
            applying.apply(work, point)
            brief = number < len(points)
            _test_tree(work, point, call.mode, Sanitizer.NONE, brief=brief, again=again)
        console.say(f"'{chosen}' passes" if last else f"'{chosen}' and all below it pass")


def _test_tree(
    work: Workspace, stage: str, mode: Mode, sanitizer: Sanitizer, *, brief: bool, again: bool
) -> None:
    tree = work.repository.tree_of("HEAD")
    known = configuration.results_of(work, mode, sanitizer).get(tree)
    if not again and known.passed and (brief or known.whole):
        console.say(f"{stage}: passed before on this tree ({tree[:12]})")
        return
    this = building.prepare(work, stage, mode, sanitizer)
    changes = work.series.changes(stage)
    building.build(this, changes)
    runner.test(this, changes, brief=brief, again=again)


@verb("bisect", stage=True, mode=FAST)
@click.option(
    "--test",
    "name",
    metavar="<test>",
    help="A test program, Suite.Case, or test/test_x.py::Class::test.",
)
@click.option(
    "--run",
    "command",
    metavar="<command>",
    help="In place of a test: a shell command that runs in the checkout. Exit code 0 means good, "
    "125 skip, 1 to 127 bad. Nothing is built for it without BUILD=1.",
)
@click.option(
    "--build", is_flag=True, help="With RUN: build first; `import torch` gives the patched torch."
)
@click.option(
    "--good",
    help="A stage or change at which it passes, or a commit of this repository. Default: the "
    "change that brings the test; with RUN, the base.",
)
@click.option("--bad", help="A stage, change or commit at which it fails. Default: the last.")
@click.option("--again", is_flag=True, help="Run it again where it ran before on the same tree.")
def bisect_(
    call: Call,
    name: str | None,
    command: str | None,
    build: bool,
    good: str | None,
    bad: str | None,
    again: bool,
) -> None:
    """Finds the change, or the version of the series, that broke a test or a command."""
    if (name is None) == (command is None):
        raise UsageError(
            "'make bisect' needs TEST= or RUN=, and not both.",
            why="it runs a test of the series, or a command, at each place",
            next=f"{commands.make('bisect', TEST='<test>')} "
            f"# or: {commands.make('bisect', RUN='<command>')}",
        )
    asked = bisecting.Asked(name, call.mode, again, command, build)
    with call.opened() as work:
        bisecting.bisect(work, asked, bisecting.Ends(good, bad, call.stage))


@verb("sanitize", stage=True)
@click.option(
    "--with",
    "sanitizers",
    type=click.Choice(_SANITIZERS),
    multiple=True,
    help="Only this sanitizer. Default: both.",
)
@_again_option
def sanitize(call: Call, sanitizers: tuple[str, ...], again: bool) -> None:
    """Builds and tests a stage with ThreadSanitizer and AddressSanitizer."""
    with call.applied() as (work, stage):
        for name in sanitizers or _SANITIZERS:
            console.say(f"-- {name} sanitizer")
            _test_tree(work, stage, call.mode, Sanitizer(name), brief=True, again=again)


@verb("tidy", stage=True)
def tidy_(call: Call) -> None:
    """Checks the series' C++ with clang-format and clang-tidy."""
    with call.built() as (this, changes):  # tidy reads headers that the build generates
        console.say(f"{tidy.check(this, changes)} files are tidy")


@verb("bench", stage=True)
@click.option("--quick", is_flag=True, help="Measure for a sixth of the time, with wider spreads.")
@click.option("--publish", is_flag=True, help="Also write the page in docs/ and its plot.")
@click.option("--no-run", is_flag=True, hidden=True)  # only built, for ci/gpu/pack
def bench_(call: Call, quick: bool, publish: bool, no_run: bool) -> None:
    """Measures the runtime beside raw SYCL and, on a GPU, torch.cuda."""
    with call.built() as (this, _):
        if no_run:
            console.say(f"built in: {this.folder}")
            console.say(f"built in: {run.compile(this).parent}")
        else:
            run.run(this, quick, publish)


@verb("bench-tools", checkout=False)
@click.option("--publish", is_flag=True, help="Also write the table into docs/comparison.md.")
def bench_tools_(call: Call, publish: bool) -> None:
    """Measures the tool itself beside git, StGit and quilt, on clones of the base."""
    if not tools.bench(call.layout, call.base, publish=publish):
        raise TestError(
            "The tool is slower than its bounds.",
            why="a row of the table has no 'met'",
            next=f"{commands.make('bench-tools')} # on a quiet machine",
        )
