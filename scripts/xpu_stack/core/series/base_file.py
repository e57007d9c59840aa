"""Editing patches/<base>/base.yaml of a base that is like another one; comments are kept."""

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from xpu_stack.core.series.base import Differences, GitSource

_HEAD = "# A base like {like}: what is not said here, and not in this folder, is as it is there.\n"


def text(path: Path, name: str, git: GitSource, differences: Differences) -> bytes:
    """The file with these in it; made anew where there is none."""
    old = path.read_bytes() if path.exists() else _HEAD.format(like=differences.like).encode()
    yaml = YAML(typ="rt")
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 1000
    data: Any = yaml.load(old)
    if data is None:
        data = CommentedMap(name=name, like=differences.like, git={})
    elif _said(data) == _wanted(git, differences):
        return old
    for key, value in _wanted(git, differences).items():
        if value:
            data[key] = value
        else:
            data.pop(key, None)
    stream = io.BytesIO()
    yaml.dump(data, stream)
    head = b"" if path.exists() else old
    return head + stream.getvalue()


def _wanted(git: GitSource, differences: Differences) -> dict[str, object]:
    return {
        "git": {"url": git.url, "commit": git.commit} if git.commit else {},
        "without": sorted(differences.without),
        "moved": dict(sorted(differences.moved.items())),
    }


def _said(data: Any) -> dict[str, object]:
    """The same of a file as it is."""
    return {
        "git": dict(data.get("git", {})),
        "without": sorted(data.get("without", [])),
        "moved": dict(data.get("moved", {})),
    }
