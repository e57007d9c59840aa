"""One run over the real base: fetched, applied, found again, and as a fork."""

from pathlib import Path

import pytest
from project import cpu_seconds, git
from real import Home
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.layout import Layout

pytestmark = pytest.mark.real


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


@pytest.fixture
def copied(home: Home, tmp_path: Path) -> Home:
    """A copy of the project, whose series may be edited, on the same checkout."""
    return home.copied(tmp_path)


def test_every_kind_of_edit_goes_back_into_the_series(copied: Home) -> None:
    stage = "generator"
    copied.ok("apply", f"STAGE={stage}")
    series = Series.load(Layout(copied.project, copied.folder), "v1.13.1")
    ids = [change.id for change in series.changes(stage)]
    commits = git(copied.checkout, "rev-list", "--reverse", "base..HEAD").split()
    first, second = ids.index("allocator/device-allocator"), ids.index("allocator/host-allocator")
    git(copied.checkout, "reset", "-q", "--hard", commits[first - 1])
    for number in (second, *(n for n in range(first, len(ids)) if n != second)):
        git(copied.checkout, "cherry-pick", commits[number])
    # On top: a new file and an edit of PyTorch's own, an amended message, a file that
    # is renamed, one that goes, and an edit that is not committed at all.
    folder = copied.checkout / "aten/src/ATen/xpu"
    (folder / "New.h").write_text("#pragma once\n")
    (copied.checkout / "README.md").write_text("Ours.\n")
    git(copied.checkout, "mv", str(folder / "XPUGeneratorImpl.h"), str(folder / "Renamed.h"))
    git(copied.checkout, "rm", "-q", "aten/src/ATen/test/xpu_generator_test.cpp")
    git(copied.checkout, "add", ".")
    title, _, rest = git(copied.checkout, "log", "-1", "--format=%B").partition("\n")
    git(copied.checkout, "commit", "-q", "--amend", "-m", f"{title}, at last\n{rest}")
    header = copied.checkout / "c10/xpu/XPUMacros.h"
    header.write_text(header.read_text() + "// The end.\n")
    commit = f"Add more\n\nBecause.\n\nXPU-Change: {stage}/more"
    (folder / "More.h").write_text("#pragma once\n")
    git(copied.checkout, "add", str(folder / "More.h"))
    git(copied.checkout, "commit", "-qm", commit)
    copied.ok("export")
    status = git(copied.project, "status", "--porcelain", "-uall").splitlines()
    assert sorted(line.strip() for line in status) == sorted(
        [
            "D aten_xpu/generator/aten/src/ATen/test/xpu_generator_test.cpp",
            "D aten_xpu/generator/aten/src/ATen/xpu/XPUGeneratorImpl.h",
            "M c10_xpu/device/c10/xpu/XPUMacros.h",
            "M patches/series.yaml",
            f"M patches/texts/{stage}/generator.md",
            f"M patches/v1.13.1/{stage}/generator.patch",
            f"?? aten_xpu/{stage}/aten/src/ATen/xpu/More.h",
            f"?? aten_xpu/{stage}/aten/src/ATen/xpu/New.h",
            f"?? aten_xpu/{stage}/aten/src/ATen/xpu/Renamed.h",
            f"?? patches/texts/{stage}/more.md",
        ]
    )
    tip = git(copied.checkout, "rev-parse", "HEAD")
    copied.ok("apply", "STAGE=base")
    copied.ok("apply", f"STAGE={stage}")
    assert git(copied.checkout, "rev-parse", "HEAD") == tip
    done = copied.make("check")
    assert f"patches/texts/{stage}/more.md:9" in done.stderr  # only what is to be written is left


def test_a_stage_that_does_not_exist_is_one_line_with_those_that_do(home: Home) -> None:
    done = home.make("apply", "STAGE=nonsense")
    assert done.returncode != 0
    (why,) = [line for line in done.stderr.splitlines() if "why:" in line]
    assert ", ".join(Series.load(Layout.current(), "v1.13.1").stage_names) in why
