"""`make bisect RUN=`: any command, on the small project, of which nothing can be built."""

import pytest
from expecttest import assert_expected_inline
from project import TEXT, Project, git, write
from test_docs import Guide

BROKEN = "! grep -q streams c10/xpu/Device.cpp"


def test_a_command_that_needs_no_build(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    before = project.snapshot()
    command = "cat c10/xpu/Device.cpp; ! grep -q streams c10/xpu/Device.cpp"
    assert_expected_inline(
        project.ok("bisect", "--run", command, "--good", "device/runtime"),
        """\
  stream/stream: the command fails (exit code 1)
  device/runtime: the command passes
  device/aten: the command passes
'cat c10/xpu/Device.cpp; ! grep -q streams c10/xpu/Device.cpp' was broken by stream/stream: Add streams
it says:
  int device;
  int streams;
""",
    )
    assert project.snapshot() == before
    # nothing was configured, downloaded or built
    assert {path.name for path in (project.folder / ".xpu").iterdir()} == {"lock", "logs"}
    # bisect left nothing to undo
    assert "undone: apply" in project.ok("undo")


def test_the_base_is_the_good_end(project: Project) -> None:
    told = project.ok("bisect", "--run", "! test -e c10/xpu/Device.cpp")
    assert "was broken by device/runtime: Add devices" in told
    assert "  base: the command passes" in told
    failing = project.ok("bisect", "--run", "echo no; exit 3")
    assert "fails from the start: at the base already." in failing
    assert "it says:\n  no\n" in failing
    passing = project.run("bisect", "--run", "true")
    assert passing.code == 2
    assert "There is nothing to search: at stream/stream the command passes." in passing.err
    assert "next: make bisect RUN=true BAD=" in passing.err


def test_how_a_command_may_end(project: Project) -> None:
    skipping = project.ok(
        "bisect", "--run", f"grep -q xpu aten/Context.h || exit 125; {BROKEN}", "--good", "device"
    )
    assert "was broken by stream/stream" in skipping
    around = project.ok(
        "bisect",
        "--run",
        f"test -e aten/Hooks.cpp -a ! -e c10/xpu/Stream.cpp && exit 125; {BROKEN}",
        "--good",
        "device/runtime",
    )
    assert "device/aten: Add hooks\n  stream/stream: Add streams" in around
    before = project.snapshot()
    ended = project.run("bisect", "--run", "kill -9 $$")
    assert ended.code == 8
    assert "exit code 137" in ended.err or "exit code -9" in ended.err
    assert project.snapshot() == before
    assert project.run("bisect", "--run", "true", "--test", "a").code == 2


@pytest.mark.parametrize("code", [126, 127])
def test_a_command_that_cannot_be_run(project: Project, code: int) -> None:
    ended = project.run("bisect", "--run", f"echo broken; exit {code}")
    assert ended.code == 8
    assert "The command could not be run at stream/stream." in ended.err
    assert "broken" in ended.err


@pytest.mark.parametrize(
    "doing",
    [
        "echo mine >> c10/xpu/CMakeLists.txt",
        "rm -rf aten; git add -A",
        "git checkout -q --detach HEAD~1",
        "git switch -q main",
        "git add -A; git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m Mine",
        "git reset -q --hard HEAD~1; echo mine >> aten/Context.h",
    ],
)
@pytest.mark.parametrize("start", ["all", "device"])
def test_a_command_that_changes_the_checkout(project: Project, doing: str, start: str) -> None:
    project.ok("apply", *(["--stage", "device"] if start == "device" else []))
    write(project.checkout, {"notes.txt": "mine\n"})
    before = project.snapshot()
    told = project.ok("bisect", "--run", f"{BROKEN}; code=$?; {doing}; exit $code")
    assert "was broken by stream/stream" in told
    assert "that is put back" in told
    assert "does not track" not in told
    assert project.snapshot() == before
    assert git(project.checkout, "status", "--porcelain") == "?? notes.txt\n"


def test_a_command_that_leaves_files(project: Project) -> None:
    told = project.ok("bisect", "--run", f"touch left.txt; {BROKEN}")
    assert "left files that git does not track: left.txt" in told
    assert (project.checkout / "left.txt").exists()


def test_a_command_that_is_ended_with_ctrl_c(project: Project) -> None:
    project.ok("apply")
    before = project.snapshot()
    ended = project.run("bisect", "--run", "echo mine >> aten/Context.h; kill -INT $PPID; sleep 60")
    assert ended.code == 130
    assert project.snapshot() == before
    assert git(project.checkout, "status", "--porcelain") == ""


def test_along_the_versions_of_the_series(project: Project) -> None:
    def saved(message: str) -> str:
        git(project.folder, "add", "-A", "patches", "c10_xpu", "aten_xpu")
        git(project.folder, "commit", "-qm", message)
        return git(project.folder, "rev-parse", "HEAD").strip()

    git(project.folder, "init", "-q")
    good = saved("first")
    for title in ("Add the devices", "Add all devices"):
        write(project.folder, {"patches/texts/device/runtime.md": TEXT.format(title=title)})
        saved(title)
    write(project.folder, {"c10_xpu/device/c10/xpu/CMakeLists.txt": "# broken\n"})
    saved("Break it")
    told = project.ok("bisect", "--run", "! grep broken c10/xpu/CMakeLists.txt", "--good", good)
    assert " 'Break it'\nit edits device/runtime\nit says:\n  # broken\n" in told


def test_the_page(project: Project) -> None:
    guide = Guide.small("bisect.md", project)
    assert "was broken by stream/stream" in guide.block("make bisect")
    guide.ended()
