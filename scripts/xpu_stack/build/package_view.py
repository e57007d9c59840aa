"""The Python package of a build: a folder from which `import torch` is the patched one.

Every file is a link into the checkout or the build, so that an edit of a .py
file takes effect at once. The folders are real: Python writes its compiled
files there and not into the checkout.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_PACKAGES = ("torch", "torchgen")
_NOT_PACKAGE = {"csrc", "lib", "bin", "include", "share"}  # at the top of a package
_NOT_FILES = (".cmake", ".in", ".so", "CMakeLists.txt")


def folder(build: Path) -> Path:
    return build / "site"


def refresh(checkout: Path, build: Path) -> None:
    site = folder(build)
    wanted = dict(_files(checkout)) | dict(_built(build))
    for path, _, names in os.walk(site):
        for name in names:
            link = Path(path) / name
            if link.is_symlink() and link.relative_to(site).as_posix() not in wanted:
                link.unlink()
    for name, target in wanted.items():
        link = site / name
        if os.path.islink(link) and os.readlink(link) == str(target):  # noqa: PTH114, PTH115 (fast)
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _files(checkout: Path) -> Iterator[tuple[str, Path]]:
    """The packages' files, those that the build generates beside them among them."""
    for package in _PACKAGES:
        top = checkout / package
        for path, inner, names in os.walk(top):
            left_out = {"__pycache__"} | (_NOT_PACKAGE if Path(path) == top else set())
            inner[:] = [name for name in inner if name not in left_out]
            for name in names:
                if not name.endswith(_NOT_FILES):
                    file = Path(path) / name
                    yield file.relative_to(checkout).as_posix(), file


def _built(build: Path) -> Iterator[tuple[str, Path]]:
    """The extension modules, the libraries and the program that they use."""
    for path in (build / "extensions").glob("*.so"):
        yield f"torch/{path.name}", path
    for path in (build / "lib").glob("lib*.so"):
        yield f"torch/lib/{path.name}", path
    manager = build / "bin" / "torch_shm_manager"
    yield f"torch/bin/{manager.name}", manager
