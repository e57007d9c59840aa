"""Moves taken back."""

import json

import pytest
from project import Project, drift, git, write
from test_export import kept


@pytest.fixture
def newer(project: Project) -> Project:
    """The project with a branch of the fork to rebase onto."""
    git(project.checkout, "switch", "-q", "-c", "newer")
    drift(project, "other.txt", "newer\n")
    git(project.checkout, "switch", "-q", "main")
    return project


def test_the_first_apply(project: Project) -> None:
    before = project.snapshot()
    project.ok("apply")
    after = project.snapshot()
    project.ok("undo")
    assert project.snapshot() == before
    project.ok("redo")
    assert project.snapshot() == after
    project.ok("undo")
    assert project.snapshot() == before
    ended = project.run("undo")
    assert ended.code == 2
    assert "There is no operation to undo." in ended.err


def test_from_no_branch(project: Project) -> None:
    git(project.checkout, "switch", "-q", "--detach")
    before = project.snapshot()
    project.ok("apply")
    project.ok("undo")
    assert project.snapshot() == before


def test_a_rebase(newer: Project) -> None:
    newer.ok("apply")
    before = newer.snapshot()
    newer.ok("rebase", "--onto", "newer")
    after = newer.snapshot()
    assert "undone: rebase" in newer.ok("undo")
    assert newer.snapshot() == before
    assert "is already at" in newer.ok("apply")
    newer.ok("redo")
    assert newer.snapshot() == after


def test_an_export(project: Project) -> None:
    project.ok("apply")
    project.ok("export")
    before = project.snapshot(), kept(project)
    write(project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    git(project.checkout, "add", "aten/Hooks.cpp")
    message = git(project.checkout, "log", "-1", "--format=%B").replace("None.", "More.")
    git(project.checkout, "commit", "-q", "--amend", "-m", message)
    project.ok("export")
    after = project.snapshot(), kept(project)
    assert after[0] != before[0]
    assert after[1] != before[1]
    assert "undone: export" in project.ok("undo")
    assert kept(project) == before[1]
    project.ok("redo")
    assert (project.snapshot(), kept(project)) == after
    assert "is already at" in project.ok("apply")


def test_a_new_change(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    before = project.snapshot(), kept(project)
    project.ok("new", "--change", "stream/more", "--title", "Add more")
    after = project.snapshot(), kept(project)
    assert after[1] != before[1]
    assert "undone: new stream/more" in project.ok("undo")
    assert (project.snapshot(), kept(project)) == before
    project.ok("redo")
    assert (project.snapshot(), kept(project)) == after
    # what was taken out by hand is still known as that
    git(project.checkout, "reset", "-q", "--keep", "HEAD~1")
    project.ok("new", "--change", "stream/another", "--title", "Add another")
    assert "The checkout has moved since the tool's last move." in project.run("undo").err
    project.ok("export")
    assert "- name: aten" not in (project.folder / "patches/series.yaml").read_text()


def test_two_exports_at_once(project: Project) -> None:
    project.ok("apply")
    project.ok("export")
    before = []
    for number in range(2):
        write(project.checkout, {"aten/Hooks.cpp": f"int hooks_{number};\n"})
        before.append((project.snapshot(), kept(project)))
        project.ok("export")
    after = project.snapshot(), kept(project)
    project.ok("undo", "--steps", "2")
    assert (project.snapshot(), kept(project)) == before[0]
    project.ok("redo", "--steps", "2")
    assert (project.snapshot(), kept(project)) == after


def test_an_export_of_a_series_edited_since_is_refused(project: Project) -> None:
    project.ok("apply")
    write(project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    project.ok("export")
    write(project.folder, {"aten_xpu/device/aten/Hooks.cpp": "int mine;\n"})
    before = project.snapshot(), kept(project)
    ended = project.run("undo")
    assert ended.code == 3
    assert "why: aten_xpu/device/aten/Hooks.cpp is not as the move left it" in ended.err
    assert (project.snapshot(), kept(project)) == before


def test_several_moves(newer: Project) -> None:
    newer.ok("apply", "--stage", "device")
    before = newer.snapshot()
    newer.ok("apply")
    newer.ok("rebase", "--onto", "newer")
    after = newer.snapshot()
    newer.ok("undo", "--steps", "2")
    assert newer.snapshot() == before
    newer.ok("redo", "--steps", "2")
    assert newer.snapshot() == after
    ended = newer.run("undo", "--steps", "9")
    assert ended.code == 2
    assert "the log has less than 9 to undo" in ended.err
    assert newer.snapshot() == after


def test_a_drop_is_undone_too(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    project.ok("apply", "--stage", "device", "--drop", "device/aten")
    assert project.log() == ["Add devices", "base"]
    project.ok("undo")
    assert project.log() == ["Add hooks", "Add devices", "base"]
    assert "is already at" in project.ok("apply", "--stage", "device")
    project.ok("redo")
    assert "is already at" in project.ok("apply", "--stage", "device")
    assert project.log() == ["Add devices", "base"]


def test_nothing_to_undo(project: Project) -> None:
    ended = project.run("undo")
    assert ended.code == 2
    assert "There is no operation to undo." in ended.err
    assert "There is no operation to redo." in project.run("redo").err
    assert "no operation has been recorded" in project.ok("history")


def test_work_since_is_refused(project: Project) -> None:
    project.ok("apply")
    drift(project, "aten/Hooks.cpp", "mine\n")
    before = project.snapshot()
    ended = project.run("undo")
    assert ended.code == 3
    assert "The checkout has moved since the tool's last move." in ended.err
    assert project.snapshot() == before
    # the way out that it names keeps the work
    git(project.checkout, "branch", "mine")
    git(project.checkout, "reset", "-q", "--keep", "HEAD~1")
    project.ok("undo")
    assert git(project.checkout, "show", "mine:aten/Hooks.cpp") == "mine\n"


def test_uncommitted_work_is_refused(project: Project) -> None:
    project.ok("apply")
    write(project.checkout, {"other.txt": "mine\n"})
    before = project.snapshot()
    assert project.run("undo").code == 3
    assert project.snapshot() == before


def test_a_branch_that_has_moved_is_refused(project: Project) -> None:
    project.ok("apply")
    git(project.checkout, "branch", "-q", "--force", "main", "HEAD")
    before = project.snapshot()
    ended = project.run("undo")
    assert ended.code == 3
    assert "The branch 'main' has moved since." in ended.err
    assert project.snapshot() == before


def test_the_log_keeps_what_a_move_left(project: Project) -> None:
    """Commits that no branch has any more are still there after a gc."""
    project.ok("apply")
    old = git(project.checkout, "rev-parse", "HEAD").strip()
    write(project.folder, {"aten_xpu/device/aten/Hooks.cpp": "int better_hooks;\n"})
    project.ok("apply")
    git(project.checkout, "reflog", "expire", "--expire=now", "HEAD", "xpu-stack")
    git(project.checkout, "gc", "-q", "--prune=now")
    assert git(project.checkout, "cat-file", "-t", old).strip() == "commit"
    project.ok("undo")
    assert git(project.checkout, "rev-parse", "HEAD").strip() == old


def test_a_log_that_git_has_let_expire(project: Project) -> None:
    project.ok("apply", "--drop", "device/aten")
    git(project.checkout, "reflog", "expire", "--expire=now", "refs/xpu-stack/moves")
    assert "is already at" in project.ok("apply")
    project.ok("undo")
    assert project.log() == ["base"]


def test_one_step_at_a_time_and_back(project: Project) -> None:
    states = []
    for words in (["device/runtime"], ["device"], ["stream"]):
        states.append(project.snapshot())
        project.ok("apply", "--stage", *words)
    states.append(project.snapshot())
    for before in states[-2::-1]:
        project.ok("undo")
        assert project.snapshot() == before
    for after in states[1:3]:
        project.ok("redo")
        assert project.snapshot() == after
    listed = json.loads(project.ok("history", "--json"))["moves"]
    assert [(one["verb"], one["about"], one["undone"]) for one in listed] == [
        ("apply", "stream", True),
        ("apply", "device", False),
        ("apply", "device/runtime", False),
    ]
    assert listed[0]["before"] == listed[1]["after"]
    assert listed[1]["after"]["commit"] == git(project.checkout, "rev-parse", "HEAD").strip()
    assert listed[0]["files"] == []
    assert listed[0]["time"].endswith("+00:00")
    told = project.ok("history")
    assert "redo STEPS=1" in told
    assert "undo STEPS=2" in told
    # what is done then cannot be redone into
    project.ok("apply", "--stage", "base")
    assert "There is no operation to redo." in project.run("redo").err
    project.ok("undo")
    assert project.snapshot() == states[2]


def _edits(project: Project) -> None:
    """Edits of each kind: of a payload file, a patched file, a file's mode, a new file."""
    edited = (project.checkout / "c10/CMakeLists.txt").read_text().replace("# xpu\n", "# mine\n")
    write(project.checkout, {"c10/CMakeLists.txt": edited, "c10/xpu/New.cpp": "int made;\n"})
    (project.checkout / "c10/xpu/CMakeLists.txt").chmod(0o755)
    git(project.checkout, "add", "--intent-to-add", "c10/xpu/New.cpp")


def _files(project: Project) -> dict[str, tuple[int, bytes]]:
    return {
        path.relative_to(project.checkout).as_posix(): (path.stat().st_mode, path.read_bytes())
        for path in sorted(project.checkout.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


@pytest.mark.parametrize("verb", ["export", "edit"])
def test_edits_are_given_back(project: Project, verb: str) -> None:
    project.ok("apply")
    project.ok("export")
    _edits(project)
    if verb == "export":  # to which no change would take a new file
        git(project.checkout, "rm", "-q", "--cached", "c10/xpu/New.cpp")
    before = _files(project), kept(project)
    words = ["edit", "--change", "device/runtime"] if verb == "edit" else ["export"]
    project.ok(*words)
    after = _files(project), kept(project), project.log()
    assert after[1] != before[1]
    project.ok("undo")
    assert (_files(project), kept(project)) == before
    if verb == "edit":  # git knows of it, so that it can be edited in again
        assert "A  c10/xpu/New.cpp" in git(project.checkout, "status", "--porcelain")
    project.ok("redo")
    assert (_files(project), kept(project), project.log()) == after
    project.ok("undo")
    project.ok(*words)
    assert (_files(project), kept(project), project.log()) == after


def test_an_edit_that_lands_otherwise_is_given_back(project: Project) -> None:
    """The change below writes other lines than the file has at the top."""
    project.ok("apply", "--stage", "device")
    project.ok("export")
    write(project.checkout, {"c10/xpu/Device.cpp": "int before;\nint device;\n"})
    before = _files(project), kept(project)
    project.ok("edit", "--change", "device/runtime")
    project.ok("undo")
    assert (_files(project), kept(project)) == before
    write(project.checkout, {"c10/xpu/Device.cpp": "int another;\n"})
    ended = project.run("redo")
    assert ended.code == 3
    assert "not committed" in ended.err
    assert (project.checkout / "c10/xpu/Device.cpp").read_text() == "int another;\n"
