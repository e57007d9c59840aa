"""The benchmark: builds `bench/` against a build, runs it, judges the figures.

The program measures each thing beside the SYCL calls that do the same, see bench/Harness.h.
Its figures become a table, a JSON file, a plot and an exit code: a bound that is missed is
an error. Where TORCH_XPU_MAPPING names a GPU, the table has torch.cuda's figures too, if
there is a CUDA build of torch.
"""

import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from xpu_stack.bench import page
from xpu_stack.bench.figures import ROWS, Bound, Figure, Run, Verdict
from xpu_stack.build import cmake, configuration, packages
from xpu_stack.build.configuration import Build
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import coloured, progress, say, show_table
from xpu_stack.core.system.errors import BuildError, TestError, UsageError

_COLORS = {Verdict.MET: "tab:green", Verdict.NOISE: "tab:olive", Verdict.MISSED: "tab:red"}
_INCHES_PER_FIGURE = 0.28


@contextmanager
def drawing(path: Path, rows: int) -> Iterator[Any]:
    """Axes for so many rows, which become an SVG. The same figures give the same file."""
    # By name: the checks of this file do without the library.
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("svg")
    pyplot: Any = import_module("matplotlib.pyplot")
    height = 1.5 + _INCHES_PER_FIGURE * rows
    with matplotlib.rc_context({"svg.hashsalt": "xpu-stack", "font.size": 8}):
        canvas, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
        yield axes
        canvas.savefig(path, metadata={"Date": None})
        pyplot.close(canvas)


def draw(figures: Iterable[Figure], path: Path) -> None:
    """Writes the plot of the figures that have a bound to `path`, an SVG."""
    judged = [(one.row.title, *pair) for one in figures for pair in one.judged]
    shown = [one for one in judged if one[1].limit]  # no part of nothing can be taken
    shown.reverse()  # the first one on top

    def share(bound: Bound, value: float) -> float:
        """Of the bound: 1 is all of it, more is a miss."""
        return bound.limit / value if bound.least else value / bound.limit

    with drawing(path, len(shown)) as axes:
        for row, (_, bound, spread) in enumerate(shown):
            ends = [share(bound, end) for end in (spread.p10, spread.p90)]
            color = _COLORS[bound.judge(spread)]
            axes.plot(ends, [row, row], color=color, linewidth=3, alpha=0.4)
            axes.plot([share(bound, spread.median)], [row], "o", color=color)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        names = [title + (f" of {bound.of}" if bound.of else "") for title, bound, _ in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.set_xlabel("part of the bound: median and the middle 80 %; right of 1 it is missed")
        axes.grid(axis="x", alpha=0.3)
        for verdict, color in _COLORS.items():
            axes.plot([], [], "o", color=color, label=verdict.value)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(_COLORS), frameon=False)


# Variables that a person may have set, and that would distort the figures.
_UNSET = ("TORCH_XPU_VIRTUAL_DEVICES", "PYTORCH_XPU_ALLOC_CONF", "TORCH_XPU_LAUNCH_BLOCKING")
# torch.cuda's side is another Python's, without the libraries that XPU programs are given.
_CUDA_PEER = ("env", "python3", "-W", "ignore", "-m", "xpu_stack.bench.cuda_peer")
_DRIVER = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
_COLOURS = {
    Verdict.MET: "green",
    Verdict.NOISE: "yellow",
    Verdict.MISSED: "red",
    Verdict.SHOWN: "bright_black",
}


def run(build: Build, quick: bool, publish: bool) -> None:
    """Measures `build`; quick: in a sixth of the time, with wider spreads.

    Writes results.json, results.md and results.svg, and with `publish` the pages
    in docs/ too. Raises a ToolError with ExitCode.TESTS where a bound is missed.
    """
    packages.need_python("bench")  # what draws the plot
    program = compile(build)
    load = os.getloadavg()[0]
    measured = _measure(build, program, quick)
    figures = [*measured.figures.values()]
    facts = {
        "tree": build.work.repository.tree_of("HEAD"),
        "mode": build.mode.value,
        "sycl": build.sycl.version,
        "machine": _cpu(),
        "load_before": load,
        "quick": quick,
    }
    document = page.to_document(measured, facts)
    written = page.write(document, program.with_name("results"))
    results, picture = written.with_suffix(".json"), written.with_suffix(".svg")
    draw(figures, picture)
    if publish:
        published = page.publish(document, build.work.layout.repository / "docs")
        published.with_suffix(".svg").write_bytes(picture.read_bytes())
    headings, rows = page.table(figures)
    for figure, cells in zip(figures, rows, strict=True):
        cells[-1] = coloured(cells[-1], _COLOURS[figure.verdict])
    show_table(headings, rows, cut="figure")
    for line in page.conditions(document):
        say(line)
    for figure in figures:
        if figure.first is not None:
            say(f"measured twice, first {figure.first:.4g}: {figure.row.title}")
    say(f"figures: {results}")
    say(f"plot: {picture}")
    missed = [one for one in figures if one.verdict is Verdict.MISSED]
    reasons = [
        f"{one.row.title}: {spread.median:.3g}, which must be {bound.text}"
        for one in missed
        for bound, spread in one.judged
        if bound.judge(spread) is Verdict.MISSED
    ]
    if missed:
        raise TestError(
            f"{len(missed)} figure(s) miss their bound.",
            why=reasons[0],
            next=commands.line("less", results),
            detail="\n".join(reasons),
        )


def compile(build: Build) -> Path:
    folder = build.folder.with_name(f"bench-{build.folder.name}")
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        **cmake.COMMON_OPTIONS,
        "XPU_STACK_CHECKOUT": build.work.repository.folder,
        "XPU_STACK_BUILD": build.folder,
        "SYCL_ROOT": build.sycl.root,
    }
    source = build.work.layout.repository / "bench"
    words = [f"-D{key}={value}" for key, value in options.items()]
    command = ["cmake", "-S", str(source), "-B", str(folder), "-GNinja", *words]
    configured = shell.run(command, env=build.env, check=False)
    if configured.code:
        raise BuildError(
            "The benchmark could not be configured.",
            why=(configured.complaint.splitlines() or ["cmake gave no reason"])[0],
            next=f"{commands.make('build')} # what the benchmark is built against",
            detail=configured.complaint,
        )
    cmake.build(folder, [], build.env)
    program = folder / "bench_xpu"
    if not program.exists():
        raise UsageError(
            "This stage has nothing to measure.",
            why="the benchmark needs streams, events, guards and the allocator",
            next=commands.make("bench", STAGE="guard"),
        )
    return program


def _measure(build: Build, program: Path, quick: bool) -> Run:
    """All figures, beside torch.cuda's on a GPU.

    A figure that misses its bound is measured once more, since the machine may
    have been busy. The second measurement counts; the first is kept beside it.
    """
    env = {
        **configuration.program_environment(build),
        "TORCH_XPU_MAPPING": os.environ.get("TORCH_XPU_MAPPING", "CPU"),
    }
    words = ["--quick"] if quick else []
    with progress(len(ROWS), "measuring") as bar:
        measured = _run(program, words, env, bar.step)
        if measured.gpu:
            sources, peer = build.work.layout.repository / "bench", program.with_name("bench_cuda")
            compiled = shell.run([*_CUDA_PEER, sources, peer], env=_DRIVER, check=False)
            if compiled.code:
                say(f"without torch.cuda: {compiled.complaint}")
            else:
                measured.beside(_run(peer, words, _DRIVER, lambda _: None))
        for id, figure in measured.figures.items():
            if figure.verdict is Verdict.MISSED:
                again = _run(program, [*words, "--only", id], env, bar.step).figures[id]
                again.cuda, again.first = figure.cuda, figure.ours.value.median
                measured.figures[id] = again
    return measured


def _run(program: Path, words: list[str], env: dict[str, str], took: Callable[[str], None]) -> Run:
    measured = Run()

    def line(text: str) -> None:
        figure = measured.add(text)
        if figure is not None:
            took(figure.row.title)

    unset = [word for name in _UNSET for word in ("-u", name)]
    code, lines = shell.follow(["env", *unset, program, *words], line, env=env)
    if code:
        raise TestError(
            f"The program {program.name} failed.",
            why=next((one for one in reversed(lines) if one.strip()), f"it ended with {code}"),
            next=f"{commands.make('test')} # then {commands.line(program)}",
            detail="\n".join(lines[-30:]),
        )
    return measured


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return f"{len(os.sched_getaffinity(0))} x {found[1].strip() if found else platform.machine()}"
