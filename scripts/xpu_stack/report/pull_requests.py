"""Which pull request each change has: patches/<base>/submitted.yaml.

The record is part of the series, kept and reviewed with it: whoever has the
series updates the same pull requests. The journal beside it is of one checkout
only: what a run that may not have ended was about to push.
"""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from xpu_stack.core.system import files, transaction
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.yaml_file import Node

_URL = re.compile(r"https://[^/]+/[^/]+/[^/]+/pull/[0-9]+")
_ID = re.compile(r"[0-9a-f]{40}")
_HEAD = "# The pull request of each change, and the tree that it shows; written by `make submit`.\n"


@dataclass(frozen=True)
class Entry:
    """A change's pull request, and the tree that was submitted last."""

    pull_request: str  # its address
    source_id: str

    @property
    def repository(self) -> str:
        return self.pull_request.removeprefix("https://").rpartition("/pull/")[0]

    @property
    def number(self) -> int:
        return int(self.pull_request.rpartition("/")[2])


@dataclass(frozen=True)
class Record:
    """What the series knows of its pull requests. branch: what they are to land in."""

    branch: str | None
    changes: dict[str, Entry]

    @classmethod
    def load(cls, layout: Layout, base: str) -> "Record":
        path = _path(layout, base)
        if not path.exists():
            return cls(None, {})
        node = Node.load(path, path.relative_to(layout.repository).as_posix())
        record, known = node.into(cls), dict[str, Entry]()
        for name, entry in record.changes.items():
            url, source = (node["changes"][name][one] for one in ("pull_request", "source_id"))
            if not _URL.fullmatch(entry.pull_request):
                raise url.error(f"'{entry.pull_request}' is not the address of a pull request")
            if not _ID.fullmatch(entry.source_id):
                raise source.error(f"'{entry.source_id}' is not the id of a tree")
            for other, its in known.items():
                if its.repository != entry.repository:
                    raise url.error(f"'{other}' is in another repository, {its.repository}")
                if its.number == entry.number:
                    raise url.error(f"#{its.number} is that of '{other}' already")
                if its.source_id == entry.source_id:
                    raise source.error(f"'{other}' has the same source id")
            known[name] = entry
        return record

    def save(self, layout: Layout, base: str) -> Path:
        from ruamel.yaml import YAML

        yaml, text = YAML(), io.StringIO()
        yaml.width = 1000
        text.write(_HEAD)
        yaml.dump(asdict(self), text)
        path = _path(layout, base)
        transaction.write(layout, {path: (0o100644, text.getvalue().encode())})
        return path


def _path(layout: Layout, base: str) -> Path:
    return layout.patches / base / "submitted.yaml"


def numbers_of_other_bases(layout: Layout, base: str) -> set[int]:
    """The pull requests that the series has for other bases."""
    others = {path.parent.name for path in layout.patches.glob("*/submitted.yaml")} - {base}
    records = [Record.load(layout, other) for other in others]
    return {entry.number for record in records for entry in record.changes.values()}


class Journal:
    """The trees that runs without a known end were about to submit, by change."""

    def __init__(self, repository: Repository) -> None:
        self._path = repository.own_folder / "submitting.json"

    def trees(self) -> dict[str, list[str]]:
        return files.load(self._path) or {}

    def add(self, trees: Mapping[str, str]) -> None:
        known = self.trees()
        new = {change: sorted({*known.get(change, []), tree}) for change, tree in trees.items()}
        files.write(self._path, json.dumps(known | new))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
