"""Several stacks in one repository: on branches, and in linked worktrees."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from project import CMAKE, Project, drift, git, write
from test_docs import Guide
from test_export import kept
from workspace import workspace
from xpu_stack.build import stand_ins
from xpu_stack.build.configuration import Mode
from xpu_stack.core.system.git import Repository


def branch(project: Project) -> str:
    return git(project.checkout, "symbolic-ref", "--short", "HEAD", check=False).strip()


def linked(project: Project, folder: Path, at: str = "main") -> Project:
    """The project, with a linked worktree as the checkout; what is fetched there is the base."""
    git(project.checkout, "worktree", "add", "-q", "--detach", str(folder), at)
    return replace(project, checkout=folder)


@pytest.fixture
def two(project: Project, tmp_path: Path) -> tuple[Project, Project]:
    """The main worktree with the whole series in it, and another without."""
    project.ok("apply")
    return project, linked(project, tmp_path / "other tree")


def test_two_stacks_and_git_switch(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    one = project.snapshot()
    git(project.checkout, "switch", "-qc", "newer", "main")
    drift(project, "other.txt", "newer\n")
    project.ok("apply", "--branch", "second")
    assert branch(project) == "second"
    assert project.log()[0] == "Add streams"
    second = git(project.checkout, "rev-parse", "second")
    assert "in this repository: xpu-stack, second (in CHECKOUT)\n" in project.ok("status")
    # git goes from one to the other, and the stack is that of HEAD
    git(project.checkout, "switch", "-q", "xpu-stack")
    assert "already at stage 'device'" in project.ok("apply", "--stage", "device")
    assert project.snapshot()["files"] == one["files"]
    project.ok("apply")
    assert branch(project) == "xpu-stack"
    git(project.checkout, "switch", "-q", "second")
    project.ok("apply", "--stage", "base")
    assert project.log() == ["Drift of other.txt", "base"]
    # each has its own log: what is undone is the last operation of this one
    assert "undone: apply" in project.ok("undo")
    assert git(project.checkout, "rev-parse", "HEAD") == second
    assert git(project.checkout, "log", "-1", "--format=%s", "xpu-stack").strip() == "Add streams"


def test_a_second_stack_from_the_first(project: Project) -> None:
    project.ok("apply")
    before = project.snapshot()
    project.ok("apply", "--stage", "device", "--branch", "second")
    assert (branch(project), project.log()) == ("second", ["Add hooks", "Add devices", "base"])
    project.ok("undo")
    assert project.snapshot() == before


def test_a_branch_that_is_not_heads(project: Project) -> None:
    project.ok("apply")
    git(project.checkout, "switch", "-q", "main")
    ended = project.run("apply")
    assert ended.code == 3
    assert "git -C CHECKOUT switch xpu-stack" in ended.err
    assert "BRANCH='<another name>'" in ended.err or "BRANCH=<another name>" in ended.err
    assert project.run("apply", "--branch", "two words").code == 2
    # a person's branch becomes a stack's when it is named
    git(project.checkout, "switch", "-qc", "mine")
    project.ok("apply", "--branch", "mine", "--stage", "device")
    assert "already" in project.ok("apply", "--stage", "device")


def test_a_stack_in_each_worktree(two: tuple[Project, Project]) -> None:
    main, other = two
    before = main.snapshot()
    out = other.ok("apply", "--stage", "device")
    assert "stage 'device': 2 change(s)" in out
    assert branch(other) == "xpu-stack-other-tree"
    refs = git(main.checkout, "rev-parse", "xpu-stack")
    # edited and exported there, rebased, and undone; the main one keeps its own
    write(other.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    series = kept(other)
    other.ok("export")
    assert kept(other) != series
    assert "undone: export" in other.ok("undo")
    assert kept(other) == series
    git(other.checkout, "checkout", "-q", ".")
    git(main.checkout, "branch", "newer", "main")
    other.ok("apply", "--stage", "base")
    assert "undone: apply" in other.ok("undo")
    assert main.snapshot()["files"] == before["files"]
    assert git(main.checkout, "rev-parse", "xpu-stack") == refs
    assert "is already at stage 'stream'" in main.ok("apply")
    assert f"xpu-stack-other-tree (in {other.checkout})" in main.ok("status")


def test_the_others_branch_is_refused(two: tuple[Project, Project]) -> None:
    main, other = two
    ended = other.run("apply", "--branch", "xpu-stack")
    assert ended.code == 3
    assert "is checked out in another worktree" in ended.err
    assert str(main.checkout) in ended.err
    # nor does undo go back to a branch that was taken meanwhile
    git(other.checkout, "switch", "-qc", "mine")
    other.ok("apply")
    git(main.checkout, "switch", "-q", "mine")
    ended = other.run("undo")
    assert ended.code == 3
    assert "'mine' is checked out in another worktree" in ended.err


def test_a_conflict_in_a_worktree(fork: Project, tmp_path: Path) -> None:
    fork.ok("apply")
    mine = fork.snapshot()
    git(fork.checkout, "switch", "-qc", "newer", "main")
    drift(fork, "c10/CMakeLists.txt", CMAKE.replace("# line 20\n", "# line twenty\n"))
    git(fork.checkout, "switch", "-q", "xpu-stack")
    other = linked(fork, tmp_path / "other")
    other.ok("apply", "--branch", "second")
    before = other.snapshot()
    ended = other.run("rebase", "--onto", "newer")
    assert ended.code == 5
    assert other.snapshot() == before
    # the main worktree has no conflict, and clean knows whose it is
    assert "a conflict of" not in fork.ok("status")
    ended = fork.run("clean", source=False)
    assert ended.code == 5
    assert f"PYTORCH_SRC={other.checkout}" in ended.err
    (conflict,) = (fork.folder / ".xpu/work").glob("other-*/conflict")
    write(conflict, {"c10/CMakeLists.txt": CMAKE.replace("# line 20\n", "# line twenty\n# xpu\n")})
    git(conflict, "add", ".")
    other.ok("continue")
    assert branch(other) == "second"
    assert other.log()[3] == "Drift of c10/CMakeLists.txt"
    assert {**fork.snapshot(), "refs": ""} == {**mine, "refs": ""}
    # the first apply of a stack that is named: continue knows its branch
    third = linked(fork, tmp_path / "third", "newer")
    shutil.rmtree(fork.folder / "patches/v1.13.1/resolutions")
    assert third.run("apply", "--branch", "third").code == 5
    third.ok("abort")
    assert third.run("apply", "--branch", "third").code == 5
    (conflict,) = (fork.folder / ".xpu/work").glob("third-*/conflict")
    write(conflict, {"c10/CMakeLists.txt": CMAKE.replace("# line 20\n", "# line twenty\n# xpu\n")})
    git(conflict, "add", ".")
    third.ok("continue")
    assert branch(third) == "third"


def test_read_and_searched_in_a_worktree(two: tuple[Project, Project], tmp_path: Path) -> None:
    _, other = two
    other.ok("apply", "--stage", "device")
    before = other.snapshot()
    assert "in this repository: xpu-stack (in" in other.ok("status")
    other.ok("review", "--out", str(tmp_path / "review"))
    git(other.checkout, "config", "user.name", "Sam")
    git(other.checkout, "config", "user.email", "sam@example.org")
    other.ok("mail", "--out", str(tmp_path / "mail"))
    out = other.ok("bisect", "--run", "! grep -q streams c10/xpu/Device.cpp")
    assert "was broken by stream/stream" in out
    assert other.snapshot() == before


def test_worktrees_keep_the_tools_own_checkout(project: Project, tmp_path: Path) -> None:
    folder = project.folder / ".xpu/pytorch-v1.13.1"
    git(project.folder, "clone", "-q", "--branch", "main", str(project.checkout), str(folder))
    git(folder, "branch", "base")
    project.checkout = folder
    other = linked(project, tmp_path / "other")
    other.ok("apply")
    ended = project.run("distclean", source=False)
    assert ended.code == 3
    assert "other work trees belong to it" in ended.err


def test_the_log_of_an_earlier_version(project: Project) -> None:
    """The stack of the branch xpu-stack keeps its log where it was."""
    project.ok("apply", "--stage", "device")
    project.ok("apply", "--drop", "stream/stream")
    assert git(project.checkout, "for-each-ref", "--format=%(refname)", "refs/xpu-stack") == (
        "refs/xpu-stack/moves\n"
    )


@pytest.fixture
def elsewhere(project: Project) -> Iterator[Project]:
    """A linked worktree on another file system than its git directory."""
    here = project.folder.stat().st_dev
    # Folders of our own are made in them.
    places = [Path("/dev/shm"), Path("/var/tmp")]  # noqa: S108
    other = [one for one in places if one.is_dir() and one.stat().st_dev != here]
    if not other:
        pytest.skip("there is no other file system at /dev/shm or /var/tmp")
    project.ok("apply")
    with tempfile.TemporaryDirectory(dir=other[0]) as folder:
        yield linked(project, Path(folder) / "other")


def test_another_file_system(elsewhere: Project) -> None:
    elsewhere.ok("apply", "--stage", "device")
    before = elsewhere.snapshot()
    elsewhere.ok("apply")
    after = elsewhere.snapshot()
    assert after["status"] == ""
    elsewhere.ok("undo")
    assert elsewhere.snapshot() == before
    elsewhere.ok("redo")
    assert elsewhere.snapshot() == after
    # killed within the move: the next run finishes it
    elsewhere.ok("apply", "--stage", "device")
    assert elsewhere.run("apply", env={"XPU_STACK_FAULT": "file 0"}).code == 3
    elsewhere.ok("status")
    assert elsewhere.snapshot() == after


def test_killed_in_a_worktree(two: tuple[Project, Project]) -> None:
    main, other = two
    there = ["apply", "--stage", "device", "--branch", "second"]
    states = [other.snapshot()]
    other.ok(*there)
    states.append(other.snapshot())
    for point in ("file 0", "head", "refs/xpu-stack/stacks/second"):
        other.ok("undo")
        assert other.snapshot() == states[0]
        ended = other.run(*there, env={"XPU_STACK_FAULT": point})
        assert ended.code == 3, point
        other.ok("status")
        assert other.snapshot() == states[1], point
    assert git(main.checkout, "fsck", "--full", "--no-dangling") == ""


def test_the_page(project: Project) -> None:
    guide = Guide.small("several-stacks.md", project)
    project.ok("apply")
    assert "2 change(s)" in guide.block("make apply")
    assert branch(project) == "experiment"
    assert "3 change(s)" in guide.block("git -C")
    assert ", experiment, on-main\n" in guide.block("git -C")
    guide.block("git -C")
    other = replace(project, checkout=project.checkout.with_name("pytorch-2"))
    assert branch(other) == "xpu-stack-pytorch-2"
    guide.ended()


def test_a_stand_in_of_one_worktree_is_real_in_another(project: Project, tmp_path: Path) -> None:
    """git has one list of ignored files for all worktrees."""
    name = "third_party/library/library.h"
    other = linked(project, tmp_path / "other")
    write(project.checkout, {name: "a stand-in\n", ".git/info/exclude": f"/{name}\n"})
    write(other.checkout, {name: "real\n", "third_party/library/.git": "gitdir: elsewhere\n"})
    write(project.folder, {f"patches/v1.13.1/stand-ins/{name}": "another\n"})
    with workspace(project) as work:
        for one in (project, other):
            stand_ins.place(work, Mode.FAST, Repository(one.checkout))
    assert (project.checkout / name).read_text() == "another\n"
    assert (other.checkout / name).read_text() == "real\n"
