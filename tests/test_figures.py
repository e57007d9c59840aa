"""What is said of a figure that the benchmark measured."""

import json
from typing import Any

import pytest
from xpu_stack.figures import Figure, Kind, Verdict, parse


def spread(median: float, margin: float = 0.01) -> dict[str, float]:
    return {
        "median": median,
        "p10": median - 2 * margin,
        "p90": median + 2 * margin,
        "low": median - margin,
        "high": median + margin,
    }


def figure(kind: str, bound: float, ours: float, *, need: float | None = None) -> Figure:
    """One as a program prints it; each side's ratio is its value."""
    values = [ours, 1.0, *([] if need is None else [need])]
    data: dict[str, Any] = {
        "id": "a.b",
        "title": "a figure",
        "unit": "ns",
        "kind": kind,
        "bound": bound,
        "note": "",
        "rounds": 100,
        "left_out": 3,
        "sides": [{"name": "", "value": spread(one), "ratio": spread(one)} for one in values],
        "need": -1 if need is None else 2,
    }
    parsed = parse(json.dumps(data))
    assert parsed is not None
    return parsed


@pytest.mark.parametrize("kind", ["ratio at most", "value at most"])
def test_at_most(kind: str) -> None:
    assert figure(kind, 1.1, 1.1).verdict is Verdict.MET
    assert figure(kind, 1.1, 1.105).verdict is Verdict.NOISE
    assert figure(kind, 1.1, 1.2).verdict is Verdict.MISSED


def test_at_least() -> None:
    assert figure("value at least", 1.7, 1.7).verdict is Verdict.MET
    assert figure("value at least", 1.7, 1.695).verdict is Verdict.NOISE
    assert figure("value at least", 1.7, 1.5).verdict is Verdict.MISSED
    assert figure("value at least", 1.7, 1.5, need=1.6).verdict is Verdict.FLOOR
    assert figure("value at least", 1.7, 1.5, need=1.9).verdict is Verdict.MISSED


def test_a_floor_excuses_only_a_bound_that_it_misses_itself() -> None:
    assert figure("ratio at most", 0.5, 0.9, need=0.8).verdict is Verdict.FLOOR
    assert figure("ratio at most", 0.5, 0.9, need=0.4).verdict is Verdict.MISSED
    assert figure("ratio at most", 0.5, 0.4, need=0.8).verdict is Verdict.MET


def test_without_a_bound() -> None:
    assert figure("none", 0, 7).verdict is Verdict.SHOWN


def test_facts() -> None:
    line = '{"id": "x", "title": "it holds", "kind": "fact", "holds": %s}'
    good, bad = parse(line % "true"), parse(line % "false")
    assert good is not None
    assert bad is not None
    assert (good.kind, good.verdict) == (Kind.FACT, Verdict.MET)
    assert bad.verdict is Verdict.MISSED
    assert bad.judged is None


def test_other_lines_are_no_figures() -> None:
    assert parse("WARNING: Logging before InitGoogleLogging()") is None


def test_json_has_the_verdict() -> None:
    told = json.loads(json.dumps(figure("ratio at most", 1.1, 1.2).to_json()))
    assert (told["verdict"], told["kind"]) == ("missed", "ratio at most")
    assert told["sides"][0]["ratio"]["median"] == 1.2
