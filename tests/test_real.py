"""One run over the real base: fetched, applied, found again, and as a fork."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import ROOT, cpu_seconds, git
from xpu_stack.layout import Layout
from xpu_stack.series import Series

pytestmark = pytest.mark.real


class Home:
    """The project itself, with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = folder / "pytorch-v1.13.1"

    def make(self, *words: str) -> "subprocess.CompletedProcess[str]":
        kept = {
            key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "STAGE")
        }
        return subprocess.run(
            ["make", *words],
            cwd=ROOT,
            env={**kept, "XPU_STACK_HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *words: str) -> str:
        done = self.make(*words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("home")
    # The environment and the download of the run that this is part of: that
    # they can be made from nothing is what ci/fresh proves.
    state = Layout.current().state
    (folder / "env").symlink_to(state / "env")
    if (state / "downloads").is_dir():
        shutil.copytree(state / "downloads", folder / "downloads")
    yield Home(folder)
    shutil.rmtree(folder)


def titles(checkout: Path, count: int) -> list[str]:
    return git(checkout, "log", f"-{count}", "--format=%s").splitlines()


def first_stage() -> tuple[str, list[str]]:
    series = Series.load(Layout.current(), "v1.13.1")
    stage = series.stages[0]
    return stage.name, [change.text.title for change in reversed(stage.changes)]


def test_from_nothing_to_the_first_stage(home: Home) -> None:
    stage, expected = first_stage()
    home.ok("apply", f"STAGE={stage}")
    assert titles(home.checkout, len(expected) + 1) == [*expected, "PyTorch v1.13.1"]
    assert git(home.checkout, "status", "--porcelain") == ""
    assert git(home.checkout, "fsck", "--no-dangling") == ""


def test_the_base_is_the_same_commit_on_every_machine(home: Home) -> None:
    home.ok("apply", "STAGE=base")
    base = "06e605529cbdd9e8296f12bda40897a9cc75abb3"
    assert git(home.checkout, "rev-parse", "base").strip() == base


def test_again_takes_little_more_than_the_start(home: Home) -> None:
    stage, _ = first_stage()
    home.ok("apply", f"STAGE={stage}")
    assert "is already at" in home.ok("apply", f"STAGE={stage}")
    start = min(cpu_seconds(lambda: home.ok("help")) for _ in range(3))
    again = min(cpu_seconds(lambda: home.ok("apply", f"STAGE={stage}")) for _ in range(3))
    assert again < 3 * start


def test_the_whole_series_and_back(home: Home) -> None:
    stage, _ = first_stage()
    home.ok("apply", f"STAGE={stage}")
    head = git(home.checkout, "rev-parse", "HEAD")
    home.ok("apply")
    home.ok("apply", "STAGE=base")
    assert git(home.checkout, "diff", "base", "--stat") == ""
    home.ok("apply", f"STAGE={stage}")
    assert git(home.checkout, "rev-parse", "HEAD") == head


def test_a_persons_fork(home: Home, tmp_path: Path) -> None:
    """A plain copy with an unrelated commit on top."""
    stage, expected = first_stage()
    home.ok("apply", f"STAGE={stage}")
    fork = tmp_path / "fork"
    git(tmp_path, "clone", "-q", "--branch", "base", str(home.checkout), str(fork))
    (fork / "README.md").write_text("Our fork.\n")
    git(fork, "commit", "-qam", "Say that it is ours")
    home.ok("apply", f"STAGE={stage}", f"PYTORCH_SRC={fork}")
    assert titles(fork, len(expected) + 2) == [
        *expected,
        "Say that it is ours",
        "PyTorch v1.13.1",
    ]
    ours = git(home.checkout, "rev-parse", "HEAD:c10").strip()
    assert git(fork, "rev-parse", "HEAD:c10").strip() == ours


def test_a_stage_that_does_not_exist_is_one_line_with_those_that_do(home: Home) -> None:
    done = home.make("apply", "STAGE=nonsense")
    assert done.returncode != 0
    (why,) = [line for line in done.stderr.splitlines() if "why:" in line]
    assert ", ".join(Series.load(Layout.current(), "v1.13.1").stage_names) in why
