"""What is pinned can be installed with every Python that the project supports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINNED = sorted((ROOT / "scripts" / "requirements").glob("*.txt"))


def oldest_python() -> str:
    found = re.search(r'requires-python = ">=(\d\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert found
    return found[1]


@pytest.mark.parametrize("pinned", PINNED, ids=lambda path: path.stem)
def test_it_can_be_installed_with_the_oldest_python(pinned: Path, tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "-r", pinned]
    asked += ["--target", tmp_path, "--python-version", oldest_python(), "--only-binary=:all:"]
    result = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
