"""Making the commits of a series, in the object database alone.

No file, index or branch of the checkout is touched here, whatever happens.

Note [How a change is laid on a base]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Where the files that a change edits are those that it was made for, its new files
are put into the tree and its patch applies as it is. Elsewhere the context of a
patch may fit more than one place. So the fork and the change are merged three ways
by git's own merge (which follows renames), with the pristine release as the
common ground; for that the pristine chain is built once beside it. Without the release the
patch is applied where its context is found, as `git apply --3way` does. What the merge
cannot settle is looked up in the series' resolutions, see Note [Resolutions].
What is not there either is a Stop, and the caller decides. For files with
CRLF line ends see PlainTree.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from xpu_stack.core.resolve.merging import Misfit, Stop, merge, without_space
from xpu_stack.core.resolve.resolutions import Resolution, Resolutions
from xpu_stack.core.series.change import Change, compose
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import patch as patches
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.core.system.git import CommitId, File, Identity, Repository, TreeId


@dataclass
class Builder:
    """Lays changes on a base.

    pristine: gives the commit of the pristine release in this repository, for
    the three-way merge; it is asked only when a change does not fit as it is, and may
    answer None when the release cannot be had.
    used: the resolutions that a change was laid with; spaced: the files that were merged
    by leaving white space out of account.
    """

    repository: Repository
    series: Series
    pristine: Callable[[], CommitId | None]
    step: Callable[[Change], None] = lambda _: None
    resolutions: Resolutions | None = None
    used: dict[str, tuple[Resolution, ...]] = field(default_factory=dict, init=False)
    spaced: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
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
        author = self.series.author_of(change)
        place = f"{change.stage} {change.number}/{change.of}"
        message = compose(change.text, change.id, place, tree, author)
        who, by = self.series.identity(when), Identity.of(author, when)
        return self.repository.commit_tree(tree, [parent], message, who, by)

    def _time_of(self, base: CommitId) -> int:
        # Times follow the base's, so that they neither depend on the clock
        # nor run backwards in a log.
        return self.repository.commit(base).when

    def _lay(self, tip: CommitId, change: Change, number: int, of: int) -> TreeId:
        tree = self.attempt(tip, change)
        if isinstance(tree, Misfit):
            raise Stop(change, number, of, tip, tree)
        if tree == self.repository.tree_of(tip) and change.is_begun:
            used = tuple(one.id for one in self.used.get(change.id, ()))
            raise Stop(change, number, of, tip, None, used)
        return tree

    def attempt(self, tip: CommitId, change: Change) -> TreeId | Misfit:
        """The tree with the change: that of `tip` where it has the change already."""
        tree = self.lay_directly(tip, change, exact=True)
        if tree is not None:
            return tree
        plain = PlainTree.of(self.repository, tip, change.touched_paths())
        if plain.files:
            as_it_is = self.lay_directly(plain.tree, change, exact=True)
            laid = as_it_is or self._merge(plain.tree, change)
            if not isinstance(laid, Misfit):
                return plain.restored(laid)
        merged = self._merge(tip, change)
        if isinstance(merged, Misfit) and merged.pristine is None:
            # Without the release there is nothing to merge from: git falls back, too.
            merged = self.lay_directly(tip, change) or merged
        if isinstance(merged, Misfit):
            # it is why a merge has no lines in common
            told = "".join(f"{path} has CRLF line ends in the base\n" for path in plain.files)
            return replace(merged, messages=told + merged.messages)
        return merged

    def lay_directly(self, tip: str, change: Change, *, exact: bool = False) -> TreeId | None:
        """The tree with the change, or None where it does not fit as it is.

        exact: where the files that it edits are those that it was made for.
        """
        files = self.payload(change)
        if not self._free_for(tip, files):
            return None
        if change.patch is None:
            return self.repository.with_files(tip, files)
        return patches.applied(self.repository, tip, change.patch, files=files, exact=exact)[0]

    def payload(self, change: Change) -> dict[str, File]:
        """Its new files as the base has them."""
        blobs = self.repository.store([file.source for file in change.files])
        pairs = zip(change.files, blobs, strict=True)
        return {file.target: File(file.mode, blob) for file, blob in pairs}

    def _free_for(self, tip: str, files: dict[str, File]) -> bool:
        """Whether the tree has nothing else where a new file stands, or needs a folder."""
        tree, around = self.repository.tree_of(tip), self.repository.objects.around
        return all(
            name == path and there.blob == file.blob and there.mode >> 12 == file.mode >> 12
            for path, file in files.items()
            for name, there in around(tree, path).items()
        )

    # -- the three-way merge ---------------------------------------------------

    def _merge(self, tip: str, change: Change) -> TreeId | Misfit:
        pristine = self.pristine_commit(change)
        if pristine is None:
            problem = self._why_not(tip, change)
            return Misfit(None, tuple(change.patched_paths()), None, problem)
        merged = merge(self.repository, tip, pristine)
        if not merged.stages:
            return merged.tree
        if self.resolutions is None:
            return Misfit(pristine, tuple(merged.stages), merged.tree, merged.messages)
        replayed = self.resolutions.replay(merged)
        self.used[change.id] = replayed.used
        if not replayed.left:
            return replayed.tree
        left = replace(merged, tree=replayed.tree)
        spaced = without_space(self.repository, left, replayed.left)
        if spaced is not None:
            self.spaced[change.id] = replayed.left
            return spaced
        changed = tuple(one.path for one in self.repository.diff(merged.tree, replayed.tree))
        return Misfit(pristine, replayed.left, replayed.tree, merged.messages, changed)

    def pristine_commit(self, change: Change) -> CommitId | None:
        """The change on the release that it was written for; None where that cannot be had."""
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
            if change.id in self.series.without:
                continue
            tree = self.lay_directly(tip, change)
            if tree is None:
                raise SeriesError(
                    change.place,
                    f"'{change.id}' does not fit {self.series.base}: {self._why_not(tip, change)}",
                )
            tip = chain[change.id] = self.commit(tip, change, tree, when + number)
        return chain

    def _why_not(self, tip: str, change: Change) -> str:
        """What git says when the change is laid on `tip`."""
        files = self.payload(change)
        if not self._free_for(tip, files):
            return "files of the same names are there, with other content"
        if change.patch is None:
            return "nothing is in its way"
        return patches.applied(self.repository, tip, change.patch, files=files)[1]


@dataclass(frozen=True)
class PlainTree:
    """A tree with some files, those that a fork keeps with CRLF line ends, in LF.

    Byte by byte every line of such a file differs from the release's, and no patch or
    merge finds its place. So the change is laid on the file with LF, and what comes of
    it is put back. A file of mixed line ends is taken as it is.
    """

    repository: Repository
    tree: TreeId
    files: tuple[str, ...]

    @classmethod
    def of(cls, repository: Repository, tree: str, paths: list[str]) -> "PlainTree":
        found = {}
        for path, file in repository.files(tree, paths).items():
            content = repository.blob_at(tree, path) or b""
            plain = content.replace(b"\r\n", b"\n")
            if plain != content == plain.replace(b"\n", b"\r\n"):
                found[path] = File(file.mode, repository.store_bytes(plain))
        return cls(repository, repository.with_files(tree, found), tuple(found))

    def restored(self, tree: TreeId) -> TreeId:
        """What came of the plain tree, with CRLF again."""
        found = {}
        for path, file in self.repository.files(tree, list(self.files)).items():
            content = self.repository.blob_at(tree, path) or b""
            blob = self.repository.store_bytes(content.replace(b"\n", b"\r\n"))
            found[path] = File(file.mode, blob)
        return self.repository.with_files(tree, found)
