"""The benchmark's figures as a page of the documentation, in Markdown.

docs/bench.json is what `make bench PUBLISH=1` measured on the CPU device, and
docs/bench-gpu.json what ci/gpu/run measured on a card; the .md beside each says
the same for people, and a test holds it to the figures.

    python3 -m xpu_stack.bench.page RESULTS [DOCS]

makes bench.json and bench.md of what ci/gpu/run left in the folder RESULTS;
with DOCS, the folder of the documentation, it publishes them there instead, with
the counts of the tests in gpu.md.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from xpu_stack.bench.figures import (
    Figure,
    Run,
    Verdict,
    amount_text,
    bounds_text,
    from_json,
    ratio_text,
    read,
)

_BEGIN = "<!-- tests: begin -->"
_END = "<!-- tests: end -->"


def render(document: dict[str, Any]) -> str:
    figures = [from_json(one) for one in document["figures"]]
    gpu = document["backend"] != "opencl"
    name, made = ("bench-gpu", "ci/gpu/run") if gpu else ("bench", "make bench PUBLISH=1")
    where = document["device"] if gpu else "SYCL's CPU device"
    head = f"""\
# What the runtime costs on {where}

Made by `{made}` from [{name}.json]({name}.json); do not edit.

Each figure stands beside the SYCL calls that do the same, measured in turns in
one process: the ratio is taken per round, and the table has the median of the
ratios and their middle 80 %. See `bench/Harness.h`.

"""
    return "".join([head, _conditions(document, figures), "\n", _table(figures)])


def _conditions(document: dict[str, Any], figures: list[Figure]) -> str:
    rounds = sum(one.rounds for one in figures)
    left_out = sum(one.left_out for one in figures)
    counts = {verdict: sum(one.verdict is verdict for one in figures) for verdict in Verdict}
    lines = [
        f"{document['machine']}; load {document['load_before']:.1f} before",
        f"SYCL {document['sycl']}, backend {document['backend']}, {document['device']}; "
        f"{'a quick run' if document['quick'] else 'a full run'}",
        f"{rounds} rounds; {left_out} more, in which the core was taken away, are left out",
        "; ".join(f"{count} {one.value}" for one, count in counts.items() if count),
    ]
    if document.get("torch"):
        lines.insert(2, f"torch.cuda is the C++ of {document['torch']}, in a process of its own")
    return "".join(f"- {line}\n" for line in lines)


def table(figures: list[Figure]) -> tuple[list[str], list[list[str]]]:
    """The headings, and a row for each figure."""
    cuda = any(one.cuda for one in figures)
    headings = ["figure", "ours", "raw SYCL", "ratio"]
    headings += [*(["torch.cuda", "ratio"] if cuda else []), "bound", "verdict"]
    rows = []
    for one in figures:
        cells = [one.row.title, amount_text(one, one.ours.value)]
        cells.append(f"{amount_text(one, one.raw.value)}, {one.raw.name}" if one.raw else "")
        cells.append(ratio_text(one.ours.ratio))
        if cuda:
            cells.append(amount_text(one, one.cuda) if one.cuda else "")
            cells.append(ratio_text(one.of_cuda))
        rows.append([*cells, bounds_text(one), one.verdict.value])
    return headings, rows


def _table(figures: list[Figure]) -> str:
    headings, rows = table(figures)
    lines = [f"| {' | '.join(row)} |\n" for row in [headings, *rows]]
    lines.insert(1, f"|---|{'--:|' * (len(headings) - 3)}---|---|\n")
    return "".join(lines)


def publish(document: dict[str, Any], docs: Path) -> Path:
    """Puts what was measured into the documentation; the page."""
    name = "bench" if document["backend"] == "opencl" else "bench-gpu"
    return _write(document, docs / name)


def _write(document: dict[str, Any], path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    page = path.with_suffix(".md")
    page.write_text(render(document))
    return page


def to_document(run: Run, torch: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Everything that is kept of a run; `facts` says where it was made."""
    return {
        **facts,
        "device": run.device,
        "backend": run.backend,
        "torch": torch,
        "figures": [one.to_json() for one in run.figures],
    }


# -- what ci/gpu/run left ----------------------------------------------------------


def of_results(results: Path) -> dict[str, Any]:
    """The document of a run on a machine with a card."""
    run = read((results / "bench.jsonl").read_text().splitlines())
    path = results / "cuda.jsonl"
    cuda = read(path.read_text().splitlines()) if path.exists() else Run()
    run.beside(cuda)
    facts = (results / "machine.txt").read_text().splitlines()
    told = dict(line.partition(" ")[::2] for line in facts)
    cards = [line[5:] for line in facts if line.startswith("card ")]
    return to_document(
        run,
        cuda.runtime,
        {
            "commit": told.get("commit", ""),
            "sycl": told.get("SYCL", ""),
            "machine": f"{told.get('cpu', '')}; card and driver: {'; '.join(cards) or run.device}",
            "load_before": float(told.get("load", 0)),
            "quick": False,
        },
    )


def counts_table(results: Path) -> str:
    """The counts of the tests, one line per program and number of ordinals."""
    pattern = re.compile(r"(\S+), (\d+) ordinal\(s\): (\d+) passed, (\d+) failed, (\d+) skipped")
    lines = (results / "tests.txt").read_text().splitlines()
    rows = [found.groups() for found in map(pattern.match, lines) if found]
    facts = (results / "machine.txt").read_text().splitlines()
    return "".join(
        [
            *(f"- {fact}\n" for fact in facts if not fact.startswith("{")),
            f"- {(results / 'counts.txt').read_text()}\n",
            "| program | ordinals | passed | failed | skipped |\n|---|--:|--:|--:|--:|\n",
            *(f"| {' | '.join(row)} |\n" for row in rows),
        ]
    )


def _main(results: Path, docs: Path | None) -> None:
    document = of_results(results)
    if docs is None:
        page = _write(document, results / "bench")
        sys.stdout.write(_table([from_json(one) for one in document["figures"]]))
    else:
        page = publish(document, docs)
        told = docs / "gpu.md"
        before, _, rest = told.read_text().partition(_BEGIN)
        after = rest.partition(_END)[2]
        told.write_text(f"{before}{_BEGIN}\n{counts_table(results)}{_END}{after}")
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
