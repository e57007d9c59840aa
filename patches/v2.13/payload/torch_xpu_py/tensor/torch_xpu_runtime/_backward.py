r"""Where ``backward()`` runs.

Note [Backward on the host]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
The engine has a thread for each device of an accelerator. With kernels on the host, that
thread would have an OpenMP pool besides the caller's: more threads than processors, and
libgomp's then sleep between any two kernels instead of spinning, in the forward too. So
where the memory is host memory, a backward that Python starts runs in the thread that
starts it, as on the CPU. Autograd's setting for that is switched for the call alone.
"""

from typing import Any

import torch
from torch.autograd import set_multithreading_enabled, Variable


class _Engine(torch._C._ImperativeEngine):
    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        if not torch._C._xpu_isOnHostMemory():  # type: ignore[attr-defined]
            return super().run_backward(*args, **kwargs)
        with set_multithreading_enabled(False):
            return super().run_backward(*args, **kwargs)


def install() -> None:
    r"""Has ``torch.autograd`` start each backward so."""
    Variable._execution_engine = _Engine()
