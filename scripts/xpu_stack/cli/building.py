"""Verbs that build, and run what was built."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click

from xpu_stack.bench import operators, run, tools
from xpu_stack.build import build as building
from xpu_stack.build import configuration
from xpu_stack.build.configuration import Mode, Sanitizer
from xpu_stack.cli.options import FAST, Call, flag, mode, option, verb
from xpu_stack.core.lay import applying
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series import series
from xpu_stack.core.system import commands, console
from xpu_stack.core.system.errors import TestError, UsageError
from xpu_stack.testing import bisecting, judges, own_tests, runner, tidy
from xpu_stack.wheel import finish, making, trial

_AGAIN = flag("Run tests again that passed before and have not changed.")
_SANITIZERS = [one.value for one in Sanitizer if one.value]


@verb("build", stage=True, mode=FAST)
def build_(call: Call) -> None:
    """Applies and builds a stage."""
    with call.applied() as (work, stage):
        this = building.prepare(work, stage, call.mode)
        steps = building.build(this, work.series.changes(stage))
        console.say(f"built '{stage}' in {steps} step(s): {this.folder}")


@verb("test", stage=True, mode=FAST)
def run_tests(
    call: Call,
    again: bool = _AGAIN,
    each: bool = flag("Test after each change, not only after each stage."),
    last: bool = flag("Test only the last stage, with all that is below it."),
) -> None:
    """Applies, builds and tests each stage in order."""
    if call.stage == series.NO_STAGE:
        raise UsageError(
            "The base has no tests of the series.",
            why="STAGE=base applies nothing",
            next=commands.make("test"),
        )
    with call.opened() as work:
        chosen = work.series.point(call.stage)
        points = work.series.points(chosen, each=each)[-1 if last else 0 :]
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
def bisect_(
    call: Call,
    test: str | None = option(
        "A test program, Suite.Case, or test/test_x.py::Class::test.", metavar="<test>"
    ),
    run: str | None = option(
        "In place of a test: a shell command that runs in the checkout. Exit code 0 means good, "
        "125 skip, 1 to 124 bad. Nothing is built for it without BUILD=1.",
        metavar="<command>",
    ),
    build: bool = flag("With RUN: build first; `import torch` gives the patched torch."),
    good: str | None = option(
        "A stage or change at which it passes, or a commit of this repository. Default: the "
        "change that brings the test; with RUN, the base."
    ),
    bad: str | None = option("A stage, change or commit at which it fails. Default: the last."),
    again: bool = flag("Run it again where it ran before on the same tree."),
) -> None:
    """Finds the change, or the version of the series, that broke a test or a command."""
    if (test is None) == (run is None):
        raise UsageError(
            "'make bisect' needs TEST= or RUN=, and not both.",
            why="it runs a test of the series, or a command, at each place",
            next=f"{commands.make('bisect', TEST='<test>')} "
            f"# or: {commands.make('bisect', RUN='<command>')}",
        )
    judge: judges.Judge = judges.CommandJudge(run or "", call.mode if build else None)
    if test is not None:
        judge = judges.TestJudge(test, call.mode, again=again)
    with call.opened() as work:
        bisecting.bisect(work, judge, good, bad, call.stage)


@verb("sanitize", stage=True)
def sanitize(
    call: Call,
    with_: tuple[str, ...] = option(
        "Only this sanitizer. Default: both.", type=click.Choice(_SANITIZERS), multiple=True
    ),
    again: bool = _AGAIN,
) -> None:
    """Builds and tests a stage with ThreadSanitizer and AddressSanitizer."""
    with call.applied() as (work, stage):
        for name in with_ or _SANITIZERS:
            console.say(f"-- {name} sanitizer")
            _test_tree(work, stage, call.mode, Sanitizer(name), brief=True, again=again)


@verb("tidy", stage=True)
def tidy_(call: Call) -> None:
    """Checks the series' C++ with clang-format and clang-tidy."""
    with call.built() as (this, changes):  # tidy reads headers that the build generates
        console.say(f"{tidy.check(this, changes)} files are tidy")


@verb("bench", stage=True)
def bench_(
    call: Call,
    quick: bool = flag("Measure for a sixth of the time, with wider spreads."),
    publish: bool = flag("Also write the page in docs/ and its plot."),
    no_run: bool = flag("Only build it, for ci/gpu/pack.", hidden=True),
) -> None:
    """Measures the runtime beside raw SYCL and, on a GPU, torch.cuda."""
    with call.built() as (this, _):
        if no_run:
            console.say(f"built in: {this.folder}")
            console.say(f"built in: {run.compile(this).parent}")
        else:
            run.run(this, quick, publish)


@verb("bench-tools", checkout=False)
def bench_tools_(
    call: Call, publish: bool = flag("Also write the table into docs/comparison.md.")
) -> None:
    """Measures the tool itself beside git, StGit and quilt, on clones of the base."""
    if not tools.bench(call.layout, call.base, publish=publish):
        raise TestError(
            "The tool is slower than its bounds.",
            why="a row of the table has no 'met'",
            next=f"{commands.make('bench-tools')} # on a quiet machine",
        )


@verb("bench-ops", stage=True, mode=FAST)
def bench_ops_(
    call: Call,
    peer: str | None = option("A Python with a torch for CUDA, to compare with.", metavar="<path>"),
    figures: str | None = option(
        "Measure nothing: take the file that bench/ops.py --json wrote, elsewhere perhaps.",
        type=click.Path(),
    ),
    publish: bool = flag("Also write the table into docs/tensors.md, and docs/operators.svg."),
) -> None:
    """Measures the operators that have kernels beside torch.cuda."""
    measured = Path(figures) if figures else None
    if measured is None:
        with call.built() as (this, _):
            measured = operators.measure(this, peer)
    if publish:
        operators.publish(measured, call.layout.repository / "docs")


# -- Python on what was built ------------------------------------------------------


def _run(call: Call, program: Callable[[configuration.Build], int]) -> None:
    console.leave_output_to_a_program()

    def prepared(work: Workspace, alone: bool) -> configuration.Build | None:
        made = building.prepared if alone else building.standing
        return made(work, work.series.point(call.stage), call.mode)

    with call.opened_to_run(prepared) as this:
        sys.exit(program(this))


@verb("python", stage=True, mode=FAST, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def python_(
    call: Call,
    words: tuple[str, ...],
    file: str | None = option("The program to run.", metavar="<path>"),
    code: str | None = option("The program itself, as with `python -c`.", metavar="<text>"),
    args: str = option(
        "What Python or the program is given, separated and quoted as in a shell.",
        metavar="<words>",
        default="",
    ),
) -> None:
    """Runs Python with ARGS, on FILE or CODE; `import torch` gives the patched torch.

    On the command line, what follows `--` is handed on as it is.
    """
    if file is not None and code is not None:
        raise UsageError(
            "FILE= and CODE= are both given.",
            why="Python runs one program",
            next=commands.make("python", FILE=file),
        )
    program = ["-c", code] if code is not None else [file] if file is not None else []
    given = (*program, *_split(args), *words)
    _run(call, lambda this: building.run_python(this, given))


def _split(args: str) -> list[str]:
    try:
        return shlex.split(args)
    except ValueError as error:
        raise UsageError(
            "ARGS= cannot be split into words.",
            why=f"{error}: {args}",
            next="close the quotation, or write \\' or \\\" for the character itself",
        ) from None


@verb("shell", stage=True, mode=FAST)
def shell_(call: Call) -> None:
    """Opens a shell in which `python` imports the patched torch."""
    _run(call, building.run_shell)


@verb("own-tests", stage=True, mode=FAST)
def own_tests_(
    call: Call,
    device: str | None = option(
        "Run them on this device type, and compare with the CPU.", type=click.Choice(["xpu"])
    ),
    publish: bool = flag("Also write the table into docs/operators.md."),
) -> None:
    """Runs PyTorch's own tests: with and without the series, or on a DEVICE.

    For an installed package: an earlier release's tests of XPU, on the extension.
    """
    with call.applied() as (work, stage):
        patched = building.prepared(work, stage, call.mode)
        if device is not None:
            docs = call.layout.repository / "docs" if publish else None
            own_tests.run_device(patched, device, docs)
        elif patched.torch is not None:
            own_tests.run_release(patched)
        else:
            unpatched = building.baseline_of(patched)
            building.build(unpatched, [], python=True)
            own_tests.compare(patched, unpatched)


# -- wheels ------------------------------------------------------------------------

_FULL = mode(
    Mode.FULL, "full: everything is compiled. fast: for this machine only, from the fast build."
)


@verb("wheel", stage=True, mode=_FULL)
def wheel_(call: Call) -> None:
    """Builds a torch wheel of a stage."""
    with ExitStack() as held:
        with call.applied() as (work, stage):
            order = making.prepare(work, stage, call.mode, held)
        making.make(order)


_TESTS = option(
    "Only these tests of the wheel, as pytest is given them. Default: all.",
    metavar="<words>",
    default="test",
)


@verb("test-wheel", stage=True, mode=_FULL)
def try_wheel_(call: Call, args: str = _TESTS) -> None:
    """Installs the wheel of a stage in an empty environment, and tests it there."""
    tests = _split(args)
    with call.applied() as (work, stage):
        this = finish.identity(work, stage, call.mode)
    trial.run(work, this, tests)


@verb("extension")
def extension_(call: Call) -> None:
    """Builds the wheel that is installed beside a stock torch; TORCH names which."""
    with call.applied() as (work, stage):
        this = building.prepare(work, stage, call.mode)
        building.build(this, [], python=True)  # no tests
        making.make_extension(this)


@verb("test-extension")
def try_extension_(call: Call, args: str = _TESTS) -> None:
    """Installs that wheel beside torch in an empty environment, and tests it there."""
    tests = _split(args)
    with call.opened_to_read() as work:
        trial.run_extension(work, tests)
