"""A conflict is resolved once; the resolution is kept with the series, and can be taken back."""

import shutil
from pathlib import Path

import pytest
from project import CONTEXT, Project, drift, git, write
from xpu_stack.core.resolve.merging import marked

# a heading of seven letters has a line as git's marker
HEADED = b"<<<<<<< ours\nA\n=======\nStreams\n=======\nB\n>>>>>>> theirs\n"
LONG = CONTEXT.replace("int member_5;", "long member_5;")
RESOLVED = LONG.replace("long member_5;", "long member_5; int xpu;")


def worktree(fork: Project) -> Path:
    (found,) = (fork.folder / ".xpu/work").glob("*/conflict")
    return found


def resolve(fork: Project, files: dict[str, str], *words: str) -> str:
    write(worktree(fork), files)
    git(worktree(fork), "add", "-A")
    return fork.ok("continue", *words)


def conflict(fork: Project) -> None:
    drift(fork, "aten/Context.h", LONG)
    assert fork.run("apply").code == 5


def on_a_newer_base(fork: Project, name: str, content: str) -> None:
    """Leaves the checkout on a commit of the fork's own, without a stack."""
    git(fork.checkout, "switch", "-q", "main")
    git(fork.checkout, "branch", "-qD", "xpu-stack", check=False)
    drift(fork, name, content)


def read(fork: Project, name: str = "aten/Context.h") -> str:
    return (fork.checkout / name).read_text()


def ids(fork: Project) -> list[str]:
    lines = fork.ok("resolutions", source=False).splitlines()
    return [line.split()[0] for line in lines[:-1]]


def test_a_line_of_the_change_is_not_taken_for_a_marker() -> None:
    assert marked(HEADED + b"=======\n" + HEADED) == [(1, 3, 7), (9, 11, 15)]


def test_an_unrelated_commit_does_not_bring_it_back(fork: Project) -> None:
    conflict(fork)
    resolve(fork, {"aten/Context.h": RESOLVED})
    on_a_newer_base(fork, "other.txt", "unrelated\n")
    (id_,) = ids(fork)
    out = fork.ok("apply")
    assert f"device/aten: the conflict in aten/Context.h is resolved by {id_}" in out
    assert read(fork) == RESOLVED


def test_other_lines_of_the_file_do_not_bring_it_back(fork: Project) -> None:
    conflict(fork)
    resolve(fork, {"aten/Context.h": RESOLVED})
    on_a_newer_base(fork, "aten/Context.h", f"{LONG}int more;\n")
    fork.ok("apply")
    assert read(fork) == f"{RESOLVED}int more;\n"


def test_a_colleague_has_it_with_the_series(fork: Project, tmp_path: Path) -> None:
    conflict(fork)
    resolve(fork, {"aten/Context.h": RESOLVED})
    git(tmp_path, "clone", "-q", "--branch", "main", str(fork.checkout), "theirs")
    theirs = Project(fork.folder, tmp_path / "theirs")
    theirs.ok("apply")
    assert git(theirs.checkout, "rev-parse", "HEAD") == git(fork.checkout, "rev-parse", "HEAD")


def test_git_itself_understands_it(fork: Project, tmp_path: Path) -> None:
    conflict(fork)
    marked = (worktree(fork) / "aten/Context.h").read_text()
    resolve(fork, {"aten/Context.h": RESOLVED})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    git(scratch, "init", "-q")
    kept = fork.folder / "patches/v1.13.1/resolutions"
    shutil.copytree(kept, scratch / ".git/rr-cache")
    write(scratch, {"aten/Context.h": marked})
    blob = git(scratch, "hash-object", "-w", "aten/Context.h").strip()
    listed = "".join(f"100644 {blob} {stage}\taten/Context.h\n" for stage in (1, 2, 3))
    write(scratch, {"listed": listed})
    git(scratch, "-c", "alias.take=!git update-index --index-info < listed", "take")
    git(scratch, "-c", "rerere.enabled=true", "rerere")
    assert (scratch / "aten/Context.h").read_text() == RESOLVED


def test_a_wrong_one_is_seen_and_forgotten(fork: Project) -> None:
    conflict(fork)
    out = resolve(fork, {"aten/Context.h": LONG.replace("long member_5;", "wrong member_5;")})
    (id_,) = ids(fork)
    assert f"kept with the series: {id_}  device/aten  aten/Context.h" in out
    shown = fork.ok("resolutions", "--show", id_[:6], source=False)
    assert "+wrong member_5;" in shown
    fork.ok("resolutions", "--forget", id_[:6], source=False)
    assert ids(fork) == []
    assert not (fork.folder / "patches/v1.13.1/resolutions").exists()
    assert fork.run("apply").code == 5
    resolve(fork, {"aten/Context.h": RESOLVED})
    assert read(fork) == RESOLVED


def test_one_that_is_edited_is_used_as_it_is_then(fork: Project) -> None:
    conflict(fork)
    resolve(fork, {"aten/Context.h": RESOLVED.replace("int xpu;", "int xpo;")})
    (kept,) = (fork.folder / "patches/v1.13.1/resolutions").glob("*/postimage")
    kept.write_text(RESOLVED)
    fork.ok("apply")
    assert read(fork) == RESOLVED


def test_an_id_that_is_not_there(fork: Project) -> None:
    ended = fork.run("resolutions", "--forget", "abc", source=False)
    assert ended.code == 2
    assert "There is no resolution 'abc'." in ended.err


@pytest.mark.parametrize("how", ["reset", "ours"])
def test_a_resolution_without_the_change_is_not_kept(fork: Project, how: str) -> None:
    """All that is left is the base's: that is what DROP= is for."""
    conflict(fork)
    work = worktree(fork)
    if how == "reset":
        git(work, "reset", "-q", "--hard")
    else:
        git(work, "checkout", "-q", "--ours", "aten/Context.h")
        git(work, "rm", "-qf", "aten/Hooks.cpp")
        git(work, "add", "-A")
    ended = fork.run("continue")
    assert ended.code == 5
    assert "Nothing of device/aten is left in the resolution." in ended.err
    assert "DROP=device/aten" in ended.err
    assert ids(fork) == []
    # the files of the conflict are still there
    resolve(fork, {"aten/Context.h": RESOLVED, "aten/Hooks.cpp": "int hooks;\n"})
    assert read(fork) == RESOLVED


def test_a_part_that_is_left_out_is_said(fork: Project) -> None:
    """And when the base has the rest, too, it is said that the resolution is why nothing is left."""
    conflict(fork)
    out = resolve(fork, {"aten/Context.h": LONG})
    assert "aten/Context.h is as in the base: what device/aten edits in it is left out" in out
    on_a_newer_base(fork, "aten/Hooks.cpp", "int hooks;\n")
    ended = fork.run("apply")
    assert ended.code == 5
    assert "Nothing is left of change 2 of 3, device/aten." in ended.err
    (id_,) = ids(fork)
    assert f"make resolutions FORGET={id_}" in ended.err
    fork.ok("resolutions", "--forget", id_, source=False)
    assert "does not fit the base" in fork.run("apply").err


def test_a_resolution_with_nothing_of_either_side_must_be_meant(fork: Project) -> None:
    conflict(fork)
    work = worktree(fork)
    marked = (work / "aten/Context.h").read_text()
    before, _, rest = marked.partition("<<<<<<<")
    emptied = before + rest.partition(">>>>>>>")[2].partition("\n")[2]
    write(work, {"aten/Context.h": emptied})
    git(work, "add", "-A")
    ended = fork.run("continue")
    assert ended.code == 5
    assert "all lines were removed: aten/Context.h:6" in ended.err
    assert "make continue EMPTY=1" in ended.err
    assert ids(fork) == []
    fork.ok("continue", "--empty")
    assert read(fork) == emptied
    assert len(ids(fork)) == 1


def test_a_file_that_the_base_has_deleted(fork: Project) -> None:
    """There are no lines for rerere; what was done in another file is kept with it."""
    git(fork.checkout, "rm", "-q", "aten/Context.h")
    git(fork.checkout, "commit", "-qm", "Moved")
    drift(fork, "aten/Moved.h", "void m5();\n")
    assert fork.run("apply").code == 5
    git(worktree(fork), "rm", "-q", "aten/Context.h")
    moved = "void m5();\nint xpu;\n"
    resolve(fork, {"aten/Moved.h": moved})
    (id_,) = ids(fork)
    shown = fork.ok("resolutions", "--show", id_, source=False)
    assert "aten/Context.h is removed" in shown
    assert "+int xpu;" in shown
    on_a_newer_base(fork, "other.txt", "unrelated\n")
    fork.ok("apply")
    assert read(fork, "aten/Moved.h") == moved
    assert not (fork.checkout / "aten/Context.h").exists()
    # where the other file is not as it was, the person is asked again
    on_a_newer_base(fork, "aten/Moved.h", "quite different\n")
    assert fork.run("apply").code == 5


def test_a_file_that_is_kept_though_the_base_has_deleted_it(fork: Project) -> None:
    git(fork.checkout, "rm", "-q", "aten/Context.h")
    git(fork.checkout, "commit", "-qm", "Gone")
    assert fork.run("apply").code == 5
    resolve(fork, {"aten/Context.h": "int xpu;\n"})
    on_a_newer_base(fork, "other.txt", "unrelated\n")
    fork.ok("apply")
    assert read(fork) == "int xpu;\n"


def test_only_what_is_not_known_is_asked(fork: Project) -> None:
    fork.patch(
        "device/aten",
        {
            "aten/Context.h": ("int member_5;", "int member_5; int xpu;"),
            "other.txt": ("other", "other xpu"),
        },
    )
    conflict(fork)
    resolve(fork, {"aten/Context.h": RESOLVED})
    on_a_newer_base(fork, "other.txt", "drifted\n")
    ended = fork.run("apply")
    assert ended.code == 5
    assert "other.txt:1-5" in ended.err
    assert "aten/Context.h:" not in ended.err
    assert (worktree(fork) / "aten/Context.h").read_text() == RESOLVED
    resolve(fork, {"other.txt": "drifted xpu\n"})
    assert read(fork) == RESOLVED
    assert read(fork, "other.txt") == "drifted xpu\n"
    assert len(ids(fork)) == 2


def test_the_same_lines_in_two_files_and_two_resolutions(fork: Project) -> None:
    write(fork.folder, {"aten_xpu/device/aten/Other.cpp": "int hooks;\n"})
    drift(fork, "aten/Hooks.cpp", "long hooks;\n")
    drift(fork, "aten/Other.cpp", "long hooks;\n")
    assert fork.run("apply").code == 5
    both = {"aten/Hooks.cpp": "int hooks; // first\n", "aten/Other.cpp": "int hooks; // second\n"}
    resolve(fork, both)
    assert {name: read(fork, name) for name in both} == both
    on_a_newer_base(fork, "other.txt", "unrelated\n")
    fork.ok("apply")
    assert {name: read(fork, name) for name in both} == both


def test_a_series_that_cannot_be_written_keeps_the_conflict(fork: Project) -> None:
    conflict(fork)
    write(worktree(fork), {"aten/Context.h": RESOLVED})
    git(worktree(fork), "add", "-A")
    blocked = fork.folder / "patches/v1.13.1/resolutions"
    blocked.write_text("in the way\n")
    assert fork.run("continue").code != 0
    assert "waits to be resolved" in fork.run("apply").err
    blocked.unlink()
    fork.ok("continue")
    assert read(fork) == RESOLVED
