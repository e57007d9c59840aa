"""The series put on another base."""

import re
from pathlib import Path

from expecttest import assert_expected_inline
from project import CMAKE, CONTEXT, Project, drift, git, write


def newer(project: Project, files: dict[str, str | bytes], branch: str = "newer") -> None:
    """A branch of the fork that has gone on from the base; the checkout stays where it is."""
    was = git(project.checkout, "symbolic-ref", "--short", "HEAD").strip()
    git(project.checkout, "switch", "-q", "-c", branch, "main")
    for name, content in files.items():
        drift(project, name, content)
    git(project.checkout, "switch", "-q", was)


def read(project: Project, name: str) -> str:
    return (project.checkout / name).read_text()


def shown(text: str) -> str:
    """What was printed, without what differs from run to run."""
    text = re.sub(r"work/pytorch-[0-9a-f]{8}", "work/KEY", text)
    return re.sub(r"^base v1.13.1 from .*\n", "", text, flags=re.MULTILINE)


def test_onto_a_branch(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    newer(project, {"other.txt": "newer\n"})
    out = project.ok("rebase", "--onto", "newer")
    assert "is now at stage 'device': 2 change(s)" in out
    assert project.log() == ["Add hooks", "Add devices", "Drift of other.txt", "base"]
    assert read(project, "other.txt") == "newer\n"
    assert git(project.checkout, "symbolic-ref", "--short", "HEAD").strip() == "xpu-stack"
    assert git(project.checkout, "status", "--porcelain") == ""
    # again: nothing to do
    assert "is already at" in project.ok("rebase", "--onto", "newer")
    # from there the stages go up and down as ever
    project.ok("apply")
    assert project.log()[0] == "Add streams"


def test_the_same_commits_as_applied_there(project: Project) -> None:
    newer(project, {"other.txt": "newer\n"})
    project.ok("apply")
    project.ok("rebase", "--onto", "newer")
    rebased = git(project.checkout, "rev-parse", "HEAD")
    git(project.checkout, "switch", "-q", "newer")
    git(project.checkout, "branch", "-qD", "xpu-stack")
    project.ok("apply")
    assert git(project.checkout, "rev-parse", "HEAD") == rebased


def test_without_a_stack_all_of_it_is_put_there(project: Project) -> None:
    newer(project, {"other.txt": "newer\n"})
    branches = git(project.checkout, "rev-parse", "main", "newer")
    project.ok("rebase", "--onto", "newer")
    assert project.log() == [
        "Add streams",
        "Add hooks",
        "Add devices",
        "Drift of other.txt",
        "base",
    ]
    assert git(project.checkout, "rev-parse", "main", "newer") == branches


def test_onto_another_checkout(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", "--branch", "main", str(project.checkout), str(other))
    write(other, {"other.txt": "theirs\n"})
    git(other, "commit", "-qam", "Theirs")
    project.ok("rebase", "--onto", str(other))
    assert project.log()[3] == "Theirs"
    assert read(project, "other.txt") == "theirs\n"


def test_onto_a_checkout_that_has_a_stack_means_its_base(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", "--branch", "xpu-stack", str(project.checkout), str(other))
    before = project.snapshot()
    assert "is already at" in project.ok("rebase", "--onto", str(other))
    assert project.snapshot() == before


def test_onto_a_tree_without_git(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    tree = tmp_path / "tree"
    write(
        tree,
        {
            "c10/CMakeLists.txt": CMAKE,
            "aten/Context.h": CONTEXT,
            ".gitignore": "ignored.txt\n",
            "ignored.txt": "part of the release\n",
        },
    )
    project.ok("rebase", "--onto", str(tree))
    assert project.log() == ["Add streams", "Add hooks", "Add devices", "A tree without history"]
    assert read(project, "ignored.txt") == "part of the release\n"
    assert not (project.checkout / "other.txt").exists()
    first = git(project.checkout, "rev-parse", "HEAD")
    project.ok("rebase", "--onto", "main")
    project.ok("rebase", "--onto", str(tree))
    assert git(project.checkout, "rev-parse", "HEAD") == first


def test_what_is_not_there_is_one_line(project: Project) -> None:
    ended = project.run("rebase", "--onto", "nonsense")
    assert ended.code == 2
    assert "ONTO=nonsense is neither a commit of the checkout nor a folder." in ended.err


def test_uncommitted_work_is_refused(project: Project) -> None:
    project.ok("apply")
    newer(project, {"other.txt": "newer\n"})
    write(project.checkout, {"other.txt": "mine\n"})
    before = project.snapshot()
    ended = project.run("rebase", "--onto", "newer")
    assert ended.code == 3
    assert "has changes that are not committed" in ended.err
    assert project.snapshot() == before


def test_an_untracked_file_in_the_way_is_refused(project: Project) -> None:
    project.ok("apply")
    newer(project, {"new.txt": "theirs\n"})
    write(project.checkout, {"new.txt": "mine\n"})
    before = project.snapshot()
    ended = project.run("rebase", "--onto", "newer")
    assert ended.code == 3
    assert "mv CHECKOUT/new.txt CHECKOUT/new.txt.mine" in ended.err
    assert project.snapshot() == before


def test_a_file_becomes_a_folder_and_a_link_one_too(project: Project) -> None:
    project.ok("apply")
    git(project.checkout, "switch", "-q", "-c", "older", "main")
    (project.checkout / "link").symlink_to("aten")
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-qm", "A link")
    git(project.checkout, "switch", "-q", "-c", "newer")
    (project.checkout / "link").unlink()
    (project.checkout / "other.txt").unlink()
    write(project.checkout, {"link/Context.h": "own\n", "other.txt/inner": "inner\n"})
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-qm", "Folders")
    git(project.checkout, "switch", "-q", "xpu-stack")
    project.ok("rebase", "--onto", "older")
    older = project.snapshot()
    project.ok("rebase", "--onto", "newer")
    assert read(project, "other.txt/inner") == "inner\n"
    assert read(project, "link/Context.h") == "own\n"
    assert "int xpu;" in read(project, "aten/Context.h")
    project.ok("rebase", "--onto", "older")
    assert project.snapshot() == older
    assert (project.checkout / "link").is_symlink()


def test_an_untracked_file_in_a_folder_that_becomes_a_file(project: Project) -> None:
    newer(project, {"folder/tracked": "tracked\n"}, "folder")
    newer(project, {"folder": "a file\n"}, "file")
    project.ok("rebase", "--onto", "folder")
    write(project.checkout, {"folder/mine": "mine\n"})
    before = project.snapshot()
    ended = project.run("rebase", "--onto", "file")
    assert ended.code == 3
    assert "An untracked file is in the way: folder/mine" in ended.err
    assert project.snapshot() == before


def test_a_submodule_that_moves_is_left_to_git(project: Project) -> None:
    project.ok("apply")
    for branch, pin in (("older", "1" * 40), ("newer", "2" * 40)):
        git(project.checkout, "switch", "-q", "-c", branch, "main")
        git(
            project.checkout,
            "update-index",
            "--add",
            "--cacheinfo",
            f"160000,{pin},third_party/part",
        )
        git(project.checkout, "commit", "-qm", branch)
    git(project.checkout, "switch", "-q", "xpu-stack")
    project.ok("rebase", "--onto", "older")
    write(project.checkout, {"third_party/part/inner": "checked out\n"})
    project.ok("rebase", "--onto", "newer")
    assert read(project, "third_party/part/inner") == "checked out\n"
    assert "2" * 40 in git(project.checkout, "ls-files", "-s", "third_party/part")
    project.ok("rebase", "--onto", "main")
    assert read(project, "third_party/part/inner") == "checked out\n"


# -- conflicts --------------------------------------------------------------------

LONG = CONTEXT.replace("int member_5;", "long member_5;")


def test_a_conflict_then_continue(fork: Project) -> None:
    fork.ok("apply")
    newer(fork, {"aten/Context.h": LONG})
    before = fork.snapshot()
    ended = fork.run("rebase", "--onto", "newer")
    assert ended.code == 5
    assert fork.snapshot() == before
    assert_expected_inline(
        shown(ended.lines),
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
    (worktree,) = (fork.folder / ".xpu/work").glob("*/conflict")
    write(worktree, {"aten/Context.h": LONG.replace("member_5;", "member_5; int xpu;")})
    git(worktree, "add", "aten/Context.h")
    fork.ok("continue")
    assert fork.log()[:4] == ["Add streams", "Add hooks", "Add devices", "Drift of aten/Context.h"]
    assert "long member_5; int xpu;" in read(fork, "aten/Context.h")


def test_a_conflict_then_abort(fork: Project) -> None:
    fork.ok("apply")
    newer(fork, {"aten/Context.h": LONG})
    before = fork.snapshot()
    assert fork.run("rebase", "--onto", "newer").code == 5
    fork.ok("abort")
    assert fork.snapshot() == before
    assert "is already at" in fork.ok("apply")


def test_what_is_dropped_on_one_base_is_not_on_another(fork: Project) -> None:
    newer(fork, {"aten/Hooks.cpp": "int hooks;\n", "aten/Context.h": XPU_CONTEXT})
    fork.ok("apply")
    assert fork.run("rebase", "--onto", "newer").code == 5
    fork.ok("rebase", "--onto", "newer", "--drop", "device/aten")
    assert "Add hooks" not in fork.log()
    assert "is already at" in fork.ok("apply")
    fork.ok("rebase", "--onto", "main")
    assert "Add hooks" in fork.log()


# -- what the base has already ------------------------------------------------------

XPU_CONTEXT = CONTEXT.replace("int member_5;", "int member_5; int xpu;")
HOOKS = "".join(f"int hook_number_{number};\n" for number in range(20))


def test_every_change_is_looked_at_at_once(fork: Project) -> None:
    """One is there with the same content, one with a little other, one in conflict."""
    write(fork.folder, {"aten_xpu/device/aten/Hooks.cpp": HOOKS})
    fork.ok("apply")
    newer(
        fork,
        {
            "aten/Hooks.cpp": HOOKS.replace("number_7;", "number_seven;"),
            "aten/Context.h": XPU_CONTEXT,
            "c10/xpu/Stream.cpp": "something quite different\n",
        },
    )
    before = fork.snapshot()
    out = fork.ok("rebase", "--onto", "newer", "--dry-run")
    assert fork.snapshot() == before
    assert_expected_inline(
        shown(out),
        """\
The series on newer (4f453de3fd9b)
change          result         files  hunks  new files  lines
device/runtime  applies        -      -      -          -
device/aten     there already  1      1      1 of 1     95%
stream/stream   another there  1      1      1 of 1     0%
files, hunks: in conflict; new files, lines: what the base has of those the change adds
device/aten: aten/Hooks.cpp: 1 hunk(s)
stream/stream: c10/xpu/Stream.cpp: 1 hunk(s)
3 change(s): 1 applies, 1 there already, 1 another there
to skip those that the base has in another form too: make rebase ONTO=newer STAGE=stream DROP=device/aten,stream/stream PYTORCH_SRC=CHECKOUT
next: make rebase ONTO=newer STAGE=stream DROP=device/aten PYTORCH_SRC=CHECKOUT
""",
    )


def test_a_change_that_is_there_elsewhere(fork: Project) -> None:
    """The fork keeps the file under another path."""
    write(fork.folder, {"aten_xpu/device/aten/Hooks.cpp": HOOKS})
    newer(fork, {"src/Hooks.cpp": HOOKS, "aten/Context.h": LONG})
    out = fork.ok("rebase", "--onto", "newer", "--dry-run")
    assert re.search(r"device/aten +there already", out), out


def test_all_that_is_there_is_offered_in_one_command(fork: Project) -> None:
    newer(
        fork,
        {
            "aten/Hooks.cpp": "int hooks;\n",
            "aten/Context.h": XPU_CONTEXT,
            "c10/xpu/Device.cpp": "int device;\n",
            "c10/xpu/CMakeLists.txt": "# xpu\n",
            "c10/CMakeLists.txt": CMAKE.replace("# line 20\n", "# line 20\n# xpu\n"),
        },
    )
    ended = fork.run("rebase", "--onto", "newer")
    assert ended.code == 5
    assert_expected_inline(
        shown(ended.lines),
        """\
making the commits ...
unpacking base.tar.xz ...
making the base commit ...
looking at every change ...
device/runtime: there already, the base has 2 of its 2 new file(s), 100% of the lines it adds
device/aten: there already, the base has 1 of its 1 new file(s), 100% of the lines it adds
error: The base already has change 1 of 3, device/runtime.
  why: applied to it, the change alters nothing
  next: make rebase ONTO=newer STAGE=stream DROP=device/aten,device/runtime PYTORCH_SRC=CHECKOUT""",
    )
    fork.ok("rebase", "--onto", "newer", "--drop", "device/aten,device/runtime")
    assert fork.log()[0] == "Add streams"
    assert read(fork, "c10/xpu/Device.cpp") == "int device;\nint streams;\n"
