"""All that is in the way of a submission, shown at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from xpu_stack.core.system.errors import ToolError


class Problems:
    """Errors that are collected, and raised together."""

    def __init__(self) -> None:
        self._found: list[ToolError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """An error in here is one of them."""
        try:
            yield
        except ToolError as error:
            self._found.append(error)

    def refuse(self) -> None:
        """Raises the first that was found, with the others listed above it."""
        if self._found:
            first, *others = self._found
            told = [
                text
                for one in others
                for text in (one.detail, f"also: {one.what}\n  why: {one.why}\n  next: {one.next}")
            ]
            first.detail = "\n".join(filter(None, [*told, first.detail]))
            raise first
