"""How much of a change a base has, told by content.

A fork may have a change under other commits, in other words, or at other
paths: a later release may have code of its own there.
Then the change does not fit, and the person should learn why, and that it can
be dropped. So what the change adds is looked for in the base: the files that
it brings, by path, by content anywhere, or by name, and the lines.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath

from xpu_stack.core.system import diff
from xpu_stack.core.system.git import BlobId, Commit, Repository

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
    def is_same(self) -> bool:
        """Whether the base can be taken to have this change, a little different perhaps."""
        return self.share > _MOST

    @property
    def is_other(self) -> bool:
        """Whether the base has something else in the places of most of its new files."""
        return self.files > 0 and self.files_there > _MOST * self.files

    def __str__(self) -> str:
        files = f"{self.files_there} of its {self.files} new file(s), " if self.files else ""
        return f"{files}{self.share:.0%} of the lines it adds"


class Base:
    """The files of a base, to look a change up in."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._blobs = {path: file.blob for path, file in repository.files(commit).items()}
        self._with_content: dict[BlobId, str] = {}
        self._named: dict[str, list[str]] = {}
        for path, blob in self._blobs.items():
            self._with_content.setdefault(blob, path)
            self._named.setdefault(path.rpartition("/")[2], []).append(path)

    def similarity(self, commit: Commit) -> Similarity:
        """How much the base has of what a commit adds."""
        files = files_there = lines = lines_there = 0
        for file in diff.parse(self._repository, commit):
            added = Counter(
                line.text.strip()
                for hunk in file.hunks
                for line in hunk.lines
                if line.kind == "+" and _SAYS_SOMETHING.match(line.text)
            )
            place, common = self._best(commit, file, added)
            files += file.status == "new"
            files_there += file.status == "new" and place is not None
            lines += added.total()
            lines_there += common
        return Similarity(files, files_there, lines, lines_there)

    def _best(
        self, commit: Commit, file: diff.FileDiff, added: Counter[str]
    ) -> tuple[str | None, int]:
        """Where the base has a file, at its path or elsewhere, and how many of the lines."""
        if file.path in self._blobs:
            return file.path, self._common(file.path, added)
        if file.status != "new" or not added:  # an empty file is everywhere
            return None, 0
        blob = self._repository.files(commit.id, [file.path])[file.path].blob
        if blob in self._with_content:
            return self._with_content[blob], added.total()
        for path in self._named.get(PurePosixPath(file.path).name, []):
            common = self._common(path, added)
            if common > _MOST * added.total():
                return path, common
        return None, 0

    def _common(self, path: str, added: Counter[str]) -> int:
        content = self._repository.objects.content(self._blobs[path], "blob") or b""
        lines = content.decode(errors="backslashreplace").splitlines()
        return (added & Counter(line.strip() for line in lines)).total()
