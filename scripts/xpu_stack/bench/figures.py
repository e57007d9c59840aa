"""What the benchmark measures: the rows of its table, their bounds, and verdicts.

The programs of `bench/` print one figure per line, as JSON. This file and
bench_page.py need the standard library alone: ci/gpu/run uses them on machines
that have nothing else.
"""

import enum
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


class Verdict(enum.Enum):
    """What is to be said of a figure and its bounds."""

    MET = "met"
    NOISE = "met within noise"  # the median's confidence interval touches the bound
    MISSED = "missed"
    SHOWN = "shown"  # no bound


class Of(enum.Enum):
    """What a bound is about."""

    VALUE = ""
    RAW = "of raw"  # the ratio to the calls of SYCL that do the same
    CUDA = "of torch.cuda"


@dataclass(frozen=True)
class Spread:
    """A median over rounds, and how sure it is."""

    median: float
    p10: float
    p90: float
    low: float  # of the median's 95 % confidence interval
    high: float

    def over(self, other: "Spread") -> "Spread":
        """The ratio to what another process measured: as wide as both allow."""
        return Spread(
            self.median / other.median,
            self.p10 / other.p90,
            self.p90 / other.p10,
            self.low / other.high,
            self.high / other.low,
        )


@dataclass(frozen=True)
class Bound:
    """A limit of a figure's value or ratio."""

    limit: float
    of: Of = Of.VALUE
    least: bool = False  # the value must not be smaller; otherwise not larger

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit

    def judge(self, spread: Spread) -> Verdict:
        if self.holds(spread.median):
            return Verdict.MET
        best = spread.high if self.least else spread.low
        return Verdict.NOISE if self.holds(best) else Verdict.MISSED

    def text(self, unit: str) -> str:
        sign = ">=" if self.least else "<="
        if self.of is Of.VALUE:
            return f"{sign} {self.limit:g} {unit}".strip()
        limit = f"1/{1 / self.limit:.0f}" if self.limit < 0.2 else f"{self.limit:g}"
        return f"{sign} {limit} {self.of.value}"


@dataclass(frozen=True)
class Row:
    """A figure of the table, with its bounds on the CPU device and on a GPU."""

    id: str
    title: str
    cpu: tuple[Bound, ...] = ()
    gpu: tuple[Bound, ...] = ()
    unit: str = "ns"


def _raw(limit: float) -> tuple[Bound, ...]:
    return (Bound(limit, Of.RAW),)


def _value(limit: float) -> tuple[Bound, ...]:
    return (Bound(limit),)


_HALF = (Bound(0.5, Of.CUDA),)
_HIT = (Bound(60), Bound(1 / 12, Of.RAW))

ROWS = (
    Row("device.current", "current device"),
    Row("stream.current", "current stream", cpu=_value(3), gpu=_HALF),
    Row("stream.pool", "stream from the pool", gpu=_HALF),
    Row("guard.device", "device guard", gpu=_HALF),
    Row("guard.stream", "stream guard", cpu=_value(20), gpu=_HALF),
    Row("stream.query", "query of an idle stream"),
    Row("stream.sync", "synchronize an idle stream"),
    Row("device.sync", "synchronize an idle device", gpu=_HALF),
    Row("allocator.hit.512", "allocate and free 512 B", cpu=_HIT, gpu=_HALF),
    Row("allocator.hit.1048576", "allocate and free 1 MiB", cpu=_HIT, gpu=_HALF),
    Row("allocator.hit.67108864", "allocate and free 64 MiB", cpu=_HIT, gpu=_HALF),
    Row("allocator.recorded", "the same, 4 KiB, with recordStream", gpu=_HALF),
    Row("allocator.trace.small", "replace one of 1,000 blocks, 256 B to 1 MiB"),
    Row(
        "allocator.trace.small.segments",
        "segments made meanwhile",
        cpu=_value(0),
        gpu=_value(0),
        unit="",
    ),
    Row("allocator.trace.large", "replace one of 1,000 blocks, 256 B to 64 MiB"),
    Row("allocator.trace.large.segments", "segments made meanwhile", cpu=_value(0), unit=""),
    Row("allocator.miss", "allocate 32 MiB that are not cached", cpu=_raw(1.05), gpu=_raw(1.05)),
    Row("allocator.growth", "a hit among 100,000 blocks, to 1,000", cpu=_raw(1.2), gpu=_raw(1.2)),
    Row("allocator.empty", "empty a cache that holds nothing"),
    Row(
        "allocator.reserved.trace",
        "reserved at the peak of a random trace, to asked for",
        cpu=_value(1.2),
        gpu=_value(1.2),
        unit="x",
    ),
    Row(
        "allocator.reserved.powers",
        "reserved for powers of two from 1 MiB, to asked for",
        cpu=_value(1.13),
        gpu=_value(1.13),
        unit="x",
    ),
    Row(
        "allocator.threads",
        "hits of two threads on streams of their own, to one",
        cpu=(Bound(1.5, least=True),),
        gpu=(Bound(1.5, least=True),),
        unit="x",
    ),
    Row("event.record", "record an event", cpu=_raw(1.1), gpu=_raw(1.1)),
    Row("event.record.c10", "record a c10::Event", cpu=_raw(1.1), gpu=_raw(1.1)),
    Row("event.record.timing", "record an event with timing"),
    Row("event.block", "let a stream wait for an event", cpu=_raw(1.1), gpu=_raw(1.1)),
    Row("event.query", "query a completed event again", cpu=_value(20), gpu=_value(20)),
    Row("stream.copy.small", "copy 4 KiB and wait", cpu=_raw(1.03), gpu=_raw(1.02)),
    Row("stream.copy.large", "copy 256 MiB and wait", cpu=_raw(1.03), gpu=_raw(1.02)),
    Row("stream.copy.host", "copy 256 MiB from pinned memory", cpu=_raw(1.03), gpu=_raw(1.02)),
)
_ROWS = {row.id: row for row in ROWS}


@dataclass(frozen=True)
class Side:
    """One of the things that a figure compares."""

    name: str
    value: Spread
    ratio: Spread | None  # to the second side


@dataclass
class Figure:
    """What was measured of a row."""

    id: str
    sides: list[Side]
    rounds: int
    left_out: int
    gpu: bool = False
    cuda: Spread | None = None  # torch.cuda's, from a process of its own
    # The first measurement's median, where it missed a bound and was repeated.
    first: float | None = None
    row: Row = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.row = _ROWS[self.id]

    @property
    def ours(self) -> Side:
        return self.sides[0]

    @property
    def raw(self) -> Side | None:
        return self.sides[1] if len(self.sides) > 1 else None

    @property
    def of_cuda(self) -> Spread | None:
        if self.cuda is None or not self.cuda.low:
            return None
        return self.ours.value.over(self.cuda)

    @property
    def judged(self) -> list[tuple[Bound, Spread]]:
        """The bounds for which there is something to compare with."""
        spreads = {Of.VALUE: self.ours.value, Of.RAW: self.ours.ratio, Of.CUDA: self.of_cuda}
        bounds = self.row.gpu if self.gpu else self.row.cpu
        return [(one, spread) for one in bounds if (spread := spreads[one.of]) is not None]

    @property
    def verdict(self) -> Verdict:
        verdicts = [bound.judge(spread) for bound, spread in self.judged]
        for verdict in (Verdict.MISSED, Verdict.NOISE, Verdict.MET):
            if verdict in verdicts:
                return verdict
        return Verdict.SHOWN

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        del data["row"]
        return {
            **data,
            "title": self.row.title,
            "unit": self.row.unit,
            "verdict": self.verdict.value,
        }


def from_json(data: dict[str, Any]) -> Figure:
    """The figure in a line of a program, or of which `to_json` gave this."""
    sides = [
        Side(side["name"], Spread(**side["value"]), _spread(side["ratio"]))
        for side in data["sides"]
    ]
    known = {one: data[one] for one in ("id", "rounds", "left_out", "gpu", "first") if one in data}
    return Figure(sides=sides, cuda=_spread(data.get("cuda")), **known)


def _spread(data: dict[str, float] | None) -> Spread | None:
    return None if data is None else Spread(**data)


@dataclass
class Run:
    """What a program printed: what it measured on, and the figures."""

    runtime: str = ""
    device: str = ""
    backend: str = ""
    figures: list[Figure] = field(default_factory=list)

    @property
    def gpu(self) -> bool:
        return self.backend != "opencl"

    def add(self, line: str) -> Figure | None:
        """Takes a line of a program; the figure in it, if there is one.

        Of a figure that was measured twice the faster one counts.
        """
        if not line.startswith("{"):
            return None
        data = json.loads(line)
        if "id" not in data:
            self.runtime, self.device = data["runtime"], data["device"]
            self.backend = data["backend"].rpartition("_")[2]
            return None
        figure = from_json({**data, "gpu": self.gpu})
        for at, other in enumerate(self.figures):
            if other.id == figure.id:
                if figure.ours.value.median < other.ours.value.median:
                    self.figures[at] = figure
                return figure
        self.figures.append(figure)
        return figure

    def beside(self, cuda: "Run") -> None:
        """Puts torch.cuda's figures beside these."""
        theirs = {figure.id: figure.ours.value for figure in cuda.figures}
        for figure in self.figures:
            figure.cuda = theirs.get(figure.id)


def read(lines: Iterable[str]) -> Run:
    """The run of a program that printed these lines."""
    run = Run()
    for line in lines:
        run.add(line)
    return run


def amount_text(figure: Figure, value: Spread) -> str:
    """A measured value, in a unit that fits."""
    unit = figure.row.unit
    if unit != "ns":
        return f"{value.median:.2f}{unit}" if unit else f"{value.median:g}"
    for name, size in (("ms", 1e6), ("us", 1e3)):
        if value.median >= size:
            return f"{value.median / size:.2f} {name}"
    return f"{value.median:.3g} ns"


def ratio_text(spread: Spread | None) -> str:
    """A ratio and its middle 80 %."""
    return f"{spread.median:.3g} ({spread.p10:.3g} .. {spread.p90:.3g})" if spread else ""


def bounds_text(figure: Figure) -> str:
    return ", ".join(bound.text(figure.row.unit) for bound, _ in figure.judged)
