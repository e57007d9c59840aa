"""The benchmark: builds `bench/` against a build, runs it, judges the figures.

The program measures each thing beside the SYCL calls that do the same, in one
process and in turns; see bench/Harness.h. Here its figures become a table, a
JSON file, a plot and an exit code: a bound that is missed is an error. Where
TORCH_XPU_MAPPING names a GPU, the table has torch.cuda's figures too, if there
is a CUDA build of torch.
"""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

from xpu_stack.bench import cuda_peer, page, plot
from xpu_stack.bench.figures import ROWS, Figure, Run, Verdict
from xpu_stack.build import compilers, ninja, packages, runtime
from xpu_stack.build.configuration import Build, Sanitizer
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import coloured, progress, say, show_table
from xpu_stack.core.system.errors import BuildError, TestError, UsageError

# Variables that a person may have set, and that would distort the figures.
_UNSET = ("TORCH_XPU_VIRTUAL_DEVICES", "PYTORCH_XPU_ALLOC_CONF", "TORCH_XPU_LAUNCH_BLOCKING")
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
    measured, torch = _measure(build, program, quick)
    facts = {
        "tree": build.work.repository.tree_of("HEAD"),
        "mode": build.mode.value,
        "sycl": build.sycl.version,
        "machine": _cpu(),
        "load_before": load,
        "quick": quick,
    }
    document = page.to_document(measured, torch, facts)
    folder = program.parent
    results = folder / "results.json"
    results.write_text(json.dumps(document, indent=1) + "\n")
    (folder / "results.md").write_text(page.render(document))
    picture = folder / "results.svg"
    plot.draw(measured.figures, picture)
    if publish:
        published = page.publish(document, build.work.layout.repository / "docs")
        published.with_suffix(".svg").write_bytes(picture.read_bytes())
    _show(measured.figures)
    _say_conditions(measured.figures, load)
    say(f"figures: {results}")
    say(f"plot: {picture}")
    _judge(measured.figures, results)


def compile(build: Build) -> Path:
    if build.sanitizer is not Sanitizer.NONE:
        raise UsageError(
            "A build with a sanitizer cannot be measured.",
            why=f"the {build.sanitizer.value} sanitizer slows it down several times",
            next=commands.make("bench"),
        )
    folder = build.folder.with_name(f"bench-{build.folder.name}")
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
        raise BuildError(
            "The benchmark could not be configured.",
            why=(configured.complaint.splitlines() or ["cmake gave no reason"])[0],
            next=f"{commands.make('build')} # what the benchmark is built against",
            detail=configured.complaint,
        )
    ninja.build(folder, [], build.env, compilers.jobs())
    program = folder / "bench_xpu"
    if not program.exists():
        raise UsageError(
            "This stage has nothing to measure.",
            why="the benchmark needs streams, events, guards and the allocator",
            next=commands.make("bench", STAGE="guard"),
        )
    return program


# -- measuring ---------------------------------------------------------------------


def _measure(build: Build, program: Path, quick: bool) -> tuple[Run, str]:
    """All figures, and which torch.cuda is beside them.

    A figure that misses its bound is measured once more, since the machine may
    have been busy. The second measurement counts; the first is kept beside it.
    """
    env = {
        **runtime.program_environment(build),
        "TORCH_XPU_MAPPING": os.environ.get("TORCH_XPU_MAPPING", "CPU"),
    }
    words = ["--quick"] if quick else []
    with progress(len(ROWS), "measuring") as bar:
        measured = _run(program, words, env, bar.step)
        cuda, beside = Run(), program.with_name("bench_cuda")
        if measured.gpu:
            reason = cuda_peer.build(build.work.layout.repository / "bench", beside)
            if reason:
                say(f"without torch.cuda: {reason}")
            else:
                cuda = _run(beside, words, cuda_peer.environment(), lambda _: None)
        measured.beside(cuda)
        for at, figure in enumerate(measured.figures):
            if figure.verdict is not Verdict.MISSED:
                continue
            again = _run(program, [*words, "--only", figure.id], env, bar.step)
            for other in again.figures:
                if other.id == figure.id:
                    other.cuda, other.first = figure.cuda, figure.ours.value.median
                    measured.figures[at] = other
    return measured, cuda.runtime


def _run(program: Path, words: list[str], env: dict[str, str], took: Callable[[str], None]) -> Run:
    measured = Run()
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        figure = measured.add(text)
        if figure is not None:
            took(figure.row.title)

    unset = [word for name in _UNSET for word in ("-u", name)]
    code = shell.follow(["env", *unset, program, *words], line, env=env)
    if code:
        raise TestError(
            f"The program {program.name} failed.",
            why=next((one for one in reversed(lines) if one.strip()), f"it ended with {code}"),
            next=f"{commands.make('test')} # then {commands.line(program)}",
            detail="\n".join(lines[-30:]),
        )
    return measured


# -- telling -----------------------------------------------------------------------


def _show(figures: list[Figure]) -> None:
    headings, rows = page.table(figures)
    rows = [
        [*cells[:-1], coloured(cells[-1], _COLOURS[one.verdict])]
        for one, cells in zip(figures, rows, strict=True)
    ]
    show_table(headings, rows, cut="figure")


def _say_conditions(figures: list[Figure], load: float) -> None:
    left_out = sum(one.left_out for one in figures)
    rounds = left_out + sum(one.rounds for one in figures)
    say(
        f"{rounds} rounds on {_cpu()}; load {load:.1f} before; {left_out} rounds "
        "that other processes interrupted are left out"
    )
    for figure in figures:
        if figure.first is not None:
            say(f"measured twice, first {figure.first:.4g}: {figure.row.title}")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} x {names[0] if names else platform.machine()}"


def _judge(figures: list[Figure], results: Path) -> None:
    counts = {one: sum(figure.verdict is one for figure in figures) for one in Verdict}
    say("; ".join(f"{count} {one.value}" for one, count in counts.items() if count))
    missed = [one for one in figures if one.verdict is Verdict.MISSED]
    reasons = [
        f"{one.row.title}: {spread.median:.3g}, which must be {bound.text(one.row.unit)}"
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
