"""The benchmark's plot: how much of its bound each figure takes."""

from importlib import import_module
from pathlib import Path
from typing import Any

from xpu_stack.bench.figures import Bound, Figure, Verdict

_COLORS = {Verdict.MET: "tab:green", Verdict.NOISE: "tab:olive", Verdict.MISSED: "tab:red"}
_INCHES_PER_FIGURE = 0.28


def _share(bound: Bound, value: float) -> float:
    """Of the bound: 1 is all of it, more is a miss."""
    return bound.limit / value if bound.least else value / bound.limit


def draw(figures: list[Figure], path: Path) -> None:
    """Writes the plot of the figures that have a bound to `path`, an SVG."""
    # By name: the checks of this file do without the library.
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("svg")
    pyplot: Any = import_module("matplotlib.pyplot")
    shown = [
        (one.row.title, bound, spread)
        for one in figures
        for bound, spread in one.judged
        if bound.limit  # no part of nothing can be taken
    ]
    shown.reverse()  # the first one on top
    height = 1.5 + _INCHES_PER_FIGURE * len(shown)
    # The same figures give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "xpu-stack", "font.size": 8}):
        canvas, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
        for row, (_, bound, spread) in enumerate(shown):
            ends = sorted([_share(bound, spread.p10), _share(bound, spread.p90)])
            color = _COLORS[bound.judge(spread)]
            axes.plot(ends, [row, row], color=color, linewidth=3, alpha=0.4)
            axes.plot([_share(bound, spread.median)], [row], "o", color=color)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        names = [f"{title} {bound.of.value}".strip() for title, bound, _ in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.set_xlabel("part of the bound: median and the middle 80 %; right of 1 it is missed")
        axes.grid(axis="x", alpha=0.3)
        for verdict, color in _COLORS.items():
            axes.plot([], [], "o", color=color, label=verdict.value)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(_COLORS), frameon=False)
        canvas.savefig(path, metadata={"Date": None})
        pyplot.close(canvas)
