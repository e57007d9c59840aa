"""Moves a checkout from one commit to another, atomically.

Note [All or nothing]
~~~~~~~~~~~~~~~~~~~~~
The commits exist before a checkout is touched. What is left is to change a few
files, the index, the branch and HEAD, and no file system does that in one
step. So:

1. All that is needed is written into .git/<name>/switch/: every file's new
   content, the new index, and room for the little that git itself will write.
   A disk that is full is full now, and nothing has happened.
2. index.lock is taken as git takes it, so that no other git changes the index.
   It is a link to a file of ours, by which the next run knows it for its own.
   Only now is it certain that nothing is edited or in the way.
3. The journal is renamed into place: from here on the move happens.
4. The move is a row of renames, see Note [Renames]: files that go, files that
   come, index; then refs and HEAD. Each step can be repeated, and taken back:
   when one fails, all are. Then the journal and the lock are removed.

Steps 2 to 4 take milliseconds, or a second when most files change, in a process
of its own session, which a signal to the command and its group does not reach: a
killed `make apply` leaves the checkout as before or as after. Should that process die too (power),
the next command finds the journal and finishes the move before anything else.
"""

import contextlib
import filecmp
import json
import os
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from xpu_stack.core.system import commands, critical, files, shell
from xpu_stack.core.system.console import log
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import ZERO, CommitId, Entry, File, Repository
from xpu_stack.core.system.objects import GITLINK
from xpu_stack.core.system.settings import settings
from xpu_stack.core.system.shell import CommandFailed
from xpu_stack.core.system.transaction import Renamed, Renames, fault, forward_or_back, reason

_MANY = 100  # files from which on one sync of the file system costs less than theirs
_ROOM = 1 << 18  # bytes kept free for git's own small files in step 4
_WAIT = 3.0  # seconds that another program may hold the index


class RefUpdate(NamedTuple):
    """A ref's new value and its old one; ZERO: it is not there."""

    ref: str
    new: str
    old: str


class Place(NamedTuple):
    """Where a checkout is. head: the branch that HEAD is on; "": none."""

    commit: str
    head: str


class Journal(NamedTuple):
    """A move, as its journal has it in JSON."""

    old: Place
    new: Place
    reason: str
    refs: list[RefUpdate]
    files: list[Renamed]

    @classmethod
    def of(cls, told: list[Any]) -> "Journal":
        old, new, reason, refs, files = told
        refs, files = [RefUpdate(*one) for one in refs], [Renamed(*one) for one in files]
        return cls(Place(*old), Place(*new), reason, refs, files)

    def reversed(self) -> "Journal":
        refs = [RefUpdate(update.ref, update.old, update.new) for update in self.refs]
        return self._replace(old=self.new, new=self.old, refs=refs)


class Switch:
    """The moves of one checkout."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.folder = repository.own_folder
        self._stage = self.folder / "switch"
        # contents wait on the disk of the files: a linked worktree may be on another than its git
        same = repository.folder.stat().st_dev == repository.git_dir.stat().st_dev
        self._files = self._stage if same else repository.folder / f".{settings().name}-switch"
        self._journal = self.folder / "journal.json"
        self._lock = repository.git_dir / "index.lock"
        self._index = repository.git_dir / "index"

    def recover(self) -> bool:
        """Completes a move that was interrupted. Returns whether there was one."""
        told = files.load(self._journal)
        if told is None:
            self._leave()
            return False
        plan = Journal.of(told)
        log.info("finishing the move to %s that was cut off", plan.new.commit)
        self._drop_own_locks(plan)
        self._take_lock()
        self._perform(plan)
        return True

    def to(
        self,
        new: CommitId,
        head: str,
        refs: list[RefUpdate],
        reason: str,
        *,
        here: str | None = None,
        files: str | None = None,
    ) -> None:
        """Moves the checkout and its index to `new`, the refs, and HEAD to the branch `head`.

        here: what the work tree is, where that is not HEAD; files: what it is to be,
        where that is not `new`. Both are commits.

        Untracked files stay; one that is in the way of a new file is a
        ToolError, and so is an edited file, unless it is as it will be. Either
        comes before anything has happened.
        """
        old = self._repository.head
        entries = self._repository.diff(old, new)
        written = self._prepare(entries, self._repository.diff(here or old, files or new))
        place = Place(old, self._repository.branch() or "")
        plan = Journal(place, Place(new, head), reason, refs, [])
        critical.run(lambda: self._go(plan, entries, written))

    # -- steps 1 to 3 -----------------------------------------------------------

    def _go(self, plan: Journal, entries: list[Entry], files: list[Entry]) -> None:
        try:
            self._take_lock()
            if not filecmp.cmp(self._index, self._stage / "index.old", shallow=False):
                with self._writing():
                    self._write_index(entries)  # another git has written it since
            there = self._as_they_will_be(files)
            self._refuse_collisions(files, there)
            plan.files.extend(
                Renamed(e.path, e.old_mode, e.new_mode) for e in files if e.path not in there
            )
            Renames(self._repository.folder, self._files, plan.files).refuse_unwritable(
                "The checkout"
            )
            self._set_off(plan)
        except BaseException:
            self._leave()
            raise
        self._perform(plan)

    def _take_lock(self) -> None:
        """Takes git's lock of the index; another program's goes by itself, or not."""
        deadline = time.monotonic() + _WAIT
        while not self._has_lock():
            with contextlib.suppress(FileExistsError):
                os.link(self._stage / "lock", self._lock)
                break
            if time.monotonic() >= deadline:
                raise ToolError(
                    "Another program holds the checkout's index; the checkout is as it was.",
                    why=f"{self._lock} exists, and it did not go within {_WAIT:.0f} seconds",
                    next=f"{commands.line('rm', self._lock)} # when no other git is running; "
                    "then the same command",
                )
            log.debug("waiting for %s to go", self._lock)
            time.sleep(0.05)

    def _has_lock(self) -> bool:
        try:
            return self._lock.samefile(self._stage / "lock")
        except FileNotFoundError:
            return False

    def _leave(self) -> None:
        """Removes what was prepared, and the lock."""
        if self._has_lock():
            self._lock.unlink()
        self._clear()

    def _clear(self) -> None:
        for folder in (self._stage, self._files):
            shutil.rmtree(folder, ignore_errors=True)

    def _refuse_collisions(self, entries: list[Entry], there: set[str]) -> None:
        going = {Path(entry.path) for entry in entries if not entry.new_mode}
        for entry in entries:
            new = not entry.old_mode and entry.path not in there
            if new and (shown := self._in_the_way(Path(entry.path), going)):
                path = self._repository.folder / shown
                raise ToolError(
                    f"An untracked file is in the way: {shown}",
                    why="the move puts a file there, and yours would be lost",
                    next=commands.line("mv", path, f"{path}.mine"),
                )

    def _in_the_way(self, target: Path, going: set[Path]) -> Path | None:
        """What stands at `target`, or where it needs a folder; None: nothing that stays."""
        for up in list(target.parents)[-2::-1]:  # outermost first, without "."
            path = self._repository.folder / up
            if path.is_symlink() or path.is_file():
                return None if up in going else up
        path = self._repository.folder / target
        if path.is_symlink() or not path.is_dir():
            return target if os.path.lexists(path) else None
        files = (one for one in path.rglob("*") if one.is_symlink() or not one.is_dir())
        names = (one.relative_to(self._repository.folder) for one in files)
        return next((name for name in names if name not in going), None)

    def _as_they_will_be(self, entries: list[Entry]) -> set[str]:
        """The edited files that have their new content already, as after an export."""
        edited = {*self._repository.uncommitted(untracked=False)[0], *self._hidden}
        found = set()
        for entry in entries:
            if entry.path not in edited:
                continue
            stored = self._repository.store_edited(entry.path)
            if stored == File(entry.new_mode, entry.new):
                found.add(entry.path)
            elif stored != File(entry.old_mode, entry.old):
                raise self._edited(entry.path, self._hidden.get(entry.path, ()))
        return found

    def _edited(self, path: str, bits: Collection[str]) -> ToolError:
        if not bits:
            return ToolError(
                f"{path} was edited meanwhile; the checkout is as it was.",
                why="the move changes that file, and the edit would be lost",
                next=commands.git(self._repository.folder, "stash"),
            )
        options = [f"--no-{bit}" for bit in bits]
        return ToolError(
            f"{path} has an edit that git does not show; the checkout is as it was.",
            why=f"the file is marked {' and '.join(bits)}, and the edit would be lost",
            next=f"{commands.git(self._repository.folder, 'update-index', *options, path)} && "
            + commands.git(self._repository.folder, "stash"),
        )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, CommandFailed) as error:
            self._leave()
            raise ToolError(
                "The checkout could not be changed; it is as it was.",
                why=reason(error),
                next="df -h . # free some space, then run the same command again",
            ) from error

    def _prepare(self, entries: list[Entry], files: list[Entry]) -> list[Entry]:
        """Does step 1; the files that are to be written or to go."""
        self._clear()
        with self._writing():
            self._stage.mkdir(parents=True)
            (self._files / "new").mkdir(parents=True)
            (self._stage / "lock").touch()
            (self._stage / "forward").touch()
            self._write_index(entries)
            written = [
                entry
                for entry in files
                # a file that a sparse checkout leaves out
                if "skip-worktree" not in self._hidden.get(entry.path, ())
                or os.path.lexists(self._repository.folder / entry.path)
            ]
            self._write_contents(written)
            (self._stage / "room").write_bytes(b"\1" * _ROOM)
        return written

    def _set_off(self, plan: Journal) -> None:
        with self._writing():
            draft = self._stage / "journal.json"
            draft.write_text(json.dumps(plan))
            self._sync(draft)
            (self._stage / "room").unlink()
            draft.rename(self._journal)

    def _write_contents(self, files: list[Entry]) -> None:
        """Has git write the files, by the filters and attributes of the new index."""
        folder = self._files / "new"
        wanted = [e.path for e in files if e.new_mode not in (0, GITLINK)]
        contents = self._stage / "contents"
        shutil.copyfile(self._stage / "index", contents)
        self._put(contents, files)
        env = {
            "GIT_DIR": str(self._repository.git_dir),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(contents),
        }
        asked = os.fsencode("".join(f"{path}\0" for path in wanted))
        words = ("-c", "checkout.workers=0", "checkout-index", "-z", "--stdin")
        self._repository.run(*words, input=asked, env=env, cwd=folder)
        for path in wanted:
            os.lstat(f"{folder}/{path}")  # git has written each
            if len(wanted) < _MANY and not (folder / path).is_symlink():
                self._sync(folder / path)
        if len(wanted) >= _MANY:
            shell.run(["sync", "--file-system", folder])

    def _write_index(self, entries: list[Entry]) -> None:
        """The new index; its files are marked as in the old one."""
        index = self._stage / "index"
        shutil.copyfile(self._index, self._stage / "index.old")
        shutil.copyfile(self._stage / "index.old", index)
        self._put(index, entries)
        self._hidden = self._repository.hidden(self._stage / "index.old")
        env = {"GIT_INDEX_FILE": str(index)}
        for entry in entries:
            for bit in self._hidden.get(entry.path, ()) if entry.new_mode else ():
                self._repository.run("update-index", f"--{bit}", "--", entry.path, env=env)

    def _put(self, index: Path, entries: list[Entry]) -> None:
        lines = "".join(f"{e.new_mode:06o} {e.new}\t{e.path}\0" for e in entries)
        words, env = ("update-index", "-z", "--index-info"), {"GIT_INDEX_FILE": str(index)}
        self._repository.run(*words, input=os.fsencode(lines), env=env)

    def _sync(self, path: Path) -> None:
        with path.open("rb") as file:
            os.fsync(file.fileno())

    # -- step 4 -----------------------------------------------------------------

    def _perform(self, plan: Journal) -> None:
        """Step 4; may be repeated from any point of itself."""
        renames = Renames(self._repository.folder, self._files, plan.files)

        def forward() -> None:
            fault("locked")
            renames.forward()
            self._put_index(self._stage / "index")
            fault("index")
            self._move_refs(plan)
            fault("refs")

        def back() -> None:
            self._move_refs(plan.reversed())
            renames.back()
            self._put_index(self._stage / "index.old")

        error = forward_or_back(self._stage, forward, back)
        self._journal.unlink()
        self._leave()
        if error:
            raise ToolError(
                "The checkout could not be changed; it is as it was.",
                why=reason(error),
                next="fix that, then run the same command again",
            )

    def _put_index(self, prepared: Path) -> None:
        if prepared.exists():
            # The files' new times, so that git need not read them again.
            env = {"GIT_INDEX_FILE": str(prepared)}
            self._repository.run("update-index", "-q", "--refresh", env=env, check=False)
            prepared.replace(self._index)

    def _move_refs(self, plan: Journal) -> None:
        branches = [update for update in plan.refs if update.ref.startswith("refs/heads/")]
        self._update([one for one in branches if one.new != ZERO], plan.reason)
        self._move_head(plan)
        # HEAD may have been on one that goes
        self._update([one for one in branches if one.new == ZERO], plan.reason)
        # last: the log of moves has none that was taken back
        self._update([one for one in plan.refs if one not in branches], plan.reason)

    def _move_head(self, plan: Journal) -> None:
        repository, commit, head = self._repository, plan.new.commit, plan.new.head
        if head and repository.branch() != head:
            repository.run("symbolic-ref", "-m", plan.reason, "HEAD", f"refs/heads/{head}")
        elif not head and (repository.branch() or repository.commit_id("HEAD") != commit):
            repository.run("update-ref", "--no-deref", "-m", plan.reason, "HEAD", commit)
        fault("head")

    def _update(self, refs: list[RefUpdate], reason: str) -> None:
        for update in refs:
            current = self._repository.commit_id(update.ref) or ZERO
            if current not in (update.old, update.new):
                log.error("%s moved to %s meanwhile", update.ref, current)
            if current != update.new:
                words = ("update-ref", "--create-reflog", "-m", reason)
                self._repository.run(*words, update.ref, update.new, current)
            fault(update.ref)

    def _drop_own_locks(self, plan: Journal) -> None:
        """Lock files of a git that died within step 4; we hold our own lock."""
        for name in (*(f"{update.ref}.lock" for update in plan.refs), "HEAD.lock"):
            self._repository.git_path(name).unlink(missing_ok=True)
