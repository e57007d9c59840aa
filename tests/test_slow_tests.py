"""Of the slow tests a share is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

from project import ROOT

TESTS = """
import unittest

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("n", range(20))
def test_slow(n):
    pass


class TestPyTorch(unittest.TestCase):
    def test_quick(self):
        pass

    def test_slow(self):
        pass

    test_slow.slow_test = True  # as PyTorch's slowTest marks it
"""


def run(folder: Path, **env: str) -> tuple[list[str], str]:
    """The tests that are run, and what is said of the others."""
    (folder / "test_some.py").write_text(TESTS)
    command = (sys.executable, "-m", "pytest", "-v", "-rs", "-p", "xpu_stack.testing.slow_tests")
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TEST_S")}
    kept |= {"PYTHONPATH": str(ROOT / "scripts")} | env
    done = subprocess.run(
        command, cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"(\S+) PASSED", done.stdout), done.stdout


def test_a_share_that_the_seed_chooses(tmp_path: Path) -> None:
    everything, _ = run(tmp_path)
    assert len(everything) == 22
    some, said = run(tmp_path, TEST_SLOW="0.5", TEST_SEED="7")
    assert 1 < len(some) < 22
    assert "slow, and TEST_SEED=7 chooses others: TEST_SLOW=1 runs all" in said
    assert run(tmp_path, TEST_SLOW="0.5", TEST_SEED="7")[0] == some
    assert run(tmp_path, TEST_SLOW="0.5", TEST_SEED="8")[0] != some
    assert run(tmp_path, TEST_SLOW="0")[0] == ["test_some.py::TestPyTorch::test_quick"]


def test_brief_runs_take_the_share_of_all_tests(tmp_path: Path) -> None:
    none, said = run(tmp_path, TEST_SLOW="0", TEST_SEED="7", TEST_BRIEF="1")
    assert none == []
    assert "below the last stage, and TEST_SEED=7 chooses others: TEST_SLOW=1 runs all" in said
    assert len(run(tmp_path, TEST_BRIEF="1")[0]) == 22
