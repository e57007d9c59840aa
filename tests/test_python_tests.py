"""The Python tests of a change, run by the real pytest in its own processes."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from project import Project, write
from workspace import workspace
from xpu_stack.build.configuration import Build, Mode, Sanitizer
from xpu_stack.build.packages import Sycl
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ToolError
from xpu_stack.testing import judges, python_tests
from xpu_stack.testing.judges import Verdict
from xpu_stack.testing.python_tests import Run
from xpu_stack.testing.runner import run_one

TESTS = """
import os
import unittest

import torch


class TestSample(unittest.TestCase):
    def test_has_a_seed(self):
        self.assertEqual(os.environ["TEST_SEED"], "7")

    def test_imports_the_package_that_was_built(self):
        self.assertEqual(torch.where, "the view")

    def test_has_the_mapping(self):
        self.assertEqual(os.environ["TORCH_XPU_MAPPING"], "CPU")

    def test_finds_the_sycl_runtime_first(self):
        self.assertTrue(os.environ["LD_LIBRARY_PATH"].startswith("{sycl}/lib"))

    def test_fails(self):
        self.fail("as it should")

    @unittest.skip("no device here")
    def test_is_skipped(self):
        pass

    def test_dies(self):
        os._exit(3)
"""


def built(work: object, folder: Path) -> Build:
    site = folder / "site" / "torch"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text('where = "the view"\n')
    sycl = Sycl(folder / "sycl", "0", "this test")
    return Build(work, Mode.FAST, Sanitizer.NONE, folder, sycl, {})  # type: ignore[arg-type]


@pytest.fixture
def environment(project: Project) -> None:
    """The environment that this runs in is the tool's."""
    (project.folder / ".xpu").mkdir(exist_ok=True)
    (project.folder / ".xpu" / "env").symlink_to(sys.prefix)


@pytest.mark.usefixtures("environment")
def test_each_test_is_told_of_also_one_that_ends_its_process(
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEST_SEED", "7")
    test = project.checkout / "test" / "test_sample.py"
    test.parent.mkdir()
    test.write_text(TESTS.replace("{sycl}", str(tmp_path / "sycl")))
    # In the checkout stands the torch that is not built.
    (project.checkout / "torch").mkdir(exist_ok=True)
    (project.checkout / "torch" / "__init__.py").write_text('where = "the checkout"\n')
    with workspace(project) as work, progress(1, "testing") as bar:
        this = built(work, tmp_path)
        mapping = {"TORCH_XPU_MAPPING": "CPU"}
        output = python_tests.run(Run(this, mapping, tmp_path, bar), ["test_sample"])
    cases = {
        case.get("name"): [child.tag for child in case]
        for case in ElementTree.parse(tmp_path / "test_sample.xml").iter("testcase")
    }
    assert "test_sample.py: TEST_SEED=7 chooses the same sample" in capsys.readouterr().out
    assert cases == {
        "test_has_a_seed": [],
        "test_imports_the_package_that_was_built": [],
        "test_has_the_mapping": [],
        "test_finds_the_sycl_runtime_first": [],
        "test_fails": ["failure"],
        "test_is_skipped": ["skipped"],
        "test_dies": ["error"],
    }
    assert any("as it should" in line for line in output)
    assert [path.name for path in test.parent.iterdir()] == ["test_sample.py"]


def test_an_error_of_pytest_itself_is_told_of_with_the_first_file(tmp_path: Path) -> None:
    whole = tmp_path / "pytest.xml"
    whole.write_text(
        '<testsuites><testcase classname="pytest" name="internal"><error/></testcase>'
        '<testcase classname="test.test_two.TestTwo" name="test_it"/></testsuites>'
    )

    python_tests._split(whole, ["test_one", "test_two"])

    told = {
        name: [case.get("name") for case in ElementTree.parse(tmp_path / f"{name}.xml").getroot()]
        for name in ("test_one", "test_two")
    }
    assert told == {"test_one": ["internal"], "test_two": ["test_it"]}


@pytest.mark.usefixtures("environment")
def test_a_report_that_pytest_did_not_finish_is_none(project: Project, tmp_path: Path) -> None:
    broken = "def pytest_runtest_logreport(report):\n    assert report.passed\n"
    test = {"test/conftest.py": broken, "test/test_sample.py": TESTS.replace("{sycl}", "")}
    write(project.checkout, test)
    with workspace(project) as work, progress(1, "testing") as bar:
        this = built(work, tmp_path)
        with pytest.raises(ToolError, match=r"pytest could not run test_sample\.py"):
            python_tests.run(Run(this, {}, tmp_path, bar), ["test_sample"])
    assert not (tmp_path / "test_sample.xml").exists()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("name", "verdict", "says"),
    [
        ("test/test_sample.py", Verdict.FAILED, ""),
        ("test_sample.py::TestSample::test_fails", Verdict.FAILED, "as it should"),
        ("test_sample.py::TestSample::test_has_the_mapping", Verdict.PASSED, ""),
        ("test_sample.py::TestSample::test_is_skipped", Verdict.SKIPPED, ""),
        ("test_sample.py::TestSample::test_dies", Verdict.FAILED, "crashed"),
        ("test_sample.py::TestSample::test_has", Verdict.ABSENT, ""),
        ("test_sample.py::TestNothing", Verdict.ABSENT, ""),
    ],
)
def test_one_test_alone(
    project: Project, tmp_path: Path, name: str, verdict: Verdict, says: str
) -> None:
    write(project.folder, {"aten_xpu/device/test/test_sample.py": "# of the change device/aten\n"})
    text = TESTS.replace("{sycl}", str(tmp_path / "sycl"))
    write(project.checkout, {"test/test_sample.py": text})
    runs = ["CPU"]
    with workspace(project) as work:
        test = judges.find(name, list(work.series.all_changes()), list)
        assert test.change == "device/aten"
        this = built(work, tmp_path)
        run_one(this, test.program, test.cases, runs, tmp_path / "alone", python=True)
    seen = judges.read(test, [tmp_path / "alone"], runs)
    assert seen is not None
    assert seen.verdict is verdict
    assert says in seen.output


def test_a_file_that_the_series_does_not_have(project: Project) -> None:
    with workspace(project) as work, pytest.raises(ToolError, match=r"has no test 'test_no\.py'"):
        judges.find("test_no.py", list(work.series.all_changes()), list)
