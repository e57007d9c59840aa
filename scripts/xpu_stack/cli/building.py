"""Verbs that build and run: build, test, sanitize, tidy, bench."""

from __future__ import annotations

import click

from xpu_stack.bench import run, tools
from xpu_stack.build import build as building
from xpu_stack.build import configuration
from xpu_stack.build.modes import Mode, Sanitizer
from xpu_stack.cli.options import (
    EPILOG,
    base_option,
    checkout_options,
    cli,
    mode_option,
    stage_option,
)
from xpu_stack.core.lay import applying, opening
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series import series
from xpu_stack.core.system import commands, console
from xpu_stack.core.system.errors import TestError, UsageError
from xpu_stack.core.system.layout import Layout
from xpu_stack.testing import bisecting, runner, tidy


@cli.command("build", epilog=EPILOG)
@stage_option
@checkout_options
@mode_option
def build_(stage: str | None, base: str, pytorch_src: str | None, mode: str) -> None:
    """Applies and builds a stage."""
    with opening.opened(Layout.current(), base, pytorch_src, "build", stage) as work:
        chosen = work.series.point(stage)
        applying.say_result(work, chosen, applying.apply(work, chosen))
        this = building.prepare(work, chosen, Mode(mode))
        steps = building.build(this, work.series.changes(chosen))
        console.say(f"built '{chosen}' in {steps} step(s): {this.folder}")


@cli.command("test", epilog=EPILOG)
@stage_option
@checkout_options
@mode_option
@click.option(
    "--again", is_flag=True, help="Run tests again that passed before and have not changed."
)
@click.option("--each", is_flag=True, help="Test after each change, not only after each stage.")
@click.option("--last", is_flag=True, help="Test only the last stage, with all that is below it.")
def test_(
    stage: str | None,
    base: str,
    pytorch_src: str | None,
    mode: str,
    again: bool,
    each: bool,
    last: bool,
) -> None:
    """Applies, builds and tests each stage in order."""
    if stage == series.NO_STAGE:
        raise UsageError(
            "The base has no tests of the series.",
            why="STAGE=base applies nothing",
            next=commands.make("test"),
        )
    with opening.opened(Layout.current(), base, pytorch_src, "test", stage) as work:
        chosen = work.series.point(stage)
        points = work.series.points(chosen, each=each)
        points = points[-1:] if last else points
        for number, point in enumerate(points, start=1):
            console.say(f"-- {point} ({number}/{len(points)})")
            applying.apply(work, point)
            brief = number < len(points)
            none = Sanitizer.NONE
            _test_tree(work, point, Mode(mode), none, brief=brief, again=again)
        console.say(f"'{chosen}' passes" if last else f"'{chosen}' and all below it pass")


def _test_tree(
    work: Workspace,
    stage: str,
    mode: Mode,
    sanitizer: Sanitizer,
    *,
    brief: bool,
    again: bool,
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


@cli.command("bisect", epilog=EPILOG)
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
@stage_option
@checkout_options
@mode_option
@click.option("--again", is_flag=True, help="Run it again where it ran before on the same tree.")
def bisect_(
    name: str | None,
    command: str | None,
    build: bool,
    good: str | None,
    bad: str | None,
    stage: str | None,
    base: str,
    pytorch_src: str | None,
    mode: str,
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
    ends = bisecting.Ends(good, bad, stage)
    asked = bisecting.Asked(name, Mode(mode), again, command, build)
    with opening.opened(Layout.current(), base, pytorch_src, "bisect", stage) as work:
        bisecting.bisect(work, asked, ends)


@cli.command(epilog=EPILOG)
@stage_option
@checkout_options
@click.option(
    "--with",
    "sanitizers",
    type=click.Choice([one.value for one in Sanitizer if one.value]),
    multiple=True,
    help="Only this sanitizer. Default: both.",
)
@click.option(
    "--again", is_flag=True, help="Run tests again that passed before and have not changed."
)
def sanitize(
    stage: str | None, base: str, pytorch_src: str | None, sanitizers: tuple[str, ...], again: bool
) -> None:
    """Builds and tests a stage with ThreadSanitizer and AddressSanitizer."""
    wanted = sanitizers or tuple(one.value for one in Sanitizer if one.value)
    with opening.opened(Layout.current(), base, pytorch_src, "sanitize", stage) as work:
        chosen = work.series.point(stage)
        applying.apply(work, chosen)
        for name in wanted:
            console.say(f"-- {name} sanitizer")
            kind = Sanitizer(name)
            _test_tree(work, chosen, Mode.FAST, kind, brief=True, again=again)


@cli.command("tidy", epilog=EPILOG)
@stage_option
@checkout_options
def tidy_(stage: str | None, base: str, pytorch_src: str | None) -> None:
    """Checks the series' C++ with clang-format and clang-tidy."""
    with opening.opened(Layout.current(), base, pytorch_src, "tidy", stage) as work:
        chosen = work.series.point(stage)
        applying.apply(work, chosen)
        this = building.prepare(work, chosen, Mode.FAST)
        # tidy reads headers that the build generates
        building.build(this, work.series.changes(chosen))
        console.say(f"{tidy.check(this, work.series.changes(chosen))} files are tidy")


@cli.command("bench", epilog=EPILOG)
@stage_option
@checkout_options
@click.option("--quick", is_flag=True, help="Measure for a sixth of the time, with wider spreads.")
@click.option("--publish", is_flag=True, help="Also write the page in docs/ and its plot.")
@click.option("--no-run", is_flag=True, hidden=True)  # only built, for ci/gpu/pack
def bench_(
    stage: str | None, base: str, pytorch_src: str | None, quick: bool, publish: bool, no_run: bool
) -> None:
    """Measures the runtime beside raw SYCL and, on a GPU, torch.cuda."""
    with opening.opened(Layout.current(), base, pytorch_src, "bench", stage) as work:
        chosen = work.series.point(stage)
        applying.apply(work, chosen)
        this = building.prepare(work, chosen, Mode.FAST)
        building.build(this, work.series.changes(chosen))
        if no_run:
            console.say(f"built in: {this.folder}")
            console.say(f"built in: {run.compile(this).parent}")
        else:
            run.run(this, quick, publish)


@cli.command("bench-tools", epilog=EPILOG)
@base_option
@click.option("--publish", is_flag=True, help="Also write the table into docs/comparison.md.")
def bench_tools_(base: str, publish: bool) -> None:
    """Measures the tool itself beside git, StGit and quilt, on clones of the base."""
    if not tools.bench(Layout.current(), base, publish=publish):
        raise TestError(
            "The tool is slower than its bounds.",
            why="a row of the table has no 'met'",
            next=f"{commands.make('bench-tools')} # on a quiet machine",
        )
