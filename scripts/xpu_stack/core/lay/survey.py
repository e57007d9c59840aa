"""What becomes of every change on a base, not only of the first that does not fit.

Nothing is kept of it. After a change that is there already, or another in its
place, the next is looked at without it. After one in conflict it is looked at
as if the conflict had been resolved in the change's favour, since that is what
most conflicts come to.
"""

import enum
import re
from collections import Counter
from dataclasses import dataclass

from xpu_stack.core.lay.builder import Builder
from xpu_stack.core.resolve.merging import Misfit
from xpu_stack.core.series.change import Change
from xpu_stack.core.system.git import BlobId, Commit, CommitId, File, Repository, TreeId

# A line of less is in every file: a brace, an `else`, an `#endif`.
_SAYS_SOMETHING = re.compile(r"(?:\W*\w){8}")
# What has more than this of the lines is the same, in other words.
_MOST = 0.5


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
    messages: str = ""

    @property
    def can_be_dropped(self) -> bool:
        return self.fit in (Fit.THERE, Fit.OTHER)

    @property
    def hunks(self) -> int:
        return sum(count for _, count in self.files)


class Survey:
    """Looks at one change after another."""

    def __init__(self, builder: Builder, base: CommitId) -> None:
        self._builder = builder
        self._repository = builder.repository
        self._base = _Files(self._repository, base)
        self._tip = base

    def look_at(self, change: Change) -> Finding:
        tree = self._builder.attempt(self._tip, change)
        if isinstance(tree, Misfit):
            return self._misfit(change, tree)
        if tree == self._repository.tree_of(self._tip) and change.is_begun:
            return Finding(change, Fit.THERE, self._similarity(change))
        self._tip = self._builder.commit(self._tip, change, tree, 0)
        return Finding(change, Fit.APPLIES)

    def _misfit(self, change: Change, misfit: Misfit) -> Finding:
        if misfit.pristine is None or misfit.merged is None:
            files = tuple((file, 0) for file in misfit.files)
            return Finding(change, Fit.UNKNOWN, None, files, misfit.messages)
        similarity = self._similarity(change)
        files = tuple((file, self._hunks(misfit.merged, file)) for file in misfit.files)
        fit = similarity.fit if similarity else Fit.CONFLICT
        if fit is not Fit.CONFLICT:
            return Finding(change, fit, similarity, files, misfit.messages)
        tree = self._in_favour(misfit.merged, misfit.pristine, misfit.files)
        self._tip = self._builder.commit(self._tip, change, tree, 0)
        return Finding(change, Fit.CONFLICT, similarity, files, misfit.messages)

    def _similarity(self, change: Change) -> Similarity | None:
        pristine = self._builder.pristine_commit(change)
        return self._base.similarity(self._repository.commit(pristine)) if pristine else None

    def _hunks(self, merged: TreeId, file: str) -> int:
        content = self._repository.blob_at(merged, file) or b""
        return sum(line.startswith(b"<<<<<<< ") for line in content.splitlines())

    def _in_favour(self, merged: TreeId, theirs: CommitId, files: tuple[str, ...]) -> TreeId:
        """The merge, with the change's side of every hunk in conflict."""
        found = {}
        # a file under another name on our side is as the merge has it
        for path, file in self._repository.files(theirs, list(files)).items():
            content = self._repository.blob_at(merged, path)
            if content is not None and b"<<<<<<< " in content:
                file = File(file.mode, self._repository.store_bytes(_theirs_of(content)))
            found[path] = file
        return self._repository.with_files(merged, found)


def _theirs_of(content: bytes) -> bytes:
    kept, side = [], b""
    for line in content.splitlines(keepends=True):
        if line.startswith((b"<<<<<<< ", b">>>>>>> ")) or (side and line.strip() == b"======="):
            side = {b"<": b"ours", b"=": b"theirs", b">": b""}[line[:1]]
        elif side != b"ours":
            kept.append(line)
    return b"".join(kept)


class _Files:
    """The files of a base, to look a change up in."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._blobs = {path: file.blob for path, file in repository.files(commit).items()}
        self._with_content = {blob: path for path, blob in self._blobs.items()}
        self._named: dict[str, list[str]] = {}
        for path in self._blobs:
            self._named.setdefault(path.rpartition("/")[2], []).append(path)

    def similarity(self, commit: Commit) -> Similarity:
        """How much the base has of what a commit adds."""
        files = files_there = lines = lines_there = 0
        for entry in self._repository.edits_of(commit):
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
        content = self._repository.objects.content(blob, "blob") or b""
        lines = content.decode(errors="backslashreplace").splitlines()
        return Counter(line.strip() for line in lines if _SAYS_SOMETHING.match(line))
