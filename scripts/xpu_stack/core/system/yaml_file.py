"""YAML files whose mistakes are reported with file and line."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from xpu_stack.core.system.errors import SeriesError


class Node:
    """A value in a YAML file that knows where it stands."""

    def __init__(self, value: Any, path: Path, shown: str, line: int, name: str) -> None:
        self.value = value
        self.path = path
        self._shown = shown
        self._line = line
        self._name = name

    @classmethod
    def load(cls, path: Path, shown: str) -> "Node":
        """Reads `path`; `shown` is how messages name it."""
        try:
            value = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SeriesError(shown, "there is no such file", do="write") from None
        except UnicodeDecodeError as error:
            raise SeriesError(shown, f"is not UTF-8: {error.reason}") from None
        except MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise SeriesError(f"{shown}:{line}", str(error.problem)) from None
        return cls(value, path, shown, 1, "the file")

    @property
    def place(self) -> str:
        return f"{self._shown}:{self._line}"

    def error(self, problem: str) -> SeriesError:
        return SeriesError(self.place, problem)

    def _child(self, value: Any, position: tuple[int, int] | None, name: str) -> "Node":
        line = position[0] + 1 if position else self._line
        return Node(value, self.path, self._shown, line, name)

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
        return self._child(self.value[key], self.value.lc.key(key), f"'{key}'")

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def items(self) -> "list[Node]":
        if not isinstance(self.value, list):
            raise self.error(f"{self._name} must be a list")
        lines: Any = getattr(self.value, "lc")  # noqa: B009 (a plain list has none)
        return [
            self._child(value, lines.item(index), f"item {index + 1} of {self._name}")
            for index, value in enumerate(self.value)
        ]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.error(f"{self._name} must be text, not {self.value!r}")
        return str(self.value)

    def texts(self) -> list[str]:
        return [item.text() for item in self.items()]

    def text_map(self) -> dict[str, str]:
        if not isinstance(self.value, dict):
            raise self.error(f"{self._name} must be a mapping")
        return {str(key): self[key].text() for key in self.value}
