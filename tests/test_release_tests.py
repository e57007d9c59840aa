"""How tests of an earlier release are judged on an installed torch with the extension."""

from pathlib import Path

import pytest
from project import ROOT
from xpu_stack.core.series.base import Base
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.layout import Layout
from xpu_stack.testing.own_tests import PAGE, Selection, judge_listed, page
from xpu_stack.testing.runner import Case, cases

ENDED = {
    "T.test_a": Case("x", "T", "test_a", "passed"),
    "T.test_b": Case("x", "T", "test_b", "failed", "it is red"),
    "T.test_c": Case("x", "T", "test_c", "skipped", "one device"),
}
JUNIT = """\
<testsuites><testsuite>
<testcase classname="test_x.T" name="test_a"/>
<testcase classname="test_x.T" name="test_b"><failure message="it is red&#10;more"/></testcase>
<testcase classname="test_x.T" name="test_c"><skipped message="one device"/></testcase>
</testsuite></testsuites>
"""


def test_the_results_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(JUNIT)
    assert {one.id: one for one in cases(tmp_path / "x.xml")} == ENDED


def test_what_fails_as_listed_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    judge_listed(ENDED, {"T.test_b": "red"})
    assert "3 of PyTorch's own tests end as listed: 1 passed, 1 failed, 1 skipped" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ({}, "T.test_b: it is red"),
        ({"T.test_a": "r", "T.test_b": "r"}, "T.test_a: is said to fail and is passed"),
        ({"T.test_b": "r", "T.test_c": "r"}, "T.test_c: is said to fail and is skipped"),
        ({"T.test_b": "r", "T.test_d": "r"}, "T.test_d: is said to fail and is not there"),
    ],
)
def test_each_difference_is_refused(fails: dict[str, str], told: str) -> None:
    with pytest.raises(ToolError) as refusal:
        judge_listed(ENDED, fails)
    assert refusal.value.why == told


def test_the_page() -> None:
    selection = Selection(("test/test_x.py",), release="1.0", fails={"it is red": ("T.test_b",)})
    made = page(selection, {"test/test_x.py": ENDED})
    assert "| `test/test_x.py` | 1 | 1 | 1 |" in made
    assert "## What fails\n\nIt is red (1):\n\n- `T.test_b`\n" in made
    assert made.endswith("## What is skipped\n\nOne device (1):\n\n- `T.test_c`\n")


def test_the_page_of_the_project_has_what_is_listed() -> None:
    selection = Selection.load(Base.load(Layout.current(), "v2.13"))
    shown = (ROOT / PAGE).read_text()
    failing = shown.partition("## What fails")[2].partition("## What is skipped")[0]
    assert {f"- `{test}`" for test in selection.reasons} == {
        line for line in failing.splitlines() if line.startswith("- ")
    }
    for reason in selection.reasons.values():
        assert reason[1:] in failing
