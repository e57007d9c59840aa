"""make clean and make distclean: work of a person's stays."""

from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, drift, git, write

OWN = ".xpu/pytorch-v1.13.1"


@pytest.fixture
def own(project: Project) -> Project:
    """The project with the tool's own checkout, and the series in it."""
    folder = project.folder / OWN
    git(project.folder, "clone", "-q", "--branch", "main", str(project.checkout), str(folder))
    git(folder, "branch", "base")
    git(folder, "remote", "remove", "origin")
    project.checkout = folder
    project.ok("apply", source=False)
    return project


def committed(folder: Path) -> None:
    git(folder, "switch", "-q", "-c", "mine", "base")
    write(folder, {"mine.txt": "mine\n"})
    git(folder, "add", "mine.txt")
    git(folder, "commit", "-qm", "Mine")
    git(folder, "switch", "-q", "xpu-stack")


def stashed(folder: Path) -> None:
    write(folder, {"other.txt": "mine\n"})
    git(folder, "stash")


def untracked(folder: Path) -> None:
    write(folder, {"notes/mine.txt": "mine\n"})


def tagged(folder: Path) -> None:
    committed(folder)
    git(folder, "tag", "keep", "mine")
    git(folder, "branch", "-D", "mine")


def elsewhere(folder: Path) -> None:
    git(folder, "worktree", "add", "-q", "--detach", str(folder.parents[1] / "mine"))


def on_the_base(folder: Path) -> None:
    committed(folder)
    git(folder, "branch", "--force", "base", "mine")
    git(folder, "branch", "-D", "mine")


@pytest.mark.parametrize("work", [committed, stashed, untracked, tagged, elsewhere, on_the_base])
def test_work_in_the_tools_own_checkout_is_refused(
    own: Project, work: Callable[[Path], None]
) -> None:
    work(own.checkout)
    before = own.snapshot()
    ended = own.run("distclean", source=False)
    assert ended.code == 3
    assert "work of yours" in ended.err
    assert own.snapshot() == before


def test_without_work_all_goes(own: Project) -> None:
    own.ok("apply", "--stage", "device", source=False)
    own.ok("apply", source=False)
    own.ok("distclean", source=False)
    assert not (own.folder / ".xpu").exists()


def test_a_conflict_that_waits_is_refused(fork: Project) -> None:
    text = (fork.checkout / "aten/Context.h").read_text()
    drift(fork, "aten/Context.h", text.replace("int member_5;", "int mine;"))
    assert fork.run("apply").code == 5
    (worktree,) = (fork.folder / ".xpu/work").glob("*/conflict")
    write(worktree, {"aten/Context.h": "half resolved\n"})
    for words in (["clean"], ["distclean"]):
        ended = fork.run(*words, source=False)
        assert ended.code == 5
        assert "next: make continue PYTORCH_SRC=CHECKOUT" in ended.err
        assert (worktree / "aten/Context.h").read_text() == "half resolved\n"
    fork.ok("abort")
    fork.ok("clean", source=False)


def test_a_conflict_whose_files_are_gone(fork: Project) -> None:
    text = (fork.checkout / "aten/Context.h").read_text()
    drift(fork, "aten/Context.h", text.replace("int member_5;", "int mine;"))
    assert fork.run("apply").code == 5
    (worktree,) = (fork.folder / ".xpu/work").glob("*/conflict")
    worktree.rename(fork.folder / "away")
    ended = fork.run("continue")
    assert ended.code == 5
    assert "The files of the conflict of device/aten are gone." in ended.err
    assert "next: make abort" in ended.err
    fork.ok("abort")
