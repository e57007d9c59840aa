"""What `make bench-ops` makes of figures that were measured."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from xpu_stack.bench import operators
from xpu_stack.core.system.errors import ToolError

PROJECT = Path(__file__).parent.parent


def row(name: str, ratio: float | None, **more: Any) -> dict[str, Any]:
    own = {"name": name, "xpu": 10.0, "cuda": 10.0 * ratio if ratio else None, "ratio": ratio}
    return own | {"bound": 0.9, "launch": False, "of limit": None, "on host": []} | more


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "bench").mkdir()
    shutil.copy(PROJECT / "bench" / "peer.py", tmp_path / "bench")
    marks = "<!-- written by make bench-ops PUBLISH=1 -->", "<!-- end -->"
    (folder / "tensors.md").write_text("before\n{}\nold\n{}\nafter\n".format(*marks))
    return folder


def test_the_table_and_the_plot(docs: Path, tmp_path: Path) -> None:
    rows = [
        row("add", 0.95, **{"of limit": 0.987}),
        row("sum", 0.5),
        row("sort", None, xpu=None, **{"on host": ["sort"]}),
        row("launch", 1.3, launch=True, bound=1.2),
    ]
    figures = tmp_path / "ops.json"
    figures.write_text(json.dumps({"about": ["torch 2.13 on a card"], "rows": rows}))
    operators.publish(figures, docs)
    page = (docs / "tensors.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith("<!-- end -->\nafter\n")
    assert "old" not in page
    assert "- torch 2.13 on a card\n" in page
    assert "| add | 10.0 | 9.5 | 0.95 | ≥ 0.9 | met | 0.99 |  |" in page
    assert "| sum | 10.0 | 5.0 | 0.50 | ≥ 0.9 | missed |  |  |" in page
    assert "| sort | failed |  |  |  |  |  | sort |" in page
    assert "| launch | 10.0 | 13.0 | 1.30 | ≤ 1.2 | missed |  |  |" in page
    plot = (docs / "operators.svg").read_bytes()
    assert b"<svg" in plot
    operators.publish(figures, docs)
    assert (docs / "operators.svg").read_bytes() == plot


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_other_files_are_refused(docs: Path, tmp_path: Path, text: str) -> None:
    figures = tmp_path / "ops.json"
    figures.write_text(text)
    before = (docs / "tensors.md").read_text()
    with pytest.raises(ToolError, match="cannot be read") as refused:
        operators.publish(figures, docs)
    assert refused.value.next.startswith("python bench/ops.py --json")
    assert (docs / "tensors.md").read_text() == before


def test_the_project_has_what_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "tensors.md").read_text()
    # Where the command is another, as in this folder, it is the same table.
    monkeypatch.chdir(tmp_path)
    assert page.count(importlib.reload(operators)._BEGIN) == 1
    assert (PROJECT / "docs" / "operators.svg").exists()
