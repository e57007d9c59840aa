"""The vendors' libraries that XPU's operators use where they are found."""

from typing import Dict, NamedTuple

import torch


class Library(NamedTuple):
    """A library: its version and its file, or why it cannot be used and what to install."""

    version: str
    path: str
    problem: str


def libraries() -> Dict[str, Library]:
    r"""Returns the vendors' libraries that XPU's operators use, by name, found or not. They
    are opened by that, if they were not. ``cublasLt`` is for products on NVIDIA devices,
    ``cudnn`` for convolutions there, ``onednn`` for both on Intel's devices, a CPU too.

    A library that cannot be used has a ``problem``. What it would have computed, kernels of
    XPU do.
    """
    return {
        "cublasLt": Library(*torch.ops.torch_xpu._cublas_lt()),
        "cudnn": Library(*torch.ops.torch_xpu._cudnn()),
        "onednn": Library(*torch.ops.torch_xpu._one_dnn()),
    }


def main() -> None:
    """Prints the devices and the libraries."""
    for i in range(torch.xpu.device_count()):
        print(f"xpu:{i}  {torch.xpu.get_device_name(i)}")
    for name, library in libraries().items():
        found = f"{library.version}, {library.path}"
        print(f"{name}  {library.problem or found}")


def install() -> None:
    """For a PyTorch whose torch.xpu has no such function."""
    torch.xpu.libraries = libraries
