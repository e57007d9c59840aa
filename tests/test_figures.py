"""What is said of a figure that the benchmark measured."""

import json
from typing import Any

import pytest
from xpu_stack.bench.figures import (
    ROWS,
    Bound,
    Figure,
    Run,
    Spread,
    Verdict,
    from_json,
    read,
)


def spread(median: float, margin: float = 0.01) -> Spread:
    return Spread(
        median, median - 2 * margin, median + 2 * margin, median - margin, median + margin
    )


def line(id: str, value: float, ratio: float | None = None) -> str:
    """A figure as a program prints it."""
    sides: list[dict[str, Any]] = [
        {"name": name, "value": vars(spread(value)), "ratio": ratio and vars(spread(ratio))}
        for name in (["", "raw"] if ratio else [""])
    ]
    return json.dumps({"id": id, "rounds": 100, "left_out": 3, "sides": sides})


def figure(id: str, value: float, ratio: float | None = None, *, gpu: bool = False) -> Figure:
    return from_json({**json.loads(line(id, value, ratio)), "gpu": gpu})


HEADER = '{"runtime": "%s", "device": "a device", "backend": "%s"}'


def test_at_most() -> None:
    bound = Bound("<= 1.1")
    assert bound.judge(spread(1.1)) is Verdict.MET
    assert bound.judge(spread(1.105)) is Verdict.NOISE
    assert bound.judge(spread(1.2)) is Verdict.MISSED


def test_at_least() -> None:
    bound = Bound(">= 1.5")
    assert bound.judge(spread(1.5)) is Verdict.MET
    assert bound.judge(spread(1.495)) is Verdict.NOISE
    assert bound.judge(spread(1.4)) is Verdict.MISSED


def test_all_bounds_of_a_row_must_hold() -> None:
    assert figure("allocator.hit.512", 59, 0.05).verdict is Verdict.MET
    assert figure("allocator.hit.512", 61, 0.05).verdict is Verdict.MISSED
    assert figure("allocator.hit.512", 59, 0.2).verdict is Verdict.MISSED


def test_a_gpu_has_bounds_of_its_own() -> None:
    one = figure("allocator.hit.512", 61, 0.5, gpu=True)
    assert one.verdict is Verdict.SHOWN  # no torch.cuda beside it
    one.cuda = spread(200)
    assert one.verdict is Verdict.MET
    assert one.bounds == "<= 0.5 of torch.cuda"
    one.cuda = spread(100)
    assert one.verdict is Verdict.MISSED


def test_the_ratio_to_another_process_is_as_wide_as_both_allow() -> None:
    ratio = Spread(10, 8, 12, 9, 11).over(Spread(20, 16, 24, 18, 22))
    assert (ratio.median, ratio.p10, ratio.p90) == (0.5, 8 / 24, 12 / 16)
    assert (ratio.low, ratio.high) == (9 / 22, 11 / 18)


def test_without_a_bound() -> None:
    assert figure("stream.query", 7, 2).verdict is Verdict.SHOWN


def test_a_run() -> None:
    run = read(
        [
            "WARNING: Logging before InitGoogleLogging()",
            HEADER % ("SYCL", "ext_oneapi_cuda"),
            line("event.record", 100, 1.0),
            line("event.query", 2.0),
        ]
    )
    assert (run.backend, run.gpu, len(run.figures)) == ("cuda", True, 2)
    assert all(one.gpu for one in run.figures.values())
    run.beside(read([HEADER % ("PyTorch", "cuda"), line("event.query", 8), line("event.query", 4)]))
    assert run.figures["event.record"].cuda is None
    cuda = run.figures["event.query"].cuda
    assert cuda is not None
    assert cuda.median == 4, "of two measurements the faster one counts"


def test_the_cpu_device_is_no_gpu() -> None:
    assert not read([HEADER % ("SYCL", "opencl")]).gpu


def test_json_there_and_back() -> None:
    one = figure("event.record", 900, 1.2)
    one.first = 950.0
    told = json.loads(json.dumps(one.to_json()))
    assert (told["verdict"], told["title"], told["unit"]) == ("missed", "record an event", "ns")
    assert from_json(told) == one


def test_a_figure_without_a_row_is_refused() -> None:
    with pytest.raises(KeyError):
        Run().add(line("no.such.figure", 1))


def test_rows_are_few_and_told_apart() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS) <= 30
    # A ratio to torch.cuda is a bound on GPUs alone.
    assert not any("of torch.cuda" in row.cpu for row in ROWS)
    assert all(row.gpu is None or row.gpu != row.cpu for row in ROWS)
