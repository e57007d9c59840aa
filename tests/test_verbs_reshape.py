"""Drop, undrop, fold, split, move, rename and edit: series, checkout and log together."""

import contextlib
import difflib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from project import BASE, CMAKE, CONTEXT, SERIES, TEXT, Project, drift, git, write
from test_export import changed, kept
from test_faults import all_of, settled, start, until
from workspace import workspace
from xpu_stack.core.bases import providers
from xpu_stack.core.edit import export, reshape
from xpu_stack.core.lay import applying
from xpu_stack.core.lay.builder import Builder
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Request
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.system import transaction
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.layout import Layout
from xpu_stack.show import checking

HOOKS = "aten_xpu/device/aten/Hooks.cpp"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the series applied, its patches in export's own form, its release at hand."""
    project = Project.make(tmp_path_factory.mktemp("template"))
    own = project.folder / ".xpu/pytorch-v1.13.1"
    git(project.folder, "clone", "-q", str(project.checkout), str(own))
    git(own, "branch", "base")
    with workspace(project) as work:
        applying.apply(work, "stream")
    with workspace(project) as work:
        export.export(work, work.base.name)
    return project.folder.parent


@pytest.fixture
def applied(template: Path, tmp_path: Path) -> Project:
    copy = shutil.copytree(template, tmp_path / "copy", symlinks=True)
    return Project(copy / "project", copy / "pytorch")


def do(project: Project, verb: str, change: str, **options: str) -> None:
    with workspace(project) as work:
        reshape.run(work, Request(verb, {"CHANGE": change, **options}))


def undone(project: Project, steps: int = 1) -> None:
    with workspace(project) as work:
        reshape.undo_or_redo(work, "undo", steps)


def redone(project: Project, steps: int = 1) -> None:
    with workspace(project) as work:
        reshape.undo_or_redo(work, "redo", steps)


def go_on(project: Project) -> None:
    with workspace(project) as work:
        goal, _ = conflicts.resolve(work)
        assert goal.request is not None
        reshape.run(work, goal.request)


def in_order(project: Project, *ids: str, base: str = "main") -> None:
    """The series has these changes, is valid, and is what the checkout has."""
    with workspace(project) as work:
        assert [one.id for one in work.series.all_changes()] == list(ids)
        release = work.repository.commit_id(base)
        assert release is not None
        assert checking.check(work, release) == len(ids)
        there = stack.read(work.repository)
        assert not there.foreign
        assert [one.commit.id for one in there.applied] == applying.given(work, there)
    assert git(project.checkout, "status", "--porcelain") == ""


def series(project: Project) -> str:
    return (project.folder / "patches/series.yaml").read_text()


def refused(project: Project, verb: str, change: str, **options: str) -> ToolError:
    before = all_of(project)
    with pytest.raises(ToolError) as raised:
        do(project, verb, change, **options)
    assert all_of(project) == before
    return raised.value


# -- drop and undrop -----------------------------------------------------------------


def test_a_drop_and_its_way_back(applied: Project) -> None:
    before = all_of(applied)
    do(applied, "drop", "device/aten")
    assert series(applied) == SERIES.replace(
        "      - name: aten\n        files: [aten_xpu/device]\n", ""
    )
    assert not [name for name in kept(applied) if "aten" in name]
    assert applied.log() == ["Add streams", "Add devices", "base"]
    in_order(applied, "device/runtime", "stream/stream")
    after = all_of(applied)
    undone(applied)
    assert all_of(applied) == before
    redone(applied)
    assert all_of(applied) == after
    with workspace(applied) as work:
        reshape.undrop(work, "device/aten")
    assert all_of(applied) == before, "the same series gives the same commits"


def entwined(project: Project) -> None:
    """Changes that edit what others bring, and one that only another base has."""
    project.patch("device/aten", {"aten/Context.h": ("int member_5;", "int member_5; int xpu;")})
    text = SERIES.replace("      - name: aten\n", "      - name: aten # hooks\n").replace(
        "files: [c10_xpu/stream]\n",
        "files: [c10_xpu/stream]\n      - name: only\n        files: ['aten_xpu/stream']\n"
        "      # the last\n      - name: late\n",
    )
    context, cmake = CONTEXT.replace("member_9;", "member_nine;"), CMAKE.replace("30", "thirty")
    patch = lines("aten/Context.h", CONTEXT.replace("_5;", "_5; int xpu;"), context)
    patch += lines("c10/CMakeLists.txt", CMAKE.replace("20\n", "20\n# xpu\n"), cmake)
    like = "name: fork\nlike: v1.13.1\ngit: {url: nowhere, commit: " + "a" * 40 + "}\n"
    write(
        project.folder,
        {
            "patches/series.yaml": text,
            "patches/texts/stream/only.md": TEXT.format(title="Add only"),
            "patches/texts/stream/late.md": TEXT.format(title="Add late"),
            "patches/v1.13.1/stream/late.patch": patch,
            "patches/fork/base.yaml": like,
            "patches/fork/payload/aten_xpu/stream/aten/Only.cpp": "int only;\n",
        },
    )


def test_status_makes_no_change_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the series goes on with changes of another base."""
    entwined(project)
    text = (project.folder / "patches/series.yaml").read_text()
    last = "      # the last\n      - name: late\n"
    only = "      - name: only\n        files: ['aten_xpu/stream']\n"
    text = text.replace(only, "").replace(last, last + only)
    write(project.folder, {"patches/series.yaml": text})
    with workspace(project) as work:
        applying.apply(work, "stream")
    monkeypatch.setattr(Builder, "attempt", lambda *_: pytest.fail("made again"))
    with workspace(project) as work:
        assert not applying.outdated(work, stack.read(work.repository))


def lines(name: str, old: str, new: str) -> str:
    """A patch without ids, as written by hand."""
    before, after = old.splitlines(True), new.splitlines(True)
    told = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=3)
    return f"diff --git a/{name} b/{name}\n" + "".join(told)


def test_a_drop_and_an_undrop_give_the_series_back(project: Project) -> None:
    """All that the drop took from other changes, the order, the form of each file."""
    entwined(project)
    own = project.folder / ".xpu/pytorch-v1.13.1"
    git(project.folder, "clone", "-q", str(project.checkout), str(own))
    git(own, "branch", "base")
    with workspace(project) as work:
        applying.apply(work, "stream")
        ids = list(work.series.by_id)
    before = all_of(project)
    for one in ids:
        try:
            do(project, "drop", one)
        except ToolError as error:
            # stream/only, which this base lacks, is not counted
            what = "Change 2 of 3, stream/stream, does not fit this drop."
            assert (one, error.what) == ("device/runtime", what)  # noqa: PT017
            (conflict,) = project.folder.glob(".xpu/work/pytorch-*/conflict")
            write(conflict, {"c10/xpu/Device.cpp": "int streams;\n"})
            git(conflict, "add", "c10/xpu/Device.cpp")
            go_on(project)
        assert changed(project, before["series"])  # type: ignore[arg-type]
        with workspace(project) as work:
            reshape.undrop(work, one)
        assert changed(project, before["series"]) == set(), one  # type: ignore[arg-type]
        assert all_of(project) == before, one


def test_an_undrop_keeps_what_was_done_since(project: Project) -> None:
    entwined(project)
    with workspace(project) as work:
        applying.apply(work, "stream")
    do(project, "drop", "device/aten")
    assert "int xpu" not in kept(project)["patches/v1.13.1/stream/late.patch"].decode()
    text = (project.checkout / "aten/Context.h").read_text()
    write(project.checkout, {"aten/Context.h": text.replace("member_15;", "member_15; int late;")})
    do(project, "edit", "stream/late")
    do(project, "rename", "stream/only", TO="stream/other")
    with workspace(project) as work:
        reshape.undrop(work, "device/aten")
    patch = kept(project)["patches/v1.13.1/stream/late.patch"].decode()
    assert "-int member_5; int xpu;\n+int member_5;\n" in patch
    assert "int late;" in patch
    assert (project.checkout / "aten/Context.h").read_text() == text.replace(
        "member_15;", "member_15; int late;"
    )
    with workspace(project) as work:
        assert list(work.series.by_id) == [
            "device/runtime",
            "device/aten",
            "stream/stream",
            "stream/other",
            "stream/late",
        ]
    assert "      - name: aten # hooks\n" in series(project)


def test_a_stage_goes_with_its_last_change_and_comes_back_with_its_lines(applied: Project) -> None:
    text = SERIES.replace(
        "  - name: stream\n    summary", "  # of queues\n  - name: stream\n    summary"
    )
    write(applied.folder, {"patches/series.yaml": text})
    before = all_of(applied)
    do(applied, "drop", "stream/stream")
    assert "stream" not in series(applied)
    in_order(applied, "device/runtime", "device/aten")
    with workspace(applied) as work:
        reshape.undrop(work, "stream/stream")
    assert all_of(applied) == before


def test_what_the_checkout_skips_is_undropped_in_it_only(applied: Project) -> None:
    before = kept(applied)
    with workspace(applied) as work:
        applying.apply(work, "stream", frozenset({"device/aten"}))
    assert applied.log() == ["Add streams", "Add devices", "base"]
    do(applied, "rename", "device/aten", TO="device/hooks")
    with workspace(applied) as work:
        assert [one.trailers.change for one in stack.read(work.repository).applied] == [
            "device/runtime",
            "stream/stream",
        ]
        reshape.undrop(work, "device/hooks")
    assert applied.log() == ["Add streams", "Add hooks", "Add devices", "base"]
    in_order(applied, "device/runtime", "device/hooks", "stream/stream")
    undone(applied, 2)
    assert kept(applied) == before


def test_a_change_that_was_never_dropped_is_not_brought_back(applied: Project) -> None:
    assert "'device/more' was never dropped here." in refused(applied, "undrop", "device/more").what
    assert "'device/aten' was never dropped here." in refused(applied, "undrop", "device/aten").what


def test_a_change_that_needs_the_dropped_one_is_a_conflict(applied: Project) -> None:
    before = all_of(applied)
    ended = applied.run("drop", "--change", "device/runtime")
    assert ended.code == 5
    assert "error: Change 2 of 2, stream/stream, does not fit this drop." in ended.err
    assert "c10/xpu/Device.cpp: this drop has deleted it" in ended.err
    assert all_of(applied) == before
    (conflict,) = applied.folder.glob(".xpu/work/pytorch-*/conflict")
    write(conflict, {"c10/xpu/Device.cpp": "int streams;\n"})
    git(conflict, "add", "c10/xpu/Device.cpp")
    assert "is now at" in applied.ok("continue")
    in_order(applied, "device/aten", "stream/stream")
    assert "c10_xpu/stream/c10/xpu/Device.cpp" in kept(applied)
    assert not (applied.folder / "patches/v1.13.1/resolutions").exists()
    assert not (applied.checkout / ".git/xpu-stack/resolutions").exists()
    undone(applied)
    assert all_of(applied) == before


def test_an_aborted_drop(applied: Project) -> None:
    before = all_of(applied)
    with pytest.raises(ToolError, match="does not fit this drop"):
        do(applied, "drop", "device/runtime")
    with pytest.raises(ToolError, match="waits to be resolved"):
        do(applied, "drop", "stream/stream")
    with workspace(applied) as work:
        conflicts.abort(work.repository)
    assert all_of(applied) == before


# -- fold and split ------------------------------------------------------------------


def test_a_fold_and_a_split_back(applied: Project) -> None:
    before = all_of(applied)
    write(
        applied.folder,
        {
            "patches/texts/device/aten.md": TEXT.format(title="Add hooks").replace(
                "None.", "As CUDA does."
            )
        },
    )
    do(applied, "fold", "device/aten")
    in_order(applied, "device/runtime", "stream/stream")
    assert_expected_inline(
        (applied.folder / "patches/texts/device/runtime.md").read_text(),
        """\
Add devices

Motivation
----------
Because of Add devices.

Because of Add hooks.

Design
------
As it is.

Additional Context
------------------
As CUDA does.
""",
    )
    do(
        applied,
        "split",
        "device/runtime",
        FILES="aten aten_xpu/device/aten/Hooks.cpp",
        NAME="device/aten",
        TITLE="Add hooks",
    )
    in_order(applied, "device/runtime", "device/aten", "stream/stream")
    assert applied.log() == ["Add streams", "Add hooks", "Add devices", "base"]
    differing = changed(applied, before["series"])  # type: ignore[arg-type]
    assert differing == {"patches/texts/device/runtime.md", "patches/texts/device/aten.md"}
    assert series(applied) == SERIES


def test_a_fold_into_a_change_above(applied: Project) -> None:
    do(applied, "fold", "device/aten", INTO="stream/stream")
    in_order(applied, "device/runtime", "stream/stream")
    assert "aten_xpu/stream/aten/Hooks.cpp" in kept(applied)
    assert "XPU-Change: stream/stream" in git(
        applied.checkout, "log", "-1", "--format=%B", "--", "aten/Hooks.cpp"
    )


def test_a_split_below(applied: Project) -> None:
    do(
        applied,
        "split",
        "device/runtime",
        FILES="c10/xpu/*.cpp",
        NAME="files/files",
        TITLE="Add: files",
        BEFORE="1",
    )
    in_order(applied, "files/files", "device/runtime", "device/aten", "stream/stream")
    assert applied.log()[-2:] == ["Add: files", "base"]
    assert 'summary: "Add: files"' in series(applied)
    assert (applied.folder / "c10_xpu/files/c10/xpu/Device.cpp").exists()


REFUSED = [
    ("drop", "device/none", {}, "There is no change 'device/none'."),
    ("fold", "device/runtime", {}, "There is no change below device/runtime."),
    ("fold", "device/aten", {"INTO": "device/aten"}, "device/aten cannot be folded into itself."),
    ("split", "device/aten", {"NAME": "a", "TITLE": "A"}, "'a' is not a valid name for a change."),
    (
        "split",
        "device/aten",
        {"NAME": "stream/stream", "TITLE": "A"},
        "The change 'stream/stream' already exists.",
    ),
    ("split", "device/aten", {"NAME": "device/a", "TITLE": ""}, "The title is too long or empty."),
    (
        "split",
        "device/aten",
        {"NAME": "device/a", "TITLE": "A", "FILES": "c10/x"},
        "device/aten has no file 'c10/x'.",
    ),
    (
        "split",
        "device/aten",
        {"NAME": "device/a", "TITLE": "A", "FILES": "aten"},
        "FILES= names all files of device/aten.",
    ),
    (
        "split",
        "device/runtime",
        {"NAME": "a/a", "TITLE": "A", "FILES": "c10/xpu"},
        "This would split the stage 'device'.",
    ),
    ("rename", "device/runtime", {"TO": "stream/a"}, "This would split the stage 'stream'."),
    ("rename", "device/runtime", {"TO": "device/aten"}, "The change 'device/aten' already exists."),
    ("move", "device/aten", {"AFTER": "none"}, "There is no change 'none'."),
    (
        "move",
        "device/aten",
        {"AFTER": "device/runtime"},
        "Nothing to do: the series is already in that state.",
    ),
    ("edit", "device/aten", {}, "There are no edits to put into device/aten."),
    ("edit", "device/none", {}, "The change 'device/none' is not applied."),
]


def test_what_cannot_be_done(applied: Project) -> None:
    before = all_of(applied)
    for verb, change, options, what in REFUSED:
        with pytest.raises(ToolError) as raised:
            do(applied, verb, change, **options)
        assert raised.value.what == what
    assert all_of(applied) == before


# -- move and rename -----------------------------------------------------------------


def test_a_move_within_the_stage_and_to_the_front(applied: Project) -> None:
    do(applied, "move", "device/runtime", AFTER="device")
    in_order(applied, "device/aten", "device/runtime", "stream/stream")
    do(applied, "move", "device/runtime", AFTER="base")
    in_order(applied, "device/runtime", "device/aten", "stream/stream")
    assert series(applied) == SERIES


def test_a_move_to_another_stage_and_of_a_whole_stage(applied: Project) -> None:
    do(applied, "move", "device/aten", AFTER="stream/stream")
    in_order(applied, "device/runtime", "stream/stream", "stream/aten")
    assert "aten_xpu/stream/aten/Hooks.cpp" in kept(applied)
    do(applied, "rename", "stream/aten", TO="hooks/aten")
    do(applied, "move", "hooks/aten", AFTER="base")
    in_order(applied, "hooks/aten", "device/runtime", "stream/stream")
    assert series(applied).index("name: hooks") < series(applied).index("name: device")


def test_a_rename_takes_what_is_kept_by_name_with_it(applied: Project) -> None:
    resolution = "patches/v1.13.1/resolutions/0123"
    request = "branch: main\nchanges:\n  device/aten:\n    pull_request: x\n  device/aten2: {}\n"
    write(
        applied.folder,
        {
            f"{resolution}/resolution.yaml": 'change: "device/aten"\nfile: "aten/Context.h"\n',
            f"{resolution}/preimage": "x\n",
            "patches/v1.13.1/submitted.yaml": request,
        },
    )
    before = kept(applied)
    do(applied, "rename", "device/aten", TO="device/hooks")
    assert changed(applied, before) == {
        "patches/series.yaml",
        "patches/texts/device/aten.md",
        "patches/texts/device/hooks.md",
        "patches/v1.13.1/device/aten.patch",
        "patches/v1.13.1/device/hooks.patch",
        "patches/v1.13.1/submitted.yaml",
        f"{resolution}/resolution.yaml",
    }
    assert series(applied) == SERIES.replace("name: aten", "name: hooks")
    told = (applied.folder / "patches/v1.13.1/submitted.yaml").read_text()
    assert told == request.replace("device/aten:", "device/hooks:")
    in_order(applied, "device/runtime", "device/hooks", "stream/stream")
    do(applied, "drop", "device/hooks")
    assert not (applied.folder / resolution).exists()
    with workspace(applied) as work:
        reshape.undrop(work, "device/hooks")
    assert (applied.folder / resolution / "preimage").exists()
    undone(applied, 3)
    assert kept(applied) == before


def test_the_only_change_of_a_stage_takes_its_lines_to_the_new_name(applied: Project) -> None:
    do(applied, "rename", "stream/stream", TO="queue/queue")
    assert series(applied) == SERIES.replace("name: stream", "name: queue").replace(
        "c10_xpu/stream", "c10_xpu/queue"
    )
    in_order(applied, "device/runtime", "device/aten", "queue/queue")


# -- edit ----------------------------------------------------------------------------


def test_an_edit_of_a_change_in_the_middle(applied: Project) -> None:
    """The file is edited above, too: an export would put the edit there."""
    before = kept(applied)
    write(
        applied.checkout,
        {
            "c10/xpu/Device.cpp": "int head;\nint device;\nint streams;\n",
            "c10/xpu/New.cpp": "int new;\n",
        },
    )
    git(applied.checkout, "add", "c10/xpu/New.cpp")
    edited = applied.snapshot()
    write(applied.checkout, {"loose.txt": "not tracked\n"})
    do(applied, "edit", "device/runtime")
    assert (applied.checkout / "loose.txt").exists()
    (applied.checkout / "loose.txt").unlink()
    assert changed(applied, before) == {
        "c10_xpu/device/c10/xpu/Device.cpp",
        "c10_xpu/device/c10/xpu/New.cpp",
        "patches/v1.13.1/stream/stream.patch",
    }
    in_order(applied, "device/runtime", "device/aten", "stream/stream")
    after = all_of(applied)
    undone(applied)
    assert (applied.snapshot(), kept(applied)) == (edited, before)
    redone(applied)
    assert all_of(applied) == after


def test_an_edit_that_does_not_fit_there(applied: Project) -> None:
    write(applied.checkout, {"c10/xpu/Device.cpp": "int device;\nint more_streams;\n"})
    error = refused(applied, "edit", "device/runtime")
    assert error.what == "The edits do not fit device/runtime."
    assert error.why == "in conflict: c10/xpu/Device.cpp; changed above it by stream/stream"
    assert error.next.startswith("make edit CHANGE=stream/stream")
    do(applied, "edit", "stream/stream")
    in_order(applied, "device/runtime", "device/aten", "stream/stream")


def test_an_edit_below_what_is_not_applied(applied: Project) -> None:
    """The change above, which the checkout does not have, is in conflict with it."""
    with workspace(applied) as work:
        applying.apply(work, "device")
    write(applied.checkout, {"c10/xpu/Device.cpp": "int devices;\n"})
    before = all_of(applied)
    with pytest.raises(ToolError, match="stream/stream, does not fit this edit"):
        do(applied, "edit", "device/runtime")
    assert all_of(applied) == before
    (conflict,) = applied.folder.glob(".xpu/work/pytorch-*/conflict")
    write(conflict, {"c10/xpu/Device.cpp": "int devices;\nint streams;\n"})
    git(conflict, "add", "c10/xpu/Device.cpp")
    go_on(applied)
    assert applied.log() == ["Add hooks", "Add devices", "base"]
    in_order(applied, "device/runtime", "device/aten", "stream/stream")
    with workspace(applied) as work:
        applying.apply(work, "stream")
    assert (applied.checkout / "c10/xpu/Device.cpp").read_text() == "int devices;\nint streams;\n"


def test_a_commit_changed_by_hand_is_exported_first(applied: Project) -> None:
    write(applied.checkout, {"c10/xpu/Stream.cpp": "int streams;\n"})
    git(applied.checkout, "commit", "-qa", "--amend", "--no-edit")
    error = refused(applied, "drop", "device/aten")
    assert error.what == "The commit of stream/stream was changed by hand."
    assert error.next == "make export && make drop CHANGE=device/aten"


# -- other checkouts -----------------------------------------------------------------


def test_a_checkout_in_which_nothing_is_applied(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whose base is all there is to take for the release."""
    monkeypatch.setattr(providers, "pristine_commit", lambda *_: None)
    snapshot, before = project.snapshot(), kept(project)
    do(project, "drop", "device/aten")
    assert project.snapshot() == snapshot
    assert not (project.folder / HOOKS).exists()
    undone(project)
    assert (project.snapshot(), kept(project)) == (snapshot, before)
    redone(project)
    with workspace(project) as work:
        reshape.undrop(work, "device/aten")
    assert project.snapshot() == snapshot
    assert (project.folder / HOOKS).exists()


def test_a_checkout_at_a_lower_stage(applied: Project) -> None:
    with workspace(applied) as work:
        applying.apply(work, "device/runtime")
    do(applied, "drop", "stream/stream")
    with workspace(applied) as work:
        reshape.undrop(work, "stream/stream")
    assert applied.log() == ["Add devices", "base"]
    do(applied, "move", "device/aten", AFTER="stream/stream")
    assert applied.log() == ["Add devices", "base"]
    in_order(applied, "device/runtime", "stream/stream", "stream/aten")


def test_ones_own_commits_above_are_carried_along(applied: Project) -> None:
    drift(applied, "mine.txt", "mine\n")
    do(applied, "drop", "device/aten")
    assert applied.log() == ["Drift of mine.txt", "Add streams", "Add devices", "base"]


def test_a_fork_that_has_drifted(applied: Project) -> None:
    """The patches stay those of the release; the fork is followed with a three-way merge."""
    git(applied.checkout, "branch", "release", "main")
    git(applied.checkout, "switch", "-q", "main")
    text = (applied.checkout / "aten/Context.h").read_text()
    drift(
        applied, "aten/Context.h", "int fork;\n" + text.replace("int member_4;", "int member_four;")
    )
    git(applied.checkout, "switch", "-q", "xpu-stack")
    with workspace(applied) as work:
        with pytest.raises(ToolError, match="does not fit the base") as raised:
            applying.reach(
                work,
                applying.Goal("stream", frozenset(), work.repository.commit_id("main"), "main"),
                "rebase",
            )
        assert raised.value.code == 5
    (conflict,) = applied.folder.glob(".xpu/work/pytorch-*/conflict")
    resolved = (conflict / "aten/Context.h").read_text()
    assert "<<<<<<<" in resolved
    fixed = "int fork;\n" + text.replace("int member_4;", "int member_four;").replace(
        "int member_5;", "int member_5; int xpu;"
    )
    write(conflict, {"aten/Context.h": fixed})
    git(conflict, "add", "aten/Context.h")
    applied.ok("continue")
    before = all_of(applied)
    do(applied, "fold", "device/aten")
    patch = (applied.folder / "patches/v1.13.1/device/runtime.patch").read_text()
    assert "member_four" not in patch
    assert "int fork;" in git(applied.checkout, "show", "HEAD:aten/Context.h")
    in_order(applied, "device/runtime", "stream/stream", base="release")
    undone(applied)
    assert all_of(applied) == before


def test_a_second_base_with_patches_of_its_own(applied: Project) -> None:
    write(
        applied.folder,
        {
            "patches/v2.2.2/base.yaml": BASE.replace("1.13.1", "2.2.2").format(
                sha256="0" * 64, url="nowhere"
            )
        },
    )
    for name in ("device/runtime", "device/aten", "stream/stream"):
        text = (applied.folder / f"patches/v1.13.1/{name}.patch").read_text()
        write(applied.folder, {f"patches/v2.2.2/{name}.patch": text})
    error = refused(applied, "rename", "device/aten", TO="device/hooks")
    assert error.what == "The base v2.2.2 is not available here.", error.why
    release, own = (applied.folder / f".xpu/pytorch-{name}" for name in ("v1.13.1", "v2.2.2"))
    git(applied.folder, "clone", "-q", "--branch", "base", str(release), str(own))
    do(applied, "fold", "device/aten")
    for base in ("v1.13.1", "v2.2.2"):
        assert "Context.h" in (applied.folder / f"patches/{base}/device/runtime.patch").read_text()
        assert not (applied.folder / f"patches/{base}/device/aten.patch").exists()
    undone(applied)
    assert "patches/v2.2.2/device/aten.patch" in kept(applied)


def test_a_conflict_on_another_base_names_it(applied: Project) -> None:
    text = BASE.replace("1.13.1", "2.2.2").format(sha256="0" * 64, url="nowhere")
    write(applied.folder, {"patches/v2.2.2/base.yaml": text})
    for name in ("device/runtime", "device/aten"):
        text = (applied.folder / f"patches/v1.13.1/{name}.patch").read_text()
        write(applied.folder, {f"patches/v2.2.2/{name}.patch": text})
    release, own = (applied.folder / f".xpu/pytorch-{name}" for name in ("v1.13.1", "v2.2.2"))
    git(applied.folder, "clone", "-q", "--branch", "base", str(release), str(own))
    # there stream/stream edits the line that device/aten has edited
    git(own, "apply", str(applied.folder / "patches/v1.13.1/device/aten.patch"))
    git(own, "commit", "-qam", "aten")
    context = (own / "aten/Context.h").read_text()
    write(own, {"aten/Context.h": context.replace("int xpu;", "int xpu, more;")})
    patch = git(own, "diff", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")
    write(applied.folder, {"patches/v2.2.2/stream/stream.patch": patch})
    git(own, "reset", "-q", "--hard", "HEAD~")
    error = refused(applied, "drop", "device/aten")
    assert error.what.endswith("stream/stream, does not fit this drop on the base v2.2.2.")
    assert "aten/Context.h:" in error.detail


# -- killed --------------------------------------------------------------------------


MOVE = ["move", "--change", "device/aten", "--after", "stream"]


def before_and_after(project: Project) -> tuple[dict[str, object], dict[str, object]]:
    """Both, of a change that is moved; it is back where it was then."""
    before = all_of(project)
    do(project, "move", "device/aten", AFTER="stream")
    after = all_of(project)
    undone(project)
    assert all_of(project) == before
    return before, after


def test_a_verb_cut_off_is_finished_by_the_next_run(applied: Project) -> None:
    _, after = before_and_after(applied)
    for point in ("gone", "file 1", "The checkout", "index", "refs"):
        process = start(applied, *MOVE, fault=point)
        process.communicate()
        assert process.returncode == 3
        transaction.recover(Layout(applied.folder, applied.folder / ".xpu"))  # as each run does
        with workspace(applied):
            pass
        assert all_of(applied) == after, point
        undone(applied)


def test_a_verb_killed_at_random_moments(applied: Project) -> None:
    before, after = before_and_after(applied)
    started = time.monotonic()
    applied.ok(*MOVE)
    duration = time.monotonic() - started
    undone(applied)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(4):
        process = start(applied, *MOVE)
        time.sleep(chance.uniform(duration / 3, duration * 1.1))  # the moment is the test's input
        with contextlib.suppress(ProcessLookupError):  # it may be done
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        until(lambda: not (applied.folder / "patches/.transaction/journal.json").exists())
        settled(applied)
        assert kept(applied) in (before["series"], after["series"]), "neither before nor after"
        with workspace(applied):
            pass
        assert all_of(applied) in (before, after)
        if all_of(applied) == after:
            undone(applied)


def test_an_edit_cut_off_before_the_checkout_moves(applied: Project) -> None:
    write(applied.checkout, {"c10/xpu/Device.cpp": "int head;\nint device;\nint streams;\n"})
    process = start(applied, "edit", "--change", "device/runtime", fault="The checkout")
    process.communicate()
    assert process.returncode == 3
    in_order(applied, "device/runtime", "device/aten", "stream/stream")


def test_a_verb_that_fails_takes_all_back(
    applied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = all_of(applied)
    for point in ("gone", "file 1", "head"):
        monkeypatch.setenv("XPU_STACK_FAULT", f"{point}!")
        with pytest.raises(ToolError, match="it is as it was"):
            do(applied, "move", "device/aten", AFTER="stream")
        assert all_of(applied) == before


# -- any row of them -----------------------------------------------------------------


class Model:
    """The series as a list of sets of files."""

    def __init__(self, project: Project, chance: random.Random) -> None:
        self.project = project
        self.chance = chance
        self.now = self.read()
        self.past: list[tuple[list[frozenset[str]], dict[str, object]]] = []
        self.future: list[tuple[list[frozenset[str]], dict[str, object]]] = []

    def ids(self) -> list[str]:
        with workspace(self.project) as work:
            return [one.id for one in work.series.all_changes()]

    def read(self) -> list[frozenset[str]]:
        with workspace(self.project) as work:
            changes = list(work.series.all_changes())
            return [frozenset(file.target for file in one.files) for one in changes]

    def step(self, number: int) -> str:
        """A verb on a change, taken at random, and what it should make of the sets."""
        ids, now = self.ids(), list(self.now)
        one, other = self.chance.sample(range(len(ids)), 2)
        verbs = (
            ["move", "rename"]
            + ["fold"] * (len(ids) > 2)
            + ["drop"] * (len(ids) > 3)
            + ["split"] * 3
        )
        verb = self.chance.choice(verbs)
        options: dict[str, str] = {}
        if verb == "drop":
            del now[one]
        elif verb == "fold":
            options = {"INTO": ids[other]}
            now[other] |= now[one]
            del now[one]
        elif verb == "move":
            options = {"AFTER": ids[other]}
            moved = now.pop(one)
            now.insert(other + (other < one), moved)
        elif verb == "rename":
            options = {"TO": f"{ids[one].split('/')[0]}/renamed-{number}"}
        else:
            one = max(range(len(ids)), key=lambda which: len(now[which]))
            files = sorted(now[one])
            taken = frozenset(self.chance.sample(files, len(files) // 2))
            before = self.chance.random() < 0.5
            name = f"{ids[one].split('/')[0]}/split-{number}"
            options = {"FILES": " ".join(taken), "NAME": name, "TITLE": f"Split {number}"}
            options |= {"BEFORE": "1"} if before else {}
            rest = now[one] - taken
            now[one : one + 1] = [taken, rest] if before else [rest, taken]
        if now == self.now and verb == "move":
            return ""
        state = all_of(self.project)
        do(self.project, verb, ids[one], **options)
        self.past.append((self.now, state))
        self.future.clear()
        self.now = now
        return f"{verb} {ids[one]} {options}"

    def back(self) -> str:
        state, steps = all_of(self.project), self.chance.randint(1, min(2, len(self.past)))
        for _ in range(steps):
            self.future.append((self.now, state))
            self.now, state = self.past.pop()
        undone(self.project, steps)
        assert all_of(self.project) == state
        return f"undo {steps}"

    def forth(self) -> str:
        self.past.append((self.now, all_of(self.project)))
        self.now, state = self.future.pop()
        redone(self.project)
        assert all_of(self.project) == state
        return "redo"


def test_a_row_of_verbs_taken_at_random(tmp_path: Path) -> None:
    project = Project.make(tmp_path)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    for name in ("device/runtime", "device/aten", "stream/stream"):
        (project.folder / f"patches/v1.13.1/{name}.patch").unlink()
    folders = ("c10_xpu/device/c10", "aten_xpu/device/aten", "c10_xpu/stream/c10")
    names = [f"{one}/{k}{n}.h" for k, one in enumerate(folders) for n in range(3)]
    write(project.folder, {name: f"// {name}\n" for name in names})
    own = project.folder / ".xpu/pytorch-v1.13.1"
    git(project.folder, "clone", "-q", str(project.checkout), str(own))
    git(own, "branch", "base")
    with workspace(project) as work:
        applying.apply(work, "stream")
    model = Model(project, random.Random(seed))
    for number in range(9):
        choices = [lambda: model.step(number)] * 4  # noqa: B023 (called at once)
        choices += [model.back] * bool(model.past) + [model.forth] * 2 * bool(model.future)
        print(model.chance.choice(choices)())
        assert model.read() == model.now
        commits = git(project.checkout, "rev-list", "--reverse", "main..xpu-stack").split()
        shown = [git(project.checkout, "show", "--format=", "--name-only", one) for one in commits]
        assert [frozenset(one.split()) for one in shown] == model.now
    in_order(project, *model.ids())
