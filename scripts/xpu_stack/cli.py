"""The command line: verbs, options, and the edge where errors become words."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from xpu_stack import applying, bench, checking, conflict, console, doctor, stack, status, testing
from xpu_stack import build as building
from xpu_stack import export as exporting
from xpu_stack import mail as mailing
from xpu_stack import review as reviewing
from xpu_stack.base import DEFAULT_BASE, Base
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.layout import Layout
from xpu_stack.series import NO_STAGE, Series

_EPILOG = "Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in ExitCode) + "."

_Command = Callable[..., Any]


def _stage_option(function: _Command) -> _Command:
    return click.option(
        "--stage", help="Up to and including this stage; 'base': none. Default: the last there is."
    )(function)


def _checkout_options(function: _Command) -> _Command:
    for option in (
        click.option(
            "--base", default=DEFAULT_BASE, show_default=True, help="The PyTorch release."
        ),
        click.option(
            "--pytorch-src",
            type=click.Path(),
            help="Your own checkout, used in place. Default: one that the tool fetches.",
        ),
    ):
        function = option(function)
    return function


_mode_option = click.option(
    "--mode",
    type=click.Choice([mode.value for mode in building.Mode]),
    default=building.Mode.FAST.value,
    show_default=True,
    help="fast: only what the series brings is compiled; full: everything.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
def cli() -> None:
    """Lands an XPU runtime in a PyTorch checkout, stage by stage."""


def _stage_or_last(layout: Layout, base: str, stage: str | None) -> str:
    series = Series.load(layout, base)
    chosen = stage or series.stage_names[-1]
    series.up_to(chosen)  # refuses a stage that is not there, before any work
    return chosen


@cli.command(epilog=_EPILOG)
@_stage_option
@_checkout_options
@click.option("--drop", default="", help="Changes that the base has already, to do without.")
def apply(stage: str | None, base: str, pytorch_src: str | None, drop: str) -> None:
    """Brings the checkout to a stage, up or down."""
    layout = Layout.current()
    chosen = _stage_or_last(layout, base, stage)
    with applying.opened(layout, base, pytorch_src, "apply") as work:
        changed = applying.apply(work, chosen, frozenset(drop.replace(",", " ").split()))
        applying.say_result(work, chosen, changed)


@cli.command("continue", epilog=_EPILOG)
@_checkout_options
def continue_(base: str, pytorch_src: str | None) -> None:
    """Goes on after a conflict was resolved."""
    with applying.opened(Layout.current(), base, pytorch_src, "continue") as work:
        stage = conflict.resolve(work.repository)
        changed = applying.apply(work, stage)
        applying.say_result(work, stage, changed)


@cli.command(epilog=_EPILOG)
@_checkout_options
def abort(base: str, pytorch_src: str | None) -> None:
    """Gives a conflict up; the checkout stays as it is."""
    with applying.opened(Layout.current(), base, pytorch_src, "abort") as work:
        change = conflict.abort(work.repository)
        console.say(f"the conflict of {change} is given up; the checkout is as it was")


@cli.command(epilog=_EPILOG)
@_checkout_options
def export(base: str, pytorch_src: str | None) -> None:
    """Writes edits and amended commits of the checkout back into the series."""
    layout = Layout.current()
    with applying.opened(layout, base, pytorch_src, "export") as work:
        written = exporting.export(work)
        for path in written:
            console.say(f"wrote {path.relative_to(layout.repository)}")
        # The commits are now the series' own again.
        fresh = applying.Workspace(layout, work.base, Series.load(layout, base), work.checkout)
        applying.adopt(fresh)
        console.say(f"{len(written)} file(s) of the series differ from before")


@cli.command(epilog=_EPILOG)
@click.option("--base", default=DEFAULT_BASE, show_default=True, help="The PyTorch release.")
def check(base: str) -> None:
    """Validates the whole series; touches no checkout."""
    with applying.opened(Layout.current(), base, None, "check") as work:
        release = work.repository.commit_id("refs/heads/base")
        assert release is not None
        console.say(f"{checking.check(work, release)} change(s) are in order")


@cli.command("status", epilog=_EPILOG)
@_checkout_options
@_mode_option
def status_(base: str, pytorch_src: str | None, mode: str) -> None:
    """Shows stages and changes: applied, built, tested."""
    layout = Layout.current()
    with applying.opened(layout, base, pytorch_src, "status") as work:
        status.show(work, building.results_of(work, building.Mode(mode)), building.Mode(mode))


@cli.command("build", epilog=_EPILOG)
@_stage_option
@_checkout_options
@_mode_option
def build_(stage: str | None, base: str, pytorch_src: str | None, mode: str) -> None:
    """Applies and builds a stage."""
    layout = Layout.current()
    chosen = _stage_or_last(layout, base, stage)
    with applying.opened(layout, base, pytorch_src, "build") as work:
        applying.say_result(work, chosen, applying.apply(work, chosen))
        this = building.prepare(work, chosen, building.Mode(mode))
        steps = building.build(this, work.series.changes(chosen))
        console.say(f"built '{chosen}' in {steps} step(s): {this.folder}")


@cli.command("test", epilog=_EPILOG)
@_stage_option
@_checkout_options
@_mode_option
@click.option("--again", is_flag=True, help="Also run tests that passed before on the same tree.")
def test_(stage: str | None, base: str, pytorch_src: str | None, mode: str, again: bool) -> None:
    """Applies, builds and tests each stage in sequence."""
    layout = Layout.current()
    chosen = _stage_or_last(layout, base, stage)
    if chosen == NO_STAGE:
        raise ToolError(
            "The base has no tests of the series.",
            why="STAGE=base applies nothing",
            next="make test",
            code=ExitCode.USAGE,
        )
    with applying.opened(layout, base, pytorch_src, "test") as work:
        for one in work.series.up_to(chosen):
            applying.apply(work, one.name)
            _test_tree(work, one.name, building.Mode(mode), building.Sanitizer.NONE, again=again)
        console.say(f"stage '{chosen}' and all below it pass")


def _test_tree(
    work: applying.Workspace,
    stage: str,
    mode: building.Mode,
    sanitizer: building.Sanitizer,
    *,
    again: bool,
) -> None:
    tree = work.repository.tree_of("HEAD")
    if not again and building.results_of(work, mode, sanitizer).get(tree).passed:
        console.say(f"{stage}: passed before on this tree ({tree[:12]})")
        return
    this = building.prepare(work, stage, mode, sanitizer)
    changes = work.series.changes(stage)
    building.build(this, changes)
    testing.test(this, changes)


@cli.command(epilog=_EPILOG)
@_stage_option
@_checkout_options
@click.option(
    "--with",
    "sanitizers",
    type=click.Choice([one.value for one in building.Sanitizer if one.value]),
    multiple=True,
    help="Only this one; default: each.",
)
def sanitize(
    stage: str | None, base: str, pytorch_src: str | None, sanitizers: tuple[str, ...]
) -> None:
    """Builds and tests a stage with ThreadSanitizer and AddressSanitizer."""
    layout = Layout.current()
    chosen = _stage_or_last(layout, base, stage)
    wanted = sanitizers or tuple(one.value for one in building.Sanitizer if one.value)
    with applying.opened(layout, base, pytorch_src, "sanitize") as work:
        applying.apply(work, chosen)
        for name in wanted:
            console.say(f"-- {name} sanitizer")
            _test_tree(work, chosen, building.Mode.FAST, building.Sanitizer(name), again=False)


@cli.command("bench", epilog=_EPILOG)
@_stage_option
@_checkout_options
@click.option("--quick", is_flag=True, help="In a sixth of the time, with wider spreads.")
def bench_(stage: str | None, base: str, pytorch_src: str | None, quick: bool) -> None:
    """Measures the runtime beside its floors: raw SYCL, a thread_local, memcpy."""
    layout = Layout.current()
    chosen = _stage_or_last(layout, base, stage)
    with applying.opened(layout, base, pytorch_src, "bench") as work:
        applying.apply(work, chosen)
        this = building.prepare(work, chosen, building.Mode.FAST)
        building.build(this, work.series.changes(chosen))
        bench.run(this, quick)


@cli.command("review", epilog=_EPILOG)
@_checkout_options
@click.option("--since", help="The tip of an earlier version. Default: that before the last move.")
@click.option("--out", type=click.Path(path_type=Path), help="The folder to write to.")
def review_(base: str, pytorch_src: str | None, since: str | None, out: Path | None) -> None:
    """Writes the stack as pages for a browser, and as Markdown."""
    layout = Layout.current()
    with applying.opened(layout, base, pytorch_src, "review") as work:
        folder = out or layout.for_checkout(work.repository.folder) / "review"
        console.say(f"open {reviewing.build(work, since, folder)}")


@cli.command("mail", epilog=_EPILOG)
@_checkout_options
@click.option("--out", type=click.Path(path_type=Path), help="The folder to write to.")
def mail_(base: str, pytorch_src: str | None, out: Path | None) -> None:
    """Writes the stack as mails, with a cover letter."""
    layout = Layout.current()
    with applying.opened(layout, base, pytorch_src, "mail") as work:
        folder = out or layout.for_checkout(work.repository.folder) / "mail"
        for path in mailing.write(work, folder):
            console.say(str(path))


@cli.command("doctor", epilog=_EPILOG)
@click.option("--base", default=DEFAULT_BASE, show_default=True, help="The PyTorch release.")
def doctor_(base: str) -> None:
    """Says what is there, what is missing, and how to get it."""
    layout = Layout.current()
    doctor.show(doctor.examine(layout, Base.load(layout, base)))


@cli.command(epilog=_EPILOG)
@click.option("--all", "everything", is_flag=True, help="Also checkouts, downloads, environment.")
def clean(everything: bool) -> None:
    """Removes what was built; with --all everything that the tool made.

    A checkout with work of yours in it is refused.
    """
    layout = Layout.current()
    if everything:
        for folder in sorted(layout.state.glob("pytorch-*/")):
            if (folder / ".git").exists():
                _refuse_own_work(folder)
    for path in [layout.state] if everything else [layout.state / "work"]:
        shutil.rmtree(path, ignore_errors=True)
        print(f"removed {path}")


def _refuse_own_work(folder: Path) -> None:
    from xpu_stack.git import Repository

    repository = Repository(folder)
    stack.refuse_unsafe(repository, stack.BRANCH)
    stack.refuse_foreign(repository, stack.read(repository))


def _fail(error: ToolError, log_file: Path | None) -> NoReturn:
    console.show_error(error, log_file)
    sys.exit(error.code)


def main() -> None:
    """Runs the command line. Every way to end is one of ExitCode."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    verb = words[0] if words and words[0] in cli.commands else None
    log_file = None
    if verb is not None and not {"-h", "--help"} & set(sys.argv):
        log_file = console.start_log(Layout.current().logs, verb)
    try:
        cli(standalone_mode=False)
    except ToolError as error:
        _fail(error, log_file)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (click.Abort, KeyboardInterrupt):
        console.err.print("interrupted; the checkout is as it was")
        sys.exit(ExitCode.INTERRUPTED)
    except click.ClickException as problem:
        problem.show()
        sys.exit(ExitCode.USAGE)
    except Exception as error:
        console.log.exception("defect")
        _fail(
            ToolError(
                "The tool itself failed.",
                why=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                next=f"less {log_file}",
                code=ExitCode.INTERNAL,
            ),
            log_file,
        )
