"""Killed, interrupted, out of room: the checkout is as before or as after."""

import contextlib
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from project import Project, git, write

KILLS = 50
POINTS = ["locked", "file 0", "file 2", "index", "refs"]


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
        import fcntl

        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def whole(project: Project) -> None:
    """git finds nothing wrong, and nothing of ours is left behind."""
    # Objects that nothing refers to are what a killed run may leave.
    assert git(project.checkout, "fsck", "--full", "--no-dangling") == ""
    assert not (project.checkout / ".git/index.lock").exists()


def test_killed_at_random_moments(project: Project) -> None:
    project.ok("apply", "--stage", "base")
    states = {"base": project.snapshot()}
    started = time.monotonic()
    project.ok("apply", "--stage", "stream")
    duration = time.monotonic() - started
    states["stream"] = project.snapshot()
    at, seen = "stream", {"before": 0, "after": 0}
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(KILLS):
        target = "base" if at == "stream" else "stream"
        (project.checkout / ".git/xpu-stack/memo.json").unlink(missing_ok=True)
        process = start(project, "apply", "--stage", target)
        time.sleep(chance.uniform(0, duration * 1.1))  # the moment is the test's input
        with contextlib.suppress(ProcessLookupError):  # it may be done
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        settled(project)
        now = project.snapshot()
        assert now in (states[at], states[target]), "neither as before nor as after"
        seen["after" if now == states[target] else "before"] += 1
        whole(project)
        project.ok("apply", "--stage", target)
        assert project.snapshot() == states[target]
        at = target
    print(seen)
    assert seen["before"], "no kill came early enough to matter"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("way", ["up", "down"])
def test_the_move_itself_killed_is_finished_by_the_next_run(
    project: Project, point: str, way: str
) -> None:
    """Power loss within the few milliseconds that the move takes."""
    stages = ["base", "stream"] if way == "up" else ["stream", "base"]
    project.ok("apply", "--stage", stages[1])
    after = project.snapshot()
    project.ok("apply", "--stage", stages[0])
    process = start(project, "apply", "--stage", stages[1], fault=point)
    _, errors = process.communicate()
    assert process.returncode == 3, errors
    assert b"was cut off" in errors
    project.ok("status")
    assert project.snapshot() == after
    whole(project)


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
