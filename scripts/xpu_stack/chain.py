"""Making the commits of a series, in the object database alone.

No file, index or branch of the checkout is touched here, whatever happens.

Note [How a change is laid on a base]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
On the release that the series was written for, a change's new files are put
into the tree and its patch applies as it is. On a fork that has drifted it is
tried the same way first: a patch whose context is still there needs nothing
else. When it does not apply, the fork and the change are merged three ways by
git's own merge (which follows renames), with the pristine release as the
common ground; for that the pristine chain is built once beside it. What even
the merge cannot settle is a Conflict, and the caller decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from xpu_stack.errors import SeriesError
from xpu_stack.git import BlobId, CommitId, Repository, TreeId
from xpu_stack.series import Change, Series
from xpu_stack.text import compose

_RESOLVED = "refs/xpu-stack/resolved/"


@dataclass(frozen=True)
class Conflict:
    """A change that does not fit: where, and what a person can do about it."""

    change: Change
    number: int
    of: int
    onto: CommitId
    pristine: CommitId | None  # the change on the pristine base, to be merged
    files: tuple[str, ...]
    messages: str


@dataclass(frozen=True)
class AlreadyThere:
    """A change that brings nothing new: the fork has it."""

    change: Change
    number: int
    of: int


def resolution_ref(repository: Repository, tip: CommitId, pristine: CommitId) -> str:
    """Where the tree is kept that a person made of a change's conflict with `tip`."""
    return f"{_RESOLVED}{repository.tree_of(tip)}-{pristine}"


class Stop(Exception):
    """The chain cannot be finished without a person."""

    def __init__(self, reason: Conflict | AlreadyThere) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Builder:
    """Lays changes on a base.

    pristine: gives the commit of the pristine release in this repository, for
    the three-way merge; it is asked only when a patch does not apply, and may
    answer None when the release cannot be had.
    """

    repository: Repository
    series: Series
    pristine: Callable[[], CommitId | None]
    step: Callable[[Change], None] = lambda _: None
    _pristine_chain: dict[str, CommitId] | None = field(default=None, init=False)

    def build(
        self, base: CommitId, changes: list[Change], dropped: frozenset[str] = frozenset()
    ) -> list[CommitId]:
        """The commits of `changes` on `base`, oldest first. Raises Stop."""
        commits: list[CommitId] = []
        wanted = [change for change in changes if change.id not in dropped]
        tip, when = base, self._time_of(base)
        for number, change in enumerate(wanted, start=1):
            self.step(change)
            tree = self._lay(tip, change, number, len(wanted))
            tip = self.commit(tip, change, tree, when + number)
            commits.append(tip)
        return commits

    def commit(self, parent: CommitId, change: Change, tree: TreeId, when: int) -> CommitId:
        message = compose(change.text, change.id, change.stage, change.number, change.of, tree)
        return self.repository.commit_tree(tree, [parent], message, self.series.identity(when))

    def _time_of(self, base: CommitId) -> int:
        # Times follow the base's, so that they neither depend on the clock
        # nor run backwards in a log.
        return int(self.repository.line("show", "-s", "--format=%ct", base))

    def _lay(self, tip: CommitId, change: Change, number: int, of: int) -> TreeId:
        before = self.repository.tree_of(tip)
        tree = self.lay_directly(tip, change)
        if tree is None and self._is_there(tip, change):
            tree = before
        if tree is None:
            tree = self._merge(tip, change, number, of)
        if tree == before and change.is_begun:
            raise Stop(AlreadyThere(change, number, of))
        return tree

    def lay_directly(self, tip: CommitId, change: Change) -> TreeId | None:
        """The tree with the change, or None where it does not fit as it is."""
        with self.repository.index(tip) as index:
            entries = self._payload(change)
            if not self._free_for(tip, entries):
                return None
            index.put(entries)
            if change.patch is not None and index.apply(change.patch).code:
                return None
            return index.write()

    def _payload(self, change: Change) -> list[tuple[str, int, BlobId]]:
        blobs = self.repository.store([file.source for file in change.files])
        return [
            (file.target, file.mode, blob) for file, blob in zip(change.files, blobs, strict=True)
        ]

    def _free_for(self, tip: CommitId, entries: list[tuple[str, int, BlobId]]) -> bool:
        """Whether no new file stands where the tree has another of that name."""
        if not entries:
            return True
        paths = [path for path, _, _ in entries]
        listed = self.repository.run("ls-tree", "-z", "-r", tip, "--", *paths).text
        there = {}
        for record in listed.split("\0"):
            if record:
                head, path = record.split("\t", 1)
                there[path] = head.split(" ")[2]
        return all(there.get(path, blob) == blob for path, _, blob in entries)

    def _is_there(self, tip: CommitId, change: Change) -> bool:
        """Whether the tree has the change: its files, and its patch, undone, applies."""
        with self.repository.index(tip) as index:
            entries = self._payload(change)
            index.put(entries)
            if index.write() != self.repository.tree_of(tip):
                return False
            return (
                change.patch is None or index.apply(change.patch, "--reverse", "--check").code == 0
            )

    # -- the three-way merge ---------------------------------------------------

    def _merge(self, tip: CommitId, change: Change, number: int, of: int) -> TreeId:
        pristine = self._pristine_commit(change)
        if pristine is None:
            problem = self._why_not(tip, change)
            raise Stop(
                Conflict(change, number, of, tip, None, tuple(change.patched_paths()), problem)
            )
        resolved = self.repository.ask(
            "rev-parse", "--verify", "--quiet", resolution_ref(self.repository, tip, pristine)
        )
        if resolved is not None:
            return TreeId(resolved)
        tree, files, messages = self._merge_trees(tip, pristine)
        if files:
            raise Stop(Conflict(change, number, of, tip, pristine, files, messages))
        return tree

    def _merge_trees(self, tip: CommitId, theirs: CommitId) -> tuple[TreeId, tuple[str, ...], str]:
        # git 2.39 finds the common ground from the history only: give the
        # three trees one that has just this shape.
        who = self.series.identity(0)
        repository = self.repository
        ground = repository.commit_tree(repository.tree_of(f"{theirs}^"), [], "ground", who)
        ours_ = repository.commit_tree(repository.tree_of(tip), [ground], "ours", who)
        theirs_ = repository.commit_tree(repository.tree_of(theirs), [ground], "theirs", who)
        result = repository.run(
            "merge-tree", "--write-tree", "--name-only", "-z", ours_, theirs_, check=False
        )
        head, _, messages = result.text.partition("\0\0")
        tree, *files = head.split("\0")
        told = [text for text in messages.split("\0") if "\n" in text]
        return TreeId(tree.strip()), tuple(file for file in files if file), "".join(told)

    def _pristine_commit(self, change: Change) -> CommitId | None:
        if self._pristine_chain is None:
            base = self.pristine()
            if base is None:
                return None
            self._pristine_chain = self._build_pristine(base)
        return self._pristine_chain[change.id]

    def _build_pristine(self, base: CommitId) -> dict[str, CommitId]:
        chain: dict[str, CommitId] = {}
        tip, when = base, self._time_of(base)
        for number, change in enumerate(self.series.all_changes(), start=1):
            tree = self.lay_directly(tip, change)
            if tree is None:
                raise SeriesError(
                    change.place,
                    f"'{change.id}' does not fit {self.series.base}: {self._why_not(tip, change)}",
                )
            tip = chain[change.id] = self.commit(tip, change, tree, when + number)
        return chain

    def _why_not(self, tip: CommitId, change: Change) -> str:
        """What git says when the change is laid on `tip`."""
        with self.repository.index(tip) as index:
            entries = self._payload(change)
            if not self._free_for(tip, entries):
                return "files of the same names are there, with other content"
            index.put(entries)
            if change.patch is None:
                return "nothing is in its way"
            return index.apply(change.patch).complaint
