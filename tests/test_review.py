"""The pages: what they say of a stack, and that they are safe to read."""

import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from project import TEXT, Project, git, write
from workspace import workspace
from xpu_stack import review
from xpu_stack.bench.figures import _ROWS, Figure, Row, Side, Spread
from xpu_stack.build.configuration import Mode, Outcome, Record, results_of
from xpu_stack.core.move import stack
from xpu_stack.core.system.errors import ToolError
from xpu_stack.review.diff import differing
from xpu_stack.review.model import Review, gather
from xpu_stack.review.site import bar, fenced


def facts(project: Project, since: str | None = None) -> Review:
    with workspace(project) as work:
        return gather(work, since)


def pages(project: Project, out: Path, since: str | None = None) -> Path:
    with workspace(project) as work:
        return review.build(work, since, out).parent


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# -- what builds on what ----------------------------------------------------------


def test_a_change_builds_on_what_it_edits_and_includes(project: Project) -> None:
    write(
        project.folder,
        {
            "aten_xpu/device/aten/src/ATen/xpu/Hooks.h": "#pragma once\n",
            "c10_xpu/stream/c10/xpu/Stream.cpp": "#include <ATen/xpu/Hooks.h>\n",
        },
    )
    project.ok("apply")
    found = facts(project)
    uses = {page.id: page.uses for page in found.pages}
    assert uses == {
        "device/runtime": {},
        "device/aten": {},
        "stream/stream": {
            "device/runtime": ("edits c10/xpu/Device.cpp",),
            "device/aten": ("includes aten/src/ATen/xpu/Hooks.h",),
        },
    }
    assert found.page("device/runtime").used_by == ["stream/stream"]


def test_python_builds_on_the_bindings_that_it_uses(project: Project) -> None:
    stubs = "torch/_C/__init__.pyi.in"
    write(project.checkout, {stubs: "def _old() -> None: ...\n"})
    git(project.checkout, "add", ".")
    git(project.checkout, "commit", "-qm", "stubs")
    with (project.checkout / stubs).open("a") as file:
        file.write("def _xpu_init() -> None: ...\nclass _XpuEvent:\n    def _own(self): ...\n")
    patch = project.folder / "patches/v1.13.1/device/aten.patch"
    patch.write_text(patch.read_text() + git(project.checkout, "diff", "--full-index"))
    git(project.checkout, "checkout", "-q", ".")
    used = "torch._C._xpu_init()\ntorch._C._old()\nx = torch._C._own\ny: torch._C._XpuEvent\n"
    write(project.folder, {"c10_xpu/stream/torch/xpu.py": used})
    project.ok("apply")
    uses = facts(project).page("stream/stream").uses
    assert uses.keys() == {"device/runtime", "device/aten"}
    assert uses["device/aten"] == ("uses torch._C._xpu_init", "uses torch._C._XpuEvent")


# -- since an earlier version -------------------------------------------------------


def test_up_and_down_is_no_earlier_version(project: Project) -> None:
    project.ok("apply")
    project.ok("apply", "--stage", "device")
    assert facts(project).earlier is None
    project.ok("apply")
    assert facts(project).earlier is None


def test_changes_are_compared_by_name(project: Project) -> None:
    project.ok("apply")
    edit(project.folder / "c10_xpu/device/c10/xpu/Device.cpp", "device", "device_one")
    edit(project.folder / "patches/v1.13.1/stream/stream.patch", " int device;", " int device_one;")
    project.ok("apply")
    found = facts(project)
    assert found.earlier is not None
    assert found.earlier.name == "the version before"
    fates = {page.id: page.since.status for page in found.pages if page.since}
    # The trees of all above differ too; their own texts and patches do not.
    assert fates == {
        "device/runtime": "changed",
        "device/aten": "same",
        "stream/stream": "changed",  # its patch has the line as context
    }
    since = found.page("device/runtime").since
    assert since is not None
    assert "-+int device;\n++int device_one;" in since.text
    assert "XPU-Digest" not in since.text


def test_reordered_new_and_dropped(project: Project) -> None:
    project.ok("apply")
    git(project.checkout, "tag", "first")
    series = project.folder / "patches/series.yaml"
    text = series.read_text()
    runtime = "      - name: runtime\n        files: [c10_xpu/device]\n"
    aten = "      - name: aten\n        files: [aten_xpu/device]\n"
    text = text.replace(runtime + aten, aten + runtime)
    text = text[: text.index("      - name: stream")]
    text += "      - name: pool\n        files: [c10_xpu/stream]\n"
    series.write_text(text)
    (project.folder / "patches/texts/stream/stream.md").unlink()
    (project.folder / "patches/v1.13.1/stream/stream.patch").unlink()
    write(project.folder, {"patches/texts/stream/pool.md": TEXT.format(title="Add a pool")})
    project.ok("apply")
    found = facts(project, "first")
    fates = {page.id: (page.since.status, page.since.moved) for page in found.pages if page.since}
    assert fates["stream/pool"] == ("new", False)
    assert [one.change for one in found.dropped] == ["stream/stream"]
    assert [change for change, (_, moved) in fates.items() if moved] in (
        ["device/aten"],
        ["device/runtime"],
    )


@pytest.mark.parametrize("name", ["nowhere", "main"])
def test_since_must_name_a_version_of_the_stack(project: Project, name: str) -> None:
    project.ok("apply")
    with pytest.raises(ToolError, match=f"'{name}'"):
        facts(project, name)


def test_since_may_be_a_version_of_the_series(project: Project) -> None:
    """A commit of the repository that the series is in, which no checkout need have seen."""
    git(project.folder, "init", "-q")
    for number in ("one", "two"):
        edit(project.folder / "aten_xpu/device/aten/Hooks.cpp", "hooks", f"hooks_{number}")
        git(project.folder, "add", "-A")
        git(project.folder, "commit", "-qm", number)
    edit(project.folder / "aten_xpu/device/aten/Hooks.cpp", "_two_one", "_three")
    project.ok("apply")
    before = project.snapshot()
    for name, was in (("HEAD", "hooks_two_one"), ("HEAD~1", "hooks_one")):
        found = facts(project, name)
        assert found.earlier is not None
        assert found.earlier.name == name
        fates = {page.id: page.since.status for page in found.pages if page.since}
        assert fates == {
            "device/runtime": "same",
            "device/aten": "changed",
            "stream/stream": "same",
        }
        since = found.page("device/aten").since
        assert since is not None
        assert f"-+int {was};\n" in since.text
    assert project.snapshot() == before


def test_a_version_that_does_not_fit_the_base(project: Project) -> None:
    git(project.folder, "init", "-q")
    patch = project.folder / "patches/v1.13.1/device/aten.patch"
    text = patch.read_text()
    patch.write_text(text.replace("int member_", "int other_"))
    git(project.folder, "add", "-A")
    git(project.folder, "commit", "-qm", "one")
    patch.write_text(text)
    project.ok("apply")
    with pytest.raises(ToolError, match="The series of HEAD does not fit the checkout's base"):
        facts(project, "HEAD")
    assert "conflict" not in project.ok("status")


# -- evidence -------------------------------------------------------------------------


def test_evidence_is_of_the_tree_it_names(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    with workspace(project) as work:
        applied = stack.read(work.repository).applied
        results = results_of(work, Mode.FAST)
        outcome = Outcome(passed=3, skipped=1, reasons={"no <GPU> here": 1})
        results.put(applied[0].commit.tree, Record(True, {"device/runtime": outcome}))
        failed = Outcome(failed=1, failures=["Stream.runs"])
        results.put(applied[2].commit.tree, Record(True, {"stream/stream": failed}))
    found = facts(project)
    assert [len(page.evidence) for page in found.pages] == [1, 0, 1]
    assert found.pages[0].evidence[0].outcome == outcome
    out = pages(project, tmp_path / "review")
    assert "1 skipped: no &lt;GPU&gt; here" in (out / "device-runtime.html").read_text()
    assert "1 failed" in (out / "index.html").read_text()
    assert "no test results" in (out / "index.html").read_text()
    assert "| fast |" in (out / "markdown/stream-stream.md").read_text()


def test_measurements_are_shown_with_the_tree_they_are_of(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("device.call", "a call | of <ours>", cpu="<= 1.1 of raw")
    monkeypatch.setitem(_ROWS, row.id, row)
    project.ok("apply")
    with workspace(project) as work:
        folder = work.layout.for_checkout(project.checkout)
        tree = stack.read(work.repository).applied[1].commit.tree
    sides = [
        Side("", Spread(*[2500.0] * 5), Spread(*[1.25] * 5)),
        Side("raw", Spread(*[2000.0] * 5), None),
    ]
    figure = Figure("device.call", sides, 9, 0).to_json()
    run = {"tree": tree, "mode": "fast", "machine": "2 x CPU", "quick": True, "figures": [figure]}
    for name, content in {
        "bench-fast": json.dumps(run),
        "bench-full": json.dumps({**run, "tree": "0" * 40}),
        "bench-other": "no JSON",
    }.items():
        write(folder, {f"{name}/results.json": content})
    found = facts(project)
    assert [(one.top, one.tree) for one in found.measured] == [("device/aten", tree)]
    out = pages(project, tmp_path / "review")
    text = (out / "index.html").read_text()
    assert "Benchmark of the stack up to device/aten" in text
    assert "a call | of &lt;ours&gt;" in text
    shown = "Benchmark of the stage, of the stack up to device/aten"
    assert shown in (out / "device-runtime.html").read_text()
    assert shown not in (out / "stream-stream.html").read_text()
    row = "| a call \\| of &lt;ours> | 2.50 us | 2.00 us | 1.25 | missed |"
    assert row in (out / "markdown/index.md").read_text()


def test_markdown_fits_into_a_description(project: Project, tmp_path: Path) -> None:
    folder = project.folder / "c10_xpu/device/c10/xpu"
    for number in range(9):
        (folder / f"file_{number}.cpp").write_text("int number;\n" * 1000)
    project.ok("apply")
    (folder / "file_0.cpp").write_text("int another;\n" * 9000)
    project.ok("apply")
    text = (pages(project, tmp_path / "review") / "markdown/device-runtime.md").read_text()
    assert len(text) < 65_536
    assert "file(s) are left out" in text
    assert "`git range-diff " in text


# -- the pages --------------------------------------------------------------------------


class Links(HTMLParser):
    """All that a page refers to, and the names in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("href", "src") and value is not None:
                self.targets.append(value)
            if key == "id" and value is not None:
                assert value not in self.ids, f"{tag} {value}"
                self.ids.add(value)


def check_links(out: Path) -> int:
    """Every link leads to a file of the folder; how many there are."""
    count = 0
    for page in out.glob("*.html"):
        for target in Links(page).targets:
            name, _, fragment = target.partition("#")
            if target == "data:,":
                continue
            other = out / (name or page.name)
            assert other.is_file(), f"{page.name}: {target}"
            if fragment:
                assert fragment in Links(other).ids, f"{page.name}: {target}"
            count += 1
    return count


def test_every_link_resolves_within_the_folder(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    out = pages(project, tmp_path / "review")
    names = ["index", "device-aten", "device-runtime", "stream-stream"]
    found = {str(path.relative_to(out)) for path in out.rglob("*.*")}
    wanted = {f"{name}.html" for name in names} | {f"markdown/{name}.md" for name in names}
    assert found == wanted | {"review.css", "review.js"}
    assert check_links(out) > 20


def test_text_of_the_change_and_of_the_files_is_escaped(project: Project, tmp_path: Path) -> None:
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    write(project.folder, {"c10_xpu/device/c10/xpu/Device.cpp": f"// {bad}\nint device;\n"})
    edit(
        project.folder / "patches/v1.13.1/stream/stream.patch",
        "@@ -1 +1,2 @@\n int device;",
        "@@ -2 +2,2 @@\n int device;",
    )
    edit(project.folder / "patches/texts/device/runtime.md", "As it is.", f"{bad} <b>bold</b>")
    project.ok("apply")
    out = pages(project, tmp_path / "review")
    for page in out.glob("*.html"):
        text = page.read_text()
        assert not re.search(r"<script>|<img|<b>", text), page.name
    assert "&lt;b&gt;bold&lt;/b&gt;" in (out / "device-runtime.html").read_text()


def test_the_same_stack_gives_the_same_bytes(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    first, second = (pages(project, tmp_path / name) for name in ("one", "two"))
    for path in first.rglob("*.*"):
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes()


def test_files_of_every_kind_are_shown(project: Project, tmp_path: Path) -> None:
    folder = project.folder / "c10_xpu/device/c10/xpu"
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    (folder / "icon.png").write_bytes(bytes(range(256)))
    (folder / "dos.txt").write_bytes(b"one\r\ntwo\x0cthree\r\n")
    (folder / "no_end.py").write_text("x = 1")
    (folder / "empty.txt").write_text("")
    (folder / "with blank.txt").write_text("text\n")
    script = folder / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    project.ok("apply")
    by_path = {file.path: file for file in facts(project).page("device/runtime").files}
    assert {path.rsplit("/", 1)[1] for path in by_path if path.startswith("c10/xpu/")} == {
        path.name for path in folder.iterdir()
    }
    assert by_path["c10/xpu/dos.txt"].added == 2
    assert by_path["c10/xpu/run.sh"].notes == ("new file mode 100755",)
    assert by_path["c10/xpu/icon.png"].notes[0].startswith("Binary files ")
    text = (pages(project, tmp_path / "review") / "device-runtime.html").read_text()
    assert "caf\\xe9" in text
    assert "No newline at end of file" in text


def test_markdown_is_what_a_pull_request_shows(project: Project, tmp_path: Path) -> None:
    edit(project.folder / "patches/texts/device/aten.md", "As it is.", "````\ncode\n````")
    project.ok("apply")
    out = pages(project, tmp_path / "review") / "markdown"
    table = (out / "index.md").read_text().splitlines()
    assert table[4:7] == [
        "| # | change | title | lines | tests |",
        "|--:|---|---|---|---|",
        "| 1 | `device/runtime` | Add devices | +3 \N{MINUS SIGN}0 | no results |",
    ]
    text = (out / "stream-stream.md").read_text()
    assert "- `device/runtime`: Add devices\n" in text
    assert "\n```diff\ndiff --git a/c10/xpu/Device.cpp" in text


def test_a_folder_of_someone_else_is_kept(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    write(tmp_path, {"review/notes.txt": "mine"})
    with pytest.raises(ToolError, match="is not replaced"):
        pages(project, tmp_path / "review")
    assert (tmp_path / "review/notes.txt").exists()


def test_there_must_be_a_stack(project: Project, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no stack"):
        pages(project, tmp_path / "review")


def test_nothing_is_fetched_from_elsewhere(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    out = pages(project, tmp_path / "review")
    for path in (*out.glob("*.html"), out / "review.css", out / "review.js"):
        assert not re.search(r"https?:|url\(|@import|fetch\(|import\(", path.read_text())
        if path.suffix == ".html":
            assert "Content-Security-Policy\" content=\"default-src 'none';" in path.read_text()


def test_an_image_of_a_text_becomes_a_link(project: Project, tmp_path: Path) -> None:
    text = project.folder / "patches/texts/device/runtime.md"
    for image in ("![a *plan*](https://example.com/x.png?a&b)", '![](https://example.com/"y)'):
        edit(text, "As it is.", f"As it is. {image}")
    project.ok("apply")
    page = (pages(project, tmp_path / "review") / "device-runtime.html").read_text()
    assert "<img" not in page
    assert '<a href="https://example.com/x.png?a&amp;b">a *plan*</a>' in page
    assert '<a href="https://example.com/%22y">https://example.com/%22y</a>' in page


def test_what_cannot_be_seen_is_shown(project: Project, tmp_path: Path) -> None:
    hidden = "\u202e\u2066\u200b\x1b\x07"
    shown = hidden[:3]  # what else there is of it is refused in a text and in a name
    write(project.folder, {f"c10_xpu/device/c10/xpu/a{shown}.cpp": f"int a; // {hidden}\n"})
    edit(project.folder / "patches/texts/device/runtime.md", "As it is.", f"As {shown} is.")
    project.ok("apply")
    out = pages(project, tmp_path / "review")
    for path in (out / "device-runtime.html", out / "markdown/device-runtime.md"):
        text = path.read_text()
        assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u200b\x1b\x07]", text)
        assert "As [U+202E][U+2066][U+200B] is." in text
        line = "int a; // [U+202E][U+2066][U+200B][U+001B][U+0007]"
        assert line in re.sub("<[^>]*>", "", text)
        assert re.search(r"[>`]c10/xpu/a\[U\+202E\]\[U\+2066\]\[U\+200B\]\.cpp[<`]", text)


def test_markdown_tables_hold_any_name(project: Project, tmp_path: Path) -> None:
    names = ["a|b.cpp", "a`b.cpp", "``.cpp", "a<b>.cpp"]
    write(project.folder, {f"c10_xpu/device/c10/xpu/{name}": "int a;\n" for name in names})
    project.ok("apply")
    text = (pages(project, tmp_path / "review") / "markdown/device-runtime.md").read_text()
    shown = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    for name in names:
        assert f"<td><code>c10/xpu/{escape(name)}</code></td>" in shown


def test_a_large_diff_is_shown_on_demand(project: Project, tmp_path: Path) -> None:
    line = "int member;\n"
    folder = "c10_xpu/device/c10/xpu"
    write(project.folder, {f"{folder}/A.txt": line * 70_000, f"{folder}/B.txt": line * 3})
    project.ok("apply")
    out = pages(project, tmp_path / "review")
    page = (out / "device-runtime.html").read_text()
    parts = [out / name for name in re.findall(r'href="(device-runtime-\d+-\d+\.html)"', page)]
    assert len(parts) > 1
    every = [page, *(part.read_text() for part in parts)]
    assert max(map(len, every)) < 2_500_000
    assert sum(text.count("int member;") for text in every) == 70_003
    check_links(out)


# -- parts ---------------------------------------------------------------------------------


def test_the_words_that_differ() -> None:
    old, new = "int one = call(a, b);", "int two = call(a, b, c);"
    spans = differing(old, new)
    assert [old[start:end] for start, end in spans[0]] == ["one"]
    assert [new[start:end] for start, end in spans[1]] == ["two", ", c"]


def test_words_are_marked_where_a_line_is_an_edit_of_another(project: Project) -> None:
    project.ok("apply")
    page = facts(project).page("device/aten")
    lines = [line for file in page.files for line in file.lines]
    marked = [line.text[start:end] for line in lines for start, end in line.words]
    assert marked == [" int xpu;"]


def test_a_fence_is_longer_than_any_in_its_text() -> None:
    assert fenced("a\n```\nb", "diff") == "````diff\na\n```\nb\n````"


def test_the_squares_show_both_signs_where_there_are_both(project: Project) -> None:
    project.ok("apply")
    files = facts(project).page("device/aten").files
    assert {file.path: bar(file) for file in files} == {
        "aten/Context.h": (1, 1),
        "aten/Hooks.cpp": (1, 0),
    }
