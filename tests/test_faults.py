"""Killed, interrupted, out of room: the checkout is as before or as after."""

import contextlib
import fcntl
import os
import random
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from project import Project, git, write
from test_export import kept

KILLS = 50
POINTS = [
    "locked",
    "gone",
    "file 0",
    "file 2",
    "index",
    "refs/xpu-stack/moves",
    "head",
    "refs",
]


def start(
    project: Project, *words: str, fault: str = "", limit: Callable[[], None] | None = None
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        project.command(*words),
        cwd=project.folder,
        env={**project.environment(), **({"XPU_STACK_FAULT": fault} if fault else {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=limit,
    )


def settled(project: Project) -> None:
    """Waits until the last step of a killed run, if it had begun, is over."""
    lock = project.checkout / ".git/xpu-stack/lock"
    if lock.exists():
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def whole(project: Project) -> None:
    """git finds nothing wrong, and nothing of ours is left behind."""
    # Objects that nothing refers to are what a killed run may leave.
    assert git(project.checkout, "fsck", "--full", "--no-dangling") == ""
    assert not (project.checkout / ".git/index.lock").exists()


def folders_for_files(project: Project) -> None:
    """A branch `newer` of the fork: a file and a link are folders there."""
    (project.checkout / "link").symlink_to("aten")
    write(project.checkout, {"thing": "a file\n"})
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-qm", "A link")
    git(project.checkout, "switch", "-q", "-c", "newer")
    for name in ("link", "thing"):
        (project.checkout / name).unlink()
    write(project.checkout, {"link/Context.h": "own\n", "thing/inner": "inner\n"})
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-qm", "Folders")
    git(project.checkout, "switch", "-q", "main")


# What is typed to go from one state to the other and back.
PAIRS = {
    "apply": (["apply", "--stage", "stream"], ["apply", "--stage", "base"]),
    "rebase": (["rebase", "--onto", "newer"], ["rebase", "--onto", "main"]),
    "undo": (["undo"], ["redo"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "kills"), [("apply", KILLS), ("rebase", 20), ("undo", 20)])
def test_killed_at_random_moments(project: Project, verb: str, kills: int) -> None:
    folders_for_files(project)
    project.ok("apply", "--stage", "stream" if verb != "apply" else "base")
    states = [project.snapshot()]
    there, back = PAIRS[verb]
    started = time.monotonic()
    project.ok(*there)
    duration = time.monotonic() - started
    states.append(project.snapshot())
    at, seen = 1, {"before": 0, "after": 0}
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(kills):
        words = back if at else there
        (project.checkout / ".git/xpu-stack/memo.json").unlink(missing_ok=True)
        process = start(project, *words)
        time.sleep(chance.uniform(0, duration * 1.1))  # the moment is the test's input
        with contextlib.suppress(ProcessLookupError):  # it may be done
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        settled(project)
        now = project.snapshot()
        assert now in states, "neither as before nor as after"
        seen["before" if now == states[at] else "after"] += 1
        whole(project)
        if now == states[at]:
            project.ok(*words)
        at = 1 - at
        assert project.snapshot() == states[at]
    print(seen)
    assert seen["before"], "no kill came early enough to matter"


@pytest.mark.slow
@pytest.mark.parametrize("verb", list(PAIRS))
def test_the_move_itself_killed_is_finished_by_the_next_run(project: Project, verb: str) -> None:
    """Power loss within the few milliseconds that the move takes."""
    folders_for_files(project)
    if verb != "undo":  # that of the first apply takes the branch away
        project.ok("apply", "--stage", "stream" if verb == "rebase" else "base")
    else:
        project.ok("apply")
    states = []
    for words in PAIRS[verb]:
        project.ok(*words)
        states.append(project.snapshot())
    for point in POINTS:
        for words, after in zip(PAIRS[verb], states, strict=True):
            process = start(project, *words, fault=point)
            _, errors = process.communicate()
            assert process.returncode == 3, (point, errors)
            assert b"was interrupted" in errors
            project.ok("status")
            assert project.snapshot() == after, point
    whole(project)
    # the log has the moves that were finished
    project.ok("undo")
    assert project.snapshot() == states[0]


def test_nothing_can_be_written(project: Project) -> None:
    """A limit on the size of files stands in for a disk that is full."""
    project.ok("apply", "--stage", "base")
    before = project.snapshot()

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    process = start(project, "apply", limit=limit)
    _, errors = process.communicate()
    assert process.returncode == 3, errors
    assert b"it is as it was" in errors
    assert project.snapshot() == before
    whole(project)
    project.ok("apply")


def test_a_disk_that_is_full(project: Project) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small file system can be mounted by root only")
    small = project.folder.parent / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        git(project.folder, "clone", "-q", str(project.checkout), str(small / "pytorch"))
        project.checkout = small / "pytorch"
        project.ok("apply", "--stage", "base")
        before = project.snapshot()
        filler = small / "filler"
        for leave in (0, 4096, 32768, 131072):
            free = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
            filler.write_bytes(b"\0" * max(0, free - leave))
            ended = project.run("apply")
            assert ended.code != 0
            assert "The tool itself failed" not in ended.err
            filler.unlink()
            assert project.snapshot() == before
            whole(project)
        project.ok("apply")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_interrupted(project: Project) -> None:
    """Ctrl-C goes to the whole group; the answer is exit code 130."""
    project.ok("apply", "--stage", "base")
    before = project.snapshot()
    # A git that never comes back, so that the moment is certain.
    reached = project.folder / "reached"
    write(project.folder, {"bin/git": f"#!/bin/sh\ntouch {reached}\nexec sleep 60\n"})
    (project.folder / "bin/git").chmod(0o755)
    environment = project.environment()
    environment["PATH"] = f"{project.folder / 'bin'}:{environment['PATH']}"
    process = subprocess.Popen(
        project.command("apply"),
        cwd=project.folder,
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A shell's background jobs ignore Ctrl-C, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 30
    while not reached.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # polls for the moment; it is not guessed
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert project.snapshot() == before


def test_interrupted_while_the_checkout_moves(project: Project) -> None:
    """The move ends, and the message does not say that nothing has changed."""
    reached, go = project.folder / "reached", project.folder / "go"
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout
    program = (
        f'#!/bin/sh\ncase " $* " in *" symbolic-ref -m "*) touch {reached}\n'
        f'while [ ! -e {go} ]; do sleep 0.01; done;; esac\nexec {real.strip()} "$@"\n'
    )
    write(project.folder, {"bin/git": program})
    (project.folder / "bin/git").chmod(0o755)
    environment = project.environment()
    environment["PATH"] = f"{project.folder / 'bin'}:{environment['PATH']}"
    process = subprocess.Popen(
        project.command("apply"),
        cwd=project.folder,
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until(reached.exists)
    os.killpg(process.pid, signal.SIGINT)
    go.touch()
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert b"interrupted, after a change of the checkout or the series" in errors
    assert project.log()[0] == "Add streams"
    assert git(project.checkout, "status", "--porcelain") == ""
    whole(project)


# -- beside other programs -----------------------------------------------------


def until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # polls for the moment; it is not guessed


def test_an_index_that_another_program_holds_is_refused(project: Project) -> None:
    lock = project.checkout / ".git/index.lock"
    for words in (["apply", "--stage", "device"], ["apply"], ["undo"]):
        before = project.snapshot()
        lock.touch()
        ended = project.run(*words)
        assert ended.code == 3
        assert_expected_inline(
            "\n".join(ended.lines.splitlines()[-3:]),
            """\
error: Another program holds the checkout's index; the checkout is as it was.
  why: CHECKOUT/.git/index.lock exists, and it did not go within 3 seconds
  next: rm CHECKOUT/.git/index.lock # when no other git is running; then the same command""",
        )
        assert project.snapshot() == before
        assert lock.read_bytes() == b"", "it is the other program's"
        lock.unlink()
        project.ok(*words)
        assert git(project.checkout, "status", "--porcelain") == ""
    whole(project)


def test_an_index_that_is_let_go_is_waited_for(project: Project) -> None:
    lock = project.checkout / ".git/index.lock"
    lock.touch()
    process = start(project, "apply")
    logs = project.folder / ".xpu/logs"
    until(lambda: any(b"waiting for" in path.read_bytes() for path in logs.glob("*apply*")))
    lock.unlink()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert git(project.checkout, "status", "--porcelain") == ""


def test_an_editor_that_asks_git_all_the_time(project: Project) -> None:
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            git(project.checkout, "status")

    editor = threading.Thread(target=ask)
    editor.start()
    try:
        for stage in ("stream", "base") * 4:
            project.ok("apply", "--stage", stage)
            assert git(project.checkout, "status", "--porcelain") == ""
    finally:
        done.set()
        editor.join()


def test_an_index_lock_after_a_power_loss_in_the_move_is_waited_for(project: Project) -> None:
    process = start(project, "apply", fault="file 0")
    process.communicate()
    own = project.checkout / ".git/index.lock"
    own.unlink()
    own.touch()  # another program has come since
    ended = project.run("status")
    assert ended.code == 3
    assert "Another program holds" in ended.err
    assert own.exists()
    own.unlink()
    project.ok("status")
    assert git(project.checkout, "status", "--porcelain") == ""
    assert project.log()[0] == "Add streams"


@pytest.mark.parametrize("edited", ["c10/CMakeLists.txt", "c10/xpu/Device.cpp"])
def test_a_file_saved_while_the_commits_are_made_is_kept(project: Project, edited: str) -> None:
    """A program in between writes into the checkout after it was found clean."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout
    program = (
        f'#!/bin/sh\ncase " $* " in *" -t commit "*) mkdir -p {project.checkout}/c10/xpu\n'
        f'echo mine >{project.checkout / edited};; esac\nexec {real.strip()} "$@"\n'
    )
    write(project.folder, {"bin/git": program})
    (project.folder / "bin/git").chmod(0o755)
    path = f"{project.folder / 'bin'}:{os.environ['PATH']}"
    ended = project.run("apply", env={"PATH": path})
    assert ended.code == 3, ended.err
    assert (project.checkout / edited).read_text() == "mine\n"
    assert project.log() == ["base"]
    whole(project)


# -- what cannot be written ------------------------------------------------------


@contextlib.contextmanager
def unwritable(path: Path) -> Iterator[None]:
    if os.geteuid():
        path.chmod(0o555)
        yield
        path.chmod(0o755)
        return
    made = subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"root writes everywhere, and: {made.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", str(path)], check=True)


def refused_as_it_was(project: Project, *words: str, env: dict[str, str] | None = None) -> str:
    before = project.snapshot()
    log = git(project.checkout, "reflog", "refs/xpu-stack/moves", check=False)
    ended = project.run(*words, env=env)
    assert ended.code == 3, ended.err
    assert "it is as it was" in ended.err
    assert project.snapshot() == before
    assert git(project.checkout, "reflog", "refs/xpu-stack/moves", check=False) == log
    whole(project)
    return ended.err


def test_a_folder_that_cannot_be_written(project: Project) -> None:
    with unwritable(project.checkout / "c10"):
        told = refused_as_it_was(project, "apply")
        assert "why: nothing can be written in CHECKOUT/c10" in told
        project.ok("status")
    project.ok("apply")
    with unwritable(project.checkout / "c10/xpu"):
        refused_as_it_was(project, "apply", "--stage", "base")


def test_a_file_that_cannot_be_replaced(project: Project) -> None:
    """Found only in the middle of the move."""
    if os.geteuid():
        pytest.skip("only root can make such a file")
    with unwritable(project.checkout / "c10/CMakeLists.txt"):
        told = refused_as_it_was(project, "apply")
        assert "why: Operation not permitted: CHECKOUT/c10/CMakeLists.txt" in told
    project.ok("apply")


def test_a_branch_that_another_program_holds(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    lock = project.checkout / ".git/refs/heads/xpu-stack.lock"
    lock.touch()
    refused_as_it_was(project, "apply")
    lock.unlink()
    project.ok("apply")


@pytest.mark.parametrize("verb", ["apply", "rebase"])
def test_a_step_that_fails_takes_all_back(project: Project, verb: str) -> None:
    folders_for_files(project)
    project.ok("apply", "--stage", "stream" if verb == "rebase" else "base")
    for point in ("locked", "gone", "file 0", "file 2", "index", "head"):
        times = {path: path.lstat().st_mtime_ns for path in project.checkout.rglob("*.cpp")}
        refused_as_it_was(project, *PAIRS[verb][0], env={"XPU_STACK_FAULT": f"{point}!"})
        assert {path: path.lstat().st_mtime_ns for path in times} == times
    project.ok(*PAIRS[verb][0])
    refused_as_it_was(project, *PAIRS[verb][1], env={"XPU_STACK_FAULT": "head!"})


@contextlib.contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Nothing in a folder can be written."""
    thaw = ["chmod", "-R", "u+w"] if os.geteuid() else ["chattr", "-R", "-i"]
    freeze = ["chmod", "-R", "a-w"] if os.geteuid() else ["chattr", "-R", "+i"]
    try:
        made = subprocess.run([*freeze, str(folder)], capture_output=True, check=False)
        if made.returncode:
            pytest.skip(f"root writes everywhere, and: {made.stderr.decode().strip()}")
        yield
    finally:
        subprocess.run([*thaw, str(folder)], check=False, capture_output=True)


def test_a_checkout_that_can_only_be_read(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    write(project.folder, {"c10_xpu/device/c10/xpu/More.cpp": "int more;\n"})
    with frozen(project.checkout):
        assert "device" in project.ok("status")
        project.ok("review")
        ended = project.run("apply")
        assert ended.code in (3, 4)
        assert "The tool itself failed" not in ended.err
    project.ok("apply")


@pytest.mark.slow
def test_what_only_reads_while_another_run_is_at_work(project: Project) -> None:
    project.ok("apply")
    lock = project.checkout / ".git/xpu-stack/lock"
    with lock.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        project.ok("status")
        project.ok("review")
        assert project.run("apply").code == 3


# -- an export ---------------------------------------------------------------------


def edit(project: Project) -> None:
    """Edits of three changes, in the work tree."""
    hooks = {"aten/Hooks.cpp": "int better_hooks;\n", "c10/xpu/Stream.cpp": "int streams;\n"}
    write(project.checkout, {**hooks, "c10/xpu/Device.cpp": "int device;\nint more;\n"})


def all_of(project: Project) -> dict[str, object]:
    return {**project.snapshot(), "series": kept(project)}


def series_and_checkout(project: Project) -> tuple[dict[str, object], dict[str, object]]:
    """Both, before an export of edits and after it; they are before it then."""
    project.ok("apply")
    project.ok("export")
    edit(project)
    before = all_of(project)
    project.ok("export")
    after = all_of(project)
    project.ok("undo")
    edit(project)
    assert all_of(project) == before
    return before, after


@pytest.mark.slow
def test_an_export_killed_at_random_moments(project: Project) -> None:
    before, after = series_and_checkout(project)
    started = time.monotonic()
    project.ok("export")
    duration = time.monotonic() - started
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(10):
        project.ok("undo")
        edit(project)
        process = start(project, "export")
        time.sleep(chance.uniform(0, duration * 1.1))  # the moment is the test's input
        with contextlib.suppress(ProcessLookupError):  # it may be done
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        settled(project)
        # the last step writes the series, in a session of its own, too
        until(lambda: not (project.folder / "patches/.transaction/journal.json").exists())
        assert kept(project) in (before["series"], after["series"]), "neither before nor after"
        project.ok("export")
        assert all_of(project) == after
        assert not (project.folder / "patches" / ".transaction").exists()
    whole(project)


@pytest.mark.parametrize("point", ["gone", "file 1", "The checkout", "index", "refs"])
def test_an_export_cut_off_is_finished_by_the_next_run(project: Project, point: str) -> None:
    _, after = series_and_checkout(project)
    process = start(project, "export", fault=point)
    process.communicate()
    assert process.returncode == 3
    project.ok("status")
    assert all_of(project) == after
    project.ok("export")
    assert all_of(project) == after
    project.ok("apply")


@pytest.mark.parametrize("point", ["gone", "file 1", "index", "head"])
def test_an_export_that_fails_takes_all_back(project: Project, point: str) -> None:
    before, after = series_and_checkout(project)
    ended = project.run("export", env={"XPU_STACK_FAULT": f"{point}!"})
    assert ended.code == 3
    assert "it is as it was" in ended.err
    assert all_of(project) == before
    project.ok("export")
    assert all_of(project) == after


def test_an_export_while_another_program_holds_the_index(project: Project) -> None:
    before, _ = series_and_checkout(project)
    (project.checkout / ".git/index.lock").touch()
    ended = project.run("export")
    assert ended.code == 3
    assert all_of(project) == before


RECORDS = ["conflict.json", "journal.json"]


@pytest.mark.parametrize("content", ["", '{"goal": {"sta'])
def test_a_record_that_a_crash_has_cut_off(project: Project, content: str) -> None:
    project.ok("apply", "--stage", "device")
    for name in RECORDS:
        record = project.checkout / ".git/xpu-stack" / name
        record.write_text(content)
        ended = project.run("apply")
        assert ended.code == 0, ended.err
        assert f"xpu-stack/{name} is cut off" in ended.out + ended.err
        assert record.with_name(f"{name}.torn").read_text() == content
    write(project.folder, {"patches/.transaction/journal.json": content})
    write(project.folder, {"patches/.transaction/old/0": "of the series\n"})
    ended = project.run("export")
    assert ended.code == 0, ended.err
    assert "journal.json is cut off" in ended.out + ended.err
    assert (project.folder / "patches/.transaction.torn/old/0").read_text() == "of the series\n"
    assert not (project.folder / "patches/.transaction").exists()


@pytest.mark.parametrize("point", ["gone", "file 0", "file 1"])
def test_a_new_change_is_there_whole_or_not_at_all(project: Project, point: str) -> None:
    words = ("new", "--change", "stream/more", "--title", "Add more")
    text = project.folder / "patches/texts/stream/more.md"
    project.run(*words, source=False, env={"XPU_STACK_FAULT": f"{point}!"})
    assert not text.exists()
    assert "more" not in (project.folder / "patches/series.yaml").read_text()
    project.run(*words, source=False, env={"XPU_STACK_FAULT": point})
    project.ok("status")  # completes it
    assert text.exists()
    assert "- name: more" in (project.folder / "patches/series.yaml").read_text()


def test_what_another_export_writes_meanwhile_is_not_written_over(project: Project) -> None:
    project.ok("apply")
    project.ok("export")
    other = "aten_xpu/device/aten/Hooks.cpp"
    write(project.checkout, {"c10/xpu/Stream.cpp": "int mine;\n"})
    lock = project.folder / ".xpu/series.lock"
    with lock.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        export = subprocess.Popen(
            project.command("export"),
            cwd=project.folder,
            env=project.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert export.stdout is not None
        line = ""
        while "waiting for another run" not in line:
            line = export.stdout.readline()
            assert line, "it did not wait"
        write(project.folder, {other: "int theirs;\n"})
    out, _ = export.communicate(timeout=120)
    assert export.returncode == 3, out
    assert "device/aten was edited since it was applied" in out
    assert (project.folder / other).read_text() == "int theirs;\n"
