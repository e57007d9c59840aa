"""The benchmark's figures as a page of the documentation.

docs/bench.json is what `make bench PUBLISH=1` measured; docs/bench.md and
docs/bench.svg say the same for people. A test holds the page to the figures.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from xpu_stack.figures import (
    Figure,
    Verdict,
    amount_text,
    bound_text,
    from_json,
    ratio_text,
)

_HEAD = """\
# What the runtime costs

Made by `make bench PUBLISH=1` from [bench.json](bench.json); do not edit.

Each figure stands beside its floor, measured in the same run and in turns:
the ratio is taken per round, and what is printed is the median of the ratios
and the range of the middle 80 %. See `bench/Harness.h`.

"""


def publish(docs: Path, results: Path, picture: Path) -> None:
    """Puts what was measured into the documentation."""
    docs.mkdir(exist_ok=True)
    shutil.copyfile(results, docs / "bench.json")
    shutil.copyfile(picture, docs / "bench.svg")
    (docs / "bench.md").write_text(render(json.loads(results.read_text())))


def render(document: dict[str, Any]) -> str:
    """The page for a document of the benchmark, in Markdown."""
    figures = [from_json(one) for one in document["figures"]]
    parts = [
        _HEAD,
        _conditions(document, figures),
        "\n![Each figure as a part of its bound](bench.svg)\n\n",
        _table(figures),
        _forbidden(figures),
        _beside(figures),
    ]
    return "".join(parts)


def _conditions(document: dict[str, Any], figures: list[Figure]) -> str:
    rounds = sum(one.rounds for one in figures)
    left_out = sum(one.left_out for one in figures)
    counts = {verdict: sum(one.verdict is verdict for one in figures) for verdict in Verdict}
    verdicts = "; ".join(f"{count} {one.value}" for one, count in counts.items() if count)
    return (
        f"- {document['machine']}, shared with others: load {document['load_before']:.1f} before\n"
        f"- SYCL {document['sycl']} on its CPU device; "
        f"{'a quick run' if document['quick'] else 'a full run'}\n"
        f"- {rounds} rounds; {left_out} more, in which the core was taken away, are left out\n"
        f"- {verdicts}\n"
    )


def _table(figures: list[Figure]) -> str:
    lines = ["| figure | ours | floor | ratio | bound | verdict |", "|---|--:|--:|---|---|---|"]
    for one in figures:
        ours = amount_text(one, one.ours) if one.sides else ""
        floor = f"{amount_text(one, one.floor)}, {one.floor.name}" if one.floor else ""
        ratio = ratio_text(one.ours) if one.sides else ""
        cells = [one.title, ours, floor, ratio, bound_text(one), one.verdict.value]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _forbidden(figures: list[Figure]) -> str:
    forbidden = [one for one in figures if one.verdict is Verdict.FLOOR]
    if not forbidden:
        return ""
    lines = ["\n## Bounds that the floor forbids\n"]
    for one in forbidden:
        least = one.sides[one.need]
        lines.append(
            f"- **{one.title}**: {bound_text(one)}. The least that must be done: {least.name}, "
            f"{amount_text(one, least)}, ratio {ratio_text(least)}; ours: "
            f"{amount_text(one, one.ours)}, ratio {ratio_text(one.ours)}."
            f"{f' {one.note}.' if one.note else ''}"
        )
    return "\n".join(lines) + "\n"


def _beside(figures: list[Figure]) -> str:
    lines = ["\n## Measured beside them\n"]
    lines += [
        f"- {one.title}: {side.name}: {amount_text(one, side)}, ratio {ratio_text(side)}"
        for one in figures
        for side in one.sides[2:]
    ]
    return "\n".join(lines) + "\n"
