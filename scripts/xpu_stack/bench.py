"""The benchmark: builds `bench/` against a build, runs it, judges the figures.

The programs measure each thing beside its floor, in one process and in turns;
see bench/Harness.h. Here their figures become a table, a JSON file, a plot and
an exit code: a bound that is missed is an error, unless the benchmark has shown
the floor that forbids it.
"""

import json
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from xpu_stack import bench_page, compiling, ninja, packages, plot, runtime, shell
from xpu_stack.build import Build, Sanitizer
from xpu_stack.console import progress, say, show_table
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.figures import Figure, Verdict, amount_text, bound_text, parse, ratio_text

_NOTES = 72  # characters of a line of the notes below a figure
# What a person may have set, and would be measured instead.
_UNSET = ("TORCH_XPU_VIRTUAL_DEVICES", "PYTORCH_XPU_ALLOC_CONF")
_STYLES = {
    Verdict.MET: "green",
    Verdict.NOISE: "yellow",
    Verdict.FLOOR: "yellow",
    Verdict.MISSED: "bold red",
    Verdict.SHOWN: "dim",
}


def run(build: Build, quick: bool, publish: bool) -> None:
    """Measures `build`; quick: in a sixth of the time, with wider spreads.

    Writes results.json and results.svg, and with `publish` docs/bench.* too.
    Raises a ToolError with ExitCode.TESTS where a bound is missed that no floor
    forbids.
    """
    if build.sanitizer is not Sanitizer.NONE:
        raise ToolError(
            "A build with a sanitizer cannot be measured.",
            why=f"the {build.sanitizer.value} sanitizer slows it down several times",
            next="make bench",
            code=ExitCode.USAGE,
        )
    packages.need_python("bench")  # what draws the plot
    programs = _build(build)
    load = os.getloadavg()[0]
    figures = _measure(build, programs, quick)
    folder = _folder(build)
    results = folder / "results.json"
    results.write_text(json.dumps(_document(build, quick, load, figures), indent=1) + "\n")
    picture = folder / "results.svg"
    plot.draw(figures, picture)
    if publish:
        bench_page.publish(build.work.layout.repository / "docs", results, picture)
    _show(figures)
    _say_conditions(figures, load)
    say(f"figures: {results}")
    say(f"plot: {picture}")
    _judge(figures, results)


def _folder(build: Build) -> Path:
    return build.folder.with_name(f"bench-{build.folder.name}")


# -- building ----------------------------------------------------------------------


def _build(build: Build) -> list[Path]:
    """The benchmark's programs, built against `build`."""
    folder = _folder(build)
    folder.mkdir(parents=True, exist_ok=True)
    source = build.work.layout.repository / "bench"
    options = {
        "XPU_STACK_CHECKOUT": build.work.repository.folder,
        "XPU_STACK_BUILD": build.folder,
        "SYCL_ROOT": build.sycl.root,
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
    }
    words = [f"-D{key}={value}" for key, value in options.items()]
    configured = shell.run(
        ["cmake", "-S", source, "-B", folder, "-GNinja", *words], env=build.env, check=False
    )
    if configured.code:
        raise ToolError(
            "The benchmark could not be configured.",
            why=(configured.complaint.splitlines() or ["cmake gave no reason"])[0],
            next="make build # what the benchmark is built against",
            code=ExitCode.BUILD,
            detail=configured.complaint,
        )
    ninja.build(folder, [], build.env, compiling.jobs())
    # Those of a stage that is not applied are not among them.
    return [folder / name for name in (folder / "programs.txt").read_text().split()]


# -- measuring ---------------------------------------------------------------------


def _measure(build: Build, programs: list[Path], quick: bool) -> list[Figure]:
    """All figures. One that misses its bound is measured once more.

    The machine may have been busy. The second measurement counts; what the
    first one said is kept beside it.
    """
    figures: list[Figure] = []
    with progress(None, "measuring") as bar:

        def took(figure: Figure) -> None:
            bar.step(figure.title)

        for program in programs:
            for figure in _run(build, program, quick, took):
                if figure.verdict is Verdict.MISSED and figure.judged:
                    again = _run(build, program, quick, took, only=figure.id)
                    figures += [replace(one, first=figure.judged.median) for one in again]
                else:
                    figures.append(figure)
    return figures


def _run(
    build: Build,
    program: Path,
    quick: bool,
    took: Callable[[Figure], None],
    *,
    only: str | None = None,
) -> list[Figure]:
    """What one program measures, or the one figure of it with that id."""
    figures: list[Figure] = []
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        figure = parse(text)
        if figure is not None and only in (None, figure.id):
            figures.append(figure)
            took(figure)

    unset = [word for name in _UNSET for word in ("-u", name)]
    words = [*(["--quick"] if quick else []), *(["--only", only] if only else [])]
    env = {
        **runtime.program_environment(build),
        "TORCH_XPU_MAPPING": os.environ.get("TORCH_XPU_MAPPING", "CPU"),
    }
    code = shell.follow(["env", *unset, program, *words], line, env=env)
    if code:
        raise ToolError(
            f"The program {program.name} failed.",
            why=next((one for one in reversed(lines) if one.strip()), f"it ended with {code}"),
            next=f"make test # then {program}",
            code=ExitCode.TESTS,
            detail="\n".join(lines[-30:]),
        )
    return figures


# -- telling -----------------------------------------------------------------------


def _show(figures: list[Figure]) -> None:
    """The table, for a person."""
    table = Table()
    table.add_column("figure", max_width=_NOTES)
    for heading in ("ours", "floor", "ratio (middle 80 %)", "bound", "verdict"):
        table.add_column(heading, justify="right" if heading in ("ours", "floor") else "left")
    for figure in figures:
        style = _STYLES[figure.verdict]
        table.add_row(
            escape(figure.title),
            amount_text(figure, figure.ours) if figure.sides else "",
            amount_text(figure, figure.floor) if figure.floor else "",
            ratio_text(figure.ours) if figure.sides else "",
            bound_text(figure),
            f"[{style}]{figure.verdict.value}[/]",
        )
        if figure.floor:
            table.add_row(f"  [dim]beside: {escape(figure.floor.name)}[/]")
        for at, side in enumerate(figure.sides[2:], start=2):
            least = " (the least that must be done)" if at == figure.need else ""
            name = f"  [dim]{escape(side.name)}{least}[/]"
            amount = f"[dim]{amount_text(figure, side)}[/]"
            table.add_row(name, amount, "", f"[dim]{ratio_text(side)}[/]")
        if figure.note:
            table.add_row(f"  [dim]{escape(figure.note)}[/]")
    show_table(table)


def _say_conditions(figures: list[Figure], load: float) -> None:
    left_out = sum(one.left_out for one in figures)
    rounds = left_out + sum(one.rounds for one in figures)
    say(
        f"{rounds} rounds on {_cpu()}; load {load:.1f} before; {left_out} rounds, in which "
        "the core was taken away, are left out"
    )
    for figure in figures:
        if figure.first is not None:
            say(f"measured twice, first {figure.first:.4g}: {figure.title}")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} x {names[0] if names else platform.machine()}"


def _document(build: Build, quick: bool, load: float, figures: list[Figure]) -> dict[str, object]:
    return {
        "tree": build.work.repository.tree_of("HEAD"),
        "mode": build.mode.value,
        "sycl": build.sycl.version,
        "machine": _cpu(),
        "load_before": load,
        "quick": quick,
        "figures": [one.to_json() for one in figures],
    }


def _judge(figures: list[Figure], results: Path) -> None:
    counts = {one: sum(figure.verdict is one for figure in figures) for one in Verdict}
    say("; ".join(f"{count} {one.value}" for one, count in counts.items() if count))
    missed = [one for one in figures if one.verdict is Verdict.MISSED]
    if missed:
        raise ToolError(
            f"{len(missed)} figure(s) miss their bound.",
            why=_why(missed[0]),
            next=f"less {results}",
            code=ExitCode.TESTS,
            detail="\n".join(_why(one) for one in missed),
        )


def _why(figure: Figure) -> str:
    judged = figure.judged
    if judged is None:
        return f"this does not hold: {figure.title}"
    return f"{figure.title}: {judged.median:.3g}, which must be {bound_text(figure)}"
