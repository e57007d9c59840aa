"""A pytest plugin: a test that ends its worker process does not end the whole run.

xdist sends a worker its next tests without looking whether it still runs, and
stops with an internal error when it does not. That the worker ended is told by
an event of its own, so the message can be dropped.
"""

import contextlib
from typing import Protocol

import pytest


class _Worker(Protocol):
    def sendcommand(self, name: str, **kwargs: object) -> None: ...


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: _Worker) -> None:
    send = node.sendcommand

    def sendcommand(name: str, **kwargs: object) -> None:
        with contextlib.suppress(OSError):
            send(name, **kwargs)

    node.sendcommand = sendcommand  # type: ignore[method-assign]
