"""The page of figures in the documentation."""

import json
from pathlib import Path

from xpu_stack.bench_page import publish, render
from xpu_stack.figures import Verdict, from_json

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_says_what_was_measured() -> None:
    document = json.loads((DOCS / "bench.json").read_text())
    assert (DOCS / "bench.md").read_text() == render(document)


def test_the_page_hides_no_figure() -> None:
    document = json.loads((DOCS / "bench.json").read_text())
    page = (DOCS / "bench.md").read_text()
    for one in map(from_json, document["figures"]):
        assert f"| {one.title} |" in page
        if one.verdict is Verdict.FLOOR:
            assert f"- **{one.title}**" in page


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    publish(tmp_path, DOCS / "bench.json", DOCS / "bench.svg")
    for name in ("bench.json", "bench.md", "bench.svg"):
        assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes()
