# Owner(s): ["module: intel"]
"""Names that are private to PyTorch: inductor for XPU uses those of a list, and they exist."""

import ast
import importlib
import importlib.util
import itertools
import operator
import os
import types
from unittest import mock

import torch
import torch._inductor.config
from torch.testing._internal.common_utils import run_tests, TestCase
from torch_xpu_runtime._inductor import private

ROOMS = {
    "host": private.HOST,
    "gpu": private.GPU,
    "graphs": private.GRAPHS,
    "launch": private.LAUNCH,
}


def imported(tree):
    """What is imported from private modules of PyTorch: modules, and names in modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch._"):
            for alias in node.names:
                there = getattr(importlib.import_module(node.module), alias.name)
                module = isinstance(there, types.ModuleType)
                yield f"{node.module}.{alias.name}:" if module else f"{node.module}:{alias.name}"


class TestPrivate(TestCase):
    def test_each_is_there(self):
        later = private.LATER if importlib.util.find_spec("torch._inductor.heuristics") else {}
        for name in itertools.chain(later, *ROOMS.values()):
            module, _, path = name.partition(":")
            operator.attrgetter(path)(private.module(module))

    def test_what_has_moved(self):
        with mock.patch.dict(private.MOVED, {"torch._gone": "torch._inductor"}):
            self.assertEqual(private.module("torch._gone.config"), torch._inductor.config)
        with self.assertRaises(ModuleNotFoundError):
            private.module("torch._gone.config")

    def test_no_other_is_imported(self):
        folder = os.path.dirname(private.__file__)
        for room, listed in ROOMS.items():
            with open(os.path.join(folder, f"{room}.py")) as file:
                found = list(imported(ast.parse(file.read())))
            self.assertGreater(len(found), 4)
            for name in found:
                self.assertTrue(any(one.startswith(name) for one in listed), f"{room}: {name}")


if __name__ == "__main__":
    run_tests()
