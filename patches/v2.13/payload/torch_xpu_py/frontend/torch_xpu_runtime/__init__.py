r"""The XPU runtime for PyTorch as it is installed with pip.

``import torch`` loads it by the entry point group ``torch.backends``, and
``torch.xpu`` is there. With ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` PyTorch stays as it
is until this package is imported.
"""

import warnings
from typing import Optional

__all__ = ["autoload", "include_paths", "library_paths", "mapping", "set_mapping"]

# Set once there was an attempt to load, whatever came of it.
_attempted = False
# Why the package's own functions are not there.
_broken: Optional[Exception] = None


class Refused(Exception):
    r"""A reason to leave PyTorch as it is."""


def autoload() -> None:
    r"""Makes ``torch.xpu`` work, unless it has been tried before.

    Beside PyTorch it never raises: where the runtime cannot be loaded it warns, and
    PyTorch is as without it. ``import torch`` must work, also with a damaged file here.
    """
    global _attempted
    try:
        import torch  # loads this package too, unless that is switched off
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from ._fitting import INSTALL

        raise ImportError(f"torch_xpu_runtime needs PyTorch: `{INSTALL}`") from None
    if _attempted:
        return
    _attempted = True
    try:
        if _broken is not None:
            raise _broken
        from ._fitting import check

        check(torch)
        from ._loading import load

        load(torch)
    except Exception as error:
        reason = str(error)
        if not isinstance(error, Refused):
            reason = (
                f"{type(error).__name__}: {reason}. Its files are damaged: install "
                "its wheel again, with `pip install --force-reinstall --no-deps`"
            )
        warnings.warn(
            f"torch_xpu_runtime was not loaded: {reason}. PyTorch works as without "
            "it; TORCH_DEVICE_BACKEND_AUTOLOAD=0 or `pip uninstall "
            "torch_xpu_runtime` ends this warning.",
            stacklevel=2,
        )


# PyTorch may be in the middle of its own import, and may import this package
# while it is: autoload is there by now, and these do not import torch.
try:
    from ._extensions import include_paths, library_paths
    from ._mapping import mapping, set_mapping
except Exception as error:
    _broken = error

autoload()
