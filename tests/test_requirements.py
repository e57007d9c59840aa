"""What is pinned can be installed with every Python that the project supports."""

import re
import subprocess
import sys
from pathlib import Path

import bootstrap
import pytest

ROOT = Path(__file__).parents[1]
PINNED = sorted((ROOT / "scripts" / "requirements").glob("*.txt"))


def oldest_python() -> str:
    found = re.search(r'requires-python = ">=(\d\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert found
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize("pinned", PINNED, ids=lambda path: path.stem)
def test_it_can_be_installed_with_the_oldest_python(pinned: Path, tmp_path: Path) -> None:
    """With the hashes of all: pip refuses one that is not listed, or has none."""
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--require-hashes"]
    asked += ["--target", tmp_path, "--python-version", oldest_python(), "--only-binary=:all:"]
    if pinned.stem == "examples":
        asked.append("--no-deps")  # numpy is there
    result = subprocess.run([*asked, "-r", pinned], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_what_torch_needs_can_be_installed_beside_it(tmp_path: Path) -> None:
    pinned = (ROOT / "patches/v2.13/requirements.txt").read_text()
    # of PyTorch's own index, which is not asked here; pinned for every Python alike
    (torch,) = re.findall(r"^torch==\S+(?: \\\n +--hash=sha256:[0-9a-f]{64}){5,}\n", pinned, re.M)
    others = tmp_path / "others.txt"
    others.write_text(pinned.replace(torch, ""))
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--require-hashes"]
    asked += ["--target", tmp_path, "--only-binary=:all:", "-r", others]
    result = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_what_has_another_hash_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "requirements/tool.txt"
    wrong.parent.mkdir()
    wrong.write_text(f"mdurl==0.1.2 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(bootstrap, "SCRIPTS", tmp_path)
    with pytest.raises(SystemExit):
        bootstrap.ensure(tmp_path / "state", "tool")
    assert "The tool's requirements cannot be installed." in capfd.readouterr().err
    assert "DO NOT MATCH THE HASHES" in (tmp_path / "state/logs/bootstrap.log").read_text()
    wrong.write_text("mdurl==0.1.2\n")
    with pytest.raises(SystemExit):
        bootstrap.ensure(tmp_path / "state", "tool")
    assert "Hashes are required" in (tmp_path / "state/logs/bootstrap.log").read_text()
