"""git's three-way merge of a change and what is below it, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from xpu_stack.core.series.change import Change
from xpu_stack.core.system.git import BlobId, CommitId, File, Repository, TreeId


@dataclass(frozen=True)
class Merge:
    """A three-way merge as git left it.

    stages: path in conflict -> the versions that met there: 1 the ground, 2 the
    base's, 3 the change's.
    """

    tree: TreeId  # with conflict markers
    stages: Mapping[str, Mapping[int, File]]
    messages: str


def merge(repository: Repository, tip: str, theirs: CommitId) -> Merge:
    """git's three-way merge of `tip` and what the commit `theirs` does."""
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
    return Merge(TreeId(tree.strip()), stages, "".join(told))


@dataclass(frozen=True)
class Misfit:
    """Why a change cannot be laid on a commit, as far as git can tell."""

    pristine: CommitId | None  # the change on the pristine base, to be merged
    files: tuple[str, ...]
    merged: TreeId | None  # the merge with its markers
    messages: str
    resolved: tuple[str, ...] = ()  # what known resolutions have changed in it


@dataclass(frozen=True)
class Conflict:
    """A change that does not fit: where, and what a person can do about it."""

    change: Change
    number: int
    of: int
    onto: CommitId
    misfit: Misfit


@dataclass(frozen=True)
class AlreadyThere:
    """A change that brings nothing new: the fork has it."""

    change: Change
    number: int
    of: int
    resolved: tuple[str, ...] = ()  # resolutions of the merge that gave nothing new
