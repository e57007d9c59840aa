"""What the benchmark measured: figures, each beside its floor, and verdicts.

The programs of `bench/` print one figure or fact per line, as JSON; the bound
comes with the figure, so that both stand in one place.
"""

import enum
import json
from dataclasses import asdict, dataclass, field
from typing import Any


class Verdict(enum.Enum):
    """What is to be said of a figure and its bound."""

    MET = "met"
    NOISE = "met within noise"  # the median's confidence interval touches the bound
    FLOOR = "forbidden by the floor"  # even the least that must be done misses it
    MISSED = "missed"
    SHOWN = "shown"  # there is no bound

    @property
    def good(self) -> bool:
        return self is not Verdict.MISSED


class Kind(enum.Enum):
    """What a bound is about; the values are what the programs print."""

    NONE = "none"
    FACT = "fact"
    RATIO_AT_MOST = "ratio at most"
    VALUE_AT_MOST = "value at most"
    VALUE_AT_LEAST = "value at least"


@dataclass(frozen=True)
class Spread:
    """A median over rounds, and how sure it is."""

    median: float
    p10: float
    p90: float
    low: float  # of the median's 95 % confidence interval
    high: float


@dataclass(frozen=True)
class Side:
    """One of the things that a figure compares."""

    name: str
    value: Spread
    ratio: Spread | None  # to the floor


@dataclass
class Figure:
    """A figure with its bound, or a fact that holds or does not."""

    id: str
    title: str
    kind: Kind
    bound: float = 0
    unit: str = ""
    note: str = ""
    rounds: int = 0
    left_out: int = 0
    sides: list[Side] = field(default_factory=list)
    need: int = -1  # the side that does the least which must be done
    holds: bool = False
    # What a first measurement said, where it missed the bound.
    first: float | None = None

    @property
    def ours(self) -> Side:
        return self.sides[0]

    @property
    def floor(self) -> Side | None:
        return self.sides[1] if len(self.sides) > 1 else None

    @property
    def judged(self) -> Spread | None:
        """What the bound is compared with; None for a fact."""
        return self._judged(self.ours) if self.sides else None

    def _judged(self, side: Side) -> Spread:
        if self.kind is Kind.RATIO_AT_MOST:
            assert side.ratio is not None
            return side.ratio
        return side.value

    def _within(self, value: float) -> bool:
        return value >= self.bound if self.kind is Kind.VALUE_AT_LEAST else value <= self.bound

    @property
    def verdict(self) -> Verdict:
        if self.kind is Kind.FACT:
            return Verdict.MET if self.holds else Verdict.MISSED
        if self.kind is Kind.NONE:
            return Verdict.SHOWN
        spread = self._judged(self.ours)
        if self._within(spread.median):
            return Verdict.MET
        best = spread.high if self.kind is Kind.VALUE_AT_LEAST else spread.low
        if self._within(best):
            return Verdict.NOISE
        if self.need >= 0 and not self._within(self._judged(self.sides[self.need]).median):
            return Verdict.FLOOR
        return Verdict.MISSED

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.value, "verdict": self.verdict.value}


def parse(line: str) -> Figure | None:
    """The figure in a line that a program printed; None if there is none in it."""
    if not line.startswith("{"):
        return None
    data = json.loads(line)
    sides = [
        Side(side["name"], Spread(**side["value"]), _spread(side.get("ratio")))
        for side in data.pop("sides", [])
    ]
    return Figure(sides=sides, kind=Kind(data.pop("kind")), **data)


def from_json(data: dict[str, Any]) -> Figure:
    """The figure of which `to_json` gave this."""
    fields = {key: value for key, value in data.items() if key != "verdict"}
    first = fields.pop("first")
    figure = parse(json.dumps(fields))
    assert figure is not None
    figure.first = first
    return figure


def _spread(data: dict[str, float] | None) -> Spread | None:
    return None if data is None else Spread(**data)


def amount_text(figure: Figure, side: Side) -> str:
    """What a side took, in a unit that fits."""
    value = side.value.median
    if figure.unit != "ns":
        return f"{value:.2f}{figure.unit}"
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:.3g} ns"


def ratio_text(side: Side) -> str:
    """A side's ratio to the floor, or its own value, and its middle 80 %."""
    ratio = side.ratio
    if ratio is None:
        value = side.value
        return f"({value.p10:.3g} .. {value.p90:.3g})" if value.p10 != value.p90 else ""
    return f"{ratio.median:.3g} ({ratio.p10:.3g} .. {ratio.p90:.3g})"


def bound_text(figure: Figure) -> str:
    """The bound as a condition; empty without one."""
    if figure.kind in (Kind.NONE, Kind.FACT):
        return ""
    sign = ">=" if figure.kind is Kind.VALUE_AT_LEAST else "<="
    if figure.kind is Kind.RATIO_AT_MOST:
        return (
            f"{sign} 1/{1 / figure.bound:.0f}" if figure.bound < 0.2 else f"{sign} {figure.bound}"
        )
    return f"{sign} {figure.bound:g} {figure.unit}"
