"""Applying to a fork that has drifted from the release."""

import io
import re
import tarfile
from hashlib import sha256

import pytest
from expecttest import assert_expected_inline
from project import BASE, CMAKE, CONTEXT, Project, git, write


@pytest.fixture
def fork(project: Project) -> Project:
    """The project with its release at hand, as the ground for merges.

    The release is the small base as a source package, found as if it had been
    downloaded; the checkout is a fork of it.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name in ("c10/CMakeLists.txt", "aten/Context.h", "other.txt"):
            archive.add(project.checkout / name, f"pytorch/{name}")
    downloads = project.folder / ".xpu/downloads"
    downloads.mkdir(parents=True)
    (downloads / "base.tar.xz").write_bytes(buffer.getvalue())
    text = BASE.format(sha256=sha256(buffer.getvalue()).hexdigest(), url="nowhere")
    write(project.folder, {"patches/v1.13.1/base.yaml": text})
    return project


def drift(project: Project, name: str, content: str) -> None:
    write(project.checkout, {name: content})
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-qm", f"Drift of {name}")


def test_an_unrelated_commit(project: Project) -> None:
    drift(project, "other.txt", "drifted\n")
    project.ok("apply")
    assert project.log() == [
        "Add streams",
        "Add hooks",
        "Add devices",
        "Drift of other.txt",
        "base",
    ]


def test_lines_that_have_moved(project: Project) -> None:
    drift(project, "c10/CMakeLists.txt", "# new\n" * 50 + CMAKE)
    project.ok("apply")
    assert "# line 20\n# xpu\n# line 21\n" in (project.checkout / "c10/CMakeLists.txt").read_text()


def test_a_context_that_has_changed_is_merged(fork: Project) -> None:
    drift(fork, "c10/CMakeLists.txt", CMAKE.replace("# line 18\n", "# eighteen\n"))
    fork.ok("apply")
    text = (fork.checkout / "c10/CMakeLists.txt").read_text()
    assert "# eighteen\n# line 19\n# line 20\n# xpu\n# line 21\n" in text


def test_a_renamed_file_is_followed(fork: Project) -> None:
    git(fork.checkout, "mv", "aten/Context.h", "aten/GlobalContext.h")
    git(fork.checkout, "commit", "-qm", "Rename")
    fork.ok("apply")
    assert "int member_5; int xpu;" in (fork.checkout / "aten/GlobalContext.h").read_text()
    assert not (fork.checkout / "aten/Context.h").exists()


def test_a_conflict_leaves_the_checkout_as_it_was(fork: Project) -> None:
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    before = fork.snapshot()
    ended = fork.run("apply")
    assert ended.code == 5
    assert fork.snapshot() == before
    text = re.sub(r"work/pytorch-[0-9a-f]{8}", "work/KEY", ended.lines)
    assert_expected_inline(
        text,
        """\
making the commits ...
unpacking base.tar.xz ...
making the base commit ...
aten/Context.h:6-10

Auto-merging aten/Context.h
CONFLICT (content): Merge conflict in aten/Context.h
error: Change 2 of 3, device/aten, does not fit the base.
  why: 1 file(s) in conflict; the checkout is as it was
  next: cd PROJECT/.xpu/work/KEY/conflict # resolve, git add; then: make continue, or make abort""",
    )


def resolve(fork: Project, content: str) -> None:
    (worktree,) = (fork.folder / ".xpu/work").glob("*/conflict")
    write(worktree, {"aten/Context.h": content})
    git(worktree, "add", "aten/Context.h")


def test_continue_after_a_conflict(fork: Project) -> None:
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    assert fork.run("apply").code == 5
    assert "is not resolved yet" in fork.run("continue").err
    assert "waits to be resolved" in fork.run("apply").err
    resolve(fork, CONTEXT.replace("int member_5;", "long member_5; int xpu;"))
    fork.ok("continue")
    assert fork.log()[:3] == ["Add streams", "Add hooks", "Add devices"]
    assert "long member_5; int xpu;" in (fork.checkout / "aten/Context.h").read_text()
    assert git(fork.checkout, "worktree", "list").count("\n") == 1
    # the same conflict is not asked twice
    fork.ok("apply", "--stage", "base")
    (fork.checkout / ".git/xpu-stack/memo.json").unlink()
    fork.ok("apply")


def test_markers_that_were_left_are_refused(fork: Project) -> None:
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    assert fork.run("apply").code == 5
    (worktree,) = (fork.folder / ".xpu/work").glob("*/conflict")
    git(worktree, "add", "aten/Context.h")
    ended = fork.run("continue")
    assert ended.code == 5
    assert "conflict markers in aten/Context.h" in ended.err


def test_abort_after_a_conflict(fork: Project) -> None:
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    before = fork.snapshot()
    assert fork.run("apply").code == 5
    fork.ok("abort")
    assert fork.snapshot() == before
    assert git(fork.checkout, "worktree", "list").count("\n") == 1
    assert fork.run("abort").code == 2


def test_a_change_that_the_fork_has_is_offered_to_be_dropped(fork: Project) -> None:
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "int member_5; int xpu;"))
    drift(fork, "aten/Hooks.cpp", "int hooks;\n")
    before = fork.snapshot()
    ended = fork.run("apply")
    assert ended.code == 5
    assert_expected_inline(
        ended.lines,
        """\
making the commits ...
error: The base already has change 2 of 3, device/aten.
  why: laid on it, the change alters nothing
  next: make apply STAGE=stream DROP=device/aten""",
    )
    assert fork.snapshot() == before
    fork.ok("apply", "--drop", "device/aten")
    assert fork.log()[:2] == ["Add streams", "Add devices"]
    # it is remembered
    assert "is already at" in fork.ok("apply")


def test_a_new_file_that_the_fork_has_with_other_content(fork: Project) -> None:
    drift(fork, "aten/Hooks.cpp", "int other_hooks;\n")
    ended = fork.run("apply")
    assert ended.code == 5
    assert "aten/Hooks.cpp" in ended.err


def test_line_ends_that_have_changed_are_a_conflict_not_a_loss(fork: Project) -> None:
    crlf = CONTEXT.replace("\n", "\r\n")
    (fork.checkout / "aten/Context.h").write_bytes(crlf.encode())
    git(fork.checkout, "commit", "-qam", "CRLF")
    before = fork.snapshot()
    ended = fork.run("apply")
    assert ended.code == 5
    assert "aten/Context.h" in ended.err
    assert fork.snapshot() == before


def test_without_the_release_a_conflict_says_so(project: Project) -> None:
    drift(project, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    before = project.snapshot()
    ended = project.run("apply", env={"PATH": "/usr/bin:/bin", "PYTORCH_GIT": "/nowhere"})
    assert ended.code == 5
    assert "cannot be had here" in ended.err
    assert project.snapshot() == before
