r"""The XPU runtime for PyTorch as it is installed with pip.

``import torch`` loads it by the entry point group ``torch.backends``, and
``torch.xpu`` is there. With ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` PyTorch stays as it
is until this package is imported.
"""

# PyTorch may be in the middle of its own import, and may import this package
# while it is: autoload must be there before torch is asked for.
from ._extensions import include_paths, library_paths
from ._loading import autoload
from ._mapping import mapping, set_mapping

__all__ = ["autoload", "include_paths", "library_paths", "mapping", "set_mapping"]

autoload()
