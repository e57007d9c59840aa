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
   repeated: files that go, files that come, index, refs, HEAD. Then the
   journal is removed.

Step 3 takes milliseconds, or a second when most files change, in a process of
its own session, which a signal to the command and its group does not reach: a
killed `make apply` leaves the checkout as before or as after. Should that process die too (power),
the next command finds the journal and finishes the move before anything else.
"""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from xpu_stack import shell
from xpu_stack.console import log
from xpu_stack.errors import ToolError
from xpu_stack.git import ZERO, CommitId, Entry, Repository

_GITLINK = 0o160000  # a submodule: git itself leaves its folder alone
_MANY = 100  # files from which on one sync of the file system costs less than theirs
_ROOM = 1 << 18  # bytes kept free for git's own small files in step 3
_FAULT = "XPU_STACK_FAULT"  # a test's way to end step 3 at a given point


@dataclass(frozen=True)
class RefUpdate:
    """A ref's new value and its old one; ZERO: it is not there."""

    ref: str
    new: str
    old: str


@dataclass(frozen=True)
class Plan:
    """A move, as the journal has it."""

    new: str
    head: str  # the branch that HEAD is on then; "": none
    reason: str
    refs: list[RefUpdate]
    entries: list[tuple[str, int]]  # path, new mode; mode 0: the file goes

    @classmethod
    def load(cls, path: Path) -> "Plan":
        data = json.loads(path.read_text())
        refs = [RefUpdate(**ref) for ref in data.pop("refs")]
        entries = [(path, mode) for path, mode in data.pop("entries")]
        return cls(**data, refs=refs, entries=entries)


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
        plan = Plan.load(self._journal)
        log.info("finishing the move to %s that was cut off", plan.new)
        self._drop_own_locks(plan)
        self._perform(plan)
        return True

    def to(self, new: CommitId, head: str, refs: list[RefUpdate], reason: str) -> None:
        """Moves the checkout and its index to `new`, the refs, and HEAD to the branch `head`.

        The work tree must be clean. Untracked files stay; one that is in the
        way of a new file is a ToolError, before anything has happened.
        """
        old = self._repository.commit_id("HEAD")
        assert old is not None
        entries = self._repository.diff(old, new)
        self._refuse_collisions(entries)
        listed = [(entry.path, entry.new_mode) for entry in entries]
        plan = Plan(new, head, reason, refs, listed)
        self._prepare(entries, plan)
        self._in_own_session(lambda: self._perform(plan))

    # -- step 1 and 2 -----------------------------------------------------------

    def _refuse_collisions(self, entries: list[Entry]) -> None:
        going = {Path(entry.path) for entry in entries if not entry.new_mode}
        for entry in entries:
            if entry.old_mode:
                continue
            shown = self._in_the_way(Path(entry.path), going)
            if shown is None:
                continue
            raise ToolError(
                f"An untracked file is in the way: {shown}",
                why="the move puts a file there, and yours would be lost",
                next=f"mv {shown} {shown}.mine",
            )

    def _in_the_way(self, target: Path, going: set[Path]) -> Path | None:
        """What stands at `target`, or where it needs a folder; None: nothing that stays."""
        for up in list(target.parents)[-2::-1]:  # outermost first, without "."
            path = self._repository.folder / up
            if path.is_symlink() or path.is_file():
                return None if up in going else up
        path = self._repository.folder / target
        if path.is_dir() and not path.is_symlink():
            return self._stays_in(target, going)
        return target if path.is_symlink() or path.exists() else None

    def _stays_in(self, folder: Path, going: set[Path]) -> Path | None:
        for path in (self._repository.folder / folder).rglob("*"):
            name = path.relative_to(self._repository.folder)
            if (path.is_symlink() or not path.is_dir()) and name not in going:
                return name
        return None

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
        wanted = [
            (n, entry) for n, entry in enumerate(entries) if entry.new_mode not in (0, _GITLINK)
        ]
        # with the checkout's own filters (line ends, LFS), as git itself writes it
        asked = b"".join(f"{e.new} ".encode() + os.fsencode(e.path) + b"\n" for _, e in wanted)
        data = self._repository.run("cat-file", "--batch", "--filters", input=asked).output
        at = 0
        for number, entry in wanted:
            start = data.index(b"\n", at) + 1
            at = start + int(data[at:start].split()[2])
            content, at = data[start:at], at + 1
            path = self._stage / "files" / str(number)
            if entry.new_mode == 0o120000:
                path.symlink_to(os.fsdecode(content))
                continue
            path.write_bytes(content)
            path.chmod(0o755 if entry.new_mode == 0o100755 else 0o644)
            if len(wanted) < _MANY:
                self._sync(path)
        if len(wanted) >= _MANY:
            shell.run(["sync", "--file-system", self._stage])

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
        for path, mode in plan.entries:
            if not mode:  # first: a folder may come where a file was
                self._take_out(repository.folder / path)
        _fault("gone")
        for number, (path, mode) in enumerate(plan.entries):
            if mode:
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
        if mode == _GITLINK:
            if path.is_symlink() or path.is_file():
                path.unlink()
            path.mkdir(parents=True, exist_ok=True)
        elif staged.is_symlink() or staged.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir() and not path.is_symlink():
                self._take_out_folders(path)
            staged.replace(path)

    def _take_out(self, path: Path) -> None:
        # Repeated after a cut, the new may stand there: a folder where the
        # file was, or a file or a link where the file's folder was.
        if self._is_beyond_a_link(path):
            return
        if path.is_dir() and not path.is_symlink():
            self._take_out_folders(path)  # a submodule's: it goes when it is empty
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        self._take_out_folders(path.parent)

    def _is_beyond_a_link(self, path: Path) -> bool:
        inner = path.relative_to(self._repository.folder).parents
        return any((self._repository.folder / folder).is_symlink() for folder in inner)

    def _take_out_folders(self, folder: Path) -> None:
        """Removes a folder and those above it, as far as they are empty."""
        while folder != self._repository.folder:
            try:
                folder.rmdir()
            except OSError:
                break  # something is left in it
            folder = folder.parent

    def _move_refs(self, plan: Plan) -> None:
        repository = self._repository
        for update in plan.refs:
            if update.new != ZERO:
                self._move_ref(update, plan.reason)
                _fault(update.ref)
        if plan.head and repository.branch() != plan.head:
            head = f"refs/heads/{plan.head}"
            repository.run("symbolic-ref", "-m", plan.reason, "HEAD", head)
        elif not plan.head and (repository.branch() or repository.commit_id("HEAD") != plan.new):
            repository.run("update-ref", "--no-deref", "-m", plan.reason, "HEAD", plan.new)
        _fault("head")
        for update in plan.refs:
            if update.new == ZERO:  # last: HEAD may have been on it
                self._move_ref(update, plan.reason)

    def _move_ref(self, update: RefUpdate, reason: str) -> None:
        current = self._repository.commit_id(update.ref) or ZERO
        if current == update.new:
            return
        if current != update.old:
            log.error("%s moved to %s meanwhile", update.ref, current)
        if update.new == ZERO:
            self._repository.run("update-ref", "-d", update.ref, current)
            return
        words = ("update-ref", "--create-reflog", "-m", reason)
        self._repository.run(*words, update.ref, update.new, current)

    def _drop_own_locks(self, plan: Plan) -> None:
        """Lock files of a git that died within step 3; we hold our own lock."""
        for name in (*(f"{update.ref}.lock" for update in plan.refs), "HEAD.lock"):
            self._repository.git_path(name).unlink(missing_ok=True)
        lock, prepared = self._repository.git_path("index.lock"), self._stage / "index"
        if lock.exists() and not (prepared.exists() and lock.samefile(prepared)):
            log.error("removing %s of a git that died", lock)
            lock.unlink()


def _fault(point: str) -> None:
    if os.environ.get(_FAULT) == point:
        os.kill(os.getpid(), signal.SIGKILL)
