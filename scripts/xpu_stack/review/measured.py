"""What the benchmark measured of the trees of the stack, from its results.json."""

import json
from dataclasses import dataclass
from typing import Any

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system.console import log


@dataclass(frozen=True)
class Row:
    """One figure: what was measured beside the least that it can take."""

    of: str  # what it is a figure of: a stage's name, or something several stages make
    title: str
    ours: str
    floor: str
    ratio: str
    verdict: str


@dataclass(frozen=True)
class Measured:
    """One run of the benchmark."""

    tree: str
    build: str
    machine: str
    quick: bool  # in less time, with wider spreads
    rows: tuple[Row, ...]


def read(work: Workspace, trees: set[str]) -> tuple[Measured, ...]:
    """The runs whose tree is one of `trees`; others say nothing of this stack."""
    found = []
    folder = work.layout.for_checkout(work.repository.folder)
    for path in sorted(folder.glob("bench-*/results.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            rows = tuple(map(_row, data["figures"]))
            run = Measured(data["tree"], data["mode"], data["machine"], data["quick"], rows)
        except (ValueError, KeyError, TypeError, IndexError):
            log.warning("not understood: %s", path)
            continue
        if run.tree in trees:
            found.append(run)
    return tuple(found)


def _row(figure: dict[str, Any]) -> Row:
    sides = figure["sides"]
    amounts = [_amount(side["value"]["median"], figure["unit"]) for side in sides]
    ours, floor, *_ = [*amounts, "", ""]
    ratio = sides[0]["ratio"] if sides else None
    return Row(
        figure["id"].partition(".")[0],
        figure["title"],
        ours,
        floor,
        f"{ratio['median']:.3g}" if ratio else "",
        figure["verdict"],
    )


def _amount(value: float, unit: str) -> str:
    if unit != "ns":
        return f"{value:.4g} {unit}".strip()
    for name, size in (("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} ns"
