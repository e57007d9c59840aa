"""git's three-way merge of a change and what is below it, and what came of it."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.system.git import BlobId, CommitId, File, Repository, TreeId, as_person
from xpu_stack.core.system.layout import settings

_WORDS_THAT_DIFFER = (
    *("diff", "--text", "--ignore-all-space", "--unified=0", "--no-renames"),
    *("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"),
)
REGULAR = {0o100644, 0o100755}


@dataclass(frozen=True)
class Merge:
    """A three-way merge as git left it.

    stages: path in conflict -> the versions that met there: 1 the ground, 2 the
    base's, 3 the change's. theirs: the change; None: it is not to be had, and so that
    nothing was merged.
    """

    tree: TreeId  # with conflict markers
    stages: Mapping[str, Mapping[int, File]]
    messages: str
    theirs: CommitId | None


def merge(repository: Repository, tip: str, theirs: CommitId) -> Merge:
    """git's three-way merge of `tip` and what the commit `theirs` does to its parent."""
    # git 2.39 finds the common ground from the history only: give the
    # three trees one that has just this shape.
    ground = repository.scratch_commit(repository.tree_of(f"{theirs}^"), (), "ground").id
    ours_ = repository.scratch_commit(repository.tree_of(tip), (ground,), "ours").id
    theirs_ = repository.scratch_commit(repository.tree_of(theirs), (ground,), "theirs").id
    result = repository.run("merge-tree", "--write-tree", "-z", ours_, theirs_, check=False)
    head, _, messages = result.text.partition("\0\0")
    tree, *listed = head.split("\0")
    stages: dict[str, dict[int, File]] = {}
    for entry in filter(None, listed):
        about, path = entry.split("\t", 1)
        mode, blob, stage = about.split(" ")
        stages.setdefault(path, {})[int(stage)] = File(int(mode, 8), BlobId(blob))
    told = [text for text in messages.split("\0") if "\n" in text]
    return Merge(TreeId(tree.strip()), stages, "".join(told), theirs)


def marked(content: bytes) -> list[tuple[int, int, int]]:
    """The conflicts in a file: the numbers of the three lines with markers of each, from 1."""
    found, start, middle = [], 0, 0
    for number, line in enumerate(content.splitlines(), start=1):
        mark = line[:8].rstrip()
        if mark == b"<<<<<<<":
            start = middle = number
        elif line.rstrip() == b"=======" and middle == start:  # a later one is a line of the change
            middle = number
        elif mark == b">>>>>>>" and start:
            found.append((start, middle, number))
            start = 0
    return found


def without_space(repository: Repository, merge: Merge) -> TreeId | None:
    """The merge with its conflicts settled where they are of white space alone; None: they are not.

    `git merge-tree` cannot leave white space out of account, so that it is `git merge`, in
    a repository of its own. Around the change that has the release's white space. So what
    it does but for white space is done to the fork's file.
    """
    files, stages = list(merge.stages), merge.stages.values()
    if any(n not in one or one[n].mode not in REGULAR for one in stages for n in (1, 2, 3)):
        return None
    sides = [{path: merge.stages[path][n] for path in files} for n in (1, 2, 3)]
    if any(b"\r" in (repository.blob_at(merge.tree, path) or b"") for path in files):
        return None  # line ends are no indentation
    empty = repository.empty_tree()
    trees = [repository.with_files(empty, side) for side in sides]
    ground = repository.scratch_commit(trees[0], (), "ground").id
    ours, theirs = (repository.scratch_commit(one, (ground,), "side").id for one in trees[1:])
    with tempfile.TemporaryDirectory(prefix="stack-") as folder:
        scratch = Repository(Path(folder))
        scratch.run("init", "--quiet", "--template=")
        alternates = scratch.git_dir / "objects" / "info" / "alternates"
        alternates.write_text("".join(f"{one}\n" for one in repository.object_folders))
        (scratch.git_dir / "info").mkdir()
        (scratch.git_dir / "info" / "attributes").write_text("* -text -filter !merge\n")
        scratch.run("reset", "--quiet", "--hard", ours)
        options = ("--quiet", "--no-commit", "--no-ff", "-Xignore-all-space")
        who = as_person(settings().person, 0, "COMMITTER")
        if scratch.run("merge", *options, theirs, env=who, check=False).code:
            return None
        patch = scratch.run(*_WORDS_THAT_DIFFER, "HEAD").output
        scratch.run("reset", "--quiet", "--hard", ours)
        words = ("--unidiff-zero", "--whitespace=nowarn", "--allow-empty", "-")
        scratch.run("apply", *words, input=patch)
        stored = repository.store({path: scratch.folder / path for path in files})
    merged = {path: File(sides[1][path].mode, one.blob) for path, one in stored.items()}
    return repository.with_files(merge.tree, merged)


@dataclass(eq=False)
class Stop(Exception):
    """A change that a commit does not take: a person must say what is to become of it."""

    id: str  # of the change
    place: str  # in series.yaml
    number: int
    of: int
    onto: CommitId
    misfit: Merge | None  # None: it brings nothing new, the fork has it
    resolved: tuple[str, ...] = ()  # resolutions of the merge that gave nothing new
