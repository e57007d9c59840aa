"""The benchmark's plot: how much of its bound each figure takes."""

from importlib import import_module
from pathlib import Path
from typing import Any

from xpu_stack.figures import Figure, Kind, Verdict

_COLORS = {
    Verdict.MET: "tab:green",
    Verdict.NOISE: "tab:olive",
    Verdict.FLOOR: "tab:orange",
    Verdict.MISSED: "tab:red",
}
_INCHES_PER_FIGURE = 0.28


def _share(figure: Figure, value: float) -> float:
    """Of the bound: 1 is all of it, more is a miss."""
    return figure.bound / value if figure.kind is Kind.VALUE_AT_LEAST else value / figure.bound


def draw(figures: list[Figure], path: Path) -> None:
    """Writes the plot of the figures that have a bound to `path`, an SVG."""
    # By name: the checks of this file do without the library.
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("svg")
    pyplot: Any = import_module("matplotlib.pyplot")
    shown = [one for one in figures if one.verdict is not Verdict.SHOWN and one.judged]
    shown.reverse()  # the first one on top
    height = 1.5 + _INCHES_PER_FIGURE * len(shown)
    # The same figures give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "xpu-stack", "font.size": 8}):
        canvas, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
        for row, figure in enumerate(shown):
            spread = figure.judged
            assert spread is not None
            ends = sorted([_share(figure, spread.p10), _share(figure, spread.p90)])
            color = _COLORS[figure.verdict]
            axes.plot(ends, [row, row], color=color, linewidth=3, alpha=0.4)
            axes.plot([_share(figure, spread.median)], [row], "o", color=color)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks(range(len(shown)), [one.title for one in shown])
        axes.set_xlabel("part of the bound: median and the middle 80 %; right of 1 it is missed")
        axes.grid(axis="x", alpha=0.3)
        for verdict, color in _COLORS.items():
            axes.plot([], [], "o", color=color, label=verdict.value)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(_COLORS), frameon=False)
        canvas.savefig(path, metadata={"Date": None})
        pyplot.close(canvas)
