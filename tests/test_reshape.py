"""The shape of the series follows the commits: changes split, joined, put in order, begun."""

from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from project import SERIES, Project, git, write
from test_export import changed, kept, settled
from xpu_stack.core.series.series_file import SeriesFile

STREAM = "c10_xpu/stream/c10/xpu/Stream.cpp"


@pytest.fixture
def applied(project: Project) -> Project:
    """The project with the series applied, its patches in export's own form."""
    project.ok("apply")
    project.ok("export")
    return project


@pytest.fixture
def released(applied: Project) -> Project:
    """With the checkout's base as the release that `make check` uses."""
    own = applied.folder / ".xpu/pytorch-v1.13.1"
    git(applied.folder, "clone", "-q", "--branch", "main", str(applied.checkout), str(own))
    git(own, "branch", "base")
    return applied


def series(project: Project) -> str:
    return (project.folder / "patches/series.yaml").read_text()


def commit(project: Project, message: str, files: dict[str, str]) -> None:
    write(project.checkout, files)
    git(project.checkout, "add", *files)
    git(project.checkout, "commit", "-qm", message)


def replay(project: Project, *commits: str) -> None:
    """Puts these commits on the base, as `git rebase -i` does."""
    git(project.checkout, "reset", "-q", "--hard", "main")
    for one in commits:
        git(project.checkout, "cherry-pick", one)


def commits(project: Project) -> list[str]:
    return git(project.checkout, "rev-list", "--reverse", "main..HEAD").split()


# -- export --------------------------------------------------------------------


def test_a_renamed_file(applied: Project) -> None:
    before = kept(applied)
    git(applied.checkout, "mv", "c10/xpu/Stream.cpp", "c10/xpu/Streams.cpp")
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit")
    applied.ok("export")
    assert changed(applied, before) == {STREAM, "c10_xpu/stream/c10/xpu/Streams.cpp"}
    assert series(applied) == SERIES
    settled(applied)


def test_a_file_of_an_earlier_change_that_is_taken_out(applied: Project) -> None:
    before = kept(applied)
    tip = git(applied.checkout, "rev-parse", "HEAD").strip()
    git(applied.checkout, "reset", "-q", "--hard", "HEAD~2")
    git(applied.checkout, "rm", "-q", "c10/xpu/CMakeLists.txt")
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit")
    git(applied.checkout, "cherry-pick", f"{tip}~2..{tip}")
    applied.ok("export")
    assert changed(applied, before) == {"c10_xpu/device/c10/xpu/CMakeLists.txt"}
    settled(applied)


def test_the_last_file_of_a_claim_that_is_taken_out(applied: Project) -> None:
    git(applied.checkout, "rm", "-q", "c10/xpu/Stream.cpp")
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit")
    applied.ok("export")
    assert series(applied) == SERIES.replace("        files: [c10_xpu/stream]\n", "")
    settled(applied)


def test_a_reordered_pair(applied: Project) -> None:
    before = kept(applied)
    runtime, aten, stream = commits(applied)
    replay(applied, aten, runtime, stream)
    applied.ok("export")
    assert changed(applied, before) == {"patches/series.yaml"}
    assert applied.log()[:3] == ["Add streams", "Add devices", "Add hooks"]
    assert_expected_inline(
        series(applied),
        """\
author: xpu-stack <xpu-stack@invalid>
stages:
  - name: device
    summary: devices
    changes:
      - name: aten
        files: [aten_xpu/device]
      - name: runtime
        files: [c10_xpu/device]
  - name: stream
    summary: streams
    changes:
      - name: stream
        files: [c10_xpu/stream]
""",
    )
    settled(applied)


def test_a_reordered_pair_below_changes_that_are_not_applied(applied: Project) -> None:
    applied.ok("apply", "--stage", "device")
    runtime, aten = commits(applied)
    replay(applied, aten, runtime)
    applied.ok("export")
    assert series(applied).index("aten\n") < series(applied).index("runtime\n")
    assert series(applied).index("runtime\n") < series(applied).index("- name: stream")
    applied.ok("apply")
    settled(applied)


def test_an_order_that_tears_a_stage_apart_is_refused(applied: Project) -> None:
    text = SERIES + "      - name: more\n"
    write(applied.folder, {"patches/series.yaml": text})
    write(applied.folder, {"patches/texts/stream/more.md": (message("Add more"))})
    applied.ok("apply")
    runtime, aten, stream, more = commits(applied)
    before = kept(applied)
    git(applied.checkout, "reset", "-q", "--hard", "main")
    for one in (runtime, stream, aten, more):
        git(applied.checkout, "cherry-pick", "--allow-empty", one)
    ended = applied.run("export")
    assert ended.code == 6
    assert "splits the stage 'device'" in ended.err
    assert changed(applied, before) == set()


def message(title: str) -> str:
    return (
        f"{title}\n\nMotivation\n----------\nOne.\n\nDesign\n------\nTwo.\n\n"
        "Additional Context\n------------------\nNone.\n"
    )


def test_a_split_commit(applied: Project) -> None:
    """One file of the last change goes to a change of its own, with a text of its own."""
    before = kept(applied)
    text = git(applied.checkout, "log", "-1", "--format=%B")
    git(applied.checkout, "reset", "-q", "--soft", "HEAD~1")
    git(applied.checkout, "restore", "--staged", "c10/xpu/Stream.cpp")
    git(applied.checkout, "commit", "-qm", text)
    commit(
        applied,
        "Add a queue\n\nIn order.\n\nXPU-Change: stream/queue",
        {"c10/xpu/Stream.cpp": "int q;\n"},
    )
    applied.ok("export")
    assert changed(applied, before) == {
        "patches/series.yaml",
        "patches/texts/stream/queue.md",
        STREAM,
    }
    assert series(applied) == SERIES.replace(
        "      - name: stream\n        files: [c10_xpu/stream]\n",
        "      - name: stream\n      - name: queue\n        files: [c10_xpu/stream]\n",
    )
    assert_expected_inline(
        (applied.folder / "patches/texts/stream/queue.md").read_text(),
        """\
Add a queue

Motivation
----------
In order.

Design
------
To be written: what it does, and how.

Additional Context
------------------
To be written: what else a reader must know; or: None.
""",
    )
    assert applied.log()[:2] == ["Add a queue", "Add streams"]
    settled(applied)


def test_a_new_change_between_others_and_of_a_file_below_a_claim(applied: Project) -> None:
    runtime, aten, stream = commits(applied)
    replay(applied, runtime)
    files = {"c10/xpu/More.cpp": "int more;\n", "aten/More.cpp": "int more;\n"}
    commit(applied, f"{message('Add more')}\nXPU-Change: device/more", files)
    for one in (aten, stream):
        git(applied.checkout, "cherry-pick", one)
    applied.ok("export")
    added = (
        "      - name: more\n"
        "        files: [aten_xpu/device/aten/More.cpp, c10_xpu/device/c10/xpu/More.cpp]\n"
    )
    assert series(applied) == SERIES.replace("      - name: aten\n", f"{added}      - name: aten\n")
    assert applied.log()[:4] == ["Add streams", "Add hooks", "Add more", "Add devices"]
    settled(applied)


def test_a_new_stage(applied: Project) -> None:
    commit(
        applied, f"{message('Add events')}\nXPU-Change: event/event", {"aten/Event.cpp": "int e;\n"}
    )
    applied.ok("export")
    assert series(applied) == (
        SERIES + "  - name: event\n    summary: to be written\n    changes:\n"
        "      - name: event\n        files: [aten_xpu/event]\n"
    )
    assert (applied.folder / "aten_xpu/event/aten/Event.cpp").read_text() == "int e;\n"
    settled(applied)


def test_two_changes_that_are_joined(applied: Project) -> None:
    before = kept(applied)
    runtime, aten, stream = commits(applied)
    replay(applied, runtime)
    git(applied.checkout, "cherry-pick", "--no-commit", aten)
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit")
    git(applied.checkout, "cherry-pick", stream)
    applied.ok("export")
    assert changed(applied, before) == {
        "patches/series.yaml",
        "patches/texts/device/aten.md",
        "patches/v1.13.1/device/aten.patch",
        "patches/v1.13.1/device/runtime.patch",
    }
    assert series(applied) == SERIES.replace(
        "        files: [c10_xpu/device]\n      - name: aten\n        files: [aten_xpu/device]\n",
        "        files: [c10_xpu/device, aten_xpu/device]\n",
    )
    assert applied.log()[:3] == ["Add streams", "Add devices", "base"]
    settled(applied)


def test_a_dropped_change_is_not_one_that_was_taken_out(applied: Project) -> None:
    applied.ok("apply", "--drop", "device/aten")
    before = kept(applied)
    write(applied.checkout, {"c10/xpu/Stream.cpp": "int streams;\n"})
    applied.ok("export")
    assert changed(applied, before) == {STREAM}


def in_order(project: Project, titles: list[str]) -> None:
    """The series has these changes, gives what is in the checkout, and is valid."""
    assert project.log() == [*reversed(titles), "base"]
    settled(project)
    assert f"{len(titles)} change(s) are in order" in project.ok("check", source=False)


def test_the_last_change_joined_to_the_one_below(released: Project) -> None:
    runtime, aten, stream = commits(released)
    tree = git(released.checkout, "rev-parse", "HEAD^{tree}")
    replay(released, runtime, aten)
    git(released.checkout, "cherry-pick", "--no-commit", stream)
    git(released.checkout, "commit", "-q", "--amend", "--no-edit")
    released.ok("export")
    assert git(released.checkout, "rev-parse", "HEAD^{tree}") == tree
    assert "name: stream" not in series(released)
    assert not (released.folder / "patches/texts/stream/stream.md").exists()
    in_order(released, ["Add devices", "Add hooks"])


def test_the_last_change_renamed(released: Project) -> None:
    text = git(released.checkout, "log", "-1", "--format=%B")
    text = text.replace("XPU-Change: stream/stream", "XPU-Change: stream/queue")
    git(released.checkout, "commit", "-q", "--amend", "-m", text)
    released.ok("export")
    assert series(released) == SERIES.replace("      - name: stream\n", "      - name: queue\n")
    in_order(released, ["Add devices", "Add hooks", "Add streams"])


def test_the_last_change_taken_out(released: Project) -> None:
    before = kept(released)
    git(released.checkout, "reset", "-q", "--hard", "HEAD~1")
    released.ok("export")
    assert "stream" not in "".join(name for name in kept(released))
    in_order(released, ["Add devices", "Add hooks"])
    released.ok("undo")
    assert kept(released) == before


def test_changes_that_are_not_applied_stay(applied: Project) -> None:
    applied.ok("apply", "--stage", "device")
    applied.ok("new", "--change", "device/more", "--after", "device/runtime", source=False)
    before = kept(applied)
    git(applied.checkout, "reset", "-q", "--hard", "HEAD~1")
    write(applied.checkout, {"c10/xpu/Device.cpp": "int devices;\n"})
    applied.ok("export")
    assert "name: more" in series(applied)
    assert "name: stream" in series(applied)
    assert "name: aten" not in series(applied)
    assert STREAM not in changed(applied, before)
    assert "patches/texts/device/more.md" not in changed(applied, before)


def test_two_commits_of_one_change_are_refused(applied: Project) -> None:
    before = kept(applied)
    commit(
        applied,
        git(applied.checkout, "log", "-1", "--format=%B"),
        {"c10/xpu/Two.cpp": "int two;\n"},
    )
    ended = applied.run("export")
    assert ended.code == 3
    assert "Two commits belong to the change stream/stream." in ended.err
    assert changed(applied, before) == set()


def test_a_message_that_could_not_be_read_again_is_refused(applied: Project) -> None:
    before = kept(applied)
    text = git(applied.checkout, "log", "-1", "--format=%B").replace("Design\n------\n", "")
    git(applied.checkout, "commit", "-q", "--amend", "-m", text)
    ended = applied.run("export")
    assert ended.code == 6
    assert "cannot be the text of stream/stream." in ended.err
    assert "needs the sections Motivation, Design, Additional Context" in ended.err
    assert changed(applied, before) == set()


def test_a_name_that_is_none_is_refused(applied: Project) -> None:
    commit(applied, "Add it\n\nXPU-Change: nonsense", {"c10/xpu/Two.cpp": "int two;\n"})
    ended = applied.run("export")
    assert ended.code == 6
    assert "'nonsense' is not a valid name for a change." in ended.err


# -- make new ------------------------------------------------------------------


def test_a_change_is_begun_filled_and_checked(released: Project) -> None:
    before = kept(released)
    released.ok("new", "--change", "device/more", "--after", "device/runtime", source=False)
    assert changed(released, before) == {"patches/series.yaml", "patches/texts/device/more.md"}
    assert series(released) == SERIES.replace(
        "      - name: aten\n", "      - name: more\n      - name: aten\n"
    )
    ended = released.run("check", source=False)
    assert ended.code == 6
    assert_expected_inline(
        ended.lines.split("\n...", 1)[-1].split("on the base ...\n")[-1],
        """\
patches/texts/device/more.md:1: device/more: its text is not written yet
patches/series.yaml:8: device/more is empty: amend its commit, make export
error: The series is not valid.
  why: patches/texts/device/more.md:1: device/more: its text is not written yet
  next: fix patches/texts/device/more.md, then make check""",
    )
    released.ok("apply", "--stage", "device/more")
    assert released.log()[0] == "To be written: a title, in the imperative"
    write(released.checkout, {"c10/xpu/More.cpp": "int more;\n"})
    git(released.checkout, "add", "c10/xpu/More.cpp")
    told = git(released.checkout, "log", "-1", "--format=%B").split("XPU-Change")[1]
    git(
        released.checkout,
        "commit",
        "-q",
        "--amend",
        "-m",
        f"{message('Add more')}\nXPU-Change{told}",
    )
    released.ok("export")
    released.ok("apply")
    assert released.log()[:4] == ["Add streams", "Add hooks", "Add more", "Add devices"]
    assert "4 change(s) are in order" in released.ok("check", source=False)


def test_a_stage_is_begun(released: Project) -> None:
    released.ok(
        "new", "--change", "event/event", "--title", "Add events", "--after", "device", source=False
    )
    assert series(released) == SERIES.replace(
        "  - name: stream\n    summary",
        "  - name: event\n    summary: to be written\n    changes:\n      - name: event\n"
        "  - name: stream\n    summary",
    )
    assert "the summary of 'event' is not written yet" in released.run("check", source=False).err
    released.ok("apply")
    assert released.log()[:3] == ["Add streams", "Add events", "Add hooks"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["nonsense"], "'nonsense' is not a valid name for a change."),
        (["Device/x"], "'Device/x' is not a valid name for a change."),
        (["device/aten"], "The change 'device/aten' already exists."),
        (["device/x", "--after", "nothing"], "There is no stage 'nothing'."),
        (["device/x", "--after", "device/nothing"], "There is no change 'device/nothing'."),
        (["device/x", "--after", "stream"], "A change of 'device' cannot come after 'stream'."),
        (
            ["event/x", "--after", "device/runtime"],
            "A new stage cannot come after 'device/runtime'.",
        ),
        (["event/x", "--title", "x" * 73], "The title is too long or empty."),
    ],
)
def test_what_cannot_be_begun(project: Project, words: list[str], what: str) -> None:
    before = kept(project)
    ended = project.run("new", "--change", *words, source=False)
    assert ended.code == 2
    assert what in ended.err
    assert changed(project, before) == set()


# -- the series file -----------------------------------------------------------

COMMENTED = """\
# The head.
author: a <a@b>
stages:
# of devices
- name: device   # the first
  summary: >-
    devices
    of all kinds
  changes:
  # the runtime
  - name: runtime
    files:
    - c10_xpu/device
    # the last of it

  # hooks
  - name: aten
    files: [
      aten_xpu/device,
    ]
# the end
"""


def read(tmp_path: Path, text: str) -> SeriesFile:
    path = tmp_path / "series.yaml"
    path.write_text(text)
    return SeriesFile.read(path)


@pytest.mark.parametrize("text", [SERIES, COMMENTED])
def test_what_is_not_edited_stays(tmp_path: Path, text: str) -> None:
    file = read(tmp_path, text)
    file.arrange(file.changes)
    assert file.text == text


def test_comments_go_with_what_they_stand_above(tmp_path: Path) -> None:
    file = read(tmp_path, COMMENTED)
    file.arrange(["device/aten", "device/new", "device/runtime"])
    file.settle(
        {
            "c10_xpu/device/x": "device/runtime",
            "aten_xpu/device/y": "device/aten",
            "aten_xpu/device/z": "device/new",
        }
    )
    assert_expected_inline(
        file.text,
        """\
# The head.
author: a <a@b>
stages:
# of devices
- name: device   # the first
  summary: >-
    devices
    of all kinds
  changes:
  # hooks
  - name: aten
    files: [
      aten_xpu/device,
    ]
# the end
  - name: new
    files: [aten_xpu/device/z]
  # the runtime
  - name: runtime
    files:
    - c10_xpu/device
    # the last of it

""",
    )


def test_comments_of_a_list_of_files_stay(tmp_path: Path) -> None:
    text = COMMENTED.replace("- c10_xpu/device", "# these\n    - c10_xpu/device # all")
    file = read(tmp_path, text)
    file.settle({"c10_xpu/other": "device/runtime", "aten_xpu/device/y": "device/aten"})
    assert file.text == text.replace("c10_xpu/device #", "c10_xpu/other #")


def test_a_change_that_begins_with_its_files(tmp_path: Path) -> None:
    text = "stages:\n- name: a\n  summary: b\n  changes:\n  - files: [x/a/d]  # all\n    name: c\n"
    file = read(tmp_path, text)
    file.put("a/c", "files", {})
    assert file.text == text.replace("files: [x/a/d]  # all\n    ", "")


def test_a_change_in_braces(tmp_path: Path) -> None:
    text = "stages:\n- name: a\n  summary: b\n  changes:\n  - {name: c, files: [x/a/d]} # c\n"
    file = read(tmp_path, text)
    file.rename("a/c", "b/d")
    file.arrange(["b/d"])
    file.put("b/d", "author", "A: <a@b>")
    file.settle({"x/b/d, e": "b/d"})
    assert file.text == text.replace("name: a", "name: b").replace(
        "{name: c, files: [x/a/d]}", '{name: d, files: [x/b], author: "A: <a@b>"}'
    )
    file.put("b/d", "author", "")
    file.put("b/d", "files", {})
    assert file.text.endswith("  - {name: d} # c\n")


def test_a_list_of_files_at_the_depth_of_its_key(tmp_path: Path) -> None:
    file = read(tmp_path, COMMENTED)
    file.settle({"c10_xpu/other": "device/runtime", "aten_xpu/device/y": "device/aten"})
    assert file.text == COMMENTED.replace("- c10_xpu/device", "- c10_xpu/other")
