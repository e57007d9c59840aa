"""A pytest plugin: a test that ends its worker process does not end the whole run.

xdist sends a worker its next tests without looking whether it still runs, and
stops with an internal error when it does not. That the worker ended is told by
an event of its own, so the message can be dropped.
"""

import contextlib
from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    send = node.sendcommand

    def sendcommand(name: str, **kwargs: object) -> None:
        with contextlib.suppress(OSError):
            send(name, **kwargs)

    node.sendcommand = sendcommand
