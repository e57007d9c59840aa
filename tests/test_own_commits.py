"""A person's own commits above the stack are carried along."""

from pathlib import Path

import pytest
from project import CMAKE, Project, drift, git, write
from test_export import changed, kept
from workspace import workspace
from xpu_stack.core.move import stack


@pytest.fixture
def mine(project: Project) -> Project:
    """The series applied, and two commits of the person's own above it."""
    project.ok("apply")
    project.ok("export")
    write(project.checkout, {"mine.txt": "mine\n"})
    git(project.checkout, "add", "-A")
    who = ("-c", "user.name=Another", "--author=Another <another@invalid>")
    git(project.checkout, *who[:2], "commit", "-qm", "Mine\n\nIn two\nlines.", who[2])
    drift(project, "c10/CMakeLists.txt", read(project, "c10/CMakeLists.txt") + "# mine\n")
    return project


def read(project: Project, name: str) -> str:
    return (project.checkout / name).read_text()


OWN = ["Drift of c10/CMakeLists.txt", "Mine"]
SERIES = ["Add streams", "Add hooks", "Add devices"]


def test_down_and_up_again(mine: Project) -> None:
    before = mine.snapshot()
    assert "is already at" in mine.ok("apply")
    assert mine.snapshot() == before
    out = mine.ok("apply", "--stage", "device")
    assert "2 change(s)" in out
    assert "and 2 commit(s) of your own above" in out
    assert mine.log() == [*OWN, *SERIES[1:], "base"]
    assert git(mine.checkout, "status", "--porcelain") == ""
    shown = git(
        mine.checkout, "log", "-1", "--skip=1", "--format=%an <%ae> %ad %cn%n%B", "--date=raw"
    )
    assert shown.startswith(
        "Another <another@invalid> 1600000000 +0000 A Person\nMine\n\nIn two\nlines.\n"
    )
    mine.ok("apply")
    assert mine.snapshot() == before


def test_onto_another_base_and_back(mine: Project) -> None:
    before = mine.snapshot()
    git(mine.checkout, "switch", "-q", "-c", "newer", "main")
    drift(mine, "other.txt", "newer\n")
    git(mine.checkout, "switch", "-q", "xpu-stack")
    mine.ok("rebase", "--onto", "newer")
    assert mine.log() == [*OWN, *SERIES, "Drift of other.txt", "base"]
    assert read(mine, "c10/CMakeLists.txt").endswith("# mine\n")
    mine.ok("undo")
    assert git(mine.checkout, "rev-parse", "HEAD").strip() == str(before["commit"]).strip()


def test_an_edit_of_a_change_is_exported_below_them(mine: Project) -> None:
    before = kept(mine)
    write(mine.checkout, {"aten/Hooks.cpp": "int edited;\n"})
    out = mine.ok("export")
    assert "'Mine', your own above the stack" in out
    assert changed(mine, before) == {"aten_xpu/device/aten/Hooks.cpp"}
    assert mine.log() == [*OWN, *SERIES, "base"]
    assert git(mine.checkout, "status", "--porcelain") == ""
    assert "is already at" in mine.ok("apply")


def test_an_edit_of_what_they_touch_is_theirs(mine: Project) -> None:
    before = kept(mine)
    edited = read(mine, "c10/CMakeLists.txt") + "# more\n"
    write(mine.checkout, {"c10/CMakeLists.txt": edited, "aten/Hooks.cpp": "int edited;\n"})
    assert "not exported: the edit of c10/CMakeLists.txt" in mine.ok("export")
    assert changed(mine, before) == {"aten_xpu/device/aten/Hooks.cpp"}
    assert git(mine.checkout, "status", "--porcelain") == " M c10/CMakeLists.txt\n"
    assert read(mine, "c10/CMakeLists.txt") == edited


def test_an_edited_series_comes_below_them(mine: Project) -> None:
    write(mine.folder, {"aten_xpu/device/aten/Hooks.cpp": "int edited;\n"})
    mine.ok("apply")
    assert mine.log() == [*OWN, *SERIES, "base"]
    assert read(mine, "aten/Hooks.cpp") == "int edited;\n"
    assert read(mine, "mine.txt") == "mine\n"


def test_one_that_does_not_fit_leaves_the_checkout_as_it_was(mine: Project) -> None:
    """It needs a file that the lower stage has not."""
    drift(mine, "c10/xpu/Stream.cpp", "int mine;\n")
    before = mine.snapshot()
    ended = mine.run("apply", "--stage", "device")
    assert ended.code == 5
    assert "'Drift of c10/xpu/Stream.cpp' cannot be put on the new stack." in ended.err
    assert "why: in conflict: c10/xpu/Stream.cpp" in ended.err
    assert mine.snapshot() == before


def test_what_the_new_base_has_is_left_out(mine: Project) -> None:
    git(mine.checkout, "switch", "-q", "-c", "newer", "main")
    drift(mine, "c10/CMakeLists.txt", CMAKE + "# mine\n")
    git(mine.checkout, "switch", "-q", "xpu-stack")
    out = mine.ok("rebase", "--onto", "newer")
    assert "'Drift of c10/CMakeLists.txt' alters nothing there, and is left out" in out
    assert mine.log() == ["Mine", *SERIES, "Drift of c10/CMakeLists.txt", "base"]


def test_without_the_stack_they_would_be_of_the_base(mine: Project) -> None:
    before = mine.snapshot()
    ended = mine.run("apply", "--stage", "base")
    assert ended.code == 5
    assert "it would become a part of the base" in ended.err
    assert mine.snapshot() == before


def test_one_that_is_to_be_squashed_is_a_changes(mine: Project) -> None:
    git(mine.checkout, "commit", "-q", "--allow-empty", "-m", "fixup! Add hooks")
    for verb in ("apply", "export"):
        ended = mine.run(verb)
        assert ended.code == 3
        assert "of no change" in ended.err


def test_they_are_shown_and_not_sent(mine: Project, tmp_path: Path) -> None:
    assert "your own, kept above the stack: " in mine.ok("status")
    mine.ok("review", "--out", str(tmp_path / "review"))
    assert "mine.txt" not in "".join(
        page.read_text() for page in (tmp_path / "review").rglob("*.md")
    )
    sender = {"GIT_COMMITTER_NAME": "Sam", "GIT_COMMITTER_EMAIL": "sam@example.com"}
    mine.ok("mail", "--out", str(tmp_path / "mail"), env=sender)
    assert len(list((tmp_path / "mail").iterdir())) == 4


@pytest.mark.parametrize("then", [[], ["apply"]])
def test_those_below_the_stack_are_not_left_behind(project: Project, then: list[str]) -> None:
    git(project.checkout, "switch", "-q", "-c", "newer")
    drift(project, "other.txt", "newer\n")
    git(project.checkout, "switch", "-q", "main")
    project.ok("apply")
    project.ok("apply", "--stage", "base")
    drift(project, "mine.txt", "mine\n")
    for verb in then:
        project.ok(verb)
    before = project.snapshot()
    ended = project.run("rebase", "--onto", "newer")
    assert ended.code == 3, ended.err
    assert "1 commit(s) of your own below the stack would be on no branch." in ended.err
    assert "'Drift of mine.txt'" in ended.err
    assert project.snapshot() == before
    below = "xpu-stack~3" if then else "xpu-stack"
    git(project.checkout, "branch", "mine", below)
    project.ok("rebase", "--onto", "newer")
    assert git(project.checkout, "log", "-1", "--format=%s", "mine").strip() == "Drift of mine.txt"
    # and back from there: the base has moved, and nothing of a person's is on it
    project.ok("rebase", "--onto", "main")
    project.ok("rebase", "--onto", "newer")


def test_any_number_of_them(mine: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        git(mine.checkout, "commit", "-q", "--allow-empty", "-m", f"Mine {number}")
    for deepest in (4, 10, 11, 12):  # with the stack below, or partly, in what is read at first
        monkeypatch.setattr(stack, "_DEEPEST", deepest)
        with workspace(mine) as work:
            there = stack.read(work.repository)
        assert len(there.applied) == 3
        assert len(there.above) == 10


def test_the_encoding_of_a_message_is_kept(mine: Project) -> None:
    write(mine.checkout, {"latin.txt": "latin\n"})
    git(mine.checkout, "add", "-A")
    (mine.folder / "message").write_bytes("Caf\xe9\n".encode("latin-1"))
    words = ("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-F", "PATH")
    git(mine.checkout, *words[:-1], str(mine.folder / "message"))
    mine.ok("apply", "--stage", "device")
    head = git(mine.checkout, "log", "-1", "--format=%e %s", "--encoding=UTF-8")
    assert head == "ISO-8859-1 Caf\xe9\n"
    with workspace(mine) as work:
        id_ = work.repository.commit_id("HEAD")
        assert id_ is not None
        assert work.repository.commit(id_).message == "Caf\xe9\n"
