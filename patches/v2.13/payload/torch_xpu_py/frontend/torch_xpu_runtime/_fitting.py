r"""Whether a PyTorch can take the runtime. It imports nothing of PyTorch, which may be
of any version here."""

import sys
from types import ModuleType

from . import Refused
from ._built_for import TORCH

# PyPI has no wheel for the CPU alone.
INSTALL = (
    f"pip install torch=={TORCH}.0+cpu "
    "--extra-index-url https://download.pytorch.org/whl/cpu"
)


def check(torch: ModuleType) -> None:
    r"""Raises unless this PyTorch can take the runtime."""
    version = str(torch.__version__)
    cpu_wheel = f"PyTorch's CPU wheel, `{INSTALL}`"
    for name, has in (
        ("CUDA", torch.version.cuda),
        ("ROCm", torch.version.hip),
    ):
        if has:
            raise Refused(
                f"PyTorch {version} has {name} built in, and PyTorch allows one "
                f"accelerator. Use one without: {cpu_wheel}"
            )
    if version.split(".")[:2] != TORCH.split("."):
        raise Refused(
            f"it was built for PyTorch {TORCH}, and this is {version}. Use "
            f"{cpu_wheel}, or a torch_xpu_runtime for your version"
        )
    if torch._C._has_xpu or hasattr(torch._C, "_xpu_init"):
        raise Refused(
            "this PyTorch has XPU already, built in or from another package. "
            f"Remove that package, or install {cpu_wheel}"
        )
    if "torch._dynamo.device_interface" in sys.modules:
        raise Refused(
            "torch.compile was used before it and knows no XPU. Import "
            "torch_xpu_runtime right after torch"
        )
