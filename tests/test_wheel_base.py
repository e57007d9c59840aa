"""A base that is an installed package: the checkout has the payload alone."""

import re
import shutil
from pathlib import Path

import pytest
from project import TEXT, Project, git, write
from test_export import changed, kept

WHEEL_BASE = """\
name: v2.13
like: v1.13.1
version: "2.13"
package:
  name: torch
  from: "2.13"
  below: "2.16"
  index: file:///nowhere
  install: [torch==2.13.0]
  extension: torch_xpu_runtime
  version: "0.1"
  summary: A runtime
  urls: {API: "https://example.org/api"}
  entry_points: {torch.backends: {torch_xpu_runtime: "torch_xpu_runtime:autoload"}}
  extras: {nvidia: {"2.13": triton==3.7.1 nvidia-cublas~=13.0, "2.14": triton~=3.8.0}}
without:
  - aten_xpu/device/aten
"""
VARIANTS = "patches/v2.13/payload/c10_xpu/device"


@pytest.fixture
def project(project: Project) -> Project:
    """A variant, a file of its own, and a change of which nothing is for it."""
    write(
        project.folder,
        {
            "patches/v2.13/base.yaml": WHEEL_BASE,
            f"{VARIANTS}/c10/xpu/CMakeLists.txt": "# of the wheel\n",
            f"{VARIANTS}/CMakeLists.txt": "# top\n",
        },
    )
    project.checkout = project.folder / ".xpu/pytorch-v2.13"
    return project


def ok(project: Project, *words: str) -> str:
    return project.ok(*words, "--base", "v2.13", source=False)


def files(project: Project) -> dict[str, str]:
    names = git(project.checkout, "ls-files").split()
    return {name: (project.checkout / name).read_text() for name in names}


def test_the_checkout_has_the_payload_alone(project: Project) -> None:
    said = ok(project, "apply", "--stage", "device")
    assert "base v2.13 from an empty tree, for an installed package: commit 59de6498314e" in said
    top = {"CMakeLists.txt": "# top\n", "c10/xpu/CMakeLists.txt": "# of the wheel\n"}
    assert files(project) == {**top, "c10/xpu/Device.cpp": "int device;\n"}
    assert git(project.checkout, "ls-tree", "base") == ""
    ok(project, "apply")
    assert project.log()[:2] == ["Add streams", "Add devices"]
    assert files(project)["c10/xpu/Stream.cpp"] == "int stream;\n"
    # the patch of the base that it is like is not its own
    assert files(project)["c10/xpu/Device.cpp"] == "int device;\n"
    tip = git(project.checkout, "rev-parse", "HEAD")
    status = ok(project, "status")
    assert [
        line.startswith("device/aten ") for line in status.splitlines() if "skipped" in line
    ] == [True]
    assert "2 change(s) are in order" in ok(project, "check")
    assert "Add streams" in ok(project, "show")
    assert "Add devices" in ok(project, "show", "--change", "device/runtime")
    ok(project, "undo")
    assert "c10/xpu/Stream.cpp" not in files(project)
    ok(project, "redo")
    assert git(project.checkout, "rev-parse", "HEAD") == tip


def test_edits_go_to_the_variants_and_to_the_shared_files(project: Project) -> None:
    ok(project, "apply")
    before = kept(project)
    assert "0 file(s) of the series differ" in ok(project, "export")
    assert changed(project, before) == set()
    edits = {"c10/xpu/CMakeLists.txt": "# edited\n", "c10/xpu/Stream.cpp": "int streams;\n"}
    write(project.checkout, edits)
    assert "+int streams;" in ok(project, "diff")
    said = ok(project, "export")
    assert changed(project, before) == {
        f"{VARIANTS}/c10/xpu/CMakeLists.txt",
        "c10_xpu/stream/c10/xpu/Stream.cpp",
    }
    assert "v2.13 keeps" not in said
    ok(project, "undo")
    assert changed(project, before) == set()
    git(project.checkout, "checkout", "-q", ".")  # the edits are there again
    # an edit of what an earlier change has brought is a patch of this base's own
    path = project.checkout / "c10/xpu/Device.cpp"
    path.write_text("int device;\nint wheel;\n")
    git(project.checkout, "commit", "-qa", "--amend", "--no-edit")
    ok(project, "export")
    assert changed(project, before) == {"patches/v2.13/stream/stream.patch"}
    assert "2 change(s) are in order" in ok(project, "check")


def test_the_same_files_give_the_same_commits_and_review_shows_them(
    project: Project, tmp_path: Path
) -> None:
    ok(project, "apply")
    tip = git(project.checkout, "rev-parse", "HEAD")
    project.checkout.rename(tmp_path / "first")
    ok(project, "apply")
    assert git(project.checkout, "rev-parse", "HEAD") == tip
    ok(project, "review", "--out", str(tmp_path / "pages"))
    assert (tmp_path / "pages" / "index.html").exists()


def test_a_change_that_is_for_the_base_again(project: Project) -> None:
    ok(project, "apply")
    base = WHEEL_BASE.replace("without:\n  - aten_xpu/device/aten\n", "")
    write(project.folder, {"patches/v2.13/base.yaml": base})
    ok(project, "apply")
    assert project.log()[:3] == ["Add streams", "Add hooks", "Add devices"]
    write(project.folder, {"patches/v2.13/base.yaml": WHEEL_BASE})
    ok(project, "apply")
    assert project.log()[:2] == ["Add streams", "Add devices"]


RESHAPED = {
    "an edit of what it lacks": ("edit", "device/aten"),
    "an edit of what it has": ("edit", "stream/stream"),
    "a fold": ("fold", "stream/stream"),
    "a fold of what it lacks": ("fold", "device/aten"),
    "a split": ("split", "device/runtime", "c10/xpu/CMakeLists.txt"),
    "a split of what it lacks": ("split", "device/aten", "aten/Hooks.cpp"),
    "a split of what it alone has": ("split", "device/runtime", "c10/xpu/Own.cpp"),
    "a split of a change that it alone has": ("split", "stream/more", "more/b.cpp"),
}


@pytest.mark.parametrize("case", RESHAPED)
def test_a_change_is_reshaped_on_both_from_a_clean_clone(project: Project, case: str) -> None:
    """With a file and a patch of its own; what a base has as a whole stays as it is."""
    verb, change, *names = RESHAPED[case]
    series = (project.folder / "patches/series.yaml").read_text()
    patch = (
        "diff --git a/c10/xpu/Device.cpp b/c10/xpu/Device.cpp\n--- a/c10/xpu/Device.cpp\n"
        "+++ b/c10/xpu/Device.cpp\n@@ -1 +1,2 @@\n int device;\n+int own;\n"
    )
    more = "      - name: more\n        files: [c10_xpu/stream/more]\n"
    write(
        project.folder,
        {
            "patches/series.yaml": series + more,
            "patches/texts/stream/more.md": TEXT.format(title="Add more"),
            f"{VARIANTS}/c10/xpu/Own.cpp": "int own;\n",
            "patches/v2.13/payload/c10_xpu/stream/more/a.cpp": "int a;\n",
            "patches/v2.13/payload/c10_xpu/stream/more/b.cpp": "int b;\n",
            "patches/v2.13/stream/stream.patch": patch,
        },
    )
    ok(project, "apply")
    ok(project, "export")  # the patch in export's own form
    wheel = files(project)
    shutil.rmtree(project.checkout)
    release, project.checkout = project.checkout, project.folder.parent / "pytorch"
    project.ok("apply")
    project.ok("export")
    before = files(project)
    if verb == "edit":
        edited = {"aten/Hooks.cpp": "int better;\n"}
        edited |= {"c10/xpu/Stream.cpp": "int streams;\n"} if change == "stream/stream" else {}
        write(project.checkout, {name: edited[name] for name in [*edited][-1:]})
        before = files(project)
        wheel |= {name: text for name, text in before.items() if name == "c10/xpu/Stream.cpp"}
    words = ["--change", change]
    if verb == "split":
        words += ["--files", names[0], "--name", f"{change.partition('/')[0]}/new"]
        words += ["--title", "Add a part"]
    project.ok(verb, *words)
    assert files(project) == before
    assert "0 file(s) of the series differ" in project.ok("export")
    project.checkout = release
    assert "are in order" in ok(project, "check")
    ok(project, "apply")
    assert files(project) == wheel
    if verb == "split":
        shown = ok(project, "show", "--change", f"{change.partition('/')[0]}/new")
        lacks = case == "a split of what it lacks"
        assert (f"b/{names[0]}" in shown) != lacks


def test_a_split_leaves_each_change_a_file_on_some_base(project: Project) -> None:
    own = "patches/v2.13/payload/c10_xpu/stream/c10/xpu/Own.cpp"
    write(project.folder, {own: "int own;\n"})
    project.checkout = project.folder.parent / "pytorch"
    project.ok("apply")
    project.ok("export")
    words = ("split", "--change", "stream/stream", "--name", "stream/new", "--title", "Add a part")
    names = "c10/xpu/Device.cpp c10/xpu/Stream.cpp"
    ended = project.run(*words, "--files", f"{names} c10/xpu/Own.cpp")
    assert "FILES= names all files of stream/stream." in ended.err
    project.ok(*words, "--files", names)
    assert project.log()[:2] == ["Add a part", "Add hooks"]
    assert (project.folder / own).exists()
    assert "are in order" in ok(project, "check")


@pytest.mark.parametrize("verb", ["submit", "mail", "wheel", "rebase"])
def test_what_is_for_source_trees_is_refused(project: Project, verb: str) -> None:
    more = ["--onto", "main"] if verb == "rebase" else []
    ended = project.run(verb, *more, "--base", "v2.13", source=False)
    assert ended.code == 2
    what, why, next = ended.lines.splitlines()
    assert what == f"error: 'make {verb}' is not for the base v2.13."
    assert why.startswith("  why: it is an installed package: ")
    assert next.endswith(f"make {verb} BASE=v1.13.1")


def test_it_has_no_checkout_of_a_persons_own(project: Project, tmp_path: Path) -> None:
    ended = project.run("apply", "--base", "v2.13", "--pytorch-src", str(tmp_path), source=False)
    assert ended.code == 2
    assert "error: The base v2.13 has no checkout of your own." in ended.err


def test_a_change_is_renamed_on_both(project: Project, tmp_path: Path) -> None:
    ok(project, "apply")
    project.ok("rename", "--pytorch-src", str(tmp_path / "pytorch"), "--change", "device/runtime",
               "--to", "device/devices", source=False)  # fmt: skip
    assert "2 change(s) are in order" in ok(project, "check")
    ok(project, "apply")
    assert "device/devices" in git(project.checkout, "log", "--format=%B")
    assert f"{VARIANTS}/CMakeLists.txt" in kept(project)


def test_a_change_that_only_it_has_is_left_out_elsewhere(project: Project, tmp_path: Path) -> None:
    series = (project.folder / "patches/series.yaml").read_text()
    more = "      - name: more\n        files: [c10_xpu/stream/c10/xpu/More.cpp]\n"
    write(
        project.folder,
        {
            "patches/series.yaml": series + more,
            "patches/texts/stream/more.md": TEXT.format(title="Add more"),
            "patches/v2.13/payload/c10_xpu/stream/c10/xpu/More.cpp": "int more;\n",
        },
    )
    ok(project, "apply")
    assert project.log()[0] == "Add more"
    fork = ("--pytorch-src", str(tmp_path / "pytorch"))
    project.ok("apply", *fork, source=False)
    assert git(tmp_path / "pytorch", "log", "-1", "--format=%s") == "Add streams\n"
    (row,) = re.findall("^stream/more .*$", project.ok("status", *fork, source=False), re.MULTILINE)
    assert "skipped" in row


def test_a_new_change_is_begun_on_it(project: Project) -> None:
    ok(project, "new", "--change", "stream/more", "--title", "Add more")
    ok(project, "apply")
    assert project.log()[0] == "Add more"
    write(project.checkout, {"c10/xpu/More.cpp": "int more;\n"})
    git(project.checkout, "add", ".")
    git(project.checkout, "commit", "-q", "--amend", "--no-edit")
    ok(project, "export")
    assert "c10_xpu/stream/c10/xpu/More.cpp" in kept(project)


def test_a_folder_that_is_not_for_it_goes_with_its_change(project: Project) -> None:
    project.checkout = project.folder.parent / "pytorch"
    project.ok("apply")
    project.ok("move", "--change", "device/aten", "--after", "stream")
    base = project.folder / "patches/v2.13/base.yaml"
    assert "without:\n  - aten_xpu/stream/aten\n" in base.read_text()
    # back, where another file of the folder is for it
    other = "aten_xpu/device/aten/Other.cpp"
    write(project.folder, {other: "int other;\n"})
    series = project.folder / "patches/series.yaml"
    series.write_text(series.read_text().replace("c10_xpu/device]", f"c10_xpu/device, {other}]"))
    project.ok("apply")
    project.ok("move", "--change", "stream/aten", "--after", "device")
    project.ok("rename", "--change", "stream/aten", "--to", "device/aten")
    assert "without:\n  - aten_xpu/device/aten/Hooks.cpp\n" in base.read_text()


BY_HAND = """\
# by hand
without:   # these
    # its own
    - 'aten_xpu/device/aten/Hooks.cpp'   # why

    - "aten_xpu/stream"
    # none of it
    - c10_xpu/stream/c10/xpu/Stream.cpp
moved:
  "c10_xpu/device/c10/xpu/Device.cpp" : 'xpu/Device.cpp'   # there
"""
VERBS = {
    "drop": ("--change", "device/aten"),
    "fold": ("--change", "device/aten"),
    "split": ("--change", "device/runtime", "--name", "device/cmake", "--title", "Add",
              "--files", "c10/xpu/CMakeLists.txt"),
    "move": ("--change", "device/aten", "--after", "stream"),
    "rename": ("--change", "device/aten", "--to", "hooks/aten"),
    "edit": ("--change", "device/runtime"),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_of_its_base_yaml_only_the_lines_concerned_change(project: Project, verb: str) -> None:
    old = WHEEL_BASE.partition("without:")[0] + BY_HAND
    other = "aten_xpu/stream/aten/Stream.cpp"
    both = "c10_xpu/device/c10/xpu/Both.cpp"
    write(project.folder, {"patches/v2.13/base.yaml": old, other: "int a;\n", both: "int b;\n"})
    series = project.folder / "patches/series.yaml"
    claimed = f"[c10_xpu/stream, {other}]"
    series.write_text(series.read_text().replace("[c10_xpu/stream]", claimed))
    ok(project, "apply")
    project.checkout = project.folder.parent / "pytorch"
    project.ok("apply")
    if verb == "edit":
        write(project.checkout, {"c10/xpu/Both.cpp": "int edited;\n"})
    project.ok(verb, *VERBS[verb])
    path = project.folder / "patches/v2.13/base.yaml"
    gone = set(old.splitlines()) - set(path.read_text().splitlines())
    concerned = "    - 'aten_xpu/device/aten/Hooks.cpp'   # why"
    assert gone == ({concerned} if verb in ("drop", "move", "rename") else set())
    assert len(path.read_text().splitlines()) == len(old.splitlines()) - (verb == "drop")
    project.ok("undo")
    assert path.read_text() == old
