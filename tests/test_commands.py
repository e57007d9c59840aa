"""Commands that are shown can be pasted into a shell, and are for what this one works on."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import CONTEXT, ROOT, Project, drift, git, write
from xpu_stack.core.system import commands


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_given", {})
    monkeypatch.setattr(commands, "REPOSITORY", Path.cwd())


def test_commands_name_the_checkout() -> None:
    commands.works_in("PYTORCH_SRC", "my fork", {"apply", "continue", "abort", "rebase"})
    assert commands.make("continue") == "make continue PYTORCH_SRC='my fork'"
    assert commands.make("apply", DROP="a/b,c/d") == "make apply DROP=a/b,c/d PYTORCH_SRC='my fork'"
    assert commands.make("rebase", ONTO="it's") == (
        """make rebase ONTO='it'"'"'s' PYTORCH_SRC='my fork'"""
    )
    assert commands.make("rebase", ONTO="<ref, or path>", STAGE="") == (
        "make rebase ONTO=<ref, or path> PYTORCH_SRC='my fork'"
    )
    assert commands.make("apply", PYTORCH_SRC="/other") == "make apply PYTORCH_SRC=/other"
    assert commands.make("apply", PYTORCH_SRC="") == "make apply"
    assert commands.make("check") == "make check"  # takes no checkout
    assert commands.anywhere("abort") == (
        f"make -C {shlex.quote(str(commands.REPOSITORY))} abort PYTORCH_SRC='my fork'"
    )


def test_without_a_checkout_of_ones_own_a_command_stays() -> None:
    assert commands.make("continue") == "make continue"


def test_a_base_that_was_asked_for_is_named_too() -> None:
    commands.works_in("BASE", "v2.13", {"apply", "check"})
    assert commands.make("check") == "make check BASE=v2.13"
    assert commands.make("abort") == "make abort"
    assert commands.make("apply", BASE="v1.13.1") == "make apply BASE=v1.13.1"


def test_in_another_folder_the_projects_is_named(tmp_path: Path) -> None:
    os.chdir(tmp_path)  # the fixture knows where this was
    try:
        assert commands.make("abort") == f"make -C {commands.REPOSITORY} abort"
    finally:
        os.chdir(commands.REPOSITORY)


def test_no_message_has_a_command_that_is_not_made_so() -> None:
    """It would not name the checkout and the base that the run works on."""
    verbs = "|".join(("apply", "export", "status", "check", "continue", "abort", "build", "submit"))
    for path in (ROOT / "scripts" / "xpu_stack").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(("Error", "say")):
                assert not re.search(rf"(?<!')\bmake ({verbs})\b", ast.unparse(call)), path


def test_words_are_quoted_and_what_is_to_be_filled_in_is_not() -> None:
    folder = Path("/it's a fork")
    assert shlex.split(commands.git(folder, "add", "a b")) == [
        "git",
        "-C",
        str(folder),
        "add",
        "a b",
    ]
    assert commands.line("git", "commit", "--fixup=<commit>") == "git commit --fixup=<commit>"


# -- in folders with a space and an apostrophe ----------------------------------------


@pytest.fixture
def odd(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "it's a fork")
    shutil.copy(ROOT / "Makefile", project.folder)
    return project


def way_out(project: Project, *words: str) -> str:
    """What an error shows to be typed."""
    done = subprocess.run(
        project.command(*words),
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("  next: ")]
    return line.removeprefix("  next: ")


def typed(project: Project, command: str) -> str:
    """What a shell in the project's folder makes of it; `make` is the real Makefile."""
    make = f"make tool={shlex.quote(f'{sys.executable} -m xpu_stack')} "
    done = subprocess.run(
        ["bash", "-c", command.replace("make ", make)],
        cwd=project.folder,
        env=project.make_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_makefile_takes_any_text(odd: Project) -> None:
    title = """Don't "guess", say (it); a & b"""
    typed(odd, commands.make("new", CHANGE="device/more", TITLE=title))
    assert (odd.folder / "patches/texts/device/more.md").read_text().splitlines()[0] == title


def test_edits_in_the_way(odd: Project) -> None:
    write(odd.checkout, {"other.txt": "mine\n"})
    typed(odd, way_out(odd, "apply"))
    odd.ok("apply")


def test_an_untracked_file_in_the_way(odd: Project) -> None:
    write(odd.checkout, {"aten/Hooks.cpp": "mine\n"})
    typed(odd, way_out(odd, "apply"))
    odd.ok("apply")
    assert (odd.checkout / "aten/Hooks.cpp.mine").read_text() == "mine\n"


def test_an_edit_that_belongs_to_no_change_goes_where_it_is_told(odd: Project) -> None:
    odd.ok("apply")
    odd.ok("export")
    write(odd.checkout, {"other.txt": "mine\n"})
    shown = way_out(odd, "export")
    change = git(odd.checkout, "rev-parse", "HEAD~1").strip()
    typed(odd, shown.replace("<commit>", change))
    odd.ok("export")
    assert "+mine" in (odd.folder / "patches/v1.13.1/device/aten.patch").read_text()
    assert len(odd.log()) == 4


def test_a_commit_of_ones_own_in_the_way(odd: Project) -> None:
    odd.ok("apply")
    drift(odd, "other.txt", "mine\n")
    shown = way_out(odd, "apply", "--stage", "base")
    typed(odd, shown.partition(" # ")[0])
    odd.ok("apply", "--stage", "base")
    typed(odd, shown.partition("and: ")[2])
    assert odd.log()[0] == "Drift of other.txt"


def test_a_message_that_is_no_text(odd: Project) -> None:
    """The commit is wrong, not the file of the series that would come of it."""
    odd.ok("apply")
    trailer = "XPU-Change: stream/stream"
    git(odd.checkout, "commit", "-q", "--amend", "-m", f"Add streams\n\nNothing.\n\n{trailer}")
    tip = git(odd.checkout, "rev-parse", "HEAD").strip()
    shown = way_out(odd, "export")
    assert shlex.split(shown)[:5] == ["git", "-C", str(odd.checkout), "rebase", "-i"]
    assert shlex.split(shown)[5] == f"{tip[:12]}~"


def test_the_files_of_a_conflict_are_where_it_says(fork: Project) -> None:
    """From the folder that the command leads to, `make` finds its way back."""
    shutil.copy(ROOT / "Makefile", fork.folder)
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    shown = way_out(fork, "apply")
    into, _, rest = shown.partition(" # ")
    on = rest.partition("then: ")[2].partition(", or ")[0]
    assert "is not resolved" in typed(fork, f"{into} && {on}")


def test_the_way_without_a_change_is_complete(fork: Project) -> None:
    drift(fork, "c10/xpu/Stream.cpp", "something quite different\n")
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_5;", "long member_5;"))
    shown = fork.run("apply").err
    given = "PYTORCH_SRC=CHECKOUT"
    drop = f"make apply STAGE=stream DROP=stream/stream {given}"
    assert f"to skip it: make abort {given} && {drop}" in shown


def test_bad_white_space_in_an_edit_is_in_the_patch(project: Project) -> None:
    """The file that is named is one of the series."""
    own = project.folder / ".xpu/pytorch-v1.13.1"
    project.patch("device/runtime", {"c10/CMakeLists.txt": ("# line 20\n", "# line 20\n# xpu \n")})
    git(project.folder, "clone", "-q", "--branch", "main", str(project.checkout), str(own))
    git(own, "branch", "base")
    ended = project.run("check", source=False)
    assert ended.code == 6
    assert "next: fix patches/v1.13.1/device/runtime.patch, then make check" in ended.err
    assert "c10/CMakeLists.txt:21: trailing whitespace" in ended.err


def test_a_text_that_is_not_there_is_to_be_written(project: Project) -> None:
    (project.folder / "patches/texts/device/aten.md").unlink()
    assert "next: write patches/texts/device/aten.md, then make check" in project.run("apply").err


def test_runs_of_one_verb_at_once_do_not_trip_over_its_log(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys\n"
        "from xpu_stack.core.system.console import start_log\n"
        "for _ in range(200): start_log(pathlib.Path(sys.argv[1]), 'build')\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program, tmp_path]) for _ in range(4)]
    assert [run.wait() for run in runs] == [0] * 4


def test_each_base_has_its_logs(project: Project) -> None:
    for base in ("v1", "../v1"):
        project.run("--variables", "status", source=False, env={"BASE": base})
    logs = {path.name for path in (project.folder / ".xpu/logs").iterdir()}
    assert {"status-v1.log", "status-.._v1.log"} <= logs
