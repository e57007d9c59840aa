"""Applying to a fork that has drifted from the release."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from project import CMAKE, CONTEXT, Project, drift, git, write


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


def test_lines_that_have_moved(fork: Project) -> None:
    drift(fork, "c10/CMakeLists.txt", "# new\n" * 50 + CMAKE)
    fork.ok("apply")
    assert "# line 20\n# xpu\n# line 21\n" in (fork.checkout / "c10/CMakeLists.txt").read_text()


@pytest.mark.parametrize("lines", [5, 12, 40])
def test_a_disabled_copy_above_is_left_alone(fork: Project, lines: int) -> None:
    """The context of the patch is there twice: only the history tells which one is meant."""
    numbers = range(20 - lines // 2, 21 + lines // 2)
    dead = "".join(f"# line {number}\n" for number in numbers if 0 < number <= 40)
    git(fork.checkout, "switch", "-q", "-c", "release")
    fork.ok("apply", "--stage", "device")
    change = git(fork.checkout, "rev-parse", "xpu-stack~1").strip()
    git(fork.checkout, "switch", "-q", "main")
    drift(fork, "c10/CMakeLists.txt", f"if(FALSE)\n{dead}endif()\n" + CMAKE)
    drifted = git(fork.checkout, "rev-parse", "HEAD").strip()
    git(fork.checkout, "cherry-pick", change)
    wanted = git(fork.checkout, "show", "HEAD:c10/CMakeLists.txt")
    git(fork.checkout, "reset", "-q", "--hard", drifted)
    git(fork.checkout, "branch", "-q", "-D", "xpu-stack")
    git(fork.checkout, "update-ref", "-d", "refs/xpu-stack/moves")
    fork.ok("apply", "--stage", "device")
    assert (fork.checkout / "c10/CMakeLists.txt").read_text() == wanted
    assert wanted.startswith(f"if(FALSE)\n{dead}endif()\n")


def _as_a_file(checkout: Path) -> str:
    write(checkout, {"c10/xpu": "a file\n"})
    return "c10/xpu"


def _as_a_link(checkout: Path) -> str:
    (checkout / "c10/xpu").symlink_to("../aten")
    return "c10/xpu"


def _as_a_folder(checkout: Path) -> str:
    write(checkout, {"c10/xpu/Device.cpp/kept.txt": "kept\n"})
    return "c10/xpu/Device.cpp/kept.txt"


def _as_a_folder_of_a_patched_file(checkout: Path) -> str:
    (checkout / "aten/Context.h").unlink()
    write(checkout, {"aten/Context.h/kept.txt": "kept\n"})
    return "aten/Context.h/kept.txt"


def _as_a_submodule(checkout: Path) -> str:
    (checkout / "c10/xpu").mkdir()
    inner = checkout / "c10/xpu"
    git(inner, "init", "-q", "-b", "main")
    git(inner, "commit", "-q", "--allow-empty", "-m", "inner")
    return "c10/xpu"


@pytest.mark.parametrize(
    "make",
    [
        _as_a_file,
        _as_a_link,
        _as_a_folder,
        _as_a_folder_of_a_patched_file,
        _as_a_submodule,
    ],
)
def test_another_kind_of_thing_in_the_place(fork: Project, make: Callable[[Path], str]) -> None:
    name = make(fork.checkout)
    git(fork.checkout, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
    git(fork.checkout, "commit", "-qm", "Another kind")
    before, listed = fork.snapshot(), git(fork.checkout, "ls-tree", "-r", "HEAD", name)
    assert listed
    shown = fork.run("rebase", "--onto", "main", "--dry-run")
    assert " conflict " in shown.out or "another there" in shown.out, shown.out + shown.err
    ended = fork.run("apply")
    assert ended.code == 5, ended.err
    assert "The tool itself failed" not in ended.err
    assert fork.snapshot() == before
    assert git(fork.checkout, "ls-tree", "-r", "HEAD", name) == listed
    fork.ok("abort")


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
looking at every change ...
aten/Context.h:6-10

Auto-merging aten/Context.h
CONFLICT (content): Merge conflict in aten/Context.h
error: Change 2 of 3, device/aten, does not fit the base.
  why: 1 file(s) in conflict; the checkout is as it was
  next: cd PROJECT/.xpu/work/KEY/conflict # resolve, git add; then: make -C PROJECT continue PYTORCH_SRC=CHECKOUT, or make -C PROJECT abort PYTORCH_SRC=CHECKOUT""",
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


def test_continue_looks_at_the_checkout_first(fork: Project) -> None:
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    assert fork.run("apply").code == 5
    resolve(fork, CONTEXT.replace("int member_5;", "long member_5; int xpu;"))
    write(fork.checkout, {"other.txt": "edited\n"})
    for _ in range(2):
        ended = fork.run("continue")
        assert ended.code == 3
        assert "The checkout has changes that are not committed." in ended.err
    git(fork.checkout, "checkout", "-q", "other.txt")
    fork.ok("continue", env={"GIT_DEFAULT_HASH": "sha256"})
    assert "long member_5; int xpu;" in (fork.checkout / "aten/Context.h").read_text()


def test_other_white_space_alone_is_no_conflict(fork: Project) -> None:
    indented = CONTEXT.replace("int member", "    int member")
    drift(fork, "aten/Context.h", indented)
    out = fork.ok("apply")
    assert "device/aten: merged without regard to white space: aten/Context.h\n" in out
    text = (fork.checkout / "aten/Context.h").read_text()
    assert text == indented.replace("    int member_5;", "int member_5; int xpu;")
    # the same again, from nothing
    fork.ok("apply", "--stage", "base")
    (fork.checkout / ".git/xpu-stack/memo.json").unlink()
    fork.ok("apply")
    assert (fork.checkout / "aten/Context.h").read_text() == text


def test_other_white_space_and_other_words_are_a_conflict(fork: Project) -> None:
    text = CONTEXT.replace("int member", "    int member").replace(
        "int member_5;", "long member_5;"
    )
    drift(fork, "aten/Context.h", text)
    ended = fork.run("apply")
    assert ended.code == 5
    assert "white space" not in ended.out + ended.err


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
unpacking base.tar.xz ...
making the base commit ...
looking at every change ...
device/aten: there already, the base has 1 of its 1 new file(s), 100% of the lines it adds
error: The base already has change 2 of 3, device/aten.
  why: applied to it, the change alters nothing
  next: make apply STAGE=stream DROP=device/aten PYTORCH_SRC=CHECKOUT""",
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


# -- line ends ----------------------------------------------------------

XPU_CONTEXT = CONTEXT.replace("int member_5;", "int member_5; int xpu;")


def crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def test_crlf_is_kept(project: Project) -> None:
    """Also without the release: it is the same text."""
    drift(project, "aten/Context.h", crlf(CONTEXT))
    project.ok("apply")
    assert (project.checkout / "aten/Context.h").read_bytes() == crlf(XPU_CONTEXT)


def test_crlf_and_other_lines_are_merged(fork: Project) -> None:
    drift(fork, "aten/Context.h", crlf(CONTEXT.replace("int member_3;", "long member_3;")))
    fork.ok("apply")
    expected = XPU_CONTEXT.replace("int member_3;", "long member_3;")
    assert (fork.checkout / "aten/Context.h").read_bytes() == crlf(expected)


def test_crlf_and_a_conflict(fork: Project) -> None:
    drift(
        fork,
        "aten/Context.h",
        crlf(CONTEXT.replace("int member_5;", "long member_5;")),
    )
    before = fork.snapshot()
    ended = fork.run("apply")
    assert ended.code == 5
    assert "aten/Context.h has CRLF line ends in the base" in ended.err
    assert fork.snapshot() == before


def test_a_change_that_is_there_with_crlf(fork: Project) -> None:
    drift(fork, "aten/Context.h", crlf(XPU_CONTEXT))
    drift(fork, "aten/Hooks.cpp", crlf("int hooks;\n"))
    ended = fork.run("apply")
    assert ended.code == 5
    assert "The base already has change 2 of 3, device/aten." in ended.err


def test_latin_1_away_from_the_change_is_kept(fork: Project) -> None:
    tail = "// caf\xe9\n".encode("latin-1")
    drift(fork, "aten/Context.h", CONTEXT.encode() + tail)
    fork.ok("apply")
    assert (fork.checkout / "aten/Context.h").read_bytes() == XPU_CONTEXT.encode() + tail


def test_latin_1_in_the_lines_of_the_change_is_a_conflict(fork: Project) -> None:
    odd = CONTEXT.encode().replace(b"int member_5;", "int m\xe9mber_5;".encode("latin-1"))
    drift(fork, "aten/Context.h", odd)
    before = fork.snapshot()
    ended = fork.run("apply")
    assert ended.code == 5
    assert "aten/Context.h:6-10" in ended.err
    assert fork.snapshot() == before


def test_mixed_line_ends_are_a_conflict_not_a_loss(fork: Project) -> None:
    lines = CONTEXT.splitlines(keepends=True)
    mixed = "".join(line.replace("\n", "\r\n") if n % 2 else line for n, line in enumerate(lines))
    drift(fork, "aten/Context.h", mixed)
    before = fork.snapshot()
    ended = fork.run("apply")
    assert ended.code == 5
    assert "aten/Context.h" in ended.err
    assert fork.snapshot() == before


# -- other drift ----------------------------------------------------------------------


def test_a_file_that_the_fork_has_deleted(fork: Project) -> None:
    git(fork.checkout, "rm", "-q", "aten/Context.h")
    git(fork.checkout, "commit", "-qm", "Without a context")
    before = fork.snapshot()
    ended = fork.run("apply")
    assert ended.code == 5
    assert "aten/Context.h: the base has deleted it" in ended.err
    assert fork.snapshot() == before
    # the person does without the file
    (worktree,) = (fork.folder / ".xpu/work").glob("*/conflict")
    git(worktree, "rm", "-q", "aten/Context.h")
    fork.ok("continue")
    assert not (fork.checkout / "aten/Context.h").exists()
    assert (fork.checkout / "aten/Hooks.cpp").exists()


def test_a_mode_that_has_changed_is_kept(project: Project) -> None:
    (project.checkout / "aten/Context.h").chmod(0o755)
    git(project.checkout, "commit", "-qam", "Executable")
    project.ok("apply")
    assert (project.checkout / "aten/Context.h").read_text() == XPU_CONTEXT
    assert (project.checkout / "aten/Context.h").stat().st_mode & 0o777 == 0o755
    assert git(project.checkout, "status", "--porcelain") == ""


def test_hunks_that_have_moved_in_a_renamed_file(fork: Project) -> None:
    git(fork.checkout, "mv", "aten/Context.h", "aten/GlobalContext.h")
    drift(fork, "aten/GlobalContext.h", "int more;\n" * 9 + CONTEXT)
    fork.ok("apply")
    assert (fork.checkout / "aten/GlobalContext.h").read_text() == "int more;\n" * 9 + XPU_CONTEXT


def test_without_the_release_a_conflict_says_so(project: Project) -> None:
    drift(project, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    before = project.snapshot()
    ended = project.run("apply", env={"PATH": "/usr/bin:/bin", "PYTORCH_GIT": "/nowhere"})
    assert ended.code == 5
    assert "is not available here" in ended.err
    assert project.snapshot() == before


def test_a_conflict_is_not_taken_for_a_change_that_is_there(fork: Project) -> None:
    """A build file that looks like another one says nothing about the rest of the change."""
    build = "".join(f"add_executable(test_number_{number})\n" for number in range(9))
    files = {
        f"c10_xpu/device/c10/xpu/File{n}.cpp": "".join(f"int a_{n}_{k};\n" for k in range(9))
        for n in range(6)
    }
    write(fork.folder, files | {"c10_xpu/device/c10/xpu/test/CMakeLists.txt": build})
    write(fork.folder, {"c10_xpu/device/c10/xpu/__init__.py": ""})
    write(fork.checkout, {"c10/cuda/test/CMakeLists.txt": f"{build}# cuda\n", "a/__init__.py": ""})
    drift(fork, "c10/CMakeLists.txt", CMAKE.replace("# line 20\n", "# twenty\n"))
    ended = fork.run("apply")
    assert ended.code == 5
    assert "c10/CMakeLists.txt:20-" in ended.err
    assert "DROP=" not in ended.err
    out = fork.ok("rebase", "--onto", "main", "--dry-run")
    assert re.search(r"device/runtime +conflict", out), out
