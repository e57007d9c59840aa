"""Editing patches/<base>/base.yaml of a base that is like another one.

Only what an edit is about changes: comments, order and quotes stay as a person wrote them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from xpu_stack.core.series.base import Differences, GitSource
from xpu_stack.core.series.series_file import scalar

_HEAD = "# A base like {like}: what is not said here, and not in this folder, is as it is there.\n"
_Splice = tuple[int, int, str]  # from, to, and what comes there


def text(path: Path, name: str, git: GitSource, differences: Differences) -> bytes:
    """The file with these in it; made anew where there is none."""
    if path.exists():
        old = path.read_text(encoding="utf-8")
    else:
        like = scalar(differences.like)
        old = f"{_HEAD.format(like=differences.like)}name: {scalar(name)}\nlike: {like}\n"
    if git.commit:
        old = _edited(old, "git", {"url": git.url, "commit": git.commit})
    old = _edited(old, "without", dict.fromkeys(sorted(differences.without)))
    return _edited(old, "moved", dict(sorted(differences.moved.items()))).encode()


def _edited(text: str, key: str, wanted: Mapping[str, str | None]) -> str:
    """The file with a mapping, or a list (a mapping to None), under a key; none if it is empty."""
    text += "" if text.endswith("\n") else "\n"
    pairs = {name.value: (name, value) for name, value in yaml.compose(text).value}
    if key not in pairs:
        told = "".join(f"  {_entry(*one)}\n" for one in wanted.items())
        return f"{text}{key}:\n{told}" if wanted else text
    name, there = pairs[key]
    if _said(there) == wanted:
        return text
    if not wanted:
        return text[: name.start_mark.index] + text[_end_of_line(text, there) :]
    splices = [_flow(there, wanted)] if there.flow_style else _splices(text, there, wanted)
    for start, end, what in sorted(splices, reverse=True):
        text = text[:start] + what + text[end:]
    return text


def _entries(node: Any) -> list[tuple[Any, Any]]:
    """Key and value of a mapping's entries; items of a list have no value."""
    return [one if isinstance(one, tuple) else (one, None) for one in node.value]


def _said(node: Any) -> dict[str, str | None]:
    return {key.value: value and value.value for key, value in _entries(node)}


def _splices(text: str, node: Any, wanted: Mapping[str, str | None]) -> Iterator[_Splice]:
    """How a list or a mapping of a line for each entry becomes another one."""
    said = _said(node)
    gone, new = sorted(said.keys() - wanted.keys()), sorted(wanted.keys() - said.keys())
    then = {**{one: one for one in said.keys() & wanted.keys()}, **dict(zip(gone, new))}  # noqa: B905
    for key, value in _entries(node):
        last = value or key
        if key.value not in then:
            start = text.rfind("\n", 0, key.start_mark.index) + 1
            yield start, _end_of_line(text, last), ""
            continue
        to = then[key.value]
        if to != key.value:
            yield key.start_mark.index, key.end_mark.index, scalar(to)
        if value and value.value != wanted[to]:
            yield value.start_mark.index, value.end_mark.index, scalar(str(wanted[to]))
    key, value = _entries(node)[-1]
    indent = " " * node.start_mark.column
    added = "".join(f"{indent}{_entry(one, wanted[one])}\n" for one in new[len(gone) :])
    end = _end_of_line(text, value or key)
    yield end, end, added


def _flow(node: Any, wanted: Mapping[str, str | None]) -> _Splice:
    """The same for one in brackets."""
    told = ", ".join(_entry(*one).removeprefix("- ") for one in wanted.items())
    brackets = "[]" if isinstance(node, yaml.SequenceNode) else "{}"
    start, end = node.start_mark.index, node.end_mark.index
    return start, end, f"{brackets[0]}{told}{brackets[1]}"


def _entry(key: str, value: str | None) -> str:
    return f"- {scalar(key)}" if value is None else f"{scalar(key)}: {scalar(value)}"


def _end_of_line(text: str, node: Any) -> int:
    """Where the line after a value begins. A block ends where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style:
        key, value = _entries(node)[-1]
        node = value or key
    return (text.find("\n", node.end_mark.index) + 1) or len(text)
