"""Moving a checkout from one commit to another, all or nothing.

Note [All or nothing]
~~~~~~~~~~~~~~~~~~~~~
The commits exist before a checkout is touched. What is left is to change a few
files, the index, the branch and HEAD, and no file system does that in one
step. So:

1. All that is needed is written into .git/xpu-stack/switch/: every file's new
   content, the new index, and room for the little that git itself will write.
   A disk that is full is full now, and nothing has happened.
2. The journal is renamed into place: from here on the move happens.
3. The move is a row of renames on one file system, each of which can be
   repeated: files, index, branch, HEAD. Then the journal is removed.

Step 3 takes a few milliseconds, in a process of its own session, which a
signal to the command and its group does not reach: a killed `make apply`
leaves the checkout as before or as after. Should that process die too (power),
the next command finds the journal and finishes the move before anything else.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from xpu_stack.console import log
from xpu_stack.errors import ToolError
from xpu_stack.git import ZERO, CommitId, Entry, Repository

PREVIOUS = "refs/xpu-stack/previous"
_ROOM = 1 << 18  # bytes kept free for git's own small files in step 3
_FAULT = "XPU_STACK_FAULT"  # a test's way to end step 3 at a given point


@dataclass(frozen=True)
class Plan:
    """A move, as the journal has it."""

    new: str
    branch: str
    branch_was: str
    entries: list[tuple[str, int]]  # path, new mode; mode 0: the file goes


class Switch:
    """The moves of one checkout."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.folder = repository.git_dir / "xpu-stack"
        self._stage = self.folder / "switch"
        self._journal = self.folder / "journal.json"

    def recover(self) -> bool:
        """Finishes a move that was cut off; whether there was one."""
        if not self._journal.exists():
            shutil.rmtree(self._stage, ignore_errors=True)
            return False
        plan = Plan(**json.loads(self._journal.read_text()))
        log.info("finishing the move to %s that was cut off", plan.new)
        self._drop_own_locks(plan)
        self._perform(plan)
        return True

    def to(self, new: CommitId, branch: str) -> None:
        """Moves the checkout, its index and `branch` to `new`, and HEAD to `branch`.

        The work tree must be clean. Untracked files stay; one that is in the
        way of a new file is a ToolError, before anything has happened.
        """
        old = self._repository.commit_id("HEAD")
        assert old is not None
        entries = self._repository.diff(old, new)
        self._refuse_collisions(entries)
        plan = Plan(
            new,
            branch,
            self._repository.commit_id(f"refs/heads/{branch}") or ZERO,
            [(entry.path, entry.new_mode) for entry in entries],
        )
        self._prepare(entries, plan)
        self._in_own_session(lambda: self._perform(plan))

    # -- step 1 and 2 -----------------------------------------------------------

    def _refuse_collisions(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.old_mode:
                continue
            shown = self._in_the_way(Path(entry.path))
            if shown is None:
                continue
            raise ToolError(
                f"An untracked file is in the way: {shown}",
                why="the series puts a file there, and yours would be lost",
                next=f"mv {shown} {shown}.mine",
            )

    def _in_the_way(self, target: Path) -> Path | None:
        """What stands at `target`, or where it needs a folder; None: nothing."""
        for up in list(target.parents)[-2::-1]:  # outermost first, without "."
            path = self._repository.folder / up
            if path.is_symlink() or path.is_file():
                return up
        path = self._repository.folder / target
        return target if path.is_symlink() or path.exists() else None

    def _prepare(self, entries: list[Entry], plan: Plan) -> None:
        shutil.rmtree(self._stage, ignore_errors=True)
        try:
            (self._stage / "files").mkdir(parents=True)
            self._write_contents(entries)
            self._write_index(entries)
            (self._stage / "room").write_bytes(b"\1" * _ROOM)
            draft = self._stage / "journal.json"
            draft.write_text(json.dumps(asdict(plan)))
            self._sync(draft)
            (self._stage / "room").unlink()
        except OSError as error:
            shutil.rmtree(self._stage, ignore_errors=True)
            raise ToolError(
                "The checkout could not be changed; it is as it was.",
                why=f"{error.strerror}: {self._stage}",
                next="df -h . # make room, then type the same command again",
            ) from error
        draft.rename(self._journal)

    def _write_contents(self, entries: list[Entry]) -> None:
        wanted = [(n, entry) for n, entry in enumerate(entries) if entry.new_mode]
        # with the checkout's own filters (line ends, LFS), as git itself writes it
        asked = b"".join(f"{e.new} ".encode() + os.fsencode(e.path) + b"\n" for _, e in wanted)
        data = self._repository.run("cat-file", "--batch", "--filters", input=asked).output
        for number, entry in wanted:
            head, _, data = data.partition(b"\n")
            size = int(head.split()[2])
            content, data = data[:size], data[size + 1 :]
            path = self._stage / "files" / str(number)
            if entry.new_mode == 0o120000:
                path.symlink_to(os.fsdecode(content))
                continue
            path.write_bytes(content)
            path.chmod(0o755 if entry.new_mode == 0o100755 else 0o644)
            self._sync(path)

    def _write_index(self, entries: list[Entry]) -> None:
        index = self._stage / "index"
        shutil.copyfile(self._repository.git_path("index"), index)
        lines = b"".join(
            f"{entry.new_mode:06o} {entry.new if entry.new_mode else ZERO}\t".encode()
            + os.fsencode(entry.path)
            + b"\0"
            for entry in entries
        )
        env = {"GIT_INDEX_FILE": str(index)}
        self._repository.run("update-index", "-z", "--index-info", input=lines, env=env)

    def _sync(self, path: Path) -> None:
        with path.open("rb") as file:
            os.fsync(file.fileno())

    # -- step 3 -----------------------------------------------------------------

    def _in_own_session(self, work: Callable[[], None]) -> None:
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            if status:
                raise ToolError(
                    "The checkout's move was cut off.",
                    why=f"its process ended with {os.waitstatus_to_exitcode(status)}",
                    next="type the same command again: it finishes the move first",
                )
            return
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            work()
            os._exit(0)
        except BaseException:
            log.exception("in the move")
            os._exit(1)

    def _perform(self, plan: Plan) -> None:
        """Step 3; may be repeated from any point of itself."""
        repository = self._repository
        lock = repository.git_path("index.lock")
        prepared = self._stage / "index"
        if prepared.exists() and not lock.exists():
            os.link(prepared, lock)  # git's own lock: no other git writes now
        _fault("locked")
        for number, (path, mode) in enumerate(plan.entries):
            self._place(number, repository.folder / path, mode)
            _fault(f"file {number}")
        if lock.exists() and prepared.exists() and lock.samefile(prepared):
            lock.rename(repository.git_path("index"))
            # rename() of two names of one file does nothing
            lock.unlink(missing_ok=True)
        prepared.unlink(missing_ok=True)
        _fault("index")
        self._move_refs(plan)
        _fault("refs")
        # The new files' times, so that git need not read them again.
        repository.run("update-index", "-q", "--refresh", check=False)
        self._journal.unlink()
        shutil.rmtree(self._stage, ignore_errors=True)

    def _place(self, number: int, path: Path, mode: int) -> None:
        staged = self._stage / "files" / str(number)
        if mode:
            if staged.is_symlink() or staged.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(path)
            return
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._repository.folder:
                break
            try:
                folder.rmdir()
            except OSError:
                break  # something is left in it

    def _move_refs(self, plan: Plan) -> None:
        repository, new = self._repository, plan.new
        branch = f"refs/heads/{plan.branch}"
        current = repository.commit_id(branch) or ZERO
        if current != new:
            if current != plan.branch_was:
                log.error("%s moved to %s meanwhile", branch, current)
            if plan.branch_was != ZERO:
                repository.run("update-ref", PREVIOUS, plan.branch_was)
            repository.run("update-ref", "-m", "xpu-stack", branch, new, current)
        if repository.branch() != plan.branch:
            repository.run("symbolic-ref", "-m", "xpu-stack", "HEAD", branch)

    def _drop_own_locks(self, plan: Plan) -> None:
        """Lock files of a git that died within step 3; we hold our own lock."""
        for name in (f"refs/heads/{plan.branch}.lock", f"{PREVIOUS}.lock", "HEAD.lock"):
            self._repository.git_path(name).unlink(missing_ok=True)
        lock, prepared = self._repository.git_path("index.lock"), self._stage / "index"
        if lock.exists() and not (prepared.exists() and lock.samefile(prepared)):
            log.error("removing %s of a git that died", lock)
            lock.unlink()


def _fault(point: str) -> None:
    if os.environ.get(_FAULT) == point:
        os.kill(os.getpid(), signal.SIGKILL)
