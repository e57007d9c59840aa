from typing import Iterable, List, Union

import torch
from torch import Tensor

from ._device import current_device, device_count
from ._state import _SEED, _SEED_ALL, _lazy_call, _lazy_init
from ._utils import _get_device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "set_rng_state",
    "set_rng_state_all",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
]


def _generator(device: Union[int, str, torch.device]) -> torch._C.Generator:
    return torch._C._xpu_getDefaultGenerator(_get_device_index(device, optional=True))


def get_rng_state(device: Union[int, str, torch.device] = "xpu") -> Tensor:
    r"""Returns the state of a device's random number generator, a tensor of bytes
    on the CPU.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.

    .. warning:: This function initializes XPU.
    """
    _lazy_init()
    return _generator(device).get_state()


def get_rng_state_all() -> List[Tensor]:
    r"""Returns the states of all devices' random number generators."""
    _lazy_init()
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(
    new_state: Tensor, device: Union[int, str, torch.device] = "xpu"
) -> None:
    r"""Sets the state of a device's random number generator.

    Before the first use of XPU this is put off until then.

    Args:
        new_state (torch.ByteTensor): the state, as :func:`get_rng_state` returns
            it.
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    # It may be put off, and the tensor be changed meanwhile.
    state = new_state.clone(memory_format=torch.contiguous_format)
    _lazy_call(lambda: _generator(device).set_state(state))


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    r"""Sets the states of all devices' random number generators.

    Args:
        new_states (Iterable of torch.ByteTensor): the states, one for each
            device, as :func:`get_rng_state_all` returns them.
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    r"""Sets the seed of the current device's random number generator.

    Before the first use of XPU this is put off until then; where there is no
    device it does nothing. :func:`manual_seed_all` seeds all devices.

    Args:
        seed (int): the seed.
    """
    seed = int(seed)
    _lazy_call(lambda: _generator(current_device()).manual_seed(seed), _SEED)


def manual_seed_all(seed: int) -> None:
    r"""Sets the seed of all devices' random number generators.

    Before the first use of XPU this is put off until then; where there is no
    device it does nothing.

    Args:
        seed (int): the seed.
    """
    seed = int(seed)

    def call() -> None:
        for generator in torch.xpu.default_generators:
            generator.manual_seed(seed)

    _lazy_call(call, _SEED_ALL)


def seed() -> None:
    r"""Sets the seed of the current device's random number generator to a random
    number.

    Before the first use of XPU this is put off until then; where there is no
    device it does nothing. :func:`seed_all` seeds all devices.
    """
    _lazy_call(lambda: _generator(current_device()).seed(), _SEED)


def seed_all() -> None:
    r"""Sets the seed of all devices' random number generators to one random
    number.

    Before the first use of XPU this is put off until then; where there is no
    device it does nothing.
    """

    def call() -> None:
        seed = None
        for generator in torch.xpu.default_generators:
            if seed is None:
                seed = generator.seed()
            else:
                generator.manual_seed(seed)

    _lazy_call(call, _SEED_ALL)


def initial_seed() -> int:
    r"""Returns the seed of the current device's random number generator.

    .. warning:: This function initializes XPU.
    """
    _lazy_init()
    return _generator(current_device()).initial_seed()
