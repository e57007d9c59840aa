# Owner(s): ["module: intel"]
"""torch.compile on XPU: dynamo's device interface, streams and events in compiled
functions, and inductor's C++ backend."""

import copy
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

# Before inductor is imported: nothing that it compiled before may be found.
_CACHE = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _CACHE.name

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.device_interface import (
    DeviceGuard,
    get_interface_for_device,
    get_registered_device_interfaces,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export.passes import move_to_device_pass
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    slowTest,
    TestCase,
)
from xpu_host_memory import needs_host_memory

COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0
TIMEOUT = 300  # seconds

needs_device = unittest.skipIf(COUNT == 0, "there is no device")
needs_two = unittest.skipIf(COUNT < 2, "there is one device")
# What takes long and is the same with one device and with two.
once = unittest.skipIf(COUNT == 1, "takes long, and is run with two devices")


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )


@needs_device
class TestInterface(TestCase):
    def setUp(self):
        super().setUp()
        self.interface = get_interface_for_device("xpu")
        self.addCleanup(torch.xpu.set_device, torch.xpu.current_device())

    def test_one_for_every_name(self):
        # Since 2.15 PyTorch has none for a name with an index.
        indexed = [f"xpu:{i}" for i in range(COUNT)] if torch.__version__ < (2, 15) else []
        names = ["xpu", torch.device("xpu"), torch.device("xpu", COUNT - 1)]
        for name in [*names, *indexed]:
            self.assertIs(get_interface_for_device(name), self.interface)
        registered = {name for name, _ in get_registered_device_interfaces()}
        found = {name for name in registered if name.startswith("xpu")}
        self.assertEqual(found, {"xpu", *indexed})

    def test_unknown_device(self):
        for name in ("none", f"xpu:{COUNT}", torch.device("vulkan")):
            with self.assertRaisesRegex(NotImplementedError, "No interface for device"):
                get_interface_for_device(name)

    def test_what_it_says(self):
        interface = self.interface
        self.assertTrue(interface.is_available())
        self.assertEqual(interface.device_count(), COUNT)
        self.assertEqual(
            interface.get_device_properties(0), torch.xpu.get_device_properties(0)
        )
        self.assertEqual(
            interface.Worker.get_device_properties(0).name, torch.xpu.get_device_name(0)
        )
        capability = interface.get_compute_capability()
        if not isinstance(capability, int):  # as Triton's target has it, for an NVIDIA card
            self.assertEqual(capability, torch.xpu.get_device_capability())
        gc.collect()
        before = interface.memory_allocated()
        tensor = torch.empty(1024, device="xpu")
        self.assertGreaterEqual(interface.memory_allocated() - before, tensor.nbytes)

    @needs_two
    def test_device(self):
        interface = self.interface
        interface.set_device(1)
        self.assertEqual(torch.xpu.current_device(), 1)
        self.assertEqual(interface.exchange_device(0), 1)
        self.assertEqual(interface.current_device(), 0)
        self.assertEqual(interface.maybe_exchange_device(1), 0)
        self.assertEqual(interface.maybe_exchange_device(-1), -1)
        self.assertEqual(interface.current_device(), 1)

    @needs_two
    def test_guard(self):
        with DeviceGuard(self.interface, 1):
            self.assertEqual(torch.xpu.current_device(), 1)
            with DeviceGuard(self.interface, None):
                self.assertEqual(torch.xpu.current_device(), 1)
        self.assertEqual(torch.xpu.current_device(), 0)

    def test_streams(self):
        interface = self.interface
        before = interface.current_stream()
        stream = interface.Stream()
        with interface.stream(stream):
            self.assertEqual(interface.current_stream(), stream)
            self.assertEqual(interface.get_raw_stream(0), stream.sycl_queue)
        self.assertEqual(interface.current_stream(), before)
        interface._set_stream_by_id(
            stream.stream_id, stream.device_index, stream.device_type
        )
        self.assertEqual(interface.current_stream(), stream)
        interface.set_stream(before)
        self.assertEqual(interface.current_stream(), before)
        event = interface.Event()
        event.record(stream)
        interface.synchronize()
        self.assertTrue(event.query())


@needs_device
class TestGeneratedCode(TestCase):
    """Functions of C that inductor's code calls."""

    def test_empty_strided(self):
        empty_strided = torch._C._dynamo.guards._empty_strided_xpu
        for size, stride in (((), ()), ((0, 2), (2, 1)), ((2, 3), (1, 2)), ((2, 3), (0, 5))):
            for dtype in (torch.float16, torch.bool, torch.complex128):
                expected = torch.empty_strided(size, stride, dtype=dtype, device="xpu")
                found = empty_strided(size, stride, dtype)
                for name in ("size", "stride", "type", "get_device", "element_size"):
                    self.assertEqual(getattr(found, name)(), getattr(expected, name)())
                nbytes = expected.untyped_storage().nbytes()
                self.assertEqual(found.untyped_storage().nbytes(), nbytes)
        for wrong in (((2,), (1,)), ([2], (1,), torch.float), ((2,), (1,), "float")):
            with self.assertRaisesRegex(TypeError, "tuples|it takes"):
                empty_strided(*wrong)
        with self.assertRaises(TypeError):
            empty_strided((2.5,), (1,), torch.float)
        with self.assertRaisesRegex(RuntimeError, "negative"):
            empty_strided((-1,), (1,), torch.float)

    @needs_two
    def test_device(self):
        with torch._C._XpuDeviceGuard(1):
            self.assertEqual(torch.xpu.current_device(), 1)
            x = torch._C._dynamo.guards._empty_strided_xpu((2,), (1,), torch.float)
            self.assertEqual(x.get_device(), 1)
            with self.assertRaises(ZeroDivisionError), torch._C._XpuDeviceGuard(0):
                self.assertEqual(torch.xpu.current_device(), 0)
                print(1 / 0)
            self.assertEqual(torch.xpu.current_device(), 1)
        self.assertEqual(torch.xpu.current_device(), 0)
        for wrong in (COUNT, -1, 256):
            with self.assertRaises(RuntimeError):
                torch._C._XpuDeviceGuard(wrong)


@torch.library.custom_op("xpu_compile_test::note_stream", mutates_args={"ids"})
def note_stream(ids: torch.Tensor, index: int) -> None:
    """Notes the stream that is current when compiled code runs."""
    ids[index] = torch.xpu.current_stream().stream_id


def context_of_argument(x, ids, stream, event):
    with torch.xpu.stream(stream):
        y = x + 1
    torch.xpu.current_stream().wait_stream(stream)
    return y * 2


def made_inside(x, ids, stream, event):
    inside = torch.xpu.Stream()
    inside.wait_stream(torch.xpu.current_stream())
    with torch.xpu.stream(inside):
        y = x + 1
    torch.xpu.current_stream().wait_stream(inside)
    return y * 2


def generic_made_inside(x, ids, stream, event):
    inside = torch.Stream("xpu")
    with inside:
        y = x + 1
    torch.accelerator.current_stream().wait_stream(inside)
    return y * 2


def event_as_argument(x, ids, stream, event):
    y = x + 1
    event.record()
    event.wait(stream)
    event.synchronize()
    return y * 2 if event.query() else y


def event_made_inside(x, ids, stream, event):
    inside = torch.xpu.Event()
    y = x + 1
    inside.record()
    inside.wait()
    return y * 2


def generic_event_made_inside(x, ids, stream, event):
    inside = torch.Event("xpu")
    y = x + 1
    inside.record()
    inside.wait()
    return y * 2


def events_of_streams(x, ids, stream, event):
    y = x + 1
    stream.wait_event(stream.record_event())
    stream.synchronize()
    return y * 2


def set_by_id(x, ids, stream, event):
    before = torch.xpu.current_stream()
    torch.xpu._set_stream_by_id(
        stream.stream_id, stream.device_index, stream.device_type
    )
    note_stream(ids, 0)
    y = x + 1
    torch.xpu._set_stream_by_id(
        before.stream_id, before.device_index, before.device_type
    )
    note_stream(ids, 1)
    return y * 2


def set_stream(x, ids, stream, event):
    before = torch.xpu.current_stream()
    torch.xpu.set_stream(stream)
    note_stream(ids, 0)
    y = x + 1
    torch.xpu.set_stream(before)
    note_stream(ids, 1)
    return y * 2


def compared(x, ids, stream, event):
    return x + 1 if stream == torch.xpu.current_stream() else (x + 1) * 2


def synchronized(x, ids, stream, event):
    y = x + 1
    torch.xpu.synchronize()
    torch.xpu.synchronize(x.device.index)
    return y * 2


def device_context(x, ids, stream, event):
    with torch.xpu.device(x.device.index):
        return (x + 1) * 2


CAPTURED = [
    context_of_argument,
    made_inside,
    generic_made_inside,
    event_as_argument,
    event_made_inside,
    generic_event_made_inside,
    events_of_streams,
    set_by_id,
    set_stream,
    compared,
    synchronized,
    device_context,
]


@needs_device
@once
class TestStreams(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        before = torch.xpu.current_stream()
        self.addCleanup(torch.xpu.set_stream, before)
        self.x = torch.arange(8.0, device="xpu")
        # pytest keeps the instance of a test: its tensor must not stay with it.
        self.addCleanup(delattr, self, "x")

    @parametrize("backend", ["eager", "aot_eager"])
    @parametrize("function", CAPTURED, name_fn=lambda function: function.__name__)
    def test_captured(self, backend, function):
        if function is set_by_id and torch.__version__ >= (2, 14):
            self.skipTest("in a graph the current stream has no ids since 2.14")
        stream, event = torch.xpu.Stream(), torch.xpu.Event()
        ids = torch.full((2,), -1, dtype=torch.int64, device="xpu")
        before = torch.xpu.current_stream()
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        for _ in range(2):
            self.assertEqual(compiled(self.x, ids, stream, event), (self.x + 1) * 2)
            self.assertEqual(torch.xpu.current_stream(), before)
        # AOTAutograd drops calls that set the stream.
        if backend == "eager" and function in (set_by_id, set_stream):
            self.assertEqual(ids.tolist(), [stream.stream_id, before.stream_id])

    @parametrize("backend", ["eager", "aot_eager"])
    def test_reconstructed_after_a_graph_break(self, backend):
        def function(x):
            stream, event = torch.xpu.Stream(), torch.xpu.Event()
            y = x + 1
            event.record(stream)
            torch._dynamo.graph_break()
            event.synchronize()
            with torch.xpu.stream(stream):
                y = y * 2
            torch.xpu.current_stream().wait_stream(stream)
            return y, stream, event

        counter = CompileCounterWithBackend(backend)
        y, stream, event = torch.compile(function, backend=counter)(self.x)
        self.assertEqual(y, (self.x + 1) * 2)
        self.assertEqual(counter.frame_count, 2)
        self.assertEqual(stream.device, self.x.device)
        self.assertTrue(event.query())

    @parametrize("backend", ["eager", "aot_eager"])
    def test_current_stream_is_returned(self, backend):
        def function(x):
            return x + 1, torch.xpu.current_stream()

        stream = torch.xpu.Stream()
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        with torch.xpu.stream(stream):
            _, found = compiled(self.x)
        self.assertEqual(found.stream_id, stream.stream_id)


instantiate_parametrized_tests(TestStreams)


class Attention(nn.Module):
    """Attention, layer norm, GELU, dropout and a residual."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.1, activation="gelu", batch_first=True
        )

    def forward(self, x):
        return self.layer(x)


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 4),
    )


class CompiledCase(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def train(self, model, shapes, backend):
        """Trains a model and its compiled copy, and compares what they do."""
        expected = model.to("xpu")
        found = copy.deepcopy(expected)
        models = (
            expected,
            torch.compile(found, backend=backend, dynamic=True, fullgraph=True),
        )
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (expected, found)]
        for shape in shapes:
            x = torch.randn(shape, device="xpu")
            target = torch.randn_like(expected(x).detach())
            results = []
            for model, optimizer in zip(models, optimizers):
                torch.manual_seed(0)
                optimizer.zero_grad()
                y = model(x)
                (y - target).square().mean().backward()
                optimizer.step()
                results.append(y)
            self.assertEqual(results[1], results[0], atol=1e-4, rtol=1e-4)
        for name, parameter in found.named_parameters():
            other = expected.get_parameter(name)
            self.assertEqual(parameter.grad, other.grad, atol=1e-4, rtol=1e-4)


@needs_device
@once
class TestTraining(CompiledCase):
    @parametrize("backend", ["eager", "aot_eager"])
    @slowTest
    def test_transformer(self, backend):
        self.train(Attention(), [(4, 5, 16), (3, 7, 16)], backend)

    @parametrize("backend", ["eager", "aot_eager"])
    def test_convolutions(self, backend):
        self.train(convolutions(), [(4, 3, 8, 8), (3, 3, 8, 8)], backend)


instantiate_parametrized_tests(TestTraining)


@needs_device
@once
class TestFakeTensors(TestCase):
    """What the host computes has the strides that it gives, and graphs are traced with those."""

    @parametrize("name", ["rfft", "rfft2", "rfftn", "ihfft2", "irfft2", "irfftn", "hfftn", "fft2"])
    def test_fft(self, name):
        from torch._subclasses import CrossRefFakeMode

        x = torch.randn(4, 5, 6, device="xpu", requires_grad=True)
        for given in (x, x.transpose(0, 2)):
            with CrossRefFakeMode(check_aliasing=False):
                torch.view_as_real(getattr(torch.fft, name)(given) + 0j).sum().backward()


instantiate_parametrized_tests(TestFakeTensors)


@needs_host_memory
@once
@unittest.skipIf(
    not shutil.which(os.environ.get("CXX", "g++")), "there is no C++ compiler"
)
class TestInductor(CompiledCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch.xpu.set_device, torch.xpu.current_device())

    def compiled(self, function, *arguments):
        """The result of a compiled function, and the code that was generated."""
        from torch._inductor.utils import run_and_get_code

        return run_and_get_code(torch.compile(function, fullgraph=True), *arguments)

    def test_kernels_are_cpp(self):
        """Pointwise, reductions, softmax, an index, in place, and a product."""

        def function(x, y):
            z = torch.softmax((x.sin() + y).relu(), -1)
            indices = x.t().argmax()
            z.index_add_(0, torch.arange(4, device=x.device), y)
            x.mul_(2)
            return z @ y.t(), z.var(0), indices, x.cumsum(1)

        x, y = torch.randn(4, 64, device="xpu"), torch.randn(4, 64, device="xpu")
        other = x.clone()
        expected = function(other, y)
        torch.xpu.reset_fallback_statistics()
        found, (code,) = self.compiled(function, x, y)
        self.assertEqual(found, expected)
        self.assertEqual(x, other)
        self.assertEqual({result.device for result in found}, {x.device})
        self.assertIn("async_compile.cpp_pybinding", code)
        self.assertRegex(code, r"wait_for_stream\(0\)\n +cpp_fused")
        self.assertIn("empty_strided_xpu", code)
        self.assertNotIn("triton", code.split("def call")[1])
        statistics = torch.xpu.fallback_statistics()
        self.assertFalse([name for name in statistics if "sin" in name or "softmax" in name])

    def test_training(self):
        model = nn.Sequential(
            nn.Linear(16, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4)
        )
        with torch._inductor.config.patch(fallback_random=True):  # dropout as in eager
            self.train(model, [(4, 16), (3, 16)], "inductor")

    @slowTest
    def test_models(self):
        # Else a transformer layer is one operator.
        torch.backends.mha.set_fastpath_enabled(False)
        self.addCleanup(torch.backends.mha.set_fastpath_enabled, True)
        for model, shape in ((Attention(), (4, 5, 16)), (convolutions(), (4, 3, 8, 8))):
            model = model.to("xpu").eval()
            x = torch.randn(shape, device="xpu")
            with torch.no_grad():
                found, (code,) = self.compiled(model, x)
                self.assertEqual(found, model(x), atol=1e-4, rtol=1e-4)
            self.assertIn("wait_for_stream(0)", code)

    @torch._inductor.config.patch(cpp_wrapper=True)
    @slowTest
    def test_cpp_wrapper(self):
        """Kernels, and operators with and without ``out``, in place, with several results,
        lists and numbers, and of another type."""

        def function(x, y):
            z = torch.softmax((x.sin() + y).relu(), -1)
            z.index_add_(0, torch.arange(4, device=x.device), y)
            x.mul_(2)
            z = z.scatter_reduce(0, y.argsort(0), x, "mean")
            values, indices = x.sort(1)
            parts = torch.ops.aten.split_with_sizes_copy(y, [16, 48], 1)
            return z @ y.t(), torch.addmm(z, z[:, :4], z[:4], beta=2), values, indices, *parts

        x, y = torch.randn(4, 64, device="xpu"), torch.randn(4, 64, device="xpu")
        other = x.clone()
        expected = function(other, y)
        found, (code,) = self.compiled(function, x, y)
        self.assertEqual(found, expected)
        self.assertEqual(x, other)
        self.assertEqual({result.device for result in found}, {x.device})
        self.assertRegex(code, r"wait_for_stream\(0\);\n +cpp_fused")

    @torch._inductor.config.patch(cpp_wrapper=True)
    @slowTest
    def test_cpp_wrapper_of_models(self):
        self.train(convolutions(), [(4, 3, 8, 8), (3, 3, 8, 8)], "inductor")
        model, x = Attention().to("xpu").eval(), torch.randn(4, 5, 16, device="xpu")
        with torch.no_grad():
            found, _ = self.compiled(model, x)
            self.assertEqual(found, model(x), atol=1e-4, rtol=1e-4)

    @slowTest
    @needs_two
    @torch._inductor.config.patch(cpp_wrapper=True)
    def test_cpp_wrapper_on_the_second_device(self):
        x = torch.arange(8.0, device="xpu:1")
        found, (code,) = self.compiled(lambda x: x.cos() @ x, x)
        self.assertEqual(found.device, x.device)
        self.assertEqual(found, x.cos() @ x)
        self.assertEqual(torch.xpu.current_device(), 0)

    @slowTest
    def test_aot(self):
        """A model that is compiled for the CPU runs on the memory of XPU."""
        model, x = convolutions().eval(), torch.randn(4, 3, 8, 8)
        program = torch.export.export(model, (x,))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "model.so")
            options = {"aot_inductor.output_path": file}
            file = torch._inductor.aot_compile(program.module(), (x,), options=options)
            run = torch._export.aot_load(file, f"xpu:{COUNT - 1}")
            on_xpu = x.to(f"xpu:{COUNT - 1}")
            for _ in range(2):
                found = run(on_xpu)
                self.assertEqual(found.device, on_xpu.device)
                self.assertEqual(found.cpu(), model(x), atol=1e-4, rtol=1e-4)
        on_xpu = torch.export.export(model.to("xpu"), (x.to("xpu"),))
        with self.assertRaisesRegex(Exception, "move_to_device_pass"):
            torch._inductor.aot_compile(on_xpu.module(), (x.to("xpu"),))
        moved = move_to_device_pass(on_xpu, "cpu")
        self.assertEqual(moved.module()(x), found.cpu(), atol=1e-4, rtol=1e-4)

    @unittest.skipIf(not torch.cpu._is_avx2_supported(), "its template needs AVX2")
    @slowTest
    def test_flex_attention(self):
        """On XPU, and on the CPU, where PyTorch refuses it beside XPU."""
        compiled = torch.compile(flex_attention, fullgraph=True)
        for device in ("cpu", "xpu"):
            query = torch.randn(1, 2, 128, 16, device=device)
            mask = create_block_mask(
                lambda b, h, q, k: q >= k, 1, 1, 128, 128, device=device
            )

            def run(function):
                return function(
                    *(query, query, query),
                    score_mod=lambda score, b, h, q, k: score + (q - k) * 0.1,
                    block_mask=mask,
                )

            self.assertEqual(run(compiled), run(flex_attention), atol=1e-4, rtol=1e-4)
        query.requires_grad_()
        with self.assertRaisesRegex(Exception, "compiled for inference.*torch.no_grad"):
            compiled(query, query, query)

    def test_waits_for_the_stream(self):
        """The kernel reads what a long copy on the stream writes."""

        def function(x):
            return x + 1

        x = torch.zeros(1 << 24, device="xpu")
        source = torch.ones(1 << 24).pin_memory()
        stream = torch.xpu.Stream()
        compiled = torch.compile(function)
        compiled(x)
        for _ in range(3):
            x.zero_()
            torch.xpu.synchronize()
            with torch.xpu.stream(stream):
                x.copy_(source, non_blocking=True)
                y = compiled(x)
            self.assertEqual(y.min().item(), 2)

    def test_streams_and_events(self):
        def function(x, stream):
            event = torch.xpu.Event()
            y = x + 1
            event.record()
            stream.wait_event(event)
            with torch.xpu.stream(stream):
                y = y * 2
            torch.xpu.current_stream().wait_stream(stream)
            return y - 1

        x = torch.arange(8.0, device="xpu")
        found, (code,) = self.compiled(function, x, torch.xpu.Stream())
        self.assertEqual(found, (x + 1) * 2 - 1)
        # Each kernel is between the operations that are around it.
        order = [
            word
            for line in code.split("def call")[1].splitlines()
            for word in ("cpp_fused", "record_event", "wait_event", "wait_stream")
            if word in line and "#" not in line
        ]
        self.assertEqual(order[0], "cpp_fused")
        self.assertEqual(order[-3:], ["cpp_fused", "wait_stream", "cpp_fused"])
        self.assertRegex(code, r"with stream1:(\n +.*){1,3}cpp_fused")
        torch._dynamo.reset()
        with torch._inductor.config.patch(cpp_wrapper=True):
            with self.assertRaisesRegex(Exception, "streams or events"):
                torch.compile(function)(x, torch.xpu.Stream())

    @needs_two
    def test_second_device(self):
        def function(x):
            return x.cos() + torch.ones(8, device=x.device)

        x = torch.arange(8.0, device="xpu:1")
        found, (code,) = self.compiled(function, x)
        self.assertEqual(found.device, x.device)
        self.assertEqual(found, x.cos() + 1)
        self.assertIn("wait_for_stream(1)", code)
        self.assertEqual(torch.xpu.current_device(), 0)

    @slowTest
    def test_memory_that_is_not_host_memory(self):
        code = (
            "import torch\n"
            "x = torch.ones(4, device='xpu')\n"
            "print(torch.compile(lambda x: x + 1, backend='aot_eager')(x).sum().item())\n"
            "torch.compile(lambda x: x + 1)(x)\n"
        )
        # No vector instructions to try, and no other processes: this is faster.
        result = run_python(
            code,
            TORCH_XPU_HOST_MEMORY="0",
            ATEN_CPU_CAPABILITY="default",
            TORCHINDUCTOR_COMPILE_THREADS="1",
        )
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("8.0", result.stdout)
        self.assertIn(
            "inductor cannot compile for xpu:0: it has kernels for the host only, and the "
            "memory of this device is not host memory. Use "
            'torch.compile(backend="aot_eager")',
            result.stdout,
        )


class TestImport(TestCase):
    def test_inductor_is_not_imported(self):
        code = (
            "import sys, torch\n"
            "print([name for name in sys.modules if name.startswith('torch._inductor')\n"
            "       or name == 'torch_xpu_runtime._inductor'])\n"
        )
        result = run_python(code)
        self.assertEqual(result.stdout.splitlines()[-1], "[]", result.stdout)


if __name__ == "__main__":
    run_tests()
