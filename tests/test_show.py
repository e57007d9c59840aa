"""show, diff and which: what git shows of a change, of edits, of a line."""

from pathlib import Path

import pytest
from project import Project, drift, git, write
from workspace import workspace
from xpu_stack.show import differences


@pytest.fixture
def applied(project: Project) -> Project:
    project.ok("apply")
    project.ok("export")
    return project


# -- show ------------------------------------------------------------------------


def test_the_commit_of_a_change(applied: Project) -> None:
    shown = applied.ok("show", "--change", "device/aten")
    commit = git(applied.checkout, "rev-parse", "HEAD~1").strip()
    assert shown == git(applied.checkout, "show", "--patch-with-stat", commit)
    assert "Because of Add hooks." in shown
    assert "+int hooks;" in shown
    assert applied.ok("show") == git(applied.checkout, "show", "--patch-with-stat", "HEAD")
    # as it is in the checkout, amended or not
    git(applied.checkout, "commit", "-q", "--amend", "-m", "Mine\n\nXPU-Change: stream/stream")
    assert "\n    Mine\n" in applied.ok("show", "--change", "stream/stream")


def test_a_change_that_is_not_applied(applied: Project) -> None:
    commit = git(applied.checkout, "rev-parse", "HEAD").strip()
    applied.ok("apply", "--stage", "base")
    before = applied.snapshot()
    assert applied.ok("show", "--change", "stream").startswith(f"commit {commit}\n")
    assert applied.snapshot() == before
    ended = applied.run("show")
    assert "error: No change of the series is applied." in ended.err
    assert "next: make show CHANGE=<stage>/<change>" in ended.err
    assert (
        "There is no change 'device/nothing'."
        in applied.run("show", "--change", "device/nothing").err
    )
    # a base that it does not fit: said, and no conflict set up
    git(applied.checkout, "switch", "-q", "main")
    drift(applied, "c10/CMakeLists.txt", "other\n")
    ended = applied.run("show", "--change", "device/aten")
    assert ended.code == 5
    assert "why: device/runtime does not apply to" in ended.err
    assert not (applied.checkout / ".git/xpu-stack/conflict.json").exists()


def test_a_pager_and_colours_are_the_persons(applied: Project) -> None:
    git(applied.checkout, "config", "color.ui", "always")
    assert "\x1b[" in applied.ok("show")
    write(applied.checkout, {"aten/Hooks.cpp": "int hooks; // why\n"})
    assert "\x1b[" in applied.ok("diff")


def test_in_a_checkout_that_cannot_be_written(
    applied: Project, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    applied.ok("apply", "--stage", "base")
    write(applied.folder, {"c10_xpu/stream/c10/xpu/Stream.cpp": "int other_stream;\n"})
    (tmp_path / "objects").mkdir()
    with workspace(applied) as work:
        work.repository.keep_objects_in(tmp_path / "objects")
        commit = differences.commit_of(work, "stream/stream")
        assert work.repository.show("show", commit) == 0
    assert "+int other_stream;" in capfd.readouterr().out
    assert git(applied.checkout, "cat-file", "-t", commit, check=False) == ""


# -- diff ------------------------------------------------------------------------


def test_edits_committed_or_not(applied: Project) -> None:
    assert applied.ok("diff") == ""
    write(applied.checkout, {"aten/Hooks.cpp": "int hooks;\nint more;\n"})
    git(applied.checkout, "commit", "-qam", "fixup! Add hooks")
    write(applied.checkout, {"c10/xpu/Stream.cpp": "int streams;\n"})
    shown = applied.ok("diff")
    assert "+int more;" in shown
    assert "+int streams;" in shown
    git(applied.checkout, "commit", "-q", "-am", "fixup! Add streams")
    assert applied.ok("diff") == shown


def test_the_edits_of_one_change(applied: Project) -> None:
    runtime, aten, stream = git(applied.checkout, "rev-list", "--reverse", "main..").split()
    git(applied.checkout, "reset", "-q", "--hard", runtime)
    write(applied.checkout, {"c10/xpu/CMakeLists.txt": "# xpu\n# here\n"})
    git(applied.checkout, "commit", "-q", "-a", "--amend", "--no-edit")
    git(applied.checkout, "cherry-pick", aten, stream)
    # of both, and an edit belongs to the last
    write(applied.checkout, {"c10/xpu/Device.cpp": "int device;\nint streams; // two\n"})
    write(applied.checkout, {"aten/Hooks.cpp": "int uncommitted;\n"})

    def added(change: str) -> list[str]:
        shown = applied.ok("diff", "--change", change).splitlines()
        return [line for line in shown if line.startswith("+") and not line.startswith("+++")]

    assert added("device/runtime") == ["+# here"]
    assert added("device/aten") == ["+int uncommitted;"]
    assert added("stream/stream") == ["+int streams; // two"]
    applied.ok("export")
    assert added("stream/stream") == []
    applied.ok("apply", "--stage", "device")
    ended = applied.run("diff", "--change", "stream/stream")
    assert "stream/stream is not applied, so nothing of it was edited." in ended.err


def test_commits_of_ones_own_are_no_edits(applied: Project) -> None:
    drift(applied, "mine.txt", "mine\n")
    assert applied.ok("diff") == ""
    write(applied.checkout, {"aten/Hooks.cpp": "int hooks; // why\n"})
    shown = applied.ok("diff")
    assert "// why" in shown
    assert "mine" not in shown


# -- which -----------------------------------------------------------------------


def which(project: Project, place: str) -> str:
    return project.ok("which", "--file", place).strip()


def test_where_a_line_comes_from(applied: Project) -> None:
    ids = git(applied.checkout, "log", "-3", "--format=%h", "--abbrev=12").split()
    stream, aten, runtime = ids
    base = git(applied.checkout, "rev-parse", "--short=12", "main").strip()
    file = "c10/xpu/Device.cpp"
    assert which(applied, f"{file}:1") == (
        f"{file}:1: device/runtime 'Add devices' ({runtime}), kept in c10_xpu/device/{file}:1"
    )
    edited = f"stream/stream 'Add streams' ({stream}), kept in patches/v1.13.1/stream/stream.patch"
    assert which(applied, f"{file}:2") == f"{file}:2: {edited}"
    # as a compiler writes it, and by the whole path
    assert which(applied, f"{applied.checkout / file}:2:5") == f"{file}:2: {edited}"
    # a folder, and what is above one
    touching = [f"aten: device/aten 'Add hooks' ({aten}), 2 file(s) there"]
    assert which(applied, "aten").splitlines() == touching
    assert which(applied, "c10/../aten/").splitlines() == touching
    # the last line of a file that a person has changed above it
    write(applied.checkout, {file: "// mine\nint device;\nint streams;\n"})
    assert which(applied, f"{file}:1") == (
        f"{file}:1: an edit that is not committed; "
        "make export PYTORCH_SRC=CHECKOUT writes it to stream/stream"
    )
    assert which(applied, f"{file}:2").endswith(f"kept in c10_xpu/device/{file}:1")
    # of the base
    assert which(applied, "aten/Context.h:1") == (
        f"aten/Context.h:1: of the base v1.13.1 ({base}), of no change"
    )
    assert which(applied, "aten/Context.h:6").startswith(
        f"aten/Context.h:6: device/aten 'Add hooks' ({aten})"
    )
    drift(applied, "aten/Own.h", "int own;\n" * 100)
    # which rich would show as a picture
    assert which(applied, "aten/Own.h:100").startswith("aten/Own.h:100: your own commit")


def test_where_a_file_comes_from(applied: Project) -> None:
    told = which(applied, "c10/xpu/Device.cpp").splitlines()
    assert [line.split(" ")[1] for line in told] == ["device/runtime", "stream/stream"]
    assert told[0].endswith("kept in c10_xpu/device/c10/xpu/Device.cpp")
    assert told[1].endswith("kept in patches/v1.13.1/stream/stream.patch")
    assert which(applied, "other.txt").startswith("other.txt: of the base v1.13.1 (")
    for place, problem in (
        ("nothing.txt", "git does not track nothing.txt in the checkout."),
        ("other.txt:9", "There is no line 9 in other.txt."),
    ):
        ended = applied.run("which", "--file", place)
        assert ended.code == 2
        assert problem in ended.err
