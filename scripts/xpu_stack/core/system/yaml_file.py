"""YAML files whose mistakes are reported with file and line."""

import re
from collections.abc import Set
from dataclasses import MISSING, fields
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from xpu_stack.core.system.errors import SeriesError

_T = TypeVar("_T")


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.2: `off` and `no` are words, and dates are text. No key may be there twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if key.value in names[:number]:
                problem = f"'{key.value}' is there twice"
                raise yaml.MarkedYAMLError(None, None, problem, key.start_mark)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _starts in (
    ("null", r"(~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    ("int", r"[-+]?[0-9]+\Z", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z", list("-+.0123456789")),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _starts)

_EMPTY = yaml.ScalarNode("tag:yaml.org,2002:null", "")


class Node:
    """A value in a YAML file that knows where it stands."""

    def __init__(self, node: Any, shown: str, line: int, name: str) -> None:
        self._node, self._shown, self._name = node, shown, name
        self.place = f"{shown}:{line}"

    @classmethod
    def load(cls, path: Path, shown: str) -> "Node":
        """Reads `path`; `shown` is how messages name it."""
        try:
            loader = Loader(path.read_text(encoding="utf-8"))
            node = loader.get_single_node() or _EMPTY
            loader.construct_document(node)  # which finds mistakes in all values
        except FileNotFoundError:
            raise SeriesError(shown, "there is no such file", do="write") from None
        except UnicodeDecodeError as error:
            raise SeriesError(shown, f"is not UTF-8: {error.reason}") from None
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise SeriesError(f"{shown}:{line}", str(error.problem)) from None
        return cls(node, shown, 1, "the file")

    def error(self, problem: str) -> SeriesError:
        return SeriesError(self.place, problem)

    @property
    def value(self) -> Any:
        return Loader("").construct_object(self._node, deep=True)

    @cached_property
    def _entries(self) -> dict[str, tuple[Any, Any]]:
        """Name -> key and value of a mapping."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.error(f"{self._name} must be a mapping")
        return {str(key.value): (key, value) for key, value in self._node.value}

    def fields(self, required: Set[str], optional: Set[str] = frozenset()) -> None:
        """Checks that this is a mapping with these keys and no others."""
        for key in self._entries:
            if key not in required | optional:
                known = ", ".join(sorted(required | optional))
                raise self[key].error(f"unknown key '{key}' (known: {known})")
        for key in sorted(required - self._entries.keys()):
            raise self.error(f"{self._name} lacks '{key}'")

    def __getitem__(self, name: str) -> "Node":
        key, value = self._entries[name]
        return Node(value, self._shown, key.start_mark.line + 1, f"'{name}'")

    def __contains__(self, name: str) -> bool:
        return isinstance(self._node, yaml.MappingNode) and name in self._entries

    def items(self) -> "list[Node]":
        if not isinstance(self._node, yaml.SequenceNode):
            raise self.error(f"{self._name} must be a list")
        return [
            Node(one, self._shown, one.start_mark.line + 1, f"item {number} of {self._name}")
            for number, one in enumerate(self._node.value, start=1)
        ]

    def text(self) -> str:
        if not self._node.tag.endswith(":str") or not self._node.value.strip():
            raise self.error(f"{self._name} must be text, not {self.value!r}")
        return str(self._node.value)

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
            return {name: self[name]._made(inner[1]) for name in self._entries}
        keys = {one.name.rstrip("_"): one for one in fields(kind) if one.name not in others}
        needed = {key for key, one in keys.items() if MISSING is one.default is one.default_factory}
        self.fields(needed, keys.keys() - needed)
        types = get_type_hints(kind)
        given = {
            one.name: self[key]._made(types[one.name]) for key, one in keys.items() if key in self
        }
        return kind(**given, **others)
