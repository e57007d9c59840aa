"""Which pull request each change has: patches/<base>/submitted.yaml.

The record is part of the series, kept and reviewed with it: whoever has the
series updates the same pull requests. The journal beside it is of one checkout
only: what a run that may not have ended was about to push.
"""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xpu_stack.core.system import files, transaction
from xpu_stack.core.system.git import Repository, TreeId
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.yaml_file import Node

_URL = re.compile(r"https://([^/]+/[^/]+/[^/]+)/pull/([0-9]+)\Z")
_ID = re.compile(r"[0-9a-f]{40}\Z")
_HEAD = "# The pull request of each change, and the tree that it shows; written by `make submit`.\n"


@dataclass(frozen=True)
class Entry:
    """A change's pull request, and the tree that was submitted last."""

    pull_request: str
    source_id: TreeId

    @property
    def number(self) -> int:
        found = _URL.match(self.pull_request)
        assert found
        return int(found[2])


@dataclass(frozen=True)
class Record:
    """What the series knows of its pull requests. branch: what they are to land in."""

    branch: str | None = None
    entries: Mapping[str, Entry] = field(default_factory=dict)

    @classmethod
    def load(cls, layout: Layout, base: str) -> "Record":
        path = path_of(layout, base)
        if not path.exists():
            return cls()
        node = Node.load(path, path.relative_to(layout.repository).as_posix())
        node.fields({"branch", "changes"})
        entries: dict[str, Entry] = {}
        for name in node["changes"].value:
            entries[name] = _entry(node["changes"][name], entries)
        return cls(node["branch"].text(), entries)

    def save(self, layout: Layout, base: str) -> Path:
        path = path_of(layout, base)
        text = io.StringIO()
        changes = {
            name: {"pull_request": entry.pull_request, "source_id": str(entry.source_id)}
            for name, entry in self.entries.items()
        }
        from ruamel.yaml import YAML

        yaml = YAML()
        yaml.width = 1000
        yaml.dump({"branch": self.branch, "changes": changes}, text)
        transaction.write(layout, {path: (0o100644, (_HEAD + text.getvalue()).encode())})
        return path


def path_of(layout: Layout, base: str) -> Path:
    return layout.base_folder(base) / "submitted.yaml"


def numbers_of_other_bases(layout: Layout, base: str) -> set[int]:
    """The pull requests that the series has for other bases."""
    folders = [path.parent.name for path in layout.patches.glob("*/submitted.yaml")]
    return {
        entry.number
        for other in folders
        if other != base
        for entry in Record.load(layout, other).entries.values()
    }


def _entry(node: Node, others: Mapping[str, Entry]) -> Entry:
    node.fields({"pull_request", "source_id"})
    url, source = node["pull_request"].text(), node["source_id"].text()
    found = _URL.match(url)
    if not found:
        raise node["pull_request"].error(f"'{url}' is not the address of a pull request")
    if not _ID.match(source):
        raise node["source_id"].error(f"'{source}' is not the id of a tree")
    for name, other in others.items():
        place = _URL.match(other.pull_request)
        assert place
        if place[1] != found[1]:
            raise node["pull_request"].error(f"'{name}' is in another repository, {place[1]}")
        if other.number == int(found[2]):
            raise node["pull_request"].error(f"#{other.number} is that of '{name}' already")
        if other.source_id == source:
            raise node["source_id"].error(f"'{name}' has the same source id")
    return Entry(url, TreeId(source))


class Journal:
    """The trees that runs without a known end were about to submit, by change."""

    def __init__(self, repository: Repository) -> None:
        self._path = repository.git_dir / "xpu-stack" / "submitting.json"

    def trees(self) -> dict[str, list[str]]:
        if not self._path.exists():
            return {}
        data: dict[str, list[str]] = json.loads(self._path.read_text())
        return data

    def add(self, trees: Mapping[str, str]) -> None:
        known = self.trees()
        for change, tree in trees.items():
            known[change] = sorted({*known.get(change, []), tree})
        files.write(self._path, json.dumps(known))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
