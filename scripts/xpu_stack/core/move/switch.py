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
   come, those of the series that the move goes with, index; then refs and HEAD.
   Each step can be repeated, and taken back: when one fails, all are. Then the
   journal and the lock are removed.

Steps 2 to 4 take milliseconds, or a second when most files change, in a process
of its own session, which a signal to the command and its group does not reach: a
killed `make apply` leaves the checkout as before or as after. Should that process die too (power),
the next command finds the journal and finishes the move before anything else.
So does one that works on the series alone with the files of the series.
"""

import contextlib
import filecmp
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from xpu_stack.core.system import commands, files, shell, transaction
from xpu_stack.core.system.console import log
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import ZERO, CommitId, Entry, File, Repository
from xpu_stack.core.system.layout import settings
from xpu_stack.core.system.objects import GITLINK
from xpu_stack.core.system.shell import CommandFailed
from xpu_stack.core.system.transaction import Renamed, Renames, fault, forward_or_back

_MANY = 100  # files from which on one sync of the file system costs less than theirs
_ROOM = 1 << 18  # bytes kept free for git's own small files in step 4
_WAIT = 3.0  # seconds that another program may hold the index


class Switch:
    """A move of one checkout.

    refs: each with its old and its new value, in the order in which they move; ZERO: it is
    not there; HEAD may be at another ref. reason: for their reflogs; series: files of the
    series that wait to be written with it.
    """

    def __init__(
        self,
        repository: Repository,
        refs: Sequence[tuple[str, str, str]] = (),
        reason: str = "",
        series: Renames | None = None,
    ) -> None:
        self._repository, self._refs, self._reason = repository, refs, reason
        self._stage = repository.own_folder / "switch"
        # contents wait on the disk of the files: a linked worktree may be on another than its git
        same = repository.folder.stat().st_dev == repository.git_dir.stat().st_dev
        contents = self._stage if same else repository.folder / f".{settings().name}-switch"
        self._own = Renames("The checkout", repository.folder, contents, [])
        self._rows = [self._own, series] if series else [self._own]
        self._journal = repository.own_folder / "journal.json"
        self._lock = repository.git_dir / "index.lock"
        self._index = repository.git_dir / "index"

    def recover(self) -> bool:
        """Completes a move that was interrupted. Returns whether there was one."""
        told = files.load(self._journal)
        if told is None:
            self._leave()
            return False
        self._refs, self._reason, renamed, series = told
        self._own.files.extend(Renamed(*one) for one in renamed)
        if series and (waiting := transaction.waiting(Path(series), self._journal)):
            self._rows.append(waiting)
        log.info("finishing the move that was cut off: %s", self._reason)
        for ref, *_ in self._refs:  # of a git that died within step 4; we hold our own lock
            self._repository.git_path(f"{ref}.lock").unlink(missing_ok=True)
        self._take_lock()
        self._perform()
        return True

    def to(self, new: CommitId, *, here: str | None = None, files: str | None = None) -> None:
        """Moves the checkout and its index to `new`, and the refs.

        here: what the work tree is, where that is not HEAD; files: what it is to be,
        where that is not `new`. Both are commits.

        Untracked files stay; one that is in the way of a new file is a
        ToolError, and so is an edited file, unless it is as it will be. Either
        comes before anything has happened.
        """
        old = self._repository.head
        entries = self._repository.diff(old, new)
        if files:  # git knew of a new file, and does again
            edited = self._repository.diff(new, files)
            entries = [*entries, *(one for one in edited if not one.old_mode)]
        changed = self._repository.diff(here or old, files or new)
        with self._or_as_it_was():
            written = self._prepare(entries, changed)
        transaction.uninterrupted(lambda: self._go(entries, written))

    @contextlib.contextmanager
    def _or_as_it_was(self) -> Iterator[None]:
        """Removes what was prepared, and the lock, where something fails before step 4."""
        try:
            yield
        except BaseException as error:
            self._leave()
            if isinstance(error, (OSError, CommandFailed)):
                raise self._own.failed(error, "df -h . # free some space") from error
            raise

    def _leave(self) -> None:
        if self._has_lock():
            self._lock.unlink()
        for folder in (self._stage, *(row.stage for row in self._rows)):
            shutil.rmtree(folder, ignore_errors=True)

    # -- step 1 -----------------------------------------------------------------

    def _prepare(self, entries: list[Entry], changed: list[Entry]) -> list[Entry]:
        """The files that are to be written or to go."""
        self._stage.mkdir(parents=True)
        (self._own.stage / "new").mkdir(parents=True)
        for name in ("lock", "forward"):
            (self._stage / name).touch()
        self._write_index(entries)
        written = [
            entry
            for entry in changed
            # a file that a sparse checkout leaves out
            if "skip-worktree" not in self._hidden.get(entry.path, ())
            or os.path.lexists(self._repository.folder / entry.path)
        ]
        self._write_contents(written)
        (self._stage / "room").write_bytes(b"\1" * _ROOM)
        return written

    def _write_index(self, entries: list[Entry]) -> None:
        """The new index; its files are marked as in the old one."""
        shutil.copyfile(self._index, self._stage / "index.old")
        self._copy_index("index.old", "index", entries)
        env = {"GIT_INDEX_FILE": str(self._stage / "index")}
        self._hidden = self._repository.hidden(self._stage / "index.old")
        for entry in entries:
            for bit in self._hidden.get(entry.path, ()) if entry.new_mode else ():
                self._repository.run("update-index", f"--{bit}", "--", entry.path, env=env)

    def _copy_index(self, name: str, copy: str, entries: list[Entry]) -> None:
        shutil.copyfile(self._stage / name, self._stage / copy)
        files = {entry.path: entry.file for entry in entries}
        self._repository.put_into(self._stage / copy, files)

    def _write_contents(self, entries: list[Entry]) -> None:
        """Has git write the files, by the filters and attributes of the new index."""
        folder = self._own.stage / "new"
        wanted = [entry.path for entry in entries if entry.new_mode not in (0, GITLINK)]
        self._copy_index("index", "contents", entries)
        env = {
            "GIT_DIR": str(self._repository.git_dir),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(self._stage / "contents"),
        }
        asked = os.fsencode("".join(f"{path}\0" for path in wanted))
        words = ("-c", "checkout.workers=0", "checkout-index", "-z", "--stdin")
        self._repository.run(*words, input=asked, env=env, cwd=folder)
        for path in wanted:
            os.lstat(f"{folder}/{path}")  # git has written each
            if len(wanted) < _MANY and not (folder / path).is_symlink():
                with (folder / path).open("rb") as file:
                    os.fsync(file.fileno())
        if len(wanted) >= _MANY:
            shell.run(["sync", "--file-system", folder])

    # -- steps 2 and 3 ----------------------------------------------------------

    def _go(self, entries: list[Entry], written: list[Entry]) -> None:
        with self._or_as_it_was():
            self._take_lock()
            if not filecmp.cmp(self._index, self._stage / "index.old", shallow=False):
                self._write_index(entries)  # another git has written it since
            there = self._as_they_will_be(written)
            self._refuse_collisions(written, there)
            self._own.files.extend(
                Renamed(one.path, one.old_mode, one.new_mode)
                for one in written
                if one.path not in there
            )
            for row in self._rows:
                row.refuse_unwritable()
            series = next((str(row.root) for row in self._rows[1:]), "")
            plan = [self._refs, self._reason, self._own.files, series]
            files.write(self._journal, json.dumps(plan))
        self._perform()

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
        top = self._repository.folder
        for name in [*list(target.parents)[-2::-1], target]:  # outermost first, without "."
            path = top / name
            if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
                return None if name in going else name
        inner = (top / target).rglob("*")
        names = (one.relative_to(top) for one in inner if one.is_symlink() or not one.is_dir())
        return next((name for name in names if name not in going), None)

    def _as_they_will_be(self, entries: list[Entry]) -> set[str]:
        """The edited files that have their new content already, as after an export."""
        repository, folder = self._repository, self._repository.folder
        edited, found = {*repository.uncommitted(untracked=False)[0], *self._hidden}, set()
        for entry in entries:
            path, bits = entry.path, self._hidden.get(entry.path, ())
            stored = repository.store_edited(path) if path in edited else None
            if stored == entry.file:
                found.add(path)
            elif stored not in (None, File(entry.old_mode, entry.old)):
                if not bits:
                    raise ToolError(
                        f"{path} was edited meanwhile; the checkout is as it was.",
                        why="the move changes that file, and the edit would be lost",
                        next=commands.git(folder, "stash"),
                    )
                options = (f"--no-{bit}" for bit in bits)
                raise ToolError(
                    f"{path} has an edit that git does not show; the checkout is as it was.",
                    why=f"the file is marked {' and '.join(bits)}, and the edit would be lost",
                    next=f"{commands.git(folder, 'update-index', *options, path)} && "
                    + commands.git(folder, "stash"),
                )
        return found

    # -- step 4 -----------------------------------------------------------------

    def _perform(self) -> None:
        """Step 4; may be repeated from any point of itself."""

        def forward() -> None:
            fault("locked")
            for row in self._rows:
                row.forward()
                fault(row.what)
            self._put_index("index")
            fault("index")
            for ref, old, new in self._refs:
                self._put_ref(ref, old, new)
            fault("refs")

        def back() -> None:
            for ref, old, new in reversed(self._refs):
                self._put_ref(ref, new, old)
            for row in self._rows:
                row.back()
            self._put_index("index.old")

        (self._stage / "room").unlink(missing_ok=True)
        error = forward_or_back(self._stage, forward, back)
        self._journal.unlink()
        self._leave()
        if error:
            raise self._own.failed(error)

    def _put_index(self, name: str) -> None:
        prepared = self._stage / name
        if prepared.exists():
            # The files' new times, so that git need not read them again.
            env = {"GIT_INDEX_FILE": str(prepared)}
            self._repository.run("update-index", "-q", "--refresh", env=env, check=False)
            prepared.replace(self._index)

    def _put_ref(self, ref: str, old: str, new: str) -> None:
        repository, is_head = self._repository, ref == "HEAD"
        commit = repository.commit_id(ref) or ZERO
        current = (is_head and repository.ask("symbolic-ref", "--quiet", ref)) or commit
        if current not in (old, new):
            log.error("%s moved to %s meanwhile", ref, current)
        if current != new and new.startswith("refs/"):
            repository.run("symbolic-ref", "-m", self._reason, ref, new)
        elif current != new:
            option = "--no-deref" if is_head else "--create-reflog"
            repository.run("update-ref", option, "-m", self._reason, ref, new, commit)
        fault(ref.lower())
