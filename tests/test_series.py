"""The series file and the texts: one good input and one bad for each rule."""

import os
import shutil
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from project import SERIES, TEXT, Project, write
from test_export import changed, kept
from xpu_stack.core.series.series import Series
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.core.system.layout import Layout


def load(project: Project) -> Series:
    return Series.load(Layout(project.folder, project.folder / ".xpu"), "v1.13.1")


def problem(project: Project, files: dict[str, str]) -> str:
    write(project.folder, files)
    with pytest.raises(SeriesError) as caught:
        load(project)
    assert caught.value.code == 6
    return caught.value.why


def test_a_good_series(project: Project) -> None:
    series = load(project)
    assert series.stage_names == ["device", "stream"]
    assert [change.id for change in series.all_changes()] == [
        "device/runtime",
        "device/aten",
        "stream/stream",
    ]
    assert [change.id for change in series.changes("device")] == ["device/runtime", "device/aten"]
    first = next(series.all_changes())
    assert [file.target for file in first.files] == ["c10/xpu/CMakeLists.txt", "c10/xpu/Device.cpp"]
    assert first.patched_paths() == ["c10/CMakeLists.txt"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("author:", "autor:", "patches/series.yaml:1: unknown key 'autor' (known: author, stages)"),
        (
            "xpu-stack <xpu-stack@invalid>",
            "xpu-stack",
            "patches/series.yaml:1: 'author' must be 'name <address>'",
        ),
        (
            "        files: [aten_xpu/device]",
            "        author: Ada\n        files: [aten_xpu/device]",
            "patches/series.yaml:9: 'author' must be 'name <address>'",
        ),
        (
            "  - name: stream\n    summary: streams",
            "  - name: device\n    summary: streams",
            "patches/series.yaml:14: 'c10_xpu/stream' is not below "
            "c10_xpu/device, aten_xpu/device, torch_xpu_py/device",
        ),
        (
            "files: [aten_xpu/device]",
            "files: [aten_xpu/device, c10_xpu/device]",
            "patches/series.yaml:9: 'c10_xpu/device' belongs to 'device/runtime' already",
        ),
        (
            "files: [aten_xpu/device]",
            "files: [aten_xpu/device/none]",
            "patches/series.yaml:9: 'aten_xpu/device/none' has no file",
        ),
        (
            "      - name: aten\n        files: [aten_xpu/device]\n",
            "",
            "aten_xpu/device/aten/Hooks.cpp: no change in patches/series.yaml claims this file",
        ),
        (
            "- name: aten",
            "- name: Aten!",
            "patches/series.yaml:8: 'Aten!' is no name: small letters, digits, '-' and '_'",
        ),
        (
            "summary: streams\n    ",
            "",
            "patches/series.yaml:10: item 2 of 'stages' lacks 'summary'",
        ),
        ("stages:", "stages: [", "patches/series.yaml:3:"),
    ],
)
def test_mistakes_are_reported_with_file_and_line(
    project: Project, old: str, new: str, why: str
) -> None:
    assert old in SERIES
    found = problem(project, {"patches/series.yaml": SERIES.replace(old, new)})
    assert found.startswith(why)


def test_of_two_claims_the_closer_one_counts(project: Project) -> None:
    claims = "files: [aten_xpu/device, c10_xpu/device/c10/xpu/Device.cpp]"
    write(
        project.folder,
        {"patches/series.yaml": SERIES.replace("files: [aten_xpu/device]", claims)},
    )
    runtime, aten, _ = load(project).all_changes()
    assert [file.target for file in runtime.files] == ["c10/xpu/CMakeLists.txt"]
    assert [file.target for file in aten.files] == ["aten/Hooks.cpp", "c10/xpu/Device.cpp"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", ":1: the title must have 1 to 72 characters, not 0"),
        ("x" * 73, ":1: the title must have 1 to 72 characters, not 73"),
        (TEXT.format(title="T").replace("T\n\n", "T\nno\n", 1), ":2: a blank line must follow"),
        (
            TEXT.format(title="T").replace("Design\n------\n", ""),
            ": needs the sections Motivation, Design, Additional Context, in this order, "
            "underlined with '-'; missing: Design",
        ),
        (TEXT.format(title="T").replace("As it is.\n", ""), ":7: the section 'Design' is empty"),
        (TEXT.format(title="T") + "XPU-Stage: x\n", ":14: trailers are written by the tool"),
    ],
)
def test_mistakes_in_texts(project: Project, text: str, why: str) -> None:
    name = "patches/texts/device/aten.md"
    assert problem(project, {name: text}).startswith(name + why)


def test_a_missing_text(project: Project) -> None:
    (project.folder / "patches/texts/device/aten.md").unlink()
    assert_expected_inline(
        problem(project, {}),
        """patches/texts/device/aten.md: every change has a text; this one is not there""",
    )


@pytest.mark.parametrize(
    "name", ["patches/v1.13.1/device/other.patch", "patches/texts/stream/other.md"]
)
def test_files_that_belong_to_no_change(project: Project, name: str) -> None:
    assert problem(project, {name: "x"}) == f"{name}: belongs to no change in patches/series.yaml"


def test_a_file_that_is_written_twice(project: Project) -> None:
    why = problem(project, {"aten_xpu/device/c10/xpu/Device.cpp": "again\n"})
    assert "is written in" in why


def test_what_editors_leave_is_no_payload(project: Project) -> None:
    before = [change.source_digest for change in load(project).all_changes()]
    folder = "c10_xpu/device/c10/xpu"
    write(project.folder, {f"{folder}/Device.cpp~": "x", f"{folder}/.Device.cpp.swp": "x"})
    assert [change.source_digest for change in load(project).all_changes()] == before


def test_the_projects_own_series_is_good() -> None:
    root = Path(__file__).resolve().parents[1]
    series = Series.load(Layout(root, root / ".xpu"), "v1.13.1")
    assert series.stage_names[0] == "device"


# -- symlinks ------------------------------------------------------------------


def test_a_link_stays_a_link(project: Project) -> None:
    folder = project.folder / "c10_xpu/device/c10/xpu"
    (folder / "Alias.cpp").symlink_to("Device.cpp")
    (folder / "later.cpp").symlink_to("../nothing-yet")
    project.ok("apply")
    assert (project.checkout / "c10/xpu/Alias.cpp").readlink() == Path("Device.cpp")
    assert (project.checkout / "c10/xpu/later.cpp").readlink() == Path("../nothing-yet")
    before = kept(project)
    project.ok("export")
    assert changed(project, before) <= {
        "patches/v1.13.1/device/runtime.patch",
        "patches/v1.13.1/stream/stream.patch",
    }
    assert (folder / "Alias.cpp").readlink() == Path("Device.cpp")


@pytest.mark.parametrize(
    "name", ["c10_xpu/device/c10/xpu/key", "c10_xpu/device/c10/keys", "c10_xpu/event", "aten_xpu"]
)
@pytest.mark.parametrize("relative", [False, True])
def test_a_link_that_points_outside_is_refused(
    project: Project, name: str, *, relative: bool
) -> None:
    outside = project.folder.parent / "secret"
    write(outside, {"key": "a private key\n"})
    link = project.folder / name
    if link.is_dir():
        shutil.rmtree(link)
    target = outside / "key" if name.endswith("key") else outside
    link.symlink_to(os.path.relpath(target, link.parent) if relative else target)
    ended = project.run("apply")
    assert ended.code == 6
    assert f"{name}: " in ended.err
    assert "link" in ended.err
    assert project.log() == ["base"]
    assert project.run("check", source=False).code == 6


@pytest.mark.parametrize("name", [b"a\nb.cpp", b"a\xffb.cpp", "a\u2028b.cpp".encode()])
def test_a_name_that_no_line_can_show_is_refused(project: Project, name: bytes) -> None:
    folder = os.fsencode(project.folder / "c10_xpu/stream/c10")
    Path(os.fsdecode(folder + b"/" + name)).write_text("int a;\n")
    shown = ascii(f"c10_xpu/stream/c10/{os.fsdecode(name)}")
    ended = project.run("apply")
    assert f"{shown}: has a control character, or is not UTF-8" in ended.err
    assert ended.code == 6


def test_a_patch_or_text_that_is_a_link_is_refused(project: Project) -> None:
    for name in ("patches/v1.13.1/device/aten.patch", "patches/texts/device/aten.md"):
        path = project.folder / name
        moved = project.folder.parent / path.name
        path.rename(moved)
        path.symlink_to(moved)
        ended = project.run("apply")
        assert ended.code == 6
        assert f"{name}: is a link" in ended.err
        path.unlink()
        moved.rename(path)


@pytest.mark.parametrize("place", ["../outside", "c10/../../outside", ".git/config"])
def test_a_patch_of_a_file_outside_is_refused(project: Project, place: str) -> None:
    text = f"diff --git a/{place} b/{place}\nnew file mode 100644\n--- /dev/null\n"
    project.write_patch("stream/stream", f"{text}+++ b/{place}\n@@ -0,0 +1 @@\n+mine\n")
    before = project.snapshot()
    ended = project.run("apply")
    assert ended.code == 6
    assert f"its patch edits '{place}': no such place" in ended.err
    assert project.snapshot() == before


def test_names_of_files_are_quoted_where_yaml_needs_it() -> None:
    text = "stages:\n  - name: a\n    summary: b\n    changes:\n      - name: c\n"
    names = ["c10_xpu/a/x: y", "c10_xpu/a/x, y", "c10_xpu/a/[z]", "c10_xpu/a/# no", "c10_xpu/a/b"]
    for files in (names, [*names, *(f"c10_xpu/a/{'long' * 9}/{n}" for n in range(4))]):
        file = SeriesFile.parse(Path("series.yaml"), text)
        file.put("a/c", "files", dict.fromkeys(files))
        again = SeriesFile.parse(Path("series.yaml"), file.text)
        assert again.files("a/c") == files
