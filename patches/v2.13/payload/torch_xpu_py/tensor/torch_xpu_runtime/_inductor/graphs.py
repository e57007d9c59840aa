r"""Graphs of compiled code, for XPU devices that are NVIDIA cards.

Note [Graphs of compiled code]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``mode="reduce-overhead"`` asks inductor for graphs. PyTorch's own are of ``torch.cuda``, and
share memory in trees. Here each function of inductor's has graphs of its own:

- The first call runs the function, so that kernels are compiled and their configurations
  chosen. A call whose parameters are where those of the call before were is recorded, and
  later ones replay that. So do the static inputs that inductor names, and what is another
  graph's memory, as activations are. Other inputs are copied to memory of the graph.
- What a call returns is memory of the graph, and the next replay writes it again. While
  anyone has a tensor of it, the function runs without its graph.
- A graph is for one thread, one stream and the sizes that it was recorded with. A function
  keeps those that were used last.
- What cannot be recorded, as an operator that runs on the host, is said, and then runs
  without a graph.

What another stream does with a result is not known here: who waits for it there has to keep
the result until then, whatever ``record_stream`` was told.
"""

import functools
import sys
import threading
import warnings
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch._inductor import cudagraph_utils, output_code, utils
from torch._inductor.output_code import CompiledFxGraph
from torch.utils._ordered_set import OrderedSet

_MOST_PLACES = 16  # of a function: sizes, times streams
_MOST_RECORDINGS = 8  # for each

_Function = Callable[[List[Any]], Any]
_Addresses = List[Optional[int]]

_owned: Set[int] = set()  # addresses of memory that graphs hand out
_recording = threading.Lock()  # they share a generator and a stream


@functools.cache
def _stream(device: int) -> Any:
    return torch.xpu.Stream(device)


def _storage(one: torch.Tensor) -> int:
    return one.untyped_storage()._cdata


class _Recording:
    r"""A graph, and the memory of it that a call reads and returns."""

    def __init__(self, function: _Function, inputs: List[Any], addresses: _Addresses) -> None:
        from torch._inductor import compile_fx

        self.addresses = addresses
        self._copy = compile_fx.index_expanded_dims_and_copy_
        self._expanded = compile_fx.get_expanded_dims
        self._copies = {
            index: torch.empty_strided(
                one.size(), one.stride(), dtype=one.dtype, device=one.device
            )
            for index, one in enumerate(inputs)
            if isinstance(one, torch.Tensor) and addresses[index] is None
        }
        read = [self._copies.get(index, one) for index, one in enumerate(inputs)]
        self._graph = torch.xpu.XPUGraph()  # type: ignore[attr-defined]
        with _recording, torch.xpu.stream(_stream(torch.xpu.current_device())):
            self._graph.capture_begin()
            try:
                outputs = function(list(read))
            finally:
                self._graph.capture_end()
        static = {
            index: one
            for index, one in enumerate(read)
            if isinstance(one, torch.Tensor) and index not in self._copies
        }
        theirs = {_storage(one): index for index, one in static.items()}
        tensors = [one for one in outputs if isinstance(one, torch.Tensor)]
        ours = {_storage(one): one for one in tensors if _storage(one) not in theirs}
        self._kept = list(ours.values())
        self._outputs = [self._output(one, theirs, static) for one in outputs]
        del outputs, tensors, ours, static, read
        self._owned = {one.untyped_storage().data_ptr() for one in self._kept} - {0}
        _owned.update(self._owned)
        self._unused = self._state()

    @staticmethod
    def _output(
        one: Any, theirs: Dict[int, int], static: Dict[int, torch.Tensor]
    ) -> Callable[[List[Any]], Any]:
        r"""What is an input, or a part of one, is made of that of each call. Of what is the
        graph's PyTorch makes a part of its own graph of gradients: a new one each time."""
        if not isinstance(one, torch.Tensor):
            return lambda inputs: one
        for index, other in static.items():
            if one is other:
                return lambda inputs: inputs[index]
        size, stride, dtype = one.size(), one.stride(), one.dtype
        within = theirs.get(_storage(one))
        if within is None:
            return lambda inputs: one.detach()
        distance = one.data_ptr() - static[within].data_ptr()

        def part(inputs: List[Any]) -> torch.Tensor:
            whole = inputs[within]
            offset = whole.storage_offset() * whole.element_size() + distance
            empty = torch.empty(0, dtype=dtype, device=whole.device)
            return empty.set_(whole.untyped_storage(), offset // dtype.itemsize, size, stride)

        return part

    def _state(self) -> List[Tuple[int, int, int]]:
        # Python's object of a storage is one, and lives as long as that: it has a count of its own.
        return [
            (
                torch._C._storage_Use_Count(_storage(one)),  # type: ignore[attr-defined]
                sys.getrefcount(one.untyped_storage()),
                one.data_ptr(),
            )
            for one in self._kept
        ]

    def in_use(self) -> bool:
        r"""Whether anyone has a tensor of its memory, or has resized that."""
        return self._state() != self._unused

    def __call__(self, inputs: List[Any]) -> List[Any]:
        for index, copy in self._copies.items():
            self._copy(copy, inputs[index], self._expanded(copy))
        outputs = [output(inputs) for output in self._outputs]
        self._graph.replay()
        inputs.clear()
        return outputs

    def __del__(self) -> None:
        _owned.difference_update(self.__dict__.get("_owned", ()))


class _Place:
    r"""What is known of a function for one stream and sizes."""

    def __init__(self) -> None:
        self.before: Optional[_Addresses] = None  # of the call before
        self.recording: Optional[_Recording] = None
        self.recordings = 0

    def record(self, function: _Function, inputs: List[Any], addresses: _Addresses) -> None:
        self.recording = None  # its memory is free then
        self.recordings += 1
        try:
            self.recording = _Recording(function, inputs, addresses)
        except Exception as error:  # it may work without
            self.recordings = _MOST_RECORDINGS
            text = str(error) or repr(error)
            warnings.warn(
                "torch.compile runs a part of a function without a graph, since it cannot be "
                f"recorded: {text.splitlines()[0]}",
                stacklevel=2,
            )


class Graphed(threading.local):
    r"""A function of inductor's that runs as graphs. It takes a list of inputs, which it
    empties. See Note [Graphs of compiled code]."""

    def __init__(
        self,
        function: _Function,
        static_input_idxs: Sequence[int] = (),
        *,
        device_index: int,
        mutated_input_idxs: Sequence[int] = (),
        **_others: Any,
    ) -> None:
        self._function = function
        self._device = device_index
        self._static = frozenset(static_input_idxs)
        self._mutated = OrderedSet(mutated_input_idxs)
        self._places: OrderedDict[Tuple[Any, ...], _Place] = OrderedDict()
        self._aligned: Optional[_Function] = None

    def _plainly(self, inputs: List[Any]) -> Any:
        if self._aligned is None:
            from torch._inductor import compile_fx

            checked = compile_fx.get_input_idxs_to_check(inputs, ())
            self._aligned = utils.align_inputs_from_check_idxs(
                self._function, checked, self._mutated
            )
        return self._aligned(inputs)

    def _address(self, index: int, one: Any) -> Optional[int]:
        r"""Of what a graph reads where it is. None of what is copied."""
        if not isinstance(one, torch.Tensor):
            return None
        address = one.data_ptr()
        is_static = index in self._static or one.untyped_storage().data_ptr() in _owned
        return address if is_static and address % utils.ALIGNMENT == 0 else None

    def _place(self, numbers: List[Any]) -> _Place:
        stream = torch._C._xpu_getCurrentRawStream(self._device)  # type: ignore[attr-defined]
        key = (stream, torch.is_inference_mode_enabled(), *numbers)
        place = self._places.setdefault(key, _Place())
        self._places.move_to_end(key)
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)
        return place

    def __call__(self, inputs: List[Any]) -> Any:
        # Inductor's guard of the device is in the function.
        with torch._C._XpuDeviceGuard(self._device):  # type: ignore[attr-defined]
            return self._call(inputs)

    def _call(self, inputs: List[Any]) -> Any:
        numbers = [one for one in inputs if not isinstance(one, torch.Tensor)]
        if (
            torch._C._xpu_isCurrentStreamCapturing()  # type: ignore[attr-defined]
            or not all(one is None or isinstance(one, int) for one in numbers)
        ):
            return self._plainly(inputs)
        place = self._place(numbers)
        addresses = [self._address(index, one) for index, one in enumerate(inputs)]
        before, place.before = place.before, addresses
        if (
            (place.recording is None or place.recording.addresses != addresses)
            and addresses == before
            and place.recordings < _MOST_RECORDINGS
            # Otherwise it would write the copy.
            and all(addresses[index] is not None for index in self._mutated)
        ):
            place.record(self._function, inputs, addresses)
        found = place.recording
        if found is None or found.addresses != addresses or found.in_use():
            return self._plainly(inputs)
        return found(inputs)


def _reason(devices: Dict[torch.device, Any]) -> Optional[str]:
    r"""Why a graph has none of these, if so."""
    if all(device.type != "xpu" for device in devices):
        return _reason_before(devices)
    as_cuda = {
        torch.device("cuda", device.index) if device.type == "xpu" else device: node
        for device, node in devices.items()
    }
    reason = _reason_before(as_cuda)
    if reason:
        cudagraph_utils.log_cudagraph_skip_and_bump_counter(reason)
    return reason


def _post_compile(self: Any, *args: Any) -> None:
    # It may have been half imported when this room was.
    from torch._inductor import compile_fx

    compile_fx.cudagraphify = Graphed  # type: ignore[assignment,misc]
    _post_compile_before(self, *args)


_reason_before = cudagraph_utils.check_lowering_disable_cudagraph
cudagraph_utils.check_lowering_disable_cudagraph = _reason
_post_compile_before = CompiledFxGraph.post_compile
CompiledFxGraph.post_compile = _post_compile  # type: ignore[method-assign]
# It tells the trees of torch.cuda of a backward without a graph.
output_code.maybe_handle_backward_generation = lambda *_: None
