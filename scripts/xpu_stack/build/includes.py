"""Which sources a header reaches, by the #include lines of a tree.

Read as text, without a preprocessor: an #include counts wherever it stands, and
for every file whose path ends as it says. So the answer can be too large and
never too small.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_CODE = (".h", ".hpp", ".cuh", ".inl", ".inc", ".def", ".cpp", ".cc", ".c", ".tcc")
_ELSEWHERE = {".git", "CMakeFiles", "third_party", "site", "docs"}


class Includes:
    """The files below some folders, and who includes them."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self.files = [file for root in roots for file in _code_below(root)]
        by_name: defaultdict[str, list[Path]] = defaultdict(list)
        for file in self.files:
            by_name[file.name].append(file)
        self._includers: defaultdict[Path, set[Path]] = defaultdict(set)
        for file in self.files:
            for name in set(_INCLUDE.findall(file.read_bytes())):
                wanted = os.path.normpath(os.fsdecode(name)).replace("../", "")
                for found in by_name[wanted.rpartition("/")[2]]:
                    if f"/{found.as_posix()}".endswith(f"/{wanted}"):
                        self._includers[found].add(file)

    def reached(self, header: Path) -> set[Path]:
        """All files that include `header`, directly or through others."""
        found = {header}
        todo = [header]
        while todo:
            fresh = self._includers[todo.pop()] - found
            found |= fresh
            todo += fresh
        return found - {header}


def _code_below(root: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in _ELSEWHERE]
        for name in names:
            if name.endswith(_CODE):
                yield Path(folder) / name
