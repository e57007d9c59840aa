"""How PyTorch's own tests on a device are judged and told."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xpu_stack.core.series.base import Base
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.pages import put_between
from xpu_stack.testing import own_tests
from xpu_stack.testing.own_tests import OnDevice, Selection, judge_device, markdown
from xpu_stack.testing.runner import Case, cases

CPU = Case("test_a", "TestViewCPU", "test_one_cpu_float32", "passed")
XPU = Case("test_a", "TestViewXPU", "test_one_xpu_float32", "passed")
NAME = "test_a.TestViewXPU.test_one_xpu_float32"


def ends(case: Case, how: str, reason: str = "") -> Case:
    return Case(case.file, case.group, case.name, how, reason)


def test_only_tests_of_the_device_count() -> None:
    other = Case("test_a", "TestOther", "test_x", "failed")
    assert judge_device([CPU, XPU, other], "xpu", {}) == ([(XPU, "passed", "")], [])


@pytest.mark.parametrize(
    ("cpu", "xpu", "expected", "kind", "problem"),
    [
        ("passed", "failed", {}, "failed", NAME),
        ("failed", "failed", {}, "skipped", None),
        ("skipped", "failed", {}, "skipped", None),
        ("passed", "failed", {"*.test_one_xpu_*": "a reason"}, "expected", None),
        ("passed", "passed", {NAME: "r"}, "passed", f"{NAME}: is said to fail and passes"),
        ("passed", "passed", {"*.gone": "r"}, "passed", "*.gone: no test has this name"),
    ],
)
def test_each_way_to_end(
    cpu: str, xpu: str, expected: dict[str, str], kind: str, problem: str | None
) -> None:
    judged, problems = judge_device([ends(CPU, cpu), ends(XPU, xpu)], "xpu", expected)
    assert [found for _, found, _ in judged] == [kind]
    assert problems == ([problem] if problem else [])


def test_files_that_compare_with_the_cpu_themselves() -> None:
    passed = Case("test_b", "TestForward", "test_add_float32", "passed")
    ended = [
        passed,
        Case("test_b", "TestForward", "test_a", "failed"),
        Case("test_b", "TestForward", "test_c", "skipped", "expected failure: not yet"),
        Case("test_b", "TestForward", "test_d", "skipped", "no samples"),
    ]
    judged, problems = judge_device(ended, "xpu", {})
    assert problems == ["test_b.TestForward.test_a"]
    text = markdown(judged)
    assert "Of 3 tests that pass on the CPU, 1 pass: 33.33 %." in text
    assert "| test_b | TestForward | 1 | 1 | 1 | 1 |" in text
    assert "| all |  | 1 | 1 | 1 | 1 |" in text
    assert "Why tests fail:\n\n- 1: not yet\n" in text
    assert "Why tests are skipped:\n\n- 1: no samples\n" in text


def test_junit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "test_a.xml"
    path.write_text(
        '<testsuites><testsuite><testcase classname="test.test_a.TestViewXPU" name="t"/>'
        '<testcase classname="test_a.TestViewXPU" name="u"><skipped message="why "/></testcase>'
        '<testcase classname="test_a.TestViewXPU" name="v"><error/></testcase>'
        "</testsuite></testsuites>"
    )
    assert list(cases(path)) == [
        Case("test_a", "TestViewXPU", "t", "passed"),
        Case("test_a", "TestViewXPU", "u", "skipped", "why"),
        Case("test_a", "TestViewXPU", "v", "failed"),
    ]


def test_all_modes_are_run_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: object, _files: object, environment: dict[str, str], _suffix: str) -> list[Case]:
        copied = environment.get("TORCH_XPU_HOST_MEMORY") == "0"
        return [Case("test_b", "TestForward", "test_a", "failed" if copied else "passed")]

    selection = OnDevice(("test_b.py",), {}, {}, {})
    monkeypatch.setattr("xpu_stack.testing.own_tests._ended", run)
    monkeypatch.setattr(Selection, "load", lambda _: Selection((), device=selection))
    page = tmp_path / "operators.md"
    page.write_text(
        "<!-- v1: begin -->\n<!-- v1: end -->\n<!-- v1, places: begin -->\n<!-- v1, places: end -->\n"
    )
    monkeypatch.setattr("xpu_stack.testing.own_tests._places", lambda _: "**Kernels** (1): add.\n")
    this = SimpleNamespace(work=SimpleNamespace(base=SimpleNamespace(name="v1")))
    with pytest.raises(ToolError, match="1 of PyTorch's own tests fail on xpu") as refused:
        own_tests.run_device(this, "xpu", tmp_path)  # type: ignore[arg-type]
    assert refused.value.why == "Copied: test_b.TestForward.test_a"
    host, _, rest = page.read_text().partition("### Copied")
    copied, _, kernels = rest.partition("### Kernels")
    assert "### Host memory" in host
    assert "1 pass: 100.00 %" in host
    assert "0 pass: 0.00 %" in copied
    assert "1 pass: 100.00 %" in kernels
    assert "places: begin -->\n**Kernels** (1): add.\n<!--" in kernels

    selection.fail_copied["*.test_a"] = "a reason"
    own_tests.run_device(this, "xpu", None)  # type: ignore[arg-type]
    assert "- 1: a reason" in capsys.readouterr().out


def test_the_tests_of_the_cpu_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    only = "PYTORCH_TESTING_DEVICE_ONLY_FOR"

    def run(_: object, _files: object, environment: dict[str, str], _suffix: str) -> list[Case]:
        return [
            Case("test_a", f"TestView{device.upper()}", f"test_{device}", "failed")
            for device in environment[only].split(",")
        ]

    selection = OnDevice(("test_a.py",), {only: "cpu,xpu"}, {}, {})
    monkeypatch.setattr("xpu_stack.testing.own_tests._ended", run)
    monkeypatch.setattr(Selection, "load", lambda _: Selection((), device=selection))
    shown: list[list[str]] = []
    judged = own_tests.judge_device

    def judge(*told: Any) -> object:
        found = judged(*told)
        shown.append([kind for _, kind, _ in found[0]])
        return found

    monkeypatch.setattr(own_tests, "judge_device", judge)
    this = SimpleNamespace(work=SimpleNamespace(base=SimpleNamespace(name="v1")))
    own_tests.run_device(this, "xpu", None)  # type: ignore[arg-type]
    assert shown == [["skipped"]] * 3


def test_the_page_has_the_table_of_each_base(tmp_path: Path) -> None:
    page = tmp_path / "operators.md"
    page.write_text("A\n<!-- v1: begin -->\nold\n<!-- v1: end -->\nB\n")
    put_between("<!-- v1: begin -->", "<!-- v1: end -->", "new\n", page)
    assert page.read_text() == "A\n<!-- v1: begin -->\nnew\n<!-- v1: end -->\nB\n"


@pytest.mark.parametrize("base", ["v1.13.1", "v2.13"])
def test_the_selections_of_the_project_are_read(base: str) -> None:
    layout = Layout.current()
    selection = Selection.load(Base.load(layout, base)).device
    assert selection
    assert selection.files
    assert f"<!-- {base}: begin -->" in (layout.repository / "docs" / "operators.md").read_text()
