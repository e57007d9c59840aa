"""The one module that runs git.

Commits are made in the object database with a private index: no command here
but `Switch` (switch.py) touches a checkout's files, its index or its branch.
"""

import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from xpu_stack.core.system import shell
from xpu_stack.core.system.layout import settings
from xpu_stack.core.system.objects import LARGE, Objects, mode_of
from xpu_stack.core.system.objects import ZERO as ZERO
from xpu_stack.core.system.objects import BlobId as BlobId
from xpu_stack.core.system.objects import Commit as Commit
from xpu_stack.core.system.objects import CommitId as CommitId
from xpu_stack.core.system.objects import Entry as Entry
from xpu_stack.core.system.objects import File as File
from xpu_stack.core.system.objects import TreeId as TreeId

# A person's configuration must not change what the tool makes:
_SETTINGS = (
    "core.quotePath=false",  # paths are printed as they are
    "core.hooksPath=/dev/null",  # hooks are for the person's own commits
    "commit.gpgSign=false",  # a signature would make every id differ
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "core.autocrlf=false",  # blobs are what the series says, byte for byte
    "core.safecrlf=false",
    "core.fsmonitor=false",  # starts a daemon that outlives us
    "gc.auto=0",  # no background gc between our commands
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "log.showSignature=false",  # it would come before what is asked for
    "merge.conflictStyle=merge",  # one known form of conflict markers
    "merge.renames=true",
    f"core.bigFileThreshold={LARGE}",  # memory for a file and for a part of a pack is bounded
    "pack.compression=0",  # and so is the time: git puts it into a pack of its own
    "core.packedGitWindowSize=8m",
    "core.packedGitLimit=32m",
)

# How a diff is written: the same on every machine and with every git.
DIFF = (
    "-p",
    "--full-index",  # ids do not grow with the repository
    "--no-color",
    "--no-ext-diff",  # a person's own differ stays out
    "--no-textconv",
    "--diff-algorithm=histogram",  # keeps functions together where lines repeat
    "--unified=3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
# Of a patch: what is in a binary file, too; no threshold decides what is shown.
_PATCH = (*DIFF, "--binary", "--no-renames")

_GIT = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))


class Repository(Objects):
    """A git repository with a work tree."""

    def __init__(self, folder: Path) -> None:
        self._histories: dict[tuple[CommitId, int], list[Commit]] = {}
        self._start(folder, {})

    def _start(self, folder: Path, env: Mapping[str, str]) -> None:
        # Reading must not wait for, or take, a lock that a person's git holds.
        self._env = {"GIT_OPTIONAL_LOCKS": "0", **env}
        super().__init__(folder, _GIT, {**self._env, "LC_ALL": "C"})

    def run(
        self,
        *words: str,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        cwd: Path | None = None,
    ) -> shell.Result:
        return shell.run(
            [*_GIT, *words],
            cwd=cwd or self.folder,
            env={**self._env, "LC_ALL": "C", **(env or {})},
            input=input,
            check=check,
        )

    def keep_objects_in(self, folder: Path) -> None:
        """From now on objects are written to `folder`; git reads them from there, too."""
        own, known = self.object_folders[0], os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES")
        read = f"{own}:{known}" if known else f"{own}"
        self.object_folders.append(folder)
        env = {"GIT_OBJECT_DIRECTORY": str(folder), "GIT_ALTERNATE_OBJECT_DIRECTORIES": read}
        self._start(self.folder, env)

    def show(self, *words: str) -> int:
        """Runs git on the person's terminal, with their configuration, pager and colours."""
        code = shell.hand_over(["git", *words], cwd=self.folder, env=self._env)
        return 0 if code == 128 + signal.SIGPIPE else code  # who reads has seen enough

    def line(self, *words: str) -> str:
        return self.run(*words).text.strip()

    def ask(self, *words: str) -> str | None:
        """The answer, or None where git says no."""
        result = self.run(*words, check=False)
        return result.text.strip() if result.code == 0 else None

    # -- what there is ------------------------------------------------------

    def is_repository(self) -> bool:
        top = self.ask("rev-parse", "--show-toplevel")
        return top is not None and Path(top).resolve() == self.folder.resolve()

    @cached_property
    def git_dir(self) -> Path:
        return Path(self.line("rev-parse", "--absolute-git-dir"))

    @property
    def own_folder(self) -> Path:
        """Where the tool keeps what it knows of this worktree."""
        return self.git_dir / settings().name

    @cached_property
    def object_folders(self) -> list[Path]:
        """Its own, and one in which objects are kept for as long as this is open."""
        return [self.git_path("objects")]

    def git_path(self, name: str) -> Path:
        return (self.folder / self.line("rev-parse", "--git-path", name)).absolute()

    @property
    def head(self) -> CommitId:
        found = self.commit_id("HEAD")
        assert found is not None
        return found

    def branch(self) -> str | None:
        """The branch that HEAD is on; None when it is on none."""
        return self.ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def worktrees(self) -> dict[Path, str]:
        """The work trees of the repository, and the branch of each, "" for none."""
        told = self.line("worktree", "list", "--porcelain").split("\n\n")
        found = [dict(line.partition(" ")[::2] for line in one.split("\n")) for one in told]
        return {
            Path(one["worktree"]): one.get("branch", "").removeprefix("refs/heads/")
            for one in found
        }

    def has_elsewhere(self, branch: str) -> Path | None:
        """The other work tree in which a branch is checked out."""
        here, folders = self.folder.resolve(), self.worktrees().items()
        return next((one for one, its in folders if its == branch and one.resolve() != here), None)

    def commit(self, id: CommitId) -> Commit:
        return self.history(id, 1)[0]

    def history(self, tip: CommitId, limit: int) -> list[Commit]:
        """The newest `limit` commits by first parent, newest first."""
        if (tip, limit) in self._histories:
            return self._histories[tip, limit]
        form = "%H%x00%T%x00%P%x00%ct%x00%an <%ae>%x00%B"
        words = ("-z", f"--max-count={limit}", "--first-parent", f"--format=tformat:{form}", tip)
        told = iter(self.run("log", *words).text.split("\0"))
        self._histories[tip, limit] = [
            Commit(CommitId(id), TreeId(tree), tuple(map(CommitId, ids.split())), int(when), *text)
            for id, tree, ids, when, *text in zip(*[told] * 6)  # noqa: B905
        ]
        return self._histories[tip, limit]

    def edits_of(self, commit: Commit) -> list[Entry]:
        """What a commit does to its first parent."""
        return self.diff(commit.parents[0], commit.tree)

    def patch(self, old: str, new: str, paths: list[str]) -> bytes:
        """The patch of these paths, the same on every machine and with every git."""
        return self.run("diff-tree", *_PATCH, old, new, "--", *paths).output

    def patches(self, commits: Sequence[CommitId]) -> dict[CommitId, bytes]:
        """For each commit the patch of the files that it alters; those it adds are left out."""
        asked = "".join(f"{one}\n" for one in commits).encode()
        told = self.run("diff-tree", *_PATCH, "--diff-filter=a", "--stdin", input=asked).output
        # each patch comes after a line with its commit; one without a patch is not there
        heads = re.compile(rb"^(%s)\n" % b"|".join(one.encode() for one in commits), re.MULTILINE)
        _, *parts = heads.split(told)
        found = {CommitId(id.decode()): patch for id, patch in zip(*[iter(parts)] * 2, strict=True)}
        return dict.fromkeys(commits, b"") | found

    def uncommitted(self, *, untracked: bool = True) -> tuple[list[str], list[str]]:
        """The tracked files that differ from HEAD, and the untracked ones that are not ignored.

        A submodule's own commits and edits are not among them.
        """
        kind = "all" if untracked else "no"
        words = ("-z", "--no-renames", "--ignore-submodules=all", f"--untracked-files={kind}")
        told = self.run("status", "--porcelain", *words).text.split("\0")[:-1]
        new = [line[3:] for line in told if line.startswith("??")]
        return [line[3:] for line in told if not line.startswith("??")], new

    def hidden(self, index: Path) -> dict[str, list[str]]:
        """The files at which git was told not to look, and by which bits of the index."""
        found: dict[str, list[str]] = {}
        env = {"GIT_INDEX_FILE": str(index)}
        for line in self.run("ls-files", "-v", "-z", env=env).output.split(b"\0")[:-1]:
            bits = ["skip-worktree"] if line[:1] in b"Ss" else []
            bits += ["assume-unchanged"] if line[:1].islower() else []
            if bits:
                found[os.fsdecode(line[2:])] = bits
        return found

    # -- what is made -------------------------------------------------------

    def store_edited(self, name: str) -> File:
        """A file of the work tree, stored as `git add` does; mode 0: it is not there."""
        path = self.folder / name
        if path.is_symlink():
            return File(mode_of(path), self.store_bytes(os.fsencode(path.readlink())))
        if not path.is_file():
            return File(0, BlobId(ZERO))
        # through the checkout's filters
        blob = self.line("hash-object", "-w", f"--path={name}", "--", str(path))
        if self._trusts_modes:
            return File(mode_of(path), BlobId(blob))
        known = self.line("ls-files", "--stage", "--", f":(literal){name}").startswith("100755")
        return File(0o100755 if known else 0o100644, BlobId(blob))

    @cached_property
    def _trusts_modes(self) -> bool:
        return self.ask("config", "--type=bool", "core.fileMode") != "false"

    def commit_tree(
        self,
        tree: TreeId,
        parents: Sequence[CommitId],
        message: str,
        who: str = "",
        when: int = 0,
        author: str = "",
    ) -> CommitId:
        """who: the committer, and the author where that is no other: name <address>.

        when: seconds since the epoch, in UTC. Without them the same content always gives
        the same commit, the tool's own.
        """
        who = who or settings().person
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {author or who} {when} +0000", f"committer {who} {when} +0000"]
        return CommitId(self._stored("commit", "\n".join([*lines, "", message]).encode()))

    def scratch_commit(self, tree: TreeId, parents: tuple[CommitId, ...], message: str) -> Commit:
        id_ = self.commit_tree(tree, parents, message)
        return Commit(id_, tree, parents, 0, settings().person, message)

    def commit_again(self, commit: CommitId, tree: TreeId, parent: CommitId) -> CommitId:
        """A commit as it is, author, dates and message, but with this tree on this parent."""
        content = self.content(commit, "commit")
        assert content is not None
        head, _, message = content.partition(b"\n\n")
        kept = (b"author ", b"committer ", b"encoding ")
        people = [line for line in head.split(b"\n") if line.startswith(kept)]
        lines = [f"tree {tree}".encode(), f"parent {parent}".encode(), *people, b"", message]
        return CommitId(self._stored("commit", b"\n".join(lines)))

    @contextmanager
    def index(self) -> Iterator[dict[str, str]]:
        """The environment of a private index, empty."""
        with tempfile.TemporaryDirectory(prefix="stack-") as folder:
            yield {"GIT_INDEX_FILE": f"{folder}/index"}

    def put_into(self, index: Path, files: Mapping[str, File]) -> None:
        """Sets files in an index by path; one of mode 0 is taken out."""
        lines = "".join(f"{file.mode:06o} {file.blob}\t{path}\0" for path, file in files.items())
        env = {"GIT_INDEX_FILE": str(index)}
        self.run("update-index", "-z", "--index-info", input=os.fsencode(lines), env=env)

    def tree_of_folder(self, folder: Path) -> TreeId:
        """The tree of all the files of a folder outside the repository."""
        with self.index() as index:
            env = {**index, "GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(folder)}
            # forced: what its own .gitignore leaves out may be part of a release
            self.run("add", "--all", "--force", ".", env=env, cwd=folder)
            return TreeId(self.run("write-tree", env=env).text.strip())


def as_person(who: str, when: int, *roles: str) -> dict[str, str]:
    """How git is told who makes a commit. who: name <address>; roles: AUTHOR or COMMITTER"""
    name, _, address = who.rstrip(">").partition(" <")
    told = {"NAME": name, "EMAIL": address, "DATE": f"@{when} +0000"}
    return {f"GIT_{role}_{key}": value for role in roles for key, value in told.items()}
