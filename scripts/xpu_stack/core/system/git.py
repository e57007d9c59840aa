"""The one module that runs git.

Commits are made in the object database with a private index: no command here
but `Switch` (switch.py) touches a checkout's files, its index or its branch.
"""

import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

from xpu_stack.core.system import shell

CommitId = NewType("CommitId", str)
TreeId = NewType("TreeId", str)
BlobId = NewType("BlobId", str)

ZERO = "0" * 40
_PIPE_CLOSED = 128 + signal.SIGPIPE

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
    "merge.conflictStyle=merge",  # one known form of conflict markers
    "merge.renames=true",
)


@dataclass(frozen=True)
class Identity:
    """An author or committer. when: seconds since the epoch, in UTC."""

    name: str
    email: str
    when: int

    @classmethod
    def of(cls, who: str, when: int) -> "Identity":
        """who: name <address>"""
        name, _, email = who.partition(" <")
        return cls(name, email.rstrip(">"), when)

    def environment(self, *roles: str) -> dict[str, str]:
        return {
            f"GIT_{role}_{key}": value
            for role in roles or ("AUTHOR", "COMMITTER")
            for key, value in (
                ("NAME", self.name),
                ("EMAIL", self.email),
                ("DATE", f"@{self.when} +0000"),
            )
        }


@dataclass(frozen=True)
class Commit:
    """A commit as it is stored."""

    id: CommitId
    tree: TreeId
    parents: tuple[CommitId, ...]
    when: int
    author: str  # name <address>
    message: str


@dataclass(frozen=True)
class File:
    """A file, a link or a submodule in a tree."""

    mode: int
    blob: BlobId


@dataclass(frozen=True)
class Entry:
    """What a diff between two trees says of one path; mode 0: not there."""

    path: str
    old_mode: int
    old: BlobId
    new_mode: int
    new: BlobId


class Repository:
    """A git repository with a work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._git_dir: Path | None = None
        self._env: dict[str, str] = {}

    def run(
        self,
        *words: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        cwd: Path | None = None,
    ) -> shell.Result:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        return shell.run(
            ["git", *settings, *words],
            cwd=cwd or self.folder,
            # Reading must not wait for, or take, a lock that a person's git holds.
            env={"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **self._env, **(env or {})},
            input=input,
            check=check,
        )

    def keep_objects_in(self, folder: Path) -> None:
        """From now on objects are written to `folder`; git reads them from there, too."""
        own = str(self.git_path("objects"))
        known = os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES")
        self._env = {
            "GIT_OBJECT_DIRECTORY": str(folder),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{own}:{known}" if known else own,
        }

    @property
    def has_objects_elsewhere(self) -> bool:
        return bool(self._env)

    def show(self, *words: str) -> int:
        """Runs git on the person's terminal, with their configuration, pager and colours."""
        code = shell.hand_over(
            ["git", *words], cwd=self.folder, env={"GIT_OPTIONAL_LOCKS": "0", **self._env}
        )
        return 0 if code == _PIPE_CLOSED else code  # who reads has seen enough

    def line(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        return self.run(*words, env=env).text.strip()

    def ask(self, *words: str) -> str | None:
        """The answer, or None where git says no."""
        result = self.run(*words, check=False)
        return result.text.strip() if result.code == 0 else None

    # -- what there is ------------------------------------------------------

    def is_repository(self) -> bool:
        top = self.ask("rev-parse", "--show-toplevel")
        return top is not None and Path(top).resolve() == self.folder.resolve()

    @property
    def git_dir(self) -> Path:
        if self._git_dir is None:
            self._git_dir = Path(self.line("rev-parse", "--absolute-git-dir"))
        return self._git_dir

    def git_path(self, name: str) -> Path:
        return (self.folder / self.line("rev-parse", "--git-path", name)).absolute()

    def commit_id(self, name: str) -> CommitId | None:
        found = self.ask(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
        return CommitId(found) if found else None

    def branch(self) -> str | None:
        """The branch that HEAD is on; None when it is on none."""
        return self.ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def tree_of(self, commit: str) -> TreeId:
        return TreeId(self.line("rev-parse", f"{commit}^{{tree}}"))

    def history(self, tip: CommitId, limit: int) -> list[Commit]:
        """The newest `limit` commits by first parent, newest first."""
        form = "%H%x00%T%x00%P%x00%ct%x00%an <%ae>%x00%B%x01"
        text = self.run(
            "log", f"--max-count={limit}", "--first-parent", f"--format=tformat:{form}", tip
        ).text
        commits = []
        for record in text.split("\x01\n"):
            if record:
                id_, tree, parents, when, author, message = record.split("\0")
                ids = tuple(CommitId(parent) for parent in parents.split())
                commits.append(Commit(CommitId(id_), TreeId(tree), ids, int(when), author, message))
        return commits

    def diff(self, old: str, new: str) -> list[Entry]:
        """What differs between two commits or trees, file by file, no renames."""
        fields = self.run(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new
        ).output.split(b"\0")
        entries = []
        for head, path in zip(fields[0::2], fields[1::2], strict=False):
            old_mode, new_mode, old_id, new_id, _ = head.decode().lstrip(":").split(" ")
            entries.append(
                Entry(
                    os.fsdecode(path),
                    int(old_mode, 8),
                    BlobId(old_id),
                    int(new_mode, 8),
                    BlobId(new_id),
                )
            )
        return entries

    def patch(self, old: str, new: str, paths: list[str]) -> bytes:
        """The patch of these paths, the same on every machine and with every git."""
        return self.run(
            "diff-tree",
            "-p",
            "--binary",  # what is in it, and not only that it differs
            "--full-index",  # ids do not grow with the repository
            "--no-renames",  # nor does a threshold decide what is shown
            "--no-color",
            "--no-ext-diff",  # a person's own differ stays out
            "--no-textconv",
            "--diff-algorithm=histogram",
            "--unified=3",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            old,
            new,
            "--",
            *paths,
        ).output

    def blob_at(self, tree: str, path: str) -> bytes | None:
        result = self.run("cat-file", "blob", f"{tree}:{path}", check=False)
        return result.output if result.code == 0 else None

    def files(self, tree: str, paths: list[str] | None = None) -> dict[str, File]:
        """The files of a tree by path: all, or those at or below `paths`."""
        if paths == []:
            return {}
        words = ["--", *(f":(literal){path}" for path in paths)] if paths else []
        found = {}
        for record in self.run("ls-tree", "-r", "-z", tree, *words).text.split("\0"):
            if record:
                head, path = record.split("\t", 1)
                mode, _, blob = head.split(" ")
                found[path] = File(int(mode, 8), BlobId(blob))
        return found

    # -- what is made -------------------------------------------------------

    def store(self, files: list[Path]) -> list[BlobId]:
        """Stores the content of `files`, as it is, and returns the ids in order."""
        links = [file for file in files if file.is_symlink()]  # git would follow them
        ids = {link: self.store_bytes(os.fsencode(link.readlink())) for link in links}
        others = [file for file in files if file not in ids]
        if others:
            names = "".join(f"{file}\n" for file in others).encode()
            text = self.run("hash-object", "-w", "--no-filters", "--stdin-paths", input=names).text
            ids.update(zip(others, map(BlobId, text.split()), strict=True))
        return [ids[file] for file in files]

    def store_edited(self, name: str) -> File:
        """A file of the work tree, stored as `git add` does; mode 0: it is not there."""
        path = self.folder / name
        if path.is_symlink():
            return File(0o120000, self.store_bytes(os.fsencode(path.readlink())))
        if not path.is_file():
            return File(0, BlobId(ZERO))
        # through the checkout's filters
        blob = self.line("hash-object", "-w", f"--path={name}", "--", str(path))
        return File(0o100755 if os.access(path, os.X_OK) else 0o100644, BlobId(blob))

    def store_bytes(self, content: bytes) -> BlobId:
        return BlobId(self.run("hash-object", "-w", "--stdin", input=content).text.strip())

    def empty_tree(self) -> TreeId:
        return TreeId(self.run("mktree", input=b"").text.strip())

    def with_files(self, tree: str, files: list[tuple[str, int, BlobId]]) -> TreeId:
        """The tree with (path, mode, blob) set for each."""
        with self.index(tree) as index:
            index.put(files)
            return index.write()

    def commit_tree(
        self,
        tree: TreeId,
        parents: list[CommitId],
        message: str,
        who: Identity,
        author: Identity | None = None,
    ) -> CommitId:
        """who: the committer, and the author where that is no other."""
        words = [word for parent in parents for word in ("-p", parent)]
        return CommitId(
            self.run(
                "commit-tree",
                tree,
                *words,
                "-F",
                "-",
                input=message.encode(),
                env={**who.environment(), **(author or who).environment("AUTHOR")},
            ).text.strip()
        )

    def commit_again(self, commit: CommitId, tree: TreeId, parent: CommitId) -> CommitId:
        """A commit as it is, author, dates and message, but with this tree on this parent."""
        form = "%an%x00%ae%x00@%ad%x00%cn%x00%ce%x00@%cd"
        told = self.line("show", "-s", "--date=raw", f"--format={form}", commit)
        roles, parts = ("AUTHOR", "COMMITTER"), ("NAME", "EMAIL", "DATE")
        keys = [f"GIT_{role}_{part}" for role in roles for part in parts]
        env = dict(zip(keys, told.split("\0"), strict=True))
        message = self.run("cat-file", "commit", commit).output.partition(b"\n\n")[2]
        made = self.run("commit-tree", tree, "-p", parent, "-F", "-", input=message, env=env)
        return CommitId(made.text.strip())

    @contextmanager
    def index(self, tree: str) -> Iterator["Index"]:
        """A private index that holds `tree`."""
        with tempfile.TemporaryDirectory(prefix="xpu-stack-") as folder:
            index = Index(self, Path(folder) / "index")
            index.run("read-tree", tree)
            yield index


class Index:
    """A private index: a tree in the making."""

    def __init__(self, repository: Repository, path: Path) -> None:
        self._repository = repository
        self._env = {"GIT_INDEX_FILE": str(path)}

    def run(self, *words: str, input: bytes | None = None, check: bool = True) -> shell.Result:
        return self._repository.run(*words, input=input, env=self._env, check=check)

    def take_in(self, folder: Path) -> None:
        """Sets the index to all the files of a folder outside the repository."""
        env = {**self._env, "GIT_DIR": str(self._repository.git_dir), "GIT_WORK_TREE": str(folder)}
        # forced: what its own .gitignore leaves out may be part of a release
        self._repository.run("add", "--all", "--force", ".", env=env, cwd=folder)

    def put(self, files: list[tuple[str, int, BlobId]]) -> None:
        """Sets (path, mode, blob) for each; mode 0 takes the path out."""
        lines = b"".join(
            f"{mode:06o} {blob if mode else ZERO}\t".encode() + os.fsencode(path) + b"\0"
            for path, mode, blob in files
        )
        self.run("update-index", "-z", "--index-info", input=lines)

    def apply(self, patch: Path, *flags: str) -> shell.Result:
        """Applies a patch; a result that is not 0 has changed nothing."""
        return self.run(
            "apply",
            "--cached",
            # white space is judged by `make check`, not here
            "--whitespace=nowarn",
            *flags,
            str(patch),
            check=False,
        )

    def write(self) -> TreeId:
        return TreeId(self.run("write-tree").text.strip())
