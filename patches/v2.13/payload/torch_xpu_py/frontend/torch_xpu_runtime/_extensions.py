r"""Where a C++ extension finds the runtime. PyTorch's own paths,
``torch.utils.cpp_extension.include_paths`` and ``library_paths``, do not lead here."""

import os
from typing import List

from ._mapping import _library_beside_sycl

_HERE = os.path.dirname(os.path.abspath(__file__))


def include_paths() -> List[str]:
    r"""Returns the folders with the header that PyTorch's ``c10/xpu`` includes and
    the CPU build lacks, and with SYCL's headers."""
    return [os.path.join(_HERE, "include"), *_of_sycl("include")]


def library_paths() -> List[str]:
    r"""Returns the folders with ``libc10_xpu.so`` and ``libtorch_xpu.so``, and with
    ``libsycl.so``."""
    return [os.path.join(_HERE, "lib"), *_of_sycl("lib")]


def _of_sycl(name: str) -> List[str]:
    r"""In the SYCL runtime that this process uses."""
    library = _library_beside_sycl("libsycl.so")
    if library is None:
        return []
    folder = os.path.join(os.path.dirname(os.path.dirname(library)), name)
    return [folder] if os.path.isdir(folder) else []
