"""Applying: what a person types, what the checkout is then."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from project import CMAKE, Project, cpu_seconds, drift, git, write


def test_one_commit_per_change_with_trailers(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    assert project.log() == ["Add hooks", "Add devices", "base"]
    assert_expected_inline(
        git(project.checkout, "log", "-2", "--format=%an <%ae> %cI%n%B"),
        """\
xpu-stack <xpu-stack@invalid> 2020-09-13T12:26:42+00:00
Add hooks

Motivation
----------
Because of Add hooks.

Design
------
As it is.

Additional Context
------------------
None.

XPU-Change: device/aten
XPU-Stage: device 2/2
XPU-Digest: c5337dbb695903a08f2a79e3f215704d8a5b1da522816c6ad8c234de76f08507

xpu-stack <xpu-stack@invalid> 2020-09-13T12:26:41+00:00
Add devices

Motivation
----------
Because of Add devices.

Design
------
As it is.

Additional Context
------------------
None.

XPU-Change: device/runtime
XPU-Stage: device 1/2
XPU-Digest: 41426132dd94e30bbce23a19fa2ed249d0fb2b0b5230df14ed8f814a72039436

""",
    )


def test_ids_are_the_same_everywhere(project: Project) -> None:
    project.ok("apply")
    assert_expected_inline(
        git(project.checkout, "rev-parse", "HEAD", "HEAD~1", "HEAD~2", "HEAD~3"),
        """\
9bc122dfa623a5fd3aec1555917e065656a49466
10e6bedc7f542650039d4a3ed95d93e172de9d3b
ff047cda655655e66374d180df6dfb708612adfb
e8d79f7fc4f7ec29e4721a327cc6745ac145ccbe
""",
    )


def test_the_files_are_the_series(project: Project) -> None:
    project.ok("apply")
    read = {
        name: (project.checkout / name).read_text()
        for name in ("c10/xpu/Device.cpp", "c10/xpu/Stream.cpp", "aten/Hooks.cpp")
    }
    assert read == {
        "c10/xpu/Device.cpp": "int device;\nint streams;\n",
        "c10/xpu/Stream.cpp": "int stream;\n",
        "aten/Hooks.cpp": "int hooks;\n",
    }
    assert "# line 20\n# xpu\n# line 21\n" in (project.checkout / "c10/CMakeLists.txt").read_text()
    assert git(project.checkout, "status", "--porcelain") == ""


def test_again_does_nothing(project: Project) -> None:
    project.ok("apply")
    before = project.snapshot()
    assert "is already at stage 'stream'" in project.ok("apply")
    assert project.snapshot() == before


def test_down_and_up_gives_the_same_commits(project: Project) -> None:
    project.ok("apply")
    up = project.snapshot()
    project.ok("apply", "--stage", "device")
    assert project.log() == ["Add hooks", "Add devices", "base"]
    assert not (project.checkout / "c10/xpu/Stream.cpp").exists()
    project.ok("apply", "--stage", "base")
    assert project.log() == ["base"]
    assert not (project.checkout / "c10/xpu").exists()
    project.ok("apply")
    assert project.snapshot() == up


def test_files_that_stay_keep_their_times(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    names = ["c10/CMakeLists.txt", "aten/Context.h", "aten/Hooks.cpp", "other.txt"]
    times = {name: (project.checkout / name).stat().st_mtime_ns for name in names}
    project.ok("apply", "--stage", "stream")
    project.ok("apply", "--stage", "device")
    assert {name: (project.checkout / name).stat().st_mtime_ns for name in names} == times


def test_an_edit_of_the_series_replaces_the_commits(project: Project) -> None:
    project.ok("apply")
    write(project.folder, {"aten_xpu/device/aten/Hooks.cpp": "int better_hooks;\n"})
    assert "is now at" in project.ok("apply")
    assert (project.checkout / "aten/Hooks.cpp").read_text() == "int better_hooks;\n"
    # the version before is still there to compare with
    assert git(project.checkout, "show", "refs/xpu-stack/moves^:aten/Hooks.cpp") == "int hooks;\n"


def test_a_stage_that_is_not_there(project: Project) -> None:
    ended = project.run("apply", "--stage", "tensor")
    assert ended.code == 2
    assert_expected_inline(
        ended.lines,
        """\
error: There is no stage 'tensor'.
  why: the stages there are: device, stream
  next: make apply STAGE=stream PYTORCH_SRC=CHECKOUT""",
    )
    assert project.log() == ["base"]


def test_a_dirty_tree_is_refused(project: Project) -> None:
    write(project.checkout, {"other.txt": "mine\n"})
    before = project.snapshot()
    ended = project.run("apply")
    assert ended.code == 3
    assert_expected_inline(
        ended.lines,
        """\
error: The checkout has changes that are not committed.
  why: 1 file(s), the first is other.txt
  next: git -C CHECKOUT stash""",
    )
    assert project.snapshot() == before


def test_staged_work_is_refused(project: Project) -> None:
    write(project.checkout, {"other.txt": "mine\n"})
    git(project.checkout, "add", "other.txt")
    assert project.run("apply").code == 3
    assert git(project.checkout, "diff", "--cached", "--name-only") == "other.txt\n"


def test_untracked_files_stay(project: Project) -> None:
    write(project.checkout, {"notes.txt": "mine\n", "c10/xpu/notes.txt": "mine, too\n"})
    project.ok("apply")
    project.ok("apply", "--stage", "base")
    assert (project.checkout / "notes.txt").read_text() == "mine\n"
    assert (project.checkout / "c10/xpu/notes.txt").read_text() == "mine, too\n"


def test_an_untracked_file_in_the_way_is_refused(project: Project) -> None:
    write(project.checkout, {"c10/xpu/Device.cpp": "mine\n", ".git/info/exclude": "c10/xpu\n"})
    before = project.snapshot()
    ended = project.run("apply")
    assert ended.code == 3
    assert_expected_inline(
        ended.lines,
        """\
making the commits ...
changing the checkout to 'stream' ...
error: An untracked file is in the way: c10/xpu/Device.cpp
  why: the move puts a file there, and yours would be lost
  next: mv CHECKOUT/c10/xpu/Device.cpp CHECKOUT/c10/xpu/Device.cpp.mine""",
    )
    assert project.snapshot() == before


def test_a_file_where_a_folder_must_be_is_refused(project: Project) -> None:
    write(project.checkout, {"c10/xpu": "mine\n"})
    before = project.snapshot()
    ended = project.run("apply")
    assert ended.code == 3
    assert "c10/xpu" in ended.err
    assert project.snapshot() == before


def test_an_amended_commit_is_refused(project: Project) -> None:
    project.ok("apply")
    write(project.checkout, {"c10/xpu/Stream.cpp": "int mine;\n"})
    git(project.checkout, "commit", "-qa", "--amend", "--no-edit")
    before = project.snapshot()
    ended = project.run("apply", "--stage", "device")
    assert ended.code == 3
    assert "The commit of stream/stream was changed by hand." in ended.err
    assert project.snapshot() == before


def test_an_amended_message_is_refused(project: Project) -> None:
    project.ok("apply")
    message = git(project.checkout, "log", "-1", "--format=%B").replace("None.", "Some.")
    git(project.checkout, "commit", "-q", "--amend", "-m", message)
    assert project.run("apply", "--stage", "device").code == 3


def test_what_ghstack_writes_into_messages_is_no_edit(project: Project) -> None:
    project.ok("apply")
    message = git(project.checkout, "log", "-1", "--format=%B").rstrip("\n")
    added = f"{message}\nghstack-source-id: 0123\nPull-Request: https://github.com/o/r/pull/1\n"
    git(project.checkout, "commit", "-q", "--amend", "-m", added)
    project.ok("apply", "--stage", "device")


def test_a_foreign_branch_is_refused(project: Project) -> None:
    project.ok("apply")
    git(project.checkout, "switch", "-q", "main")
    ended = project.run("apply")
    assert ended.code == 3
    assert_expected_inline(
        ended.lines,
        """\
error: The checkout is not on the stack's branch 'xpu-stack'.
  why: HEAD is on the branch 'main', and 'xpu-stack' exists
  next: git -C CHECKOUT switch xpu-stack # or, for a stack of its own: make apply BRANCH=<another name> PYTORCH_SRC=CHECKOUT""",
    )


def test_the_persons_branch_is_left_alone(project: Project) -> None:
    before = git(project.checkout, "rev-parse", "main")
    project.ok("apply")
    assert git(project.checkout, "rev-parse", "main") == before
    assert git(project.checkout, "symbolic-ref", "--short", "HEAD") == "xpu-stack\n"


def test_a_rebase_under_way_is_refused(project: Project) -> None:
    (project.checkout / ".git/rebase-merge").mkdir()
    ended = project.run("apply")
    assert ended.code == 3
    assert "A rebase is under way" in ended.err


def test_a_missing_base_is_refused(project: Project) -> None:
    ended = project.run("apply", "--pytorch-src", str(project.folder / "nothing"), source=False)
    assert ended.code == 2
    assert_expected_inline(
        ended.lines,
        """\
error: PYTORCH_SRC=PROJECT/nothing is not a PyTorch source tree.
  why: there is no such folder
  next: make apply PYTORCH_SRC=<path> # or without, to fetch the release""",
    )


@contextmanager
def held(project: Project, lock: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process holds a lock until the end."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from xpu_stack.core.system import lock\n"
        "with lock.held(Path(sys.argv[2]), 'test', 'it'):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(project.folder / "scripts"), str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.stdin.close()


def test_one_run_at_a_time(project: Project) -> None:
    project.ok("apply", "--stage", "base")
    with held(project, project.checkout / ".git/xpu-stack/lock") as holder:
        ended = project.run("apply")
        assert ended.code == 3
        assert f"is held by 'test' (process {holder.pid})" in ended.err
    project.ok("apply")


def waiting_for(project: Project, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        project.command(*words),
        cwd=project.folder,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["python", "shell"])
def test_several_may_run_python_at_once(project: Project, verb: str) -> None:
    project.ok("apply")
    with held(project, project.checkout / ".git/xpu-stack/lock"):
        waiting = waiting_for(project, verb)
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith("waiting for another run")
    with waiting:
        assert "Another run" not in waiting.stdout.read()


def test_a_run_waits_while_another_prepares_its_checkout(project: Project) -> None:
    with held(project, project.folder / ".xpu/lock"):
        waiting = waiting_for(project, "apply")
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith("waiting for another run")
    with waiting:
        assert "is now at stage" in waiting.stdout.read()
    assert waiting.returncode == 0


def test_a_second_run_takes_little_more_than_the_start(project: Project) -> None:
    project.ok("apply")
    start = min(cpu_seconds(lambda: project.ok("apply", "--help")) for _ in range(3))
    again = min(cpu_seconds(lambda: project.ok("apply")) for _ in range(3))
    assert again < 3 * start


def test_status_shows_the_stack(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    shown = project.ok("status")
    row = next(line for line in shown.splitlines() if line.startswith("device/aten "))
    assert "yes" in row
    row = next(line for line in shown.splitlines() if line.startswith("stream/stream "))
    assert "no" in row
    assert "pull request" not in shown


def rows(shown: str) -> dict[str, str]:
    """Change -> what `status` says of whether it is applied."""
    cells = [re.split("  +", line) for line in shown.splitlines() if re.match(r"\w+/\w", line)]
    return {row[0].partition("/")[2]: row[3] for row in cells}


@pytest.mark.parametrize(
    ("name", "old", "new", "change"),
    [
        ("c10_xpu/device/c10/xpu/CMakeLists.txt", "# xpu", "# XPU", "runtime"),
        ("patches/v1.13.1/device/aten.patch", "int xpu;", "int gpu;", "aten"),
        ("patches/texts/stream/stream.md", "\nNone.\n", "\nNot much.\n", "stream"),
        ("patches/texts/stream/stream.md", "None.\n", "None", "stream"),
    ],
)
def test_status_knows_what_was_edited_in_the_series(
    project: Project, name: str, old: str, new: str, change: str
) -> None:
    path = project.folder / name
    path.write_text(path.read_text().replace("None.\n", "None.\n\nMore.\n"))
    project.ok("apply")
    assert set(rows(project.ok("status")).values()) == {"yes"}
    text = path.read_text()
    path.write_text(text.replace("\nMore.\n", "") if new == "None" else text.replace(old, new))
    shown = rows(project.ok("status"))
    assert {one for one, applied in shown.items() if applied == "older"} == {change}
    project.ok("apply")
    assert set(rows(project.ok("status")).values()) == {"yes"}


def test_status_without_the_memory_of_the_last_run(fork: Project) -> None:
    """A change that was merged is what the series gives."""
    drift(fork, "c10/CMakeLists.txt", CMAKE.replace("# line 18\n", "# eighteen\n"))
    fork.ok("apply")
    (fork.checkout / ".git/xpu-stack/memo.json").unlink()
    assert set(rows(fork.ok("status")).values()) == {"yes"}


def test_status_shows_what_is_not_exported(project: Project) -> None:
    project.ok("apply")
    assert "not exported" not in project.ok("status")
    write(project.checkout, {"aten/Hooks.cpp": "int mine;\n", "mine.txt": "mine\n"})
    shown = project.ok("status")
    assert "edited, not exported: aten/Hooks.cpp\n" in shown
    assert "not tracked, not exported: mine.txt\n" in shown


def test_status_shows_commits_of_changes_that_the_series_has_not(project: Project) -> None:
    project.ok("apply")
    write(project.checkout, {"c10/xpu/Two.cpp": "int two;\n"})
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-qm", "Add two\n\nXPU-Change: stream/two")
    tip = git(project.checkout, "rev-parse", "--short=12", "HEAD").strip()
    shown = project.ok("status")
    assert f"of a change that the series does not have, stream/two: {tip} 'Add two'" in shown
    assert set(rows(shown).values()) == {"yes"}


def test_status_shows_what_is_skipped_and_what_was_taken_out(project: Project) -> None:
    project.ok("apply", "--drop", "device/aten")
    assert rows(project.ok("status")) == {"runtime": "yes", "aten": "skipped", "stream": "yes"}
    git(project.checkout, "reset", "-q", "--hard", "HEAD~")
    assert rows(project.ok("status"))["stream"] == "taken out"
    # that there is less was asked for: an export keeps it in the series
    assert "is already at" in project.ok("apply", "--stage", "device")
    assert rows(project.ok("status"))["stream"] == "no"
    project.ok("export")
    assert (project.folder / "patches/texts/stream/stream.md").exists()


def test_status_in_a_pipe_has_a_line_for_each_change(project: Project) -> None:
    text = project.folder / "patches/texts/device/aten.md"
    title = "Add " + "a long title " * 5
    text.write_text(text.read_text().replace("Add hooks", title.strip()))
    shown = project.ok("status", env={"COLUMNS": "80"})
    row = next(line for line in shown.splitlines() if line.startswith("device/aten "))
    assert title.strip() in row


# -- files that git writes in another form ---------------------------------------


def as_git_writes_it(project: Project) -> dict[str, bytes]:
    """The files of HEAD in a work tree that git itself makes."""
    other = project.folder.parent / "other"
    git(project.checkout, "worktree", "add", "-q", "--detach", str(other), "HEAD")
    names = git(project.checkout, "ls-files").splitlines()
    written = {name: (other / name).read_bytes() for name in names}
    git(project.checkout, "worktree", "remove", "--force", str(other))
    return written


def same_as_git_writes(project: Project) -> None:
    expected = as_git_writes_it(project)
    assert {name: (project.checkout / name).read_bytes() for name in expected} == expected
    assert git(project.checkout, "status", "--porcelain") == ""


@pytest.mark.parametrize("attribute", ["text eol=crlf", "filter=longer"])
def test_filters_are_gits_own(project: Project, attribute: str) -> None:
    git(project.checkout, "config", "filter.longer.smudge", "sed s/int/integer_of_any_size/g")
    git(project.checkout, "config", "filter.longer.clean", "sed s/integer_of_any_size/int/g")
    drift(project, ".gitattributes", f"*.cpp {attribute}\n*.h {attribute}\n*.txt {attribute}\n")
    for name in ("aten/Context.h", "other.txt"):
        (project.checkout / name).unlink()
    git(project.checkout, "checkout", ".")
    project.ok("apply")
    same_as_git_writes(project)
    assert (project.checkout / "c10/xpu/Stream.cpp").read_bytes() != b"int stream;\n"
    git(project.checkout, "branch", "newer", "main")
    git(project.checkout, "switch", "-q", "newer")
    drift(project, "other.txt", "int newer;\n" * 100)
    drift(project, "c10/new.h", "int new;\n" * 50)
    git(project.checkout, "switch", "-q", "xpu-stack")
    project.ok("rebase", "--onto", "newer")
    same_as_git_writes(project)
    project.ok("apply", "--stage", "base")
    same_as_git_writes(project)


def test_attributes_that_come_with_the_move_count_for_it(project: Project) -> None:
    git(project.checkout, "switch", "-q", "-c", "newer")
    drift(project, "c10/.gitattributes", "a*.txt eol=crlf\n")
    drift(project, "c10/a.txt", "text\n")
    git(project.checkout, "switch", "-q", "main")
    project.ok("apply")
    project.ok("rebase", "--onto", "newer")
    assert (project.checkout / "c10/a.txt").read_bytes() == b"text\r\n"
    same_as_git_writes(project)


def test_a_filter_that_fails_moves_nothing(project: Project) -> None:
    drift(project, ".gitattributes", "*.cpp filter=broken\n")
    git(project.checkout, "config", "filter.broken.smudge", "false")
    git(project.checkout, "config", "filter.broken.required", "true")
    before = project.snapshot()
    ended = project.run("apply")
    assert ended.code == 3
    assert "The checkout could not be changed; it is as it was." in ended.err
    assert "broken" in ended.err
    assert project.snapshot() == before


def test_what_a_hook_has_in_its_environment(project: Project) -> None:
    git(project.folder, "init", "-q")
    other = project.folder / ".git"
    env = {
        "GIT_DIR": str(other),
        "GIT_WORK_TREE": str(project.folder),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_PREFIX": "scripts/",
        "GIT_DEFAULT_HASH": "sha256",
    }
    project.ok("apply", env=env)
    assert project.log()[0] == "Add streams"
    assert git(project.folder, "for-each-ref") == ""
    assert not (other / "index").exists()


def test_signatures_that_git_is_to_show(project: Project) -> None:
    show = project.folder / "gpg"
    show.write_text("#!/bin/sh\necho gpg: Good signature >&2\necho '[GNUPG:] GOODSIG 1 A'\n")
    show.chmod(0o755)
    git(project.checkout, "config", "gpg.program", str(show))
    git(project.checkout, "config", "log.showSignature", "true")
    head, message = git(project.checkout, "cat-file", "commit", "HEAD").split("\n\n", 1)
    begin, end = (f"-----{word} PGP SIGNATURE-----" for word in ("BEGIN", "END"))
    commit = project.folder / "commit"
    commit.write_text(f"{head}\ngpgsig {begin}\n \n x\n {end}\n\n{message}")
    id_ = git(project.checkout, "hash-object", "-w", "-t", "commit", str(commit)).strip()
    git(project.checkout, "reset", "-q", "--hard", id_)
    project.ok("apply")
    project.ok("status")
    project.ok("history")
    write(project.checkout, {"aten/Hooks.cpp": "int better;\n"})
    project.ok("export")
    project.ok("undo")


def test_a_history_that_ends_within_the_stack(project: Project) -> None:
    project.ok("apply")
    clone = project.checkout.parent / "clone"
    words = ("-c", "protocol.file.allow=always", "clone", "-q", "--depth", "1")
    git(project.folder, *words, f"file://{project.checkout}", str(clone))
    project.checkout = clone
    for verb in ("status", "apply", "export"):
        ended = project.run(verb)
        assert ended.code == 4, ended.err
        assert "The history of the checkout ends within the stack." in ended.err
    git(clone, "fetch", "-q", "--unshallow")
    assert "is already at" in project.ok("apply")


@pytest.mark.parametrize(
    "place", ["../elsewhere.txt", "..", "c10/../..", "/etc/passwd", "/etc/passwd:1"]
)
def test_a_file_outside_the_checkout_is_of_no_change(project: Project, place: str) -> None:
    ended = project.run("which", "--file", place)
    assert ended.code == 2, ended.err
    assert "git does not track" in ended.err
