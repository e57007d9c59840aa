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
            run = _run(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, IndexError):
            log.warning("not understood: %s", path)
            continue
        if run.tree in trees:
            found.append(run)
    return tuple(found)


def _run(data: dict[str, Any]) -> Measured:
    return Measured(
        tree=data["tree"],
        build=data["mode"],
        machine=data["machine"],
        quick=data["quick"],
        rows=tuple(_row(figure) for figure in data["figures"]),
    )


def _row(figure: dict[str, Any]) -> Row:
    sides = figure["sides"]
    amounts = [_amount(side["value"]["median"], figure["unit"]) for side in sides[:2]]
    ratio = sides[0]["ratio"] if sides else None
    return Row(
        of=figure["id"].partition(".")[0],
        title=figure["title"],
        ours=amounts[0] if amounts else "",
        floor=amounts[1] if len(amounts) > 1 else "",
        ratio=f"{ratio['median']:.3g}" if ratio else "",
        verdict=figure["verdict"],
    )


def _amount(value: float, unit: str) -> str:
    if unit != "ns":
        return f"{value:.4g} {unit}".strip()
    for name, size in (("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} ns"
