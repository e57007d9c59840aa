"""What the benchmark measures: the rows of its table, their bounds, and verdicts.

The programs of `bench/` print one figure per line, as JSON. This file and
page.py need the standard library alone: ci/gpu/run uses them on machines
that have nothing else.
"""

import enum
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, field
from fractions import Fraction
from operator import truediv
from typing import Any


class Verdict(enum.Enum):
    """What is to be said of a figure and its bounds."""

    MET = "met"
    NOISE = "met within noise"  # the median's confidence interval touches the bound
    MISSED = "missed"
    SHOWN = "shown"  # no bound


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
        theirs = (other.median, other.p90, other.p10, other.high, other.low)
        return Spread(*map(truediv, astuple(self), theirs))

    @property
    def as_ratio(self) -> str:
        """As text, with the middle 80 %."""
        return f"{self.median:.3g} ({self.p10:.3g} .. {self.p90:.3g})"


@dataclass(frozen=True)
class Bound:
    """A limit as the table shows it: ">= 1.5 x", or "<= 1/12 of raw", where a ratio has it."""

    text: str

    @property
    def least(self) -> bool:
        """The value must not be smaller; otherwise not larger."""
        return self.text.startswith(">=")

    @property
    def limit(self) -> float:
        return float(Fraction(self.text.split()[1]))

    @property
    def of(self) -> str:
        """What the ratio is to: raw for the calls of SYCL that do the same, or torch.cuda."""
        return self.text.partition(" of ")[2]

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit

    def judge(self, spread: Spread) -> Verdict:
        if self.holds(spread.median):
            return Verdict.MET
        best = spread.high if self.least else spread.low
        return Verdict.NOISE if self.holds(best) else Verdict.MISSED


@dataclass(frozen=True)
class Row:
    """A figure of the table, with its bounds on the CPU device and, if it has others, on a GPU."""

    id: str
    title: str
    cpu: str = ""
    gpu: str | None = None

    @property
    def unit(self) -> str:
        """That of its bound, if it has one of the value."""
        found = re.fullmatch(r".= \S+ ?(\w*)", self.cpu.partition(",")[0])
        return found[1] if found else "ns"


_HALF = "<= 0.5 of torch.cuda"
_HIT = "<= 60 ns, <= 1/12 of raw"

ROWS = (
    Row("device.current", "current device"),
    Row("stream.current", "current stream", "<= 3 ns", _HALF),
    Row("stream.pool", "stream from the pool", gpu=_HALF),
    Row("guard.device", "device guard", gpu=_HALF),
    Row("guard.stream", "stream guard", "<= 20 ns", _HALF),
    Row("stream.query", "query of an idle stream"),
    Row("stream.sync", "synchronize an idle stream"),
    Row("device.sync", "synchronize an idle device", gpu=_HALF),
    Row("allocator.hit.512", "allocate and free 512 B", _HIT, _HALF),
    Row("allocator.hit.1048576", "allocate and free 1 MiB", _HIT, _HALF),
    Row("allocator.hit.67108864", "allocate and free 64 MiB", _HIT, _HALF),
    Row("allocator.recorded", "the same, 4 KiB, with recordStream", gpu=_HALF),
    Row("allocator.trace.small", "replace one of 1,000 blocks, 256 B to 1 MiB"),
    Row("allocator.trace.small.segments", "segments made meanwhile", "<= 0"),
    Row("allocator.trace.large", "replace one of 1,000 blocks, 256 B to 64 MiB"),
    Row("allocator.trace.large.segments", "segments made meanwhile", "<= 0", ""),
    Row("allocator.miss", "allocate 32 MiB that are not cached", "<= 1.05 of raw"),
    Row("allocator.growth", "a hit among 100,000 blocks, to 1,000", "<= 1.2 of raw"),
    Row("allocator.empty", "empty a cache that holds nothing"),
    Row(
        "allocator.reserved.trace",
        "reserved at the peak of a random trace, to asked for",
        "<= 1.2 x",
    ),
    Row(
        "allocator.reserved.powers",
        "reserved for powers of two from 1 MiB, to asked for",
        "<= 1.13 x",
    ),
    Row("allocator.threads", "hits of two threads on streams of their own, to one", ">= 1.5 x"),
    Row("event.record", "record an event", "<= 1.1 of raw"),
    Row("event.record.c10", "record a c10::Event", "<= 1.1 of raw"),
    Row("event.record.timing", "record an event with timing"),
    Row("event.block", "let a stream wait for an event", "<= 1.1 of raw"),
    Row("event.query", "query a completed event again", "<= 20 ns"),
    Row("stream.copy.small", "copy 4 KiB and wait", "<= 1.03 of raw", "<= 1.02 of raw"),
    Row("stream.copy.large", "copy 256 MiB and wait", "<= 1.03 of raw", "<= 1.02 of raw"),
    Row("stream.copy.host", "copy 256 MiB from pinned memory", "<= 1.03 of raw", "<= 1.02 of raw"),
)
_ROWS = {row.id: row for row in ROWS}


@dataclass(frozen=True)
class Side:
    name: str
    value: Spread
    ratio: Spread | None  # to the second side


@dataclass
class Figure:
    id: str
    sides: list[Side]  # what it compares, ours first
    rounds: int
    left_out: int
    gpu: bool = False
    cuda: Spread | None = None  # torch.cuda's, from a process of its own
    # The first measurement's median, where it missed a bound and was repeated.
    first: float | None = None

    @property
    def row(self) -> Row:
        return _ROWS[self.id]

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
        spreads = {"": self.ours.value, "raw": self.ours.ratio, "torch.cuda": self.of_cuda}
        bounds = self.row.cpu if self.row.gpu is None or not self.gpu else self.row.gpu
        all = map(Bound, filter(None, bounds.split(", ")))
        return [(one, spread) for one in all if (spread := spreads[one.of]) is not None]

    @property
    def verdict(self) -> Verdict:
        """The worst of its bounds."""
        verdicts = [bound.judge(spread) for bound, spread in self.judged]
        return max(verdicts, key=[*Verdict].index, default=Verdict.SHOWN)

    @property
    def bounds(self) -> str:
        return ", ".join(bound.text for bound, _ in self.judged)

    def amount(self, value: Spread | None) -> str:
        """A measured value, in a unit that fits."""
        unit = self.row.unit
        if value is None:
            return ""
        if unit != "ns":
            return f"{value.median:.2f}{unit}" if unit else f"{value.median:g}"
        for name, size in (("ms", 1e6), ("us", 1e3)):
            if value.median >= size:
                return f"{value.median / size:.2f} {name}"
        return f"{value.median:.3g} ns"

    def to_json(self) -> dict[str, Any]:
        told = {"title": self.row.title, "unit": self.row.unit, "verdict": self.verdict.value}
        return asdict(self) | told


def from_json(data: dict[str, Any]) -> Figure:
    """The figure in a line of a program, or of which `to_json` gave this."""
    sides = [
        Side(side["name"], Spread(**side["value"]), _spread(side["ratio"]))
        for side in data["sides"]
    ]
    known = {one: data[one] for one in ("rounds", "left_out", "gpu", "first") if one in data}
    return Figure(_ROWS[data["id"]].id, sides, cuda=_spread(data.get("cuda")), **known)


def _spread(data: dict[str, float] | None) -> Spread | None:
    return None if data is None else Spread(**data)


@dataclass
class Run:
    """What a program printed: what it measured on, and the figures by their id."""

    runtime: str = ""
    device: str = ""
    backend: str = ""
    figures: dict[str, Figure] = field(default_factory=dict)
    torch: str = ""  # whose torch.cuda the figures stand beside

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
        before = self.figures.setdefault(figure.id, figure)
        if figure.ours.value.median < before.ours.value.median:
            self.figures[figure.id] = figure
        return figure

    def beside(self, cuda: "Run") -> None:
        self.torch = cuda.runtime
        for id in self.figures.keys() & cuda.figures.keys():
            self.figures[id].cuda = cuda.figures[id].ours.value


def read(lines: Iterable[str]) -> Run:
    run = Run()
    for line in lines:
        run.add(line)
    return run
