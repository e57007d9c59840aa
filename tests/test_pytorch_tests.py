"""How PyTorch's own tests are compared between two packages."""

import pytest
from xpu_stack.core.series.base import Base
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.layout import Layout
from xpu_stack.testing.own_tests import Selection, judge_both

BEFORE = {"T.test_a": "passed", "T.test_b": "skipped", "T.test_c": "failed"}


def test_the_same_on_both_sides_is_fine_whatever_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    judge_both(BEFORE, dict(BEFORE), {})
    assert "3 of PyTorch's own tests" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (BEFORE | {"T.test_a": "failed"}, "T.test_a: passed before, failed now"),
        (BEFORE | {"T.test_a": "skipped"}, "T.test_a: passed before, skipped now"),
        (BEFORE | {"T.test_c": "passed"}, "T.test_c: failed before, passed now"),
        (BEFORE | {"T.test_d": "passed"}, "T.test_d: not there before, passed now"),
        ({"T.test_a": "passed", "T.test_b": "skipped"}, "T.test_c: failed before, not there now"),
    ],
)
def test_each_difference_is_refused(after: dict[str, str], told: str) -> None:
    with pytest.raises(ToolError) as refusal:
        judge_both(BEFORE, after, {})
    assert refusal.value.why == told


def test_a_difference_that_is_foreseen_is_told_with_its_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    judge_both(BEFORE, BEFORE | {"T.test_a": "failed"}, {"T.test_a": "lists the device types"})
    assert "T.test_a: lists the device types" in capsys.readouterr().out


def test_a_foreseen_difference_that_is_none_is_refused() -> None:
    with pytest.raises(ToolError) as refusal:
        judge_both(BEFORE, dict(BEFORE), {"T.test_a": "lists the device types"})
    assert refusal.value.why == "T.test_a: is said to differ and does not"


def test_the_selection_of_the_project_is_read() -> None:
    selection = Selection.load(Base.load(Layout.current(), "v1.13.1"))
    assert "test/test_torch.py" in selection.files
