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
- A graph is for one thread, one stream and the sizes that it was recorded with.
- What cannot be recorded, as an operator that runs on the host, is said, and then runs
  without a graph.
"""

import threading
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch._inductor import cudagraph_utils, output_code, utils
from torch._inductor.output_code import CompiledFxGraph
from torch.utils._ordered_set import OrderedSet

_MOST_RECORDINGS = 8  # of a function, for one stream and sizes

_Function = Callable[[List[Any]], Any]
_Addresses = List[Optional[int]]

_owned: Set[int] = set()  # addresses of memory that graphs hand out


def _storages(tensors: Sequence[Any]) -> Dict[int, torch.UntypedStorage]:
    storages = (one.untyped_storage() for one in tensors if isinstance(one, torch.Tensor))
    return {one._cdata: one for one in storages}


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
        with torch.xpu.stream(torch.xpu.Stream()):
            self._graph.capture_begin()
            try:
                outputs = function(list(read))
            finally:
                self._graph.capture_end()
        static = [one for index, one in enumerate(read) if index not in self._copies]
        kept = _storages(outputs)
        for other in _storages(static):
            kept.pop(other, None)
        # What is an input, or a part of one, is made of that of each call.
        self._outputs = [self._output(one, kept, read) for one in outputs]
        del outputs, static, read
        self._kept = list(kept.values())
        _owned.update(one.data_ptr() for one in self._kept)
        self._unused = self._uses()

    @staticmethod
    def _output(one: Any, kept: Dict[int, Any], read: List[Any]) -> Callable[[List[Any]], Any]:
        if not isinstance(one, torch.Tensor):
            return lambda inputs: one
        storage = one.untyped_storage()._cdata
        if storage in kept:
            # PyTorch makes it a part of its graph of gradients: a new one each time.
            return lambda inputs: one.detach()
        index = next(
            index
            for index, other in enumerate(read)
            if isinstance(other, torch.Tensor) and other.untyped_storage()._cdata == storage
        )
        if one is read[index]:
            return lambda inputs: inputs[index]
        place, dtype = (one.size(), one.stride(), one.storage_offset()), one.dtype
        return lambda inputs: inputs[index].detach().view(dtype).as_strided(*place)

    def _uses(self) -> List[int]:
        return [torch._C._storage_Use_Count(one._cdata) for one in self._kept]  # type: ignore[attr-defined]

    def in_use(self) -> bool:
        return self._uses() != self._unused

    def __call__(self, inputs: List[Any]) -> List[Any]:
        for index, copy in self._copies.items():
            self._copy(copy, inputs[index], self._expanded(copy))
        self._graph.replay()
        outputs = [output(inputs) for output in self._outputs]
        inputs.clear()
        return outputs

    def __del__(self) -> None:
        _owned.difference_update(one.data_ptr() for one in self.__dict__.get("_kept", ()))


class _Place:
    r"""What is known of a function for one stream and sizes."""

    def __init__(self) -> None:
        self.before: Optional[_Addresses] = None  # of the call before
        self.recording: Optional[_Recording] = None
        self.recordings = 0


class Graphed(threading.local):
    r"""A function of inductor's that runs as graphs. It takes a list of inputs, which it
    empties. See Note [Graphs of compiled code]."""

    def __init__(
        self,
        function: _Function,
        static_input_idxs: Sequence[int] = (),
        *,
        mutated_input_idxs: Sequence[int] = (),
        **_others: Any,
    ) -> None:
        self._function = function
        self._static = frozenset(static_input_idxs)
        self._mutated = OrderedSet(mutated_input_idxs)
        self._places: Dict[Tuple[Any, ...], _Place] = {}
        self._aligned: Optional[_Function] = None
        self._records = True

    def _plainly(self, inputs: List[Any]) -> Any:
        if self._aligned is None:
            from torch._inductor import compile_fx

            checked = compile_fx.get_input_idxs_to_check(inputs, tuple(self._static))
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

    def _record(self, place: _Place, inputs: List[Any], addresses: _Addresses) -> None:
        if any(addresses[index] is None for index in self._mutated):
            return  # it would write the copy
        place.recording = None  # its memory is free then
        place.recordings += 1
        try:
            place.recording = _Recording(self._function, inputs, addresses)
        except RuntimeError as error:
            self._records = False
            warnings.warn(
                "torch.compile runs a part of a function without a graph, since it cannot be "
                f"recorded: {str(error).splitlines()[0]}",
                stacklevel=2,
            )

    def __call__(self, inputs: List[Any]) -> Any:
        if not self._records or torch._C._xpu_isCurrentStreamCapturing():  # type: ignore[attr-defined]
            return self._plainly(inputs)
        sizes = [one for one in inputs if not isinstance(one, torch.Tensor)]
        key = (torch._C._xpu_getCurrentRawStream(torch._C._xpu_getDevice()), *sizes)  # type: ignore[attr-defined]
        place = self._places.setdefault(key, _Place())
        addresses = [self._address(index, one) for index, one in enumerate(inputs)]
        before, place.before = place.before, addresses
        found = place.recording
        if (found is None or found.addresses != addresses) and addresses == before:
            if place.recordings < _MOST_RECORDINGS:
                self._record(place, inputs, addresses)
                found = place.recording
        if found is None or found.addresses != addresses or found.in_use():
            return self._plainly(inputs)
        return found(inputs)


def _reason(devices: Dict[torch.device, Any]) -> Optional[str]:
    r"""Why a graph has none of these, if so."""
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
