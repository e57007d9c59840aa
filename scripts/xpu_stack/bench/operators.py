"""`make bench-ops`: operators that have kernels, beside torch.cuda.

bench/ops.py measures them, with a build or, where this tool is not, by itself. What it
wrote becomes a table and a plot, docs/operators.svg.
"""

import json
import runpy
from pathlib import Path
from typing import Any

from xpu_stack.bench.run import drawing
from xpu_stack.build import build as building
from xpu_stack.build import packages
from xpu_stack.build.configuration import Build
from xpu_stack.core.system import commands, pages
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import TestError, UsageError

_BEGIN = "<!-- written by make bench-ops PUBLISH=1 -->"  # whatever base and folder
_END = "<!-- end -->"


def measure(this: Build, peer: str | None) -> Path:
    """Measures what was built, and `peer`, a Python with a torch for CUDA; the figures."""
    figures = this.folder.with_name("bench-ops.json")
    program = this.work.layout.repository / "bench" / "ops.py"
    words = (str(program), "--json", str(figures), *((peer,) if peer else ()))
    if code := building.run_python(this, words):
        raise TestError(
            "The operators were not measured.",
            why=f"bench/ops.py ended with {code}",
            next=f"{commands.make('bench-ops')} # when what it says above is mended",
        )
    say(f"figures: {figures}")
    return figures


def publish(figures: Path, docs: Path) -> None:
    """Writes the table into docs/tensors.md, and the plot."""
    packages.need_python("bench")  # what draws the plot
    try:
        document = json.loads(figures.read_text())
        rows = document["rows"]
        about = "".join(f"- {line}\n" for line in document["about"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"The figures in {figures} cannot be read.",
            why=f"it is no file that bench/ops.py wrote: {error}",
            next="python bench/ops.py --json FILE # on the machine with the card",
        ) from None
    # It also runs where this tool is not.
    table = runpy.run_path(str(docs.parent / "bench" / "peer.py"))["table"]
    lines = "".join(f"{line}\n" for line in table(rows))
    pages.put_between(_BEGIN, _END, f"\n{about}\n{lines}\n", docs / "tensors.md")
    draw(rows, docs / "operators.svg")


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Writes the plot of the ratios to `path`, an SVG."""
    shown = [one for one in rows if one["ratio"]]
    shown.reverse()  # the first one on top
    with drawing(path, len(shown)) as axes:
        for at, one in enumerate(shown):
            # Of a launch the ratio is one of time, which speed is the inverse of.
            speed, bound = (
                1 / each if one["launch"] else each for each in (one["ratio"], one["bound"])
            )
            color = "tab:green" if speed >= bound else "tab:red"
            axes.plot([bound, speed], [at, at], color=color, linewidth=2, alpha=0.4)
            axes.plot([bound], [at], "|", color="black")
            axes.plot([speed], [at], "o", color=color)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks(range(len(shown)), [one["name"] for one in shown])
        axes.set_xlabel("speed beside torch.cuda's on the same card; | is the bound")
        axes.grid(axis="x", alpha=0.3)
