"""The benchmark's figures as a page of the documentation, in Markdown.

docs/bench.json is what `make bench PUBLISH=1` measured on the CPU device, and
docs/bench-gpu.json what ci/gpu/run measured on a card; the .md beside each says the same.

    python3 -m xpu_stack.bench.page RESULTS [DOCS]

makes bench.json and bench.md of what ci/gpu/run left in the folder RESULTS; with DOCS, it
publishes them in that folder of documentation instead, with the counts of tests in gpu.md.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from xpu_stack.bench.figures import Figure, Run, Verdict, from_json, read


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
    told = "".join(f"- {line}\n" for line in conditions(document))
    return f"{head}{told}\n{_table(figures)}"


def conditions(document: dict[str, Any]) -> list[str]:
    """What was measured, on what, and how it ended."""
    figures = document["figures"]
    rounds = sum(one["rounds"] for one in figures)
    left_out = sum(one["left_out"] for one in figures)
    counts = Counter(from_json(one).verdict for one in figures)
    lines = [
        f"{document['machine']}; load {document['load_before']:.1f} before",
        f"SYCL {document['sycl']}, backend {document['backend']}, {document['device']}; "
        f"{'a quick run' if document['quick'] else 'a full run'}",
        f"{rounds} rounds; {left_out} more, in which the core was taken away, are left out",
        "; ".join(f"{counts[one]} {one.value}" for one in Verdict if counts[one]),
    ]
    if document.get("torch"):
        lines.insert(2, f"torch.cuda is the C++ of {document['torch']}, in a process of its own")
    return lines


def table(figures: list[Figure]) -> tuple[list[str], list[list[str]]]:
    """The headings, and a row for each figure."""
    cuda = any(one.cuda for one in figures)
    headings = ["figure", "ours", "raw SYCL", "ratio"]
    headings += [*(["torch.cuda", "ratio"] if cuda else []), "bound", "verdict"]
    rows = []
    for one in figures:
        cells = [one.row.title, one.amount(one.ours.value)]
        cells.append(f"{one.amount(one.raw.value)}, {one.raw.name}" if one.raw else "")
        cells.append(one.ours.ratio.as_ratio if one.ours.ratio else "")
        if cuda:
            cells += [one.amount(one.cuda), one.of_cuda.as_ratio if one.of_cuda else ""]
        rows.append([*cells, one.bounds, one.verdict.value])
    return headings, rows


def _table(figures: list[Figure]) -> str:
    headings, rows = table(figures)
    lines = [f"| {' | '.join(row)} |\n" for row in [headings, *rows]]
    lines.insert(1, f"|---|{'--:|' * (len(headings) - 3)}---|---|\n")
    return "".join(lines)


def publish(document: dict[str, Any], docs: Path) -> Path:
    """Puts what was measured into the documentation; the page."""
    name = "bench" if document["backend"] == "opencl" else "bench-gpu"
    return write(document, docs / name)


def write(document: dict[str, Any], path: Path) -> Path:
    """Writes <path>.json and <path>.md; the latter."""
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    page = path.with_suffix(".md")
    page.write_text(render(document))
    return page


def to_document(run: Run, facts: dict[str, Any]) -> dict[str, Any]:
    """Everything that is kept of a run; `facts` says where it was made."""
    told = {"device": run.device, "backend": run.backend, "torch": run.torch}
    return {**facts, **told, "figures": [one.to_json() for one in run.figures.values()]}


# -- what ci/gpu/run left ----------------------------------------------------------


def of_results(results: Path) -> dict[str, Any]:
    run = read((results / "bench.jsonl").read_text().splitlines())
    path = results / "cuda.jsonl"
    run.beside(read(path.read_text().splitlines() if path.exists() else []))
    facts = (results / "machine.txt").read_text().splitlines()
    told = defaultdict(str, (line.partition(" ")[::2] for line in facts))
    cards = [line[5:] for line in facts if line.startswith("card ")]
    return to_document(
        run,
        {
            "commit": told["commit"],
            "sycl": told["SYCL"],
            "machine": f"{told['cpu']}; card and driver: {'; '.join(cards) or run.device}",
            "load_before": float(told["load"] or 0),
            "quick": False,
        },
    )


def counts_table(results: Path) -> str:
    """The counts of the tests, one line per program and number of ordinals."""
    pattern = re.compile(r"(\S+), (\d+) ordinal\(s\): (\d+) passed, (\d+) failed, (\d+) skipped")
    lines = (results / "tests.txt").read_text().splitlines()
    rows = [found.groups() for found in map(pattern.match, lines) if found]
    facts = (results / "machine.txt").read_text().splitlines()
    lines = [
        *(f"- {fact}" for fact in facts if not fact.startswith("{")),
        f"- {(results / 'counts.txt').read_text()}",
        "| program | ordinals | passed | failed | skipped |\n|---|--:|--:|--:|--:|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "".join(f"{line}\n" for line in lines)


def _main(results: Path, docs: Path | None) -> None:
    document = of_results(results)
    if docs is None:
        page = write(document, results / "bench")
        sys.stdout.write(_table([from_json(one) for one in document["figures"]]))
    else:
        from xpu_stack.core.system import pages  # which is not where ci/gpu/run is

        page = publish(document, docs)
        marks = "<!-- tests: begin -->", "<!-- tests: end -->"
        pages.put_between(*marks, counts_table(results), docs / "gpu.md")
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
