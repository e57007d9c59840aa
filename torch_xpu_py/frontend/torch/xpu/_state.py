r"""When XPU comes up, and what waits for it.

Note [First use of XPU from Python]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``import torch`` starts no SYCL runtime; the first use of a device does. All
ways to it end in :func:`_lazy_init`: the functions of this package call it, and
so do the bindings in C++ (``torch::utils::device_lazy_init``).

One lock makes other threads wait for the one that comes first. The thread that
initialises may come here again, from a call that was queued: it is known by
``_tls`` and passes. An error leaves the state as before, so that the next use
tries again.

What is asked of devices before the first use and needs no answer, such as to
seed, is queued and made up for then. It is queued under the same lock, so that
no call is lost to a thread that initialises meanwhile. A queued call runs once,
also if it fails: its error is raised out of the first use, and the next one
goes on behind it.

A child that is forked gets a new lock, since the old one may be held by a
thread that it does not have. Whether it may use XPU is for the runtime to say:
it may if nothing had been started before.
"""

import os
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from ._mapping import _check_compiled, _is_compiled, find_cpu_device

_initialized = False
_lock = threading.Lock()
_tls = threading.local()

# What waits for the first use, by key; the order is that of the calls.
_Queued = Tuple[Callable[[], Any], traceback.StackSummary]
_queue: Dict[object, _Queued] = {}

_SEED = "seed"
_SEED_ALL = "seed_all"


class DeferredXpuCallError(Exception):
    r"""A call that waited for the first use of XPU has failed."""

    __module__ = "torch.xpu"


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def _is_in_bad_fork() -> bool:
    r"""Whether XPU cannot be used since the parent had before it forked."""
    return _is_compiled() and torch._C._xpu_isInBadFork()


def is_initialized() -> bool:
    r"""Returns whether XPU has been initialized in this process."""
    return _initialized and not _is_in_bad_fork()


def init() -> None:
    r"""Initializes XPU: finds the devices and makes them ready.

    There is no need to call it, since the first use of a device does. It raises
    where there is no device, and does nothing if XPU is initialized already.
    """
    _lazy_init()


def _is_initializing() -> bool:
    return getattr(_tls, "is_initializing", False)


def _lazy_init() -> None:
    # Without the lock first: this is on the way to most of what XPU does.
    if is_initialized() or _is_initializing():
        return
    with _lock:
        if is_initialized():
            return
        _check_compiled()
        if _is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize XPU in forked subprocess. To use XPU with "
                "multiprocessing, you must use the 'spawn' start method"
            )
        torch._C._xpu_init()
        _tls.is_initializing = True
        try:
            torch.xpu.default_generators = tuple(
                torch._C._xpu_getDefaultGenerator(index)
                for index in range(torch._C._xpu_getDeviceCount())
            )
            _run_queued()
        finally:
            del _tls.is_initializing
        global _initialized
        _initialized = True


def _run_queued() -> None:
    while _queue:
        call, stack = _queue.pop(next(iter(_queue)))
        try:
            call()
        except Exception as error:
            raise DeferredXpuCallError(
                f"XPU call failed lazily at initialization with error: {error}\n\n"
                f"XPU call was originally invoked at:\n\n{''.join(stack.format())}"
            ) from error


def _lazy_call(call: Callable[[], Any], key: Optional[str] = None) -> None:
    r"""Runs a call now if XPU is initialized, else at the first use.

    A later call with the same key takes the place of one that waits; to seed
    all devices makes up for what was to seed one.
    """
    if not is_initialized() and not _is_initializing():
        with _lock:
            if not is_initialized():
                _enqueue(call, key)
                return
    call()


def _enqueue(call: Callable[[], Any], key: Optional[str]) -> None:
    if not _is_compiled():
        return  # there will be no first use
    for outdated in {_SEED: [_SEED], _SEED_ALL: [_SEED, _SEED_ALL]}.get(key or "", []):
        _queue.pop(outdated, None)
    # Of the caller of _lazy_call; lines of source are read when they are shown.
    stack = traceback.StackSummary.extract(
        traceback.walk_stack(sys._getframe(2)), lookup_lines=False
    )
    stack.reverse()
    _queue[key or object()] = (call, stack)


find_cpu_device(os.environ.get("TORCH_XPU_MAPPING"))
