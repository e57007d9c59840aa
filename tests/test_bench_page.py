"""The page of figures in the documentation, and what ci/gpu/run leaves for it."""

import json
from pathlib import Path

import pytest
from test_figures import HEADER, line
from xpu_stack.bench.figures import from_json
from xpu_stack.bench.page import counts_table, of_results, publish, render

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.glob("bench*.json"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_says_what_was_measured(path: Path) -> None:
    document = json.loads(path.read_text())
    page = path.with_suffix(".md").read_text()
    assert page == render(document)
    for one in map(from_json, document["figures"]):
        assert f"| {one.row.title} |" in page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_publishing_again_changes_nothing(path: Path, tmp_path: Path) -> None:
    page = publish(json.loads(path.read_text()), tmp_path)
    assert page.name == f"{path.stem}.md"
    for name in (page.name, path.name):
        assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes()


def results(folder: Path) -> Path:
    """What a run on a machine with a card leaves."""
    figures = [HEADER % ("SYCL", "ext_oneapi_cuda"), line("allocator.hit.512", 50, 0.01)]
    (folder / "bench.jsonl").write_text("\n".join(figures))
    cuda = [HEADER % ("PyTorch 2.11", "cuda"), line("allocator.hit.512", 400)]
    (folder / "cuda.jsonl").write_text("\n".join(cuda))
    (folder / "machine.txt").write_text(
        "SYCL 1.2\ncommit abc\ncpu 2 x one\nload 0.5\ncard A card, 580\n"
    )
    (folder / "tests.txt").write_text(
        "OneTest, 2 ordinal(s): 3 passed, 1 failed, 2 skipped\n  why\n"
    )
    (folder / "counts.txt").write_text("3 passed, 1 failed, 2 skipped\n")
    return folder


def test_a_run_on_a_card(tmp_path: Path) -> None:
    document = of_results(results(tmp_path))
    assert (document["sycl"], document["commit"], document["torch"]) == (
        "1.2",
        "abc",
        "PyTorch 2.11",
    )
    page = render(document)
    assert "| allocate and free 512 B | 50 ns | 50 ns, raw |" in page
    assert "| 400 ns | 0.125" in page
    assert "card and driver: A card, 580" in page
    assert publish(document, tmp_path).name == "bench-gpu.md"


def test_without_torch_cuda_there_is_no_column_for_it(tmp_path: Path) -> None:
    folder = results(tmp_path)
    (folder / "cuda.jsonl").unlink()
    assert "torch.cuda" not in render(of_results(folder))


def test_the_counts_of_the_tests(tmp_path: Path) -> None:
    assert "| OneTest | 2 | 3 | 1 | 2 |\n" in counts_table(results(tmp_path))
