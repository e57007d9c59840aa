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
from xpu_stack.core.system.objects import LARGE, Objects, mode_of
from xpu_stack.core.system.objects import ZERO as ZERO
from xpu_stack.core.system.objects import BlobId as BlobId
from xpu_stack.core.system.objects import Commit as Commit
from xpu_stack.core.system.objects import CommitId as CommitId
from xpu_stack.core.system.objects import Entry as Entry
from xpu_stack.core.system.objects import File as File
from xpu_stack.core.system.objects import Identity as Identity
from xpu_stack.core.system.objects import TreeId as TreeId
from xpu_stack.core.system.settings import settings

_WRITTEN_TO = "GIT_OBJECT_DIRECTORY"
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
    "log.showSignature=false",  # it would come before what is asked for
    "merge.conflictStyle=merge",  # one known form of conflict markers
    "merge.renames=true",
    f"core.bigFileThreshold={LARGE}",  # memory for a file and for a part of a pack is bounded
    "pack.compression=0",  # and so is the time: git puts it into a pack of its own
    "core.packedGitWindowSize=8m",
    "core.packedGitLimit=32m",
)

# How a patch is written: the same on every machine and with every git.
_PATCH = (
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
)


class Repository:
    """A git repository with a work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._env: dict[str, str] = {}
        self._histories: dict[tuple[CommitId, int], list[Commit]] = {}

    @cached_property
    def objects(self) -> Objects:
        return Objects(self._words(), self.folder, self._environment())

    def _words(self) -> list[str]:
        return ["git", *(word for setting in _SETTINGS for word in ("-c", setting))]

    def _environment(self) -> dict[str, str]:
        # Reading must not wait for, or take, a lock that a person's git holds.
        return {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **self._env}

    def run(
        self,
        *words: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        cwd: Path | None = None,
    ) -> shell.Result:
        return shell.run(
            [*self._words(), *words],
            cwd=cwd or self.folder,
            env={**self._environment(), **(env or {})},
            input=input,
            check=check,
        )

    def keep_objects_in(self, folder: Path) -> None:
        """From now on objects are written to `folder`; git reads them from there, too."""
        own = str(self.object_folder)
        known = os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES")
        self._env = {
            _WRITTEN_TO: str(folder),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{own}:{known}" if known else own,
        }
        self.__dict__.pop("objects", None)

    @property
    def object_folders(self) -> list[Path]:
        """Where its objects are."""
        return [self.object_folder, *map(Path, filter(None, [self._env.get(_WRITTEN_TO)]))]

    @property
    def has_objects_elsewhere(self) -> bool:
        return bool(self._env)

    def show(self, *words: str) -> int:
        """Runs git on the person's terminal, with their configuration, pager and colours."""
        code = shell.hand_over(
            ["git", *words], cwd=self.folder, env={"GIT_OPTIONAL_LOCKS": "0", **self._env}
        )
        return 0 if code == _PIPE_CLOSED else code  # who reads has seen enough

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

    @property
    def git_dir(self) -> Path:
        return self._places[0]

    @property
    def own_folder(self) -> Path:
        """Where the tool keeps what it knows of this worktree."""
        return self.git_dir / settings().name

    @property
    def object_folder(self) -> Path:
        return self._places[1]

    @cached_property
    def _places(self) -> tuple[Path, Path]:
        told = self.line("rev-parse", "--absolute-git-dir", "--git-path", "objects").split("\n")
        return Path(told[0]), (self.folder / told[1]).absolute()

    def git_path(self, name: str) -> Path:
        return (self.folder / self.line("rev-parse", "--git-path", name)).absolute()

    def commit_id(self, name: str) -> CommitId | None:
        found = self.objects.id_of(f"{name}^{{commit}}")
        return CommitId(found) if found else None

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
        found: dict[Path, str] = {}
        for field in self.run("worktree", "list", "--porcelain").text.splitlines():
            word, _, value = field.partition(" ")
            if word == "worktree":
                folder = Path(value)
                found[folder] = ""
            elif word == "branch":
                found[folder] = value.removeprefix("refs/heads/")
        return found

    def has_elsewhere(self, branch: str) -> Path | None:
        """The other work tree in which a branch is checked out."""
        told = self.line("for-each-ref", "--format=%(worktreepath)", f"refs/heads/{branch}")
        elsewhere = told and Path(told).resolve() != self.folder.resolve()
        return Path(told) if elsewhere else None

    def tree_of(self, commit: str) -> TreeId:
        found = self.objects.tree_of(commit)
        return TreeId(found or self.line("rev-parse", "--verify", f"{commit}^{{tree}}"))

    def commit(self, id: CommitId) -> Commit:
        return self.history(id, 1)[0]

    def history(self, tip: CommitId, limit: int) -> list[Commit]:
        """The newest `limit` commits by first parent, newest first."""
        if (tip, limit) in self._histories:
            return self._histories[tip, limit]
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
        self._histories[tip, limit] = commits
        return commits

    def diff(self, old: str, new: str) -> list[Entry]:
        """What differs between two commits or trees, file by file, no renames."""
        return self.objects.diff(self.tree_of(old), self.tree_of(new))

    def edits_of(self, commit: Commit) -> list[Entry]:
        """What a commit does to its first parent."""
        return self.objects.diff(self.tree_of(commit.parents[0]), commit.tree)

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

    def blob_at(self, tree: str, path: str) -> bytes | None:
        file = self.files(tree, [path]).get(path)
        return None if file is None else self.objects.content(file.blob, "blob")

    def files(self, tree: str, paths: list[str] | None = None) -> dict[str, File]:
        """The files of a tree by path: all, or those at or below `paths`."""
        if paths is None:
            return _listed(self.run("ls-tree", "-r", "-z", tree).output)
        top = self.tree_of(tree)
        return {
            name: file for path in paths for name, file in self.objects.files(top, path).items()
        }

    def uncommitted(self, *, untracked: bool = True) -> tuple[list[str], list[str]]:
        """The tracked files that differ from HEAD, and the untracked ones that are not ignored.

        A submodule's own commits and edits are not among them.
        """
        kind = "all" if untracked else "no"
        words = ("-z", "--no-renames", "--ignore-submodules=all", f"--untracked-files={kind}")
        told = self.run("status", "--porcelain", *words).text.split("\0")
        lines = [(line[:2] == "??", line[3:]) for line in told if line]
        return [name for new, name in lines if not new], [name for new, name in lines if new]

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

    def store(self, files: list[Path]) -> list[BlobId]:
        """Stores the content of `files`, as it is, and returns the ids in order."""
        links = [file for file in files if file.is_symlink()]  # git would follow them
        ids = {link: self.store_bytes(os.fsencode(link.readlink())) for link in links}
        others = [file for file in files if file not in ids]
        ids.update(zip(others, self.objects.store(others), strict=True))
        return [ids[file] for file in files]

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

    def store_bytes(self, content: bytes) -> BlobId:
        return self.objects.store_bytes(content)

    def empty_tree(self) -> TreeId:
        return TreeId(self.objects.with_files("", {}))

    def with_files(self, tree: str, files: Mapping[str, File]) -> TreeId:
        """The tree with these files by path; one of mode 0 is taken out."""
        top = self.tree_of(tree)
        return TreeId(self.objects.with_files(top, files)) if files else top

    def commit_tree(
        self,
        tree: TreeId,
        parents: list[CommitId],
        message: str,
        who: Identity,
        author: Identity | None = None,
    ) -> CommitId:
        """who: the committer, and the author where that is no other."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {(author or who).signature}", f"committer {who.signature}"]
        return CommitId(self.objects.store_commit("\n".join([*lines, "", message]).encode()))

    def scratch_commit(self, tree: TreeId, parents: tuple[CommitId, ...], message: str) -> Commit:
        """A commit to work with, by nobody."""
        who = Identity.tool()
        id_ = self.commit_tree(tree, list(parents), message, who)
        return Commit(id_, tree, parents, 0, f"{who.name} <{who.email}>", message)

    def commit_again(self, commit: CommitId, tree: TreeId, parent: CommitId) -> CommitId:
        """A commit as it is, author, dates and message, but with this tree on this parent."""
        content = self.objects.content(commit, "commit")
        assert content is not None
        head, _, message = content.partition(b"\n\n")
        kept = (b"author ", b"committer ", b"encoding ")
        people = [line for line in head.split(b"\n") if line.startswith(kept)]
        lines = [f"tree {tree}".encode(), f"parent {parent}".encode(), *people, b"", message]
        return CommitId(self.objects.store_commit(b"\n".join(lines)))

    @contextmanager
    def index(self, tree: str | None = None) -> Iterator["Index"]:
        """A private index that holds `tree`."""
        with tempfile.TemporaryDirectory(prefix="stack-") as folder:
            index = Index(self, Path(folder) / "index")
            if tree:
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

    def write(self) -> TreeId:
        return TreeId(self.run("write-tree").text.strip())


def _listed(output: bytes) -> dict[str, File]:
    """The files of a listing by git."""
    found = {}
    for record in output.split(b"\0")[:-1]:
        head, path = record.split(b"\t", 1)
        fields = head.decode().split(" ")
        found[os.fsdecode(path)] = File(int(fields[0], 8), BlobId(fields[2]))
    return found
