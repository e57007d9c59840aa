import ctypes
from typing import Any, Optional

import torch

from ._device import _device_t, device as _device_context
from ._state import _is_compiled, _lazy_init
from ._utils import _dummy_type, _get_device_index

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]

if not _is_compiled():
    torch._C.__dict__["_XpuStreamBase"] = _dummy_type("_XpuStreamBase")
    torch._C.__dict__["_XpuEventBase"] = _dummy_type("_XpuEventBase")


class Stream(torch._C._XpuStreamBase):
    r"""A sequence of work that a device runs in the order of submission.

    Between the work of two streams there is no order unless an :class:`Event`
    makes one. A stream comes from a pool of 32 for each device and priority: the
    33rd is the first again, and none is ever destroyed.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default, and for a negative integer.
        priority (int, optional): -1 (high), 0 or 1 (low); a lower number is a
            higher priority. Default: 0.
    """

    def __new__(cls, device=None, priority=0, **kwargs):
        # A given stream_id names a stream, and with it the device.
        if device is None or "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        with _device_context(device):
            return super().__new__(cls, priority=priority, **kwargs)

    def wait_event(self, event: "Event") -> None:
        r"""Makes all work that is submitted from now on wait for an event.

        It returns without waiting itself.

        Args:
            event (torch.xpu.Event): the event to wait for.
        """
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        r"""Makes all work that is submitted from now on wait for another stream.

        It waits for what was submitted there so far, and returns without waiting
        itself.

        Args:
            stream (Stream): the stream to wait for.
        """
        self.wait_event(stream.record_event())

    def record_event(self, event: Optional["Event"] = None) -> "Event":
        r"""Records an event after all work that was submitted so far.

        Args:
            event (torch.xpu.Event, optional): the event; a new one by default.

        Returns:
            The event.
        """
        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        r"""Returns whether all work that was submitted so far is complete."""
        return super().query()

    def synchronize(self) -> None:
        r"""Waits for all work that was submitted so far.

        Errors of that work are raised here.
        """
        super().synchronize()

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.sycl_queue)

    def __repr__(self):
        return f"torch.xpu.Stream(device={self.device} sycl_queue={self.sycl_queue:#x})"


class ExternalStream(Stream):
    r"""A stream over a queue that another library has made.

    The queue stays the other library's: it must exist as long as the stream is
    used.

    Args:
        stream_ptr (int): the address of a ``sycl::queue``, which must be in order
            and in the context that PyTorch uses.
        device (torch.device or int or str, optional): the device of the queue;
            the current one by default.
    """

    def __new__(cls, stream_ptr, device=None, **kwargs):
        stream_id, device_index, device_type = torch._C._xpu_getStreamFromExternal(
            stream_ptr, _get_device_index(device, optional=True)
        )
        return super().__new__(
            cls,
            stream_id=stream_id,
            device_index=device_index,
            device_type=device_type,
            **kwargs,
        )


class Event(torch._C._XpuEventBase):
    r"""A point in the work of a stream, to wait for and to take the time of.

    It is created when it is first recorded, and belongs to the device of that
    stream from then on; streams of any device can wait for it. Before it is
    recorded it counts as complete.

    An event exists in one process only: there is no handle by which another
    process could open it.

    Args:
        enable_timing (bool, optional): whether :meth:`elapsed_time` is to be
            used, which makes :meth:`record` slower. Default: ``False``.
    """

    def __new__(cls, enable_timing=False):
        return super().__new__(cls, enable_timing=enable_timing)

    def record(self, stream: Optional[torch._C._XpuStreamBase] = None) -> None:
        r"""Records the event after all work that was submitted to a stream so far.

        Args:
            stream (Stream, optional): the stream, which must be of the event's
                device; the current one by default.
        """
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream: Optional[torch._C._XpuStreamBase] = None) -> None:
        r"""Makes all work that is submitted to a stream from now on wait for this
        event.

        It returns without waiting itself.

        Args:
            stream (Stream, optional): the stream; the current one by default.
        """
        super().wait(current_stream() if stream is None else stream)

    def query(self) -> bool:
        r"""Returns whether all work before the event is complete."""
        return super().query()

    def elapsed_time(self, end_event: torch._C._XpuEventBase) -> float:
        r"""Returns the milliseconds from this event to another.

        Both must be complete, of one device, and made with
        ``enable_timing=True``.

        Args:
            end_event (Event): the event that was recorded later.
        """
        return super().elapsed_time(end_event)

    def synchronize(self) -> None:
        r"""Waits until all work before the event is complete.

        Errors of that work are raised here.
        """
        super().synchronize()

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.sycl_event)

    def __repr__(self):
        if not self.sycl_event:
            return "torch.xpu.Event(uninitialized)"
        return f"torch.xpu.Event(sycl_event={self.sycl_event:#x})"


def current_stream(device: Optional[_device_t] = None) -> Stream:
    r"""Returns the calling thread's stream of a device.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    _lazy_init()
    stream_id, device_index, device_type = torch._C._xpu_getCurrentStream(
        _get_device_index(device, optional=True)
    )
    return Stream(
        stream_id=stream_id, device_index=device_index, device_type=device_type
    )


def default_stream(device: Optional[_device_t] = None) -> Stream:
    r"""Returns the default stream of a device.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    _lazy_init()
    stream_id, device_index, device_type = torch._C._xpu_getDefaultStream(
        _get_device_index(device, optional=True)
    )
    return Stream(
        stream_id=stream_id, device_index=device_index, device_type=device_type
    )


def set_stream(stream: Optional[Stream]) -> None:
    r"""Makes a stream the calling thread's stream of the stream's device, and
    that device the current one.

    The context manager :func:`stream` is preferable in most cases.

    Args:
        stream (Stream): the stream; nothing is changed for ``None``.
    """
    if stream is not None:
        _check_stream(stream)
        _set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    r"""As :func:`set_stream`, for a stream that is given by its three numbers."""
    _lazy_init()
    torch._C._xpu_setStream(
        stream_id=stream_id, device_index=device_index, device_type=device_type
    )


def _check_stream(stream: Any) -> None:
    if not isinstance(stream, torch._C._XpuStreamBase):
        raise TypeError(f"expected a torch.xpu.Stream, but got {type(stream).__name__}")


class StreamContext:
    r"""Context manager that selects a stream, and with it the stream's device.

    Afterwards the device is what it was, and so is the stream of the device that
    was selected.

    Args:
        stream (Stream): the stream to select; nothing is changed for ``None``.
    """

    def __init__(self, stream: Optional[Stream]):
        if stream is not None:
            _check_stream(stream)
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return
        self._before = current_stream()
        self._before_there = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        if self.stream is None:
            return
        set_stream(self._before_there)
        set_stream(self._before)


def stream(stream: Optional[Stream]) -> StreamContext:
    r"""Returns a :class:`StreamContext`, which selects a stream for a scope.

    Args:
        stream (Stream): the stream to select; nothing is changed for ``None``.
    """
    return StreamContext(stream)
