"""`python -m xpu_stack`: the command line."""

import gc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType


class _WhenUsed:
    """Runs the tool's modules when they are first used: a verb needs few of them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("xpu_stack."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None and ".cli" not in name:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


gc.set_threshold(100_000)  # what imports allocate stays, and need not be looked through
sys.dont_write_bytecode = False  # or each start compiles the tool, where the variable is set
try:
    sys.meta_path.insert(0, _WhenUsed())
    from xpu_stack.cli import main

    main()
except KeyboardInterrupt:  # before main() could catch it
    sys.exit(130)
