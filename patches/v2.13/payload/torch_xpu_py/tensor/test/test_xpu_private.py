# Owner(s): ["module: intel"]
"""Names that are private to PyTorch: inductor for XPU uses those of a list, and they exist.

PRIVATE_OF is a folder with the `torch` of another version, unpacked from its wheel: its text is
read, and nothing of it is imported.
"""

import ast
import functools
import importlib
import importlib.util
import itertools
import operator
import os
import types
import unittest
from pathlib import Path
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


class Sources:
    """Modules of PyTorch, by their text."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def file(self, module):
        path = self.folder.joinpath(*module.split("."))
        files = (path.with_suffix(".py"), path / "__init__.py")
        return next((file for file in files if file.exists()), None)

    @functools.lru_cache(None)
    def tree(self, module):
        return ast.parse(self.file(module).read_text())

    def defined(self, body):
        """What statements define, by name."""
        found = {}
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = node
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found.update({alias.asname or alias.name: node for alias in node.names})
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = (one for target in targets for one in ast.walk(target))
                found.update({one.id: node for one in names if isinstance(one, ast.Name)})
            else:
                for part in ("body", "orelse", "handlers", "finalbody"):
                    found.update(self.defined(getattr(node, part, ())))
        return found

    def find(self, module, name):
        """Where a name of a module is defined, and by what; by None if it is not."""
        node = self.defined(self.tree(module).body).get(name)
        if not isinstance(node, ast.ImportFrom):
            return module, node
        is_package = self.file(module).name == "__init__.py"
        package = module if is_package else module.rpartition(".")[0]
        source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        (original,) = (one.name for one in node.names if (one.asname or one.name) == name)
        if self.file(source) is None or self.file(f"{source}.{original}"):
            return source, node  # it is of no text, or a module
        return self.find(source, original)

    def member(self, module, node, name):
        found = self.defined(getattr(node, "body", ())).get(name)
        bases = (one.id for one in getattr(node, "bases", ()) if isinstance(one, ast.Name))
        for base in bases:
            found = found or self.member(*self.find(module, base), name)
        return found

    def has(self, whole):
        """Whether there is what is listed, wherever its module is now."""
        module, _, path = whole.partition(":")
        for before, now in private.MOVED.items():
            if self.file(module) is None:
                module = module.replace(before, now)
        if self.file(module) is None:
            return False
        first, *members = path.split(".")
        module, node = self.find(module, first)
        for name in members:
            node = self.member(module, node, name)
        return node is not None


def imported(tree):
    """What is imported from private modules of PyTorch: modules, and names in modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch._"):
            for alias in node.names:
                package = __import__(node.module, fromlist=[alias.name])  # imports a module in it
                there = getattr(package, alias.name)
                module = isinstance(there, types.ModuleType)
                yield f"{node.module}.{alias.name}:" if module else f"{node.module}:{alias.name}"


class TestPrivate(TestCase):
    def test_each_is_there(self):
        later = private.LATER if importlib.util.find_spec("torch._inductor.heuristics") else {}
        for name in itertools.chain(later, *ROOMS.values()):
            module, _, path = name.partition(":")
            operator.attrgetter(path)(private.module(module))

    def check(self, sources):
        later = private.LATER if sources.file("torch._inductor.heuristics") else {}
        for name in itertools.chain(later, *ROOMS.values()):
            self.assertTrue(sources.has(name), name)
        for name in (
            "torch._inductor.gone:name",
            "torch._inductor.ir:gone",
            "torch._inductor.ir:ExternKernelOut.gone",
        ):
            self.assertFalse(sources.has(name), name)

    def test_by_text(self):
        self.check(Sources(Path(torch.__file__).parents[1]))

    @unittest.skipUnless("PRIVATE_OF" in os.environ, "PRIVATE_OF names no other PyTorch")
    def test_of_another(self):
        self.check(Sources(os.environ["PRIVATE_OF"]))

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
