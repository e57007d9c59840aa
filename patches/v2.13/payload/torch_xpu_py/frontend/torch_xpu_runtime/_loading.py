r"""Puts the runtime into PyTorch.

Note [Loading into a PyTorch without XPU]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
PyTorch's own ``torch.xpu`` is built on names of ``torch._C``. A build without XPU
has ``torch._C._has_xpu`` False and dummies for what classes derive from, and
``torch.xpu`` asks for these when it is imported. So the names are put there, and
the modules of ``torch.xpu`` run again. At the end of ``import torch``, where this
happens, nothing else has looked at them yet.

What might fail comes first: all files of the package are imported before the library
that registers itself with PyTorch, and that before the first name is set. When setting
the names fails, they are taken back. ``autoload`` turns whatever is raised here into a
warning.
"""

import ctypes
import importlib
import importlib.metadata
import os
import re
import sys
from contextlib import contextmanager
from typing import Any, Iterator

from . import Refused
from ._built_for import SYCL, SYCL_LIBRARY
from ._mapping import find_cpu_device, mapping, set_mapping
from ._unsupported import AOTIModelContainerRunnerXpu, StaticXpuLauncher


def load(torch: Any) -> None:
    r"""Puts the runtime into a PyTorch that fits it, or raises."""
    names = _names()
    _check_accelerator(torch)
    with _taken_back_on_errors(torch):
        _put(torch, names)
        find_cpu_device(os.environ.get("TORCH_XPU_MAPPING"))


def _check_accelerator(torch: Any) -> None:
    r"""Raises unless PyTorch takes XPU, now that the library is there, for the
    accelerator. It asks once in a process and keeps the answer."""
    found = torch.accelerator.current_accelerator()
    if found is None:
        raise Refused(
            "torch.accelerator was asked before it, and keeps its answer. Import "
            "torch_xpu_runtime right after torch"
        )
    if found.type != "xpu":
        raise Refused(
            f"PyTorch has the accelerator '{found.type}' from another package, and "
            "allows one. Remove that package"
        )


def _names() -> dict[str, Any]:
    r"""What ``torch._C`` is to have."""
    _load_sycl()
    try:
        from . import _C
    except ImportError as error:
        raise Refused(
            f"a library is missing, damaged or of another version ({error}). The SYCL "
            "runtime comes with `pip install intel-sycl-rt intel-opencl-rt`; one "
            "that is elsewhere must be in LD_LIBRARY_PATH"
        ) from error
    prefixes = ("_xpu_", "_Xpu", "_XPU")
    return {name: value for name, value in vars(_C).items() if name.startswith(prefixes)}


def _load_sycl() -> None:
    r"""Loads the SYCL runtime that pip installed, unless LD_LIBRARY_PATH has one.

    Not with an RPATH: in a folder of ``pip install --target`` that would lead out of
    the folder, to whatever lies there.
    """
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and os.path.exists(os.path.join(folder, SYCL_LIBRARY)):
            return
    try:
        package = importlib.metadata.distribution("intel-sycl-rt")
    except importlib.metadata.PackageNotFoundError:
        return  # the loader may know another place
    site = os.path.abspath(str(package.locate_file("")))
    environment = re.fullmatch(
        r"(.+)/lib(64)?/python\d+\.\d+/(site|dist)-packages", site
    )
    # pip install --target has it in the folder itself.
    library = os.path.join(environment[1] if environment else site, "lib", SYCL_LIBRARY)
    if os.path.exists(library):
        try:
            ctypes.CDLL(library)
        except OSError as error:
            raise Refused(
                f"the SYCL runtime cannot be loaded ({error}). Install it again, with "
                "`pip install --force-reinstall intel-sycl-rt intel-opencl-rt`"
            ) from error


@contextmanager
def _taken_back_on_errors(torch: Any) -> Iterator[None]:
    r"""Gives the modules that get names what they had, if there is an error."""
    ours = {
        name: module
        for name, module in sys.modules.items()
        if name == "torch.xpu" or name.startswith("torch.xpu.")
    }
    others = (torch._C, torch._C._aoti, torch._C._dynamo.guards, torch.version)
    before = [(module, dict(vars(module))) for module in (*ours.values(), *others)]
    try:
        yield
    except BaseException:
        for module, names in before:
            for name in vars(module).keys() - names.keys():
                delattr(module, name)
            for name, value in names.items():
                setattr(module, name, value)
        sys.modules.update(ours)
        raise


def _put(torch: Any, names: dict[str, Any]) -> None:
    r"""See Note [Loading into a PyTorch without XPU]."""
    for name, value in names.items():
        # What prints or pickles a class looks for it there.
        if isinstance(value, type) and value.__module__ != "torch._C":
            value.__module__ = "torch._C"
        setattr(torch._C, name, value)
    torch._C._StaticXpuLauncher = StaticXpuLauncher
    torch._C._aoti.AOTIModelContainerRunnerXpu = AOTIModelContainerRunnerXpu
    torch._C._dynamo.guards._empty_strided_xpu = _empty_strided_xpu
    torch._C._has_xpu = True
    del torch.version.xpu
    torch.version.__getattr__ = _version
    for name in ("memory", "random"):
        sys.modules.pop(f"torch.xpu.{name}", None)
    for name in ("streams", "graphs"):
        importlib.reload(sys.modules[f"torch.xpu.{name}"])
    importlib.reload(torch.xpu)
    # The contract has these in torch.xpu.
    torch.xpu.mapping = mapping
    torch.xpu.set_mapping = set_mapping


def _empty_strided_xpu(size: Any, stride: Any, dtype: Any) -> Any:
    r"""What inductor's code allocates with."""
    import torch

    return torch.empty_strided(size, stride, dtype=dtype, device="xpu")


def _version(name: str) -> Any:
    r"""``torch.version.xpu``, from the first device. Packages take it for a build that runs
    kernels for Intel GPUs, so it is None on other devices. To ask for it starts SYCL, which
    ``import torch`` must not."""
    if name != "xpu":
        raise AttributeError(f"module 'torch.version' has no attribute '{name}'")
    import torch

    first = None
    if torch.xpu._is_in_bad_fork():
        # One of inductor's that compile: they were told before what the devices are.
        interface = sys.modules.get("torch._dynamo.device_interface")
        kept = interface.caching_worker_device_properties.get("xpu") if interface else None
        first = kept[0] if kept else None
    elif torch.xpu.is_available():
        first = torch.xpu.get_device_properties(0)
    return SYCL if first and "Level-Zero" in first.platform_name else None
