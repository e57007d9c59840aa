"""Rehearses the packaging of a full build, before hours of compiling.

Otherwise setup.py's packing, the included libraries and their licences, and the
metadata would be tried for the first time when everything is compiled. Here each
library is an empty one that links to what the real one will link to; all else is
real. It is done once for each configuration.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from xpu_stack.build import cmake, compilers, ninja
from xpu_stack.build.cmake import Target
from xpu_stack.core.system import shell
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.wheel import packing, tree
from xpu_stack.wheel.packing import Order

_PROGRAM = "EXECUTABLE"
_KINDS = ("SHARED_LIBRARY", "MODULE_LIBRARY", _PROGRAM)
_GENERATED = "gen_torch_version"  # torch/version.py, which the wheel's facts are added to


def rehearse(order: Order) -> None:
    """Makes a wheel of stand-ins, and throws it away. What is wrong is a ToolError."""
    build = order.source / "build"
    configured = (build / "xpu-stack.configured").read_text()
    stamp = build / "xpu-stack.rehearsed"
    if stamp.exists() and stamp.read_text() == configured:
        return
    ninja.build(build, [_GENERATED], order.env, compilers.jobs())
    every = cmake.targets(build)
    made_here = {target.name for target in every}
    targets = [one for one in every if one.destination and one.kind in _KINDS]
    with progress(len(targets), "making stand-ins of the libraries") as bar:
        placed = []
        for target in targets:
            placed.append(_place(target, foreign(target.links, build, made_here)))
            bar.step()
    made = packing.pack(order)
    log.info("rehearsed: %s", made.name)
    made.unlink()
    for path in placed:
        path.unlink()
    tree.remove_installed(order.source)
    stamp.write_text(configured)
    say("rehearsed the packaging, with empty libraries")


def _place(target: Target, links: Iterable[str]) -> Path:
    """An empty library or program where the real one will be installed."""
    assert target.artifact is not None
    assert target.destination is not None
    path = target.destination / target.artifact.name
    path.parent.mkdir(parents=True, exist_ok=True)
    shared = [] if target.kind == _PROGRAM else ["-shared", f"-Wl,-soname,{path.name}"]
    compiler = ["cc", "-fPIC", *shared, "-o", str(path), "-x", "c", "-", "-x", "none"]
    empty = b"int main(void) { return 0; }\n"
    shell.run([*compiler, "-Wl,--no-as-needed", *links], input=empty)
    return path


def foreign(links: Iterable[str], build: Path, made_here: set[str]) -> Iterator[str]:
    """Those of a target's shared libraries that the build does not make itself."""
    for word in links:
        path = Path(word)
        named = word.startswith("-l") and word[2:] not in made_here
        if named or (path.is_absolute() and ".so" in path.name and build not in path.parents):
            yield word
