"""Edits of the checkout go back into the series; the series is checked."""

import os
from pathlib import Path

import pytest
from project import Project, drift, git, write
from xpu_stack.core.edit import export
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.layout import Layout


def kept(project: Project) -> dict[str, bytes]:
    """Every file of the series; what a killed export was still preparing is none."""
    folders = ["patches", "c10_xpu", "aten_xpu", "torch_xpu_py"]
    return {
        path.relative_to(project.folder).as_posix(): path.read_bytes()
        for folder in folders
        for path in sorted((project.folder / folder).rglob("*"))
        if path.is_file() and ".transaction" not in path.parts
    }


def changed(project: Project, before: dict[str, bytes]) -> set[str]:
    after = kept(project)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def settled(project: Project) -> None:
    """The series gives exactly what is in the checkout, and nothing waits."""
    assert git(project.checkout, "status", "--porcelain") == ""
    assert "is already at" in project.ok("apply")
    before = kept(project)
    project.ok("export")
    assert changed(project, before) == set()


@pytest.fixture
def applied(project: Project) -> Project:
    """The project with the series applied, its patches in export's own form."""
    project.ok("apply")
    project.ok("export")
    return project


def test_the_round_trip_is_byte_identical(applied: Project) -> None:
    before = kept(applied)
    applied.ok("apply", "--stage", "base")
    applied.ok("apply")
    applied.ok("export")
    assert changed(applied, before) == set()


def test_an_edit_of_a_new_file(applied: Project) -> None:
    before = kept(applied)
    write(applied.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    applied.ok("export")
    assert changed(applied, before) == {"aten_xpu/device/aten/Hooks.cpp"}
    assert git(applied.checkout, "show", "HEAD~1:aten/Hooks.cpp") == "int better_hooks;\n"
    settled(applied)


def test_an_edit_of_a_patched_file(applied: Project) -> None:
    before = kept(applied)
    path = applied.checkout / "c10/CMakeLists.txt"
    path.write_text(path.read_text().replace("# xpu\n", "# the xpu\n"))
    applied.ok("export")
    assert changed(applied, before) == {"patches/v1.13.1/device/runtime.patch"}
    assert "+# the xpu" in (applied.folder / "patches/v1.13.1/device/runtime.patch").read_text()
    settled(applied)


def test_an_edit_goes_to_the_last_change_that_touches_the_file(applied: Project) -> None:
    before = kept(applied)
    write(applied.checkout, {"c10/xpu/Device.cpp": "int device;\nint streams;\nint more;\n"})
    applied.ok("export")
    assert changed(applied, before) == {"patches/v1.13.1/stream/stream.patch"}
    settled(applied)


def test_an_amended_commit_with_a_new_file_and_a_new_text(applied: Project) -> None:
    before = kept(applied)
    write(applied.checkout, {"c10/xpu/Stream.h": "extern int stream;\n"})
    git(applied.checkout, "add", "c10/xpu/Stream.h")
    message = git(applied.checkout, "log", "-1", "--format=%B").replace("None.", "A header.")
    git(applied.checkout, "commit", "-q", "--amend", "-m", message)
    applied.ok("export")
    assert changed(applied, before) == {
        "c10_xpu/stream/c10/xpu/Stream.h",
        "patches/texts/stream/stream.md",
    }
    settled(applied)


def test_a_file_that_was_taken_out(applied: Project) -> None:
    before = kept(applied)
    git(applied.checkout, "rm", "-q", "c10/xpu/Stream.cpp")
    write(applied.checkout, {"c10/xpu/Stream2.cpp": "int stream;\n"})
    git(applied.checkout, "add", "c10/xpu/Stream2.cpp")
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit")
    applied.ok("export")
    assert changed(applied, before) == {
        "c10_xpu/stream/c10/xpu/Stream.cpp",
        "c10_xpu/stream/c10/xpu/Stream2.cpp",
    }
    settled(applied)


def test_an_executable_stays_one(applied: Project) -> None:
    (applied.checkout / "aten/Hooks.cpp").chmod(0o755)
    applied.ok("export")
    assert (applied.folder / "aten_xpu/device/aten/Hooks.cpp").stat().st_mode & 0o111
    settled(applied)


def test_an_edit_of_a_file_that_no_change_touches_is_refused(applied: Project) -> None:
    before = kept(applied)
    write(applied.checkout, {"other.txt": "mine\n"})
    ended = applied.run("export")
    assert ended.code == 3
    assert "No change of the series touches other.txt." in ended.err
    assert changed(applied, before) == set()
    assert (applied.checkout / "other.txt").read_text() == "mine\n"


def test_a_commit_between_the_changes_is_refused(applied: Project) -> None:
    tip = git(applied.checkout, "rev-parse", "HEAD").strip()
    git(applied.checkout, "reset", "-q", "--hard", "HEAD~")
    write(applied.checkout, {"other.txt": "mine\n"})
    git(applied.checkout, "commit", "-qam", "Mine")
    git(applied.checkout, "cherry-pick", tip)
    ended = applied.run("export")
    assert ended.code == 3
    assert "'Mine' has no XPU-Change trailer" in ended.err


def test_edits_on_both_sides_are_refused(applied: Project) -> None:
    write(applied.checkout, {"aten/Hooks.cpp": "int mine;\n"})
    write(applied.folder, {"aten_xpu/device/aten/Hooks.cpp": "int other;\n"})
    refused(applied)


def test_an_amended_commit_whose_change_was_edited_too_is_refused(applied: Project) -> None:
    write(applied.checkout, {"c10/xpu/Stream.cpp": "int mine;\n"})
    git(applied.checkout, "commit", "-qa", "--amend", "--no-edit")
    write(applied.folder, {"c10_xpu/stream/c10/xpu/Stream.cpp": "int other;\n"})
    refused(applied)


def refused(applied: Project) -> None:
    before = kept(applied)
    ended = applied.run("export")
    assert ended.code == 3
    assert "was edited since it was applied" in ended.err
    assert changed(applied, before) == set()


# -- make check ---------------------------------------------------------------


@pytest.fixture
def released(applied: Project) -> Project:
    """With the checkout as the release that `make check` uses."""
    own = applied.folder / ".xpu/pytorch-v1.13.1"
    git(applied.folder, "clone", "-q", "--branch", "main", str(applied.checkout), str(own))
    git(own, "branch", "base")
    return applied


def problem(project: Project) -> str:
    ended = project.run("check", source=False)
    assert ended.code == 6, ended.err
    (why,) = [line for line in ended.err.splitlines() if "why:" in line]
    return why.removeprefix("  why: ")


def test_a_good_series_passes(released: Project) -> None:
    assert "3 change(s) are in order" in released.ok("check", source=False)
    # and the checkout is not touched
    assert (
        git(released.folder / ".xpu/pytorch-v1.13.1", "symbolic-ref", "--short", "HEAD") == "main\n"
    )


def test_a_patch_that_does_not_apply(released: Project) -> None:
    path = released.folder / "patches/v1.13.1/device/aten.patch"
    path.write_text(path.read_text().replace(" int member_4;", " int member_four;"))
    assert problem(released).startswith(
        "patches/series.yaml:8: 'device/aten' does not fit v1.13.1: error: patch failed"
    )


def test_a_patch_of_a_file_that_is_not_there(released: Project) -> None:
    path = released.folder / "patches/v1.13.1/device/aten.patch"
    path.write_text(path.read_text().replace("aten/Context.h", "aten/Nothing.h"))
    assert problem(released) == (
        "patches/v1.13.1/device/aten.patch: edits aten/Nothing.h, which is not there at this point"
    )


def test_a_payload_file_that_the_base_has(released: Project) -> None:
    write(released.folder, {"aten_xpu/device/other.txt": "mine\n"})
    assert problem(released) == (
        "aten_xpu/device/other.txt: other.txt exists in v1.13.1: an edit of it is a patch"
    )


def test_white_space(released: Project) -> None:
    write(released.folder, {"aten_xpu/device/aten/Hooks.cpp": "int hooks; \n"})
    assert problem(released).startswith("aten_xpu/device/aten/Hooks.cpp:1: device/aten: trailing")


def test_a_text_that_export_would_write_otherwise(released: Project) -> None:
    path = released.folder / "patches/texts/stream/stream.md"
    path.write_text(path.read_text() + "\n")
    assert problem(released) == (
        "patches/texts/stream/stream.md: apply and export give another file: "
        "it has 14 lines, and would have 13"
    )


def test_a_patch_that_export_would_write_otherwise(released: Project) -> None:
    path = released.folder / "patches/v1.13.1/device/aten.patch"
    path.write_text("A note.\n" + path.read_text())
    assert problem(released).startswith(
        "patches/v1.13.1/device/aten.patch: apply and export give another file: line 1 would be"
    )


@pytest.mark.parametrize("todo", ["edit", "break"])
def test_a_rebase_under_way_is_refused(applied: Project, todo: str) -> None:
    """`git rebase -i` has stopped in the middle of the stack."""
    before = kept(applied)
    order = {"edit": "sed -i 1s/pick/edit/", "break": "sed -i 1abreak"}[todo]
    git(applied.checkout, "-c", f"sequence.editor={order}", "rebase", "-q", "-i", "HEAD~2")
    write(applied.checkout, {"aten/Hooks.cpp": "int mine;\n"})
    shown = applied.snapshot()
    ended = applied.run("export")
    assert ended.code == 3
    assert "A rebase is under way in the checkout." in ended.err
    assert applied.snapshot() == shown
    assert changed(applied, before) == set()
    git(applied.checkout, "commit", "-qa", "--amend", "--no-edit")
    git(applied.checkout, "rebase", "--continue")
    applied.ok("export")
    assert changed(applied, before) == {"aten_xpu/device/aten/Hooks.cpp"}
    settled(applied)


def test_an_edit_of_a_binary_file(project: Project) -> None:
    content = bytes(range(256)) * 20
    drift(project, "c10/table.bin", content)
    project.ok("apply")
    project.ok("export")
    before = kept(project)
    (project.checkout / "c10/table.bin").write_bytes(content[:1000] + b"\0edited" + content)
    git(project.checkout, "commit", "-qa", "--amend", "--no-edit")
    tree = git(project.checkout, "rev-parse", "HEAD^{tree}")
    project.ok("export")
    assert changed(project, before) == {"patches/v1.13.1/stream/stream.patch"}
    project.ok("apply", "--stage", "base")
    project.ok("apply")
    assert git(project.checkout, "rev-parse", "HEAD^{tree}") == tree
    settled(project)
    load = Series.load(Layout(project.folder, project.folder / ".xpu"), "v1.13.1")
    assert load.changes("stream")[-1].patched_paths() == ["c10/table.bin", "c10/xpu/Device.cpp"]


def test_a_removed_line_that_looks_like_a_path(project: Project) -> None:
    drift(project, "query.sql", "-- a/comment\nselect 1;\n")
    project.ok("apply")
    write(project.checkout, {"query.sql": "select 1;\n"})
    git(project.checkout, "commit", "-qa", "--amend", "--no-edit")
    project.ok("export")
    load = Series.load(Layout(project.folder, project.folder / ".xpu"), "v1.13.1")
    assert load.changes("stream")[-1].patched_paths() == ["c10/xpu/Device.cpp", "query.sql"]


def test_a_new_link(applied: Project) -> None:
    (applied.checkout / "c10/xpu/Alias.cpp").symlink_to("Stream.cpp")
    git(applied.checkout, "add", "-A")
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit")
    applied.ok("export")
    assert (applied.folder / "c10_xpu/stream/c10/xpu/Alias.cpp").readlink() == Path("Stream.cpp")
    (applied.checkout / "c10/xpu/Alias.cpp").unlink()
    (applied.checkout / "c10/xpu/Alias.cpp").symlink_to("Device.cpp")
    applied.ok("export")
    assert (applied.folder / "c10_xpu/stream/c10/xpu/Alias.cpp").readlink() == Path("Device.cpp")
    settled(applied)


def test_a_submodule_with_commits_of_its_own_is_no_edit(project: Project) -> None:
    inner = project.checkout / "third_party/inner"
    write(inner, {"a.txt": "a\n"})
    git(inner, "init", "-q")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "one")
    git(project.checkout, "add", "third_party/inner")
    git(project.checkout, "commit", "-qm", "A submodule")
    project.ok("apply")
    project.ok("export")
    before = kept(project)
    git(inner, "commit", "-q", "--allow-empty", "-m", "two")
    write(project.checkout, {"aten/Hooks.cpp": "int mine;\n"})
    project.ok("export")
    assert changed(project, before) == {"aten_xpu/device/aten/Hooks.cpp"}
    assert git(inner, "log", "--format=%s") == "two\none\n"


def test_files_that_git_does_not_track_are_told(applied: Project) -> None:
    write(applied.checkout, {"c10/xpu/New.cpp": "int new;\n", ".git/info/exclude": "*.o\n"})
    write(applied.checkout, {"c10/xpu/New.o": "", "aten/Hooks.cpp": "int hooks_2;\n"})
    told = applied.ok("export")
    assert "not exported: c10/xpu/New.cpp is not tracked" in told
    assert "New.o" not in told


IDS = ["device/runtime", "device/aten", "stream/stream"]


@pytest.mark.parametrize("top", IDS)
@pytest.mark.parametrize("skipped", [[], *([one] for one in IDS), IDS[:2], IDS[1:], IDS[::2]])
def test_a_skipped_change_keeps_its_place(project: Project, top: str, skipped: list[str]) -> None:
    (project.folder / "patches/v1.13.1/stream/stream.patch").unlink()  # needs the first one
    applied = [one for one in IDS[: IDS.index(top) + 1] if one not in skipped]
    if not applied:
        return
    project.ok("apply", "--stage", top, *(word for one in skipped for word in ("--drop", one)))
    before = kept(project)
    new_file = {
        "device/runtime": "c10/xpu/Device.cpp",
        "device/aten": "aten/Hooks.cpp",
        "stream/stream": "c10/xpu/Stream.cpp",
    }[applied[-1]]
    write(project.checkout, {new_file: "int better;\n"})
    project.ok("export")
    assert "patches/series.yaml" not in changed(project, before)
    assert any(name.endswith(new_file) for name in changed(project, before))


@pytest.mark.slow
def test_skipped_changes_of_the_real_series_keep_their_places() -> None:
    ids = [one.id for one in Series.load(Layout.current(), "v1.13.1").all_changes()]
    for top in range(1, len(ids) + 1):
        for skipped in ({ids[0]}, {ids[top // 2]}, {ids[top - 1]}, {*ids[:top:2]}, {*ids[1:top:2]}):
            applied = [one for one in ids[:top] if one not in skipped]
            assert export.order(ids, applied, set()) == ids
            others = [one for one in ids[:top] if one in skipped]
            assert export.order(ids, others, set()) == ids


def test_a_new_change_above_a_skipped_one_splits_no_stage() -> None:
    ids = ["a/one", "b/two", "b/three"]
    assert export.order(ids, ["a/one", "a/new", "b/three"], set()) == [
        "a/one",
        "a/new",
        "b/two",
        "b/three",
    ]
    assert export.order(ids, ["a/one", "c/new"], set()) == ["a/one", "c/new", "b/two", "b/three"]
    assert export.order(ids, ["b/three"], {"b/two"}) == ["a/one", "b/three"]


@pytest.mark.parametrize("bit", ["skip-worktree", "assume-unchanged"])
@pytest.mark.parametrize("words", [["apply", "--stage", "base"], ["apply", "--stage", "device"]])
def test_an_edit_that_git_does_not_show_is_kept(
    applied: Project, bit: str, words: list[str]
) -> None:
    for name in ("c10/CMakeLists.txt", "c10/xpu/Device.cpp", "other.txt"):
        git(applied.checkout, "update-index", f"--{bit}", name)
    marked = git(applied.checkout, "ls-files", "-v")
    name = "c10/CMakeLists.txt" if words[-1] == "base" else "c10/xpu/Device.cpp"
    write(applied.checkout, {name: "mine\n"})
    before = applied.snapshot()
    ended = applied.run(*words)
    assert ended.code == 3
    assert f"{name} has an edit that git does not show" in ended.err
    assert f"update-index --no-{bit} {name}" in ended.err
    assert applied.snapshot() == before
    assert git(applied.checkout, "ls-files", "-v") == marked


@pytest.mark.parametrize("bit", ["skip-worktree", "assume-unchanged"])
def test_a_file_stays_marked(applied: Project, bit: str) -> None:
    for name in ("c10/CMakeLists.txt", "aten/Context.h", "other.txt"):
        git(applied.checkout, "update-index", f"--{bit}", name)
    marked = git(applied.checkout, "ls-files", "-v")
    applied.ok("apply", "--stage", "base")
    applied.ok("apply")
    assert git(applied.checkout, "ls-files", "-v") == marked
    assert "# xpu" in (applied.checkout / "c10/CMakeLists.txt").read_text()
    write(applied.checkout, {"c10/xpu/Stream.cpp": "int better;\n"})
    applied.ok("export")
    assert git(applied.checkout, "ls-files", "-v") == marked


def test_a_file_that_a_sparse_checkout_leaves_out(applied: Project) -> None:
    git(applied.checkout, "sparse-checkout", "set", "--no-cone", "/*", "!/aten/Context.h")
    assert not (applied.checkout / "aten/Context.h").exists()
    for words in (["--stage", "base"], []):
        applied.ok("apply", *words)
        assert not (applied.checkout / "aten/Context.h").exists()
        assert git(applied.checkout, "status", "--porcelain") == ""


def test_modes_that_the_file_system_does_not_keep(applied: Project) -> None:
    git(applied.checkout, "config", "core.fileMode", "false")
    before = kept(applied)
    for name in ("aten/Hooks.cpp", "c10/CMakeLists.txt"):
        path = applied.checkout / name
        path.write_text(path.read_text().replace("hooks", "better_hooks").replace("xpu", "XPU"))
        path.chmod(0o755)
    applied.ok("export")
    assert len(changed(applied, before)) == 2
    listed = git(applied.checkout, "ls-tree", "-r", "HEAD", "aten/Hooks.cpp", "c10/CMakeLists.txt")
    assert "100755" not in listed
    assert not (applied.folder / "aten_xpu/device/aten/Hooks.cpp").stat().st_mode & 0o111


@pytest.mark.parametrize("name", [b"c10/xpu/a\nb.cpp", b"c10/xpu/\xff.cpp", b"c10/xpu/\x1b.cpp"])
def test_a_name_that_the_series_cannot_keep_is_refused(project: Project, name: bytes) -> None:
    project.ok("apply")
    before = kept(project)
    path = os.fsencode(project.checkout) + b"/" + name
    Path(os.fsdecode(path)).write_text("int odd;\n")
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-q", "--amend", "--no-edit")
    ended = project.run("export")
    assert ended.code == 6, ended.err
    assert "stream/stream has a file whose name cannot be kept in the series." in ended.err
    assert kept(project) == before
