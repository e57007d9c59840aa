"""The Python tests of a change, run by the real pytest in its own processes."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from project import Project
from workspace import workspace
from xpu_stack import pytests
from xpu_stack.build import Build, Mode, Sanitizer
from xpu_stack.console import progress
from xpu_stack.packages import Sycl

TESTS = """
import os
import unittest

import torch


class TestSample(unittest.TestCase):
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
    project: Project, tmp_path: Path
) -> None:
    test = project.checkout / "test" / "test_sample.py"
    test.parent.mkdir()
    test.write_text(TESTS.replace("{sycl}", str(tmp_path / "sycl")))
    # In the checkout stands the torch that is not built.
    (project.checkout / "torch").mkdir(exist_ok=True)
    (project.checkout / "torch" / "__init__.py").write_text('where = "the checkout"\n')
    with workspace(project) as work, progress(1, "testing") as bar:
        this = built(work, tmp_path)
        mapping = {"TORCH_XPU_MAPPING": "CPU"}
        output = pytests.run(this, mapping, ["test_sample"], tmp_path, bar)
    cases = {
        case.get("name"): [child.tag for child in case]
        for case in ElementTree.parse(tmp_path / "test_sample.xml").iter("testcase")
    }
    assert cases == {
        "test_imports_the_package_that_was_built": [],
        "test_has_the_mapping": [],
        "test_finds_the_sycl_runtime_first": [],
        "test_fails": ["failure"],
        "test_is_skipped": ["skipped"],
        "test_dies": ["error"],
    }
    assert any("as it should" in line for line in output)
    assert [path.name for path in test.parent.iterdir()] == ["test_sample.py"]
