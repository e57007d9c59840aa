"""YAML files whose mistakes are reported with file and line."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from xpu_stack.core.system.errors import SeriesError

_T = TypeVar("_T")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.2: `off` and `no` are words, and dates are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}


for _tag, _pattern, _starts in (
    ("null", r"(~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    ("int", r"[-+]?[0-9]+\Z", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _starts)


class Fields(dict[str, Any]):
    """A mapping, and the line of each key, from 0."""

    lines: dict[str, int]


class Items(list[Any]):
    """A list, and the line of each item, from 0."""

    lines: list[int]


def load(text: str) -> Any:
    """What YAML says, with the lines. Raises yaml.MarkedYAMLError."""
    loader = _Loader(text)
    node = loader.get_single_node()
    return None if node is None else _value(loader, node)


def _value(loader: Any, node: Any) -> Any:
    if isinstance(node, yaml.SequenceNode):
        items = Items(_value(loader, one) for one in node.value)
        items.lines = [one.start_mark.line for one in node.value]
        return items
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    fields = Fields()
    fields.lines = {}
    for key, value in node.value:
        name = _value(loader, key)
        if name in fields:
            raise yaml.MarkedYAMLError(None, None, f"'{name}' is there twice", key.start_mark)
        fields[name] = _value(loader, value)
        fields.lines[name] = key.start_mark.line
    return fields


class Node:
    """A value in a YAML file that knows where it stands."""

    def __init__(self, value: Any, shown: str, line: int, name: str) -> None:
        self.value = value
        self._shown, self._line, self._name = shown, line, name

    @classmethod
    def load(cls, path: Path, shown: str) -> "Node":
        """Reads `path`; `shown` is how messages name it."""
        try:
            value = load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SeriesError(shown, "there is no such file", do="write") from None
        except UnicodeDecodeError as error:
            raise SeriesError(shown, f"is not UTF-8: {error.reason}") from None
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise SeriesError(f"{shown}:{line}", str(error.problem)) from None
        return cls(value, shown, 1, "the file")

    @property
    def place(self) -> str:
        return f"{self._shown}:{self._line}"

    def error(self, problem: str) -> SeriesError:
        return SeriesError(self.place, problem)

    def _child(self, value: Any, line: int, name: str) -> "Node":
        return Node(value, self._shown, line + 1, name)

    def fields(self, required: set[str], optional: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        """Checks that this is a mapping with these keys and no others."""
        if not isinstance(self.value, dict):
            raise self.error(f"{self._name} must be a mapping")
        for key in self.value:
            if key not in required | optional:
                known = ", ".join(sorted(required | optional))
                raise self[str(key)].error(f"unknown key '{key}' (known: {known})")
        for key in sorted(required - set(self.value)):
            raise self.error(f"{self._name} lacks '{key}'")

    def __getitem__(self, key: str) -> "Node":
        return self._child(self.value[key], self.value.lines[key], f"'{key}'")

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def items(self) -> "list[Node]":
        if not isinstance(self.value, Items):
            raise self.error(f"{self._name} must be a list")
        pairs = enumerate(zip(self.value, self.value.lines, strict=True), start=1)
        return [
            self._child(value, line, f"item {number} of {self._name}")
            for number, (value, line) in pairs
        ]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.error(f"{self._name} must be text, not {self.value!r}")
        return str(self.value)

    def into(self, kind: type[_T], **others: object) -> _T:
        """The value as this type: of texts, tuples, mappings and dataclasses of these.

        A field of a dataclass is a key; one with a default may be left out, and `from_` is
        'from'. others: fields that are not in the file.
        """
        made: _T = self._made(kind, **others)
        return made

    def _made(self, kind: Any, **others: object) -> Any:
        if kind is str:
            return self.text()
        if kind is Node:
            return self
        inner = get_args(kind)
        if isinstance(kind, UnionType):  # of a key that may be left out
            return self._made(inner[0])
        if get_origin(kind) is tuple:
            return tuple(item._made(inner[0]) for item in self.items())
        if get_origin(kind) is dict:
            if not isinstance(self.value, dict):
                raise self.error(f"{self._name} must be a mapping")
            return {str(key): self[key]._made(inner[1]) for key in self.value}
        keys = {one.name.rstrip("_"): one for one in fields(kind) if one.name not in others}
        needed = {key for key, one in keys.items() if MISSING is one.default is one.default_factory}
        self.fields(needed, keys.keys() - needed)
        types = get_type_hints(kind)
        given = {
            one.name: self[key]._made(types[one.name]) for key, one in keys.items() if key in self
        }
        return kind(**given, **others)
