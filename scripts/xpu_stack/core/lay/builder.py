"""Making the commits of a series, in the object database alone; what becomes of each change.

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
What is not there either is a Stop, and the caller decides.

Note [CRLF]
~~~~~~~~~~~
Byte by byte every line of a file that a fork keeps with CRLF line ends differs from
the release's, and no patch or merge finds its place. So the change is laid on the
file with LF, and what comes of it is put back. A file of mixed line ends is taken as
it is.
"""

import enum
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from xpu_stack.core.resolve.merging import Merge, Stop, marked, merge, without_space
from xpu_stack.core.resolve.resolutions import Resolution, Resolutions
from xpu_stack.core.series.change import Change, compose
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import patch as patches
from xpu_stack.core.system.console import Bar
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.core.system.git import BlobId, CommitId, File, Repository, TreeId

# A line of less is in every file: a brace, an `else`, an `#endif`.
_SAYS_SOMETHING = re.compile(r"(?:\W*\w){8}")
# What has more than this of the lines is the same, in other words.
_MOST = 0.5


@dataclass
class Builder:
    """Lays changes on a base.

    pristine: gives the commit of the pristine release in this repository, for
    the three-way merge; it is asked only when a change does not fit as it is, and may
    answer None when the release cannot be had.
    used: the resolutions that a change was laid with; told: what a person is to know of
    merges that settled more than git's.
    """

    repository: Repository
    series: Series
    pristine: Callable[[], CommitId | None]
    resolutions: Resolutions | None = None
    used: dict[str, tuple[Resolution, ...]] = field(default_factory=dict, init=False)
    told: dict[str, list[str]] = field(default_factory=dict, init=False)
    _pristine_chain: dict[str, CommitId] = field(default_factory=dict, init=False)

    def build(
        self,
        base: CommitId,
        changes: list[Change],
        dropped: frozenset[str] = frozenset(),
        bar: Bar | None = None,
    ) -> list[CommitId]:
        """The commits of `changes` on `base`, oldest first. Raises Stop."""
        commits: list[CommitId] = []
        wanted = [change for change in changes if change.id not in dropped]
        # Times follow the base's, so that they neither depend on the clock
        # nor run backwards in a log.
        tip, when = base, self.repository.commit(base).when
        for number, change in enumerate(wanted, start=1):
            if bar:
                bar.step(f"{change.id} ({number}/{len(wanted)})")
            tree = self.attempt(tip, change)
            if isinstance(tree, Merge):
                raise Stop(change.id, change.place, number, len(wanted), tip, tree)
            if tree == self.repository.tree_of(tip) and change.is_begun:
                used = tuple(one.id for one in self.used.get(change.id, ()))
                raise Stop(change.id, change.place, number, len(wanted), tip, None, used)
            tip = self.commit(tip, change, tree, when + number)
            commits.append(tip)
        return commits

    def commit(self, parent: CommitId, change: Change, tree: TreeId, when: int) -> CommitId:
        author = self.series.author_of(change)
        place = f"{change.stage} {change.number}/{change.of}"
        message = compose(change.text, change.id, place, tree, author)
        who = self.series.author
        return self.repository.commit_tree(tree, [parent], message, who, when, author)

    def attempt(self, tip: CommitId, change: Change) -> TreeId | Merge:
        """The tree with the change: that of `tip` where it has the change already.

        Where it does not fit: the merge that says how.
        """
        tree, _ = self.lay_directly(tip, change, exact=True)
        if tree is not None:
            return tree
        below, paths = self.repository.tree_of(tip), change.touched_paths()
        plain = _with_ends(self.repository, below, paths, b"\r\n", b"\n")
        if plain:
            below = self.repository.with_files(below, plain)
            laid = self.lay_directly(below, change, exact=True)[0] or self._merge(below, change)
            if not isinstance(laid, Merge):
                again = _with_ends(self.repository, laid, list(plain), b"\n", b"\r\n")
                return self.repository.with_files(laid, again)
        merged = self._merge(tip, change)
        if isinstance(merged, Merge):
            # it is why a merge has no lines in common
            told = "".join(f"{path} has CRLF line ends in the base\n" for path in plain)
            return replace(merged, messages=told + merged.messages)
        return merged

    def lay_directly(
        self, tip: str, change: Change, *, exact: bool = False
    ) -> tuple[TreeId | None, str]:
        """The tree with the change; or None where it does not fit as it is, and what git says.

        exact: where the files that it edits are those that it was made for.
        """
        files, top = self.payload(change), self.repository.tree_of(tip)
        for path, file in files.items():  # what stands there, or where it needs a folder
            for name, there in self.repository.around(top, path).items():
                same = there.blob == file.blob and there.mode >> 12 == file.mode >> 12
                if name != path or not same:
                    return None, "files of the same names are there, with other content"
        if change.patch is None:
            return self.repository.with_files(tip, files), ""
        return patches.applied(self.repository, tip, change.patch, files=files, exact=exact)

    def payload(self, change: Change) -> dict[str, File]:
        """Its new files as the base has them."""
        return self.repository.store({file.target: file.source for file in change.files})

    # -- the three-way merge ---------------------------------------------------

    def _merge(self, tip: str, change: Change) -> TreeId | Merge:
        pristine = self.pristine_commit(change)
        if pristine is None:  # there is nothing to merge from: git falls back, too
            tree, problem = self.lay_directly(tip, change)
            stages: dict[str, dict[int, File]] = {path: {} for path in change.patched_paths()}
            return tree or Merge(TreeId(""), stages, problem, None)
        left = merge(self.repository, tip, pristine)
        if left.stages and self.resolutions is not None:
            left, self.used[change.id] = self.resolutions.replay(left)
            told = self.told[change.id] = [
                f"{change.id}: the conflict in {one.file} is resolved by {one.id[:12]}"
                for one in self.used[change.id]
            ]
            spaced = without_space(self.repository, left) if left.stages else None
            if spaced is not None:
                names = ", ".join(left.stages)
                told.append(f"{change.id}: merged without regard to white space: {names}")
                return spaced
        return left if left.stages else left.tree

    def pristine_commit(self, change: Change) -> CommitId | None:
        """The change on the release that it was written for; None where that cannot be had."""
        if not self._pristine_chain:
            tip = self.pristine()
            if tip is None:
                return None
            when = self.repository.commit(tip).when
            for number, one in enumerate(self.series.all_changes(), start=1):
                if one.id not in self.series.without:
                    tree, problem = self.lay_directly(tip, one)
                    if tree is None:
                        told = f"'{one.id}' does not fit {self.series.base}: {problem}"
                        raise SeriesError(one.place, told)
                    tip = self._pristine_chain[one.id] = self.commit(tip, one, tree, when + number)
        return self._pristine_chain[change.id]


def _with_ends(
    repository: Repository, tree: TreeId, paths: list[str], old: bytes, new: bytes
) -> dict[str, File]:
    """The files whose line ends are all `old`, with `new` ones, see Note [CRLF]."""
    found = {}
    for path, file in repository.files(tree, paths).items():
        content = repository.blob_at(tree, path) or b""
        other = content.replace(old, new)
        if other != content == other.replace(new, old):
            found[path] = File(file.mode, repository.store_bytes(other))
    return found


# -- what becomes of every change on a base ------------------------------------------


@dataclass(frozen=True)
class Similarity:
    """What a base has of a change: of its new files, and of the lines it adds."""

    files: int
    files_there: int
    lines: int
    lines_there: int

    @property
    def share(self) -> float:
        return self.lines_there / self.lines if self.lines else 0.0

    @property
    def fit(self) -> "Fit":
        """Of a change that does not apply."""
        if self.share > _MOST:
            return Fit.THERE  # a little different perhaps
        most = self.files > 0 and self.files_there > _MOST * self.files
        return Fit.OTHER if most else Fit.CONFLICT

    def __str__(self) -> str:
        files = f"{self.files_there} of its {self.files} new file(s), " if self.files else ""
        return f"{files}{self.share:.0%} of the lines it adds"


class Fit(enum.Enum):
    """How a change lies on a base."""

    APPLIES = "applies"
    THERE = "there already"
    OTHER = "another there"  # other files of the same names
    CONFLICT = "conflict"
    UNKNOWN = "does not apply"  # and the release, the ground for a merge, is not to be had


@dataclass(frozen=True)
class Finding:
    """What became of one change."""

    change: Change
    fit: Fit
    similarity: Similarity | None = None  # where it did not simply apply
    files: tuple[tuple[str, int], ...] = ()  # in conflict, with how many hunks


class Survey:
    """Looks at one change after another, not only up to the first that does not fit.

    Nothing is kept of it. After a change that is there already, or another in its
    place, the next is looked at without it. After one in conflict it is looked at
    as if the conflict had been resolved in the change's favour, since that is what
    most conflicts come to.
    """

    def __init__(self, builder: Builder, base: CommitId) -> None:
        self._builder = builder
        self._repository = builder.repository
        self._tip = base
        # the files of the base, to look a change up in
        self._blobs = {path: file.blob for path, file in self._repository.files(base).items()}
        self._with_content = {blob: path for path, blob in self._blobs.items()}
        self._named: dict[str, list[str]] = {}
        for path in self._blobs:
            self._named.setdefault(path.rpartition("/")[2], []).append(path)

    def look_at(self, change: Change) -> Finding:
        repository, misfit = self._repository, self._builder.attempt(self._tip, change)
        if not isinstance(misfit, Merge):
            if misfit == repository.tree_of(self._tip) and change.is_begun:
                return Finding(change, Fit.THERE, self._similarity(change))
            self._tip = self._builder.commit(self._tip, change, misfit, 0)
            return Finding(change, Fit.APPLIES)
        if misfit.theirs is None:
            return Finding(change, Fit.UNKNOWN, None, tuple((file, 0) for file in misfit.stages))
        contents = {path: repository.blob_at(misfit.tree, path) or b"" for path in misfit.stages}
        hunks = {path: marked(content) for path, content in contents.items()}
        files = tuple((path, len(one)) for path, one in hunks.items())
        similarity = self._similarity(change)
        fit = similarity.fit if similarity else Fit.CONFLICT
        if fit is Fit.CONFLICT:  # as if resolved with the change's side of every hunk
            found = {}
            # a file under another name on our side is as the merge has it
            for path, file in repository.files(misfit.theirs, list(contents)).items():
                lines = contents[path].splitlines(keepends=True)
                for start, middle, end in reversed(hunks[path]):
                    lines[start - 1 : end] = lines[middle : end - 1]
                blob = repository.store_bytes(b"".join(lines)) if hunks[path] else file.blob
                found[path] = File(file.mode, blob)
            tree = repository.with_files(misfit.tree, found)
            self._tip = self._builder.commit(self._tip, change, tree, 0)
        return Finding(change, fit, similarity, files)

    def _similarity(self, change: Change) -> Similarity | None:
        """How much the base has of what a change adds; None without the release."""
        pristine = self._builder.pristine_commit(change)
        if pristine is None:
            return None
        files = files_there = lines = lines_there = 0
        for entry in self._repository.edits_of(self._repository.commit(pristine)):
            added = self._lines(entry.new) - self._lines(entry.old)
            places = [entry.path] if entry.path in self._blobs else []
            if not entry.old_mode:
                places = places or self._elsewhere(entry.path, entry.new, added)
                files += 1
                files_there += bool(places)
            lines += added.total()
            lines_there += max((self._common(place, added) for place in places), default=0)
        return Similarity(files, files_there, lines, lines_there)

    def _elsewhere(self, path: str, blob: BlobId, added: Counter[str]) -> list[str]:
        """Where the base has a file that is new in the change: under another path."""
        if not added:  # an empty file is everywhere
            return []
        if blob in self._with_content:
            return [self._with_content[blob]]
        known = self._named.get(path.rpartition("/")[2], [])
        return [one for one in known if self._common(one, added) > _MOST * added.total()]

    def _common(self, path: str, added: Counter[str]) -> int:
        return (added & self._lines(self._blobs[path])).total()

    def _lines(self, blob: BlobId) -> Counter[str]:
        content = self._repository.content(blob, "blob") or b""
        lines = content.decode(errors="backslashreplace").splitlines()
        return Counter(line.strip() for line in lines if _SAYS_SOMETHING.match(line))
