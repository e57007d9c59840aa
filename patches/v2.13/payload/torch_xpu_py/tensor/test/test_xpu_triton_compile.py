# Owner(s): ["module: intel"]
"""torch.compile by Triton for a stand-in for an NVIDIA card: kernels are compiled, loaded and
launched, and do nothing."""

import os
import tempfile
from pathlib import Path

from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    slowTest,
    TestCase,
)
from xpu_host_memory import needs_host_memory

import xpu_stand_in_card
from xpu_stand_in_card import compiled_elsewhere, needs_triton, once

SAMPLE = """
from torch._inductor import config
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

def attention(x):
    query = x.view(1, 2, 128, 64)
    return flex_attention(query, query, query)

config.max_autotune_gemm = True
config.max_autotune_gemm_backends = "TRITON"
config.test_configs.max_mm_configs = 1
full = torch.randn(256, 64, device="xpu", requires_grad=True)
half = full.detach().bfloat16().requires_grad_()
for x, function in (
    (full, lambda x: torch.softmax(functional.gelu(x) * 2 + 1, -1).sum(0)),
    (full, lambda x: functional.dropout(x.cumsum(1), 0.5)),
    (half, lambda x: functional.layer_norm(x, (64,))),
    (half, attention),
):
    torch.compile(function, fullgraph=True)(x).sum().backward()
with torch.no_grad():
    torch.compile(lambda x: (torch.relu(x @ x.t()), x[:4, :8].sort(1)))(half)
table = torch.randn(100, 32, device="xpu", dtype=torch.bfloat16, requires_grad=True)
rows = torch.randint(100, (64,), device="xpu")
torch.xpu.reset_fallback_statistics()
torch.compile(lambda i: functional.embedding(i, table).sum())(rows).backward()
with torch.no_grad():
    torch.compile(lambda x, i: x.index_put((i,), x[:64], True))(half, rows)
print(*torch.xpu.fallback_statistics())
"""


# It prints what is wrong.
OPERATORS = """
import random, warnings
warnings.simplefilter("ignore")
import triton
from torch._dynamo.exc import BackendCompilerFailed
from torch.testing._internal.common_methods_invocations import op_db
from triton.backends.compiler import GPUTarget

compile = triton.compile

def for_both(source, target, options):
    compile(source, target=GPUTarget("xpu", 80, 32), options=dict(options))
    return compile(source, target=target, options=options)

triton.compile = for_both
# Those are PyTorch's operators in compiled code too, and some take long.
others = ("linalg", "fft", "sparse", "torch.ops", "nn.functional.conv", "signal", "special")
names = {op.name for op in op_db if torch.float32 in op.dtypes and not op.name.startswith(others)}
chosen = random.Random(34).sample(sorted(names), 40)
for op in (op for op in op_db if op.name in chosen and not op.variant_test_name):
    sample = next(iter(op.sample_inputs("xpu", torch.float32)))
    function = torch.compile(lambda input, *args, **kwargs: op(input, *args, **kwargs))
    try:
        function(sample.input, *sample.args, **sample.kwargs)
    except BackendCompilerFailed as error:
        print("wrong:", op.name, error)
    except Exception:  # kernels do nothing here, and what they would have made is not there
        pass
    torch._dynamo.reset()
"""

# In place of graphs, which the stand-in has not: a replay does what `again` says.
GRAPHS = """
import weakref

class Graph:
    recording = None
    replays = 0
    living = weakref.WeakSet()

    def capture_begin(self):
        Graph.living.add(self)
        Graph.recording, self.again = self, lambda: None
        self.device = torch.xpu.current_device()

    def capture_end(self):
        Graph.recording = None

    def replay(self):
        Graph.replays += 1
        self.again()

torch.xpu.XPUGraph = Graph
"""

# It checks what every call returned, until that is given back, and prints how many calls
# were replays.
CALLS = (
    GRAPHS
    + """
import random
from torch_xpu_runtime._inductor.graphs import Graphed

choose = random.Random(34)

def function(inputs):
    x, weight, number = inputs
    inputs.clear()
    y = torch.empty(8, device="xpu")

    def run():
        y.copy_(x * weight + number)
        weight.add_(1)

    if Graph.recording:
        Graph.recording.again = run
    else:
        run()
    parts = [weight[:2], weight.view(torch.int16)[2:]]
    return [y, y[2:], weight, *parts, x, None, number]

def check(outputs, values):
    for output, value in zip(outputs, values, strict=True):
        assert torch.equal(output, value), (output, value)

def of_storage(storage):
    return torch.empty(0, device="xpu").set_(storage, 0, (8,), (1,))

graphed = Graphed(function, (1,), device_index=0, mutated_input_idxs=(1,))
weight, held, streams = torch.ones(8, device="xpu"), [], [torch.xpu.Stream() for _ in range(2)]
storages = []
for step in range(2000):
    if choose.random() < 0.01:
        weight = weight.clone()
    if choose.random() < 0.1:
        held.clear()
        storages.clear()
    x, number = torch.randn(8, device="xpu"), choose.choice((1, 1, 1, 2))
    if choose.random() < 0.1:
        x = torch.randn(9, device="xpu")[1:]  # not aligned
    y, after = x * weight + number, weight + 1
    with torch.xpu.stream(streams[choose.random() < 0.1]):
        outputs = graphed([x, weight, number])
    assert outputs[6:] == [None, number]
    values = [y, y[2:], after, after[:2], after.view(torch.int16)[2:], x]
    check(outputs[:6], values)
    assert outputs[2].data_ptr() == outputs[3].data_ptr() == weight.data_ptr()
    for kept in held:
        check(*kept)
    for storage, value in storages:
        assert torch.equal(of_storage(storage), value)
    what = choose.random()
    if what < 0.1:
        held.append(([outputs[1], outputs[5]], [values[1], x]))
    elif what < 0.15:
        storages.append((outputs[0].untyped_storage(), y))
    elif what < 0.16:  # it has no memory any more
        outputs[0].untyped_storage().resize_(0)
    del outputs
print(Graph.replays)
"""
)


@needs_triton
@needs_host_memory
@once
class TestStandIn(TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_on_card(self, code, **environment):
        given = {"TORCHINDUCTOR_COMPILE_THREADS": "1", **environment}
        return xpu_stand_in_card.run(self.folder, code, **given)

    @parametrize("version,target", [("8.0", "sm_80"), ("9.0", "sm_90a")])
    @slowTest
    def test_sample(self, version, target):
        """Kernels for a card: assembled, for its architecture, and launched each."""
        printed, calls = self.run_on_card(SAMPLE, version=version)
        texts = [file.read_text() for file in Path(self.folder).rglob("*.ptx")]
        self.assertGreater(len(texts), 20)
        self.assertEqual([text for text in texts if f".target {target}\n" not in text], [])
        loaded = {call for call in calls if call.startswith("load triton_")}
        launched = [call for call in calls if call.startswith("launch")]
        self.assertGreater(len(loaded), 15)
        self.assertGreater(len(launched), 20)
        self.assertEqual({call.split()[-1] for call in launched}, {str(0x1000)})
        for name in ("softmax", "cumsum", "sort", "native_dropout", "tem_fused_mm", "flex", "norm"):
            self.assertTrue(any(name in call for call in loaded), name)
        self.assertNotIn("embedding", printed)
        # The card adds numbers of bfloat16 in place since 9.0.
        self.assertEqual("aten::_index_put_impl_" in printed, version == "8.0", printed)

    @slowTest
    def test_processes_that_compile(self):
        """They know the backend, and a second process finds in the cache what they made and
        which configurations were faster."""
        # Of a kernel in two dimensions it asks what torch.version.xpu is.
        code = compiled_elsewhere(
            """
    x = torch.randn(512, 1024, device="xpu")
    torch.compile(lambda x: (x.t().contiguous() + 1, x.sin()))(x)
    print(counters["inductor"]["benchmarking.InductorBenchmarker.benchmark_gpu"] > 0)
"""
        )
        for found in (["True", "0"], ["False", "1"]):
            printed, calls = self.run_on_card(code, TORCHINDUCTOR_COMPILE_THREADS="2")
            self.assertEqual(printed.split(), found)
            self.assertTrue(any(call.startswith("launch") for call in calls))

    def test_calls_of_graphs(self):
        """What is in use is not written again, whatever moved, and many calls are replays."""
        printed, _ = self.run_on_card(CALLS)
        self.assertGreater(int(printed), 200)

    def test_graphs(self):
        """Forward and backward are recorded once for each size, and then replayed."""
        printed, calls = self.run_on_card(
            GRAPHS
            + """
model = torch.nn.Sequential(torch.nn.LayerNorm(32), torch.nn.GELU()).to("xpu")
compiled = torch.compile(model, mode="reduce-overhead", dynamic=True)
for size in (4, 4, 4, 4, 4, 8, 8, 8, 8, 4):
    x = torch.randn(size, 32, device="xpu")
    Graph.replays = 0
    torch.xpu.set_device(0)
    compiled(x).sum().backward()
    print(Graph.replays, end=" ")
    model.zero_grad()
"""
        )
        self.assertEqual(printed.split(), list("0122201222"), printed)

    def test_graphs_of_another_device_and_many_sizes(self):
        """On the device of the function, and as many as a function keeps."""
        printed, calls = self.run_on_card(
            GRAPHS
            + """
compiled = torch.compile(lambda x: x + 1, mode="reduce-overhead", dynamic=True)
for size in range(10, 40):
    for _ in range(3):
        compiled(torch.ones(size, device="xpu:1"))
print(len(Graph.living), {one.device for one in Graph.living}, Graph.replays)
"""
        )
        self.assertEqual(printed.strip(), "16 {1} 60", printed)

    def test_what_has_no_graph(self):
        """It is said, and runs without."""
        printed, calls = self.run_on_card(
            GRAPHS
            + """
import warnings

def refuse(self):
    raise ValueError("aten::sin runs on the host")

Graph.capture_end = refuse
compiled = torch.compile(lambda x: x.cos() + 1, mode="reduce-overhead")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(4):
        compiled(torch.ones(64, device="xpu"))
print(*(one.message for one in caught if "graph" in str(one.message)), Graph.replays)
"""
        )
        self.assertIn("cannot be recorded: aten::sin runs on the host 0", printed)

    def test_launcher(self):
        """Parameters by their types, and what cannot be one."""
        printed, calls = self.run_on_card(
            """
import os, triton
stream = torch._C._xpu_getCurrentRawStream(0)
x = torch.ones(8, device="xpu")
launcher = torch._C._XpuTritonLauncher
launcher(9, 4, 64, "OOibKfd", 2, "a")(2, 1, 3, stream, x, None, -5, -1, 2**64 - 1, 0.5, 0.25)
print(hex(x.data_ptr()))
launcher(1, 4, 0, "", 0, "a")(1, 0, 1, stream)  # of an empty grid

def refused(types, *values):
    try:
        launcher(1, 4, 0, types, 0, "a")(1, 1, 1, stream, *values)
    except Exception as error:
        print(type(error).__name__, error)

refused("i", 2**31)
refused("I", -1)
refused("f", "1")
refused("ii", 1)
refused("x", 1)
launcher(1, 4, 0, "O", 0, "a")(1, 1, 1, stream, torch.ones(2))  # as pinned memory
os.environ["STAND_IN_WITHOUT_HOST"] = "1"
refused("O", torch.ones(2))
"""
        )
        address, *refused = printed.splitlines()
        values = [address[2:], "0", f"{2**64 - 5:x}", f"{2**64 - 1:x}", f"{2**64 - 1:x}"]
        values += ["3f000000", "3fd0000000000000", "0", "0"]
        self.assertEqual(
            calls[:11],
            ["context 1", *(f"parameter {value}" for value in values)]
            + [f"launch 2,1,3 x 128 stream {0x1000}"],
        )
        self.assertEqual([call.split()[0] for call in calls[11:]], ["parameter", "launch"])
        for error, text in zip(
            refused,
            (
                "OverflowError 2147483648 does not fit a parameter of 32 bits",
                "OverflowError",
                "TypeError must be real number",
                "TypeError the launcher takes a grid of 3, a stream and 2 arguments",
                "ValueError 'x' is no type of a parameter",
                "ValueError A kernel for xpu cannot reach the memory of a tensor on cpu",
            ),
            strict=True,
        ):
            self.assertTrue(error.startswith(text), error)

    def test_as_for_cuda(self):
        """The configurations of NVIDIA's cards, and the launcher in C++. Launches of kernels
        that wait for each other are cooperative."""
        printed, calls = self.run_on_card(
            """
from torch._inductor.codecache import PyCodeCache
from torch._inductor.utils import run_and_get_code

def compiled(function, x, **options):
    compiled = torch.compile(function, options=options)
    _, (code,) = run_and_get_code(compiled, x)
    module = PyCodeCache.modules[-1]
    (kernel,) = [value for value in vars(module).values() if hasattr(value, "launchers")]
    compiled(x)
    return code, kernel

x = torch.randn(2048, 1024, device="xpu")
# Of this it asks what the backend can do before there is a graph.
torch.compile(lambda x: x.masked_scatter(x > 0, x + 1))(x)
code, kernel = compiled(lambda x: torch.nn.functional.layer_norm(x, (1024,)), x)
print(type(kernel._cached_launcher.__globals__["runner"]).__name__)
print("with torch._C._XpuDeviceGuard(0):" in code, "torch._C._xpu_setDevice(0)" in code)
code, _ = compiled(torch.nn.Dropout(0.5), x)
print("rand4x" in code)
_, kernel = compiled(lambda x: x.sum(), x, **{"triton.force_cooperative_reductions": True})
print(kernel.compile_results[0].kernel.metadata.launch_cooperative_grid)
"""
        )
        self.assertEqual(printed.split(), ["_XpuTritonLauncher", *4 * ["True"]])
        self.assertEqual(calls.count(f"launch 2048,1,1 x 32 stream {0x1000}"), 2, calls)

    def test_what_it_refuses(self):
        """C++ that would launch for Level Zero, and a device that is no GPU."""
        printed, _ = self.run_on_card(
            """
from torch_xpu_triton import _device

def refused(device, **options):
    try:
        torch.compile(lambda x: x + 1, options=options)(torch.ones(8, device=device))
    except Exception as error:
        print(error)

refused("xpu", cpp_wrapper=True)
model, x = torch.nn.Linear(8, 8).to("xpu"), torch.ones(2, 8, device="xpu")
try:
    torch._inductor.aot_compile(torch.export.export(model, (x,)).module(), (x,))
except Exception as error:
    print("of AOTInductor:", error)
properties = _device._properties
_device._properties = lambda device: None if device == 1 else properties(device)
refused("xpu:1")
"""
        )
        text = "cpp_wrapper and AOTInductor cannot compile for a GPU under XPU"
        self.assertIn(text, printed)
        self.assertRegex(printed, f"of AOTInductor: .*{text}")
        self.assertIn("compiles for the GPUs of this process, and xpu:1 is none", printed)

    @slowTest
    def test_modes(self):
        """Those that ask for graphs have them, also of code from the cache."""
        code = (
            GRAPHS
            + """
x = torch.ones(64, device="xpu")
for mode in ("max-autotune-no-cudagraphs", "reduce-overhead", "max-autotune"):
    compiled = torch.compile(lambda x: x.sin() + 1, mode=mode)
    Graph.replays = 0
    for _ in range(4):
        compiled(x)
    print(Graph.replays, end=" ")
"""
        )
        for _ in range(2):
            printed, _ = self.run_on_card(code)
            self.assertEqual(printed.split(), ["0", "3", "3"])

    @slowTest
    def test_operators(self):
        """What a sample of PyTorch's operators generates, compiled for two architectures."""
        printed, _ = self.run_on_card(OPERATORS)
        self.assertNotIn("wrong:", printed)
        texts = [file.read_text() for file in Path(self.folder).rglob("*.ptx")]
        older, newer = (
            sum(f".target {target}\n" in text for text in texts) for target in ("sm_80", "sm_90a")
        )
        self.assertGreater(older, 25)
        self.assertEqual(newer, older)

    def test_without_triton(self):
        os.mkdir(os.path.join(self.folder, "triton"))
        with open(os.path.join(self.folder, "triton", "__init__.py"), "w") as file:
            file.write("raise ImportError('none')\n")
        printed, _ = self.run_on_card(
            """
import torch._inductor.compile_fx
from torch_xpu_runtime._inductor.host import wait_for_stream

try:
    wait_for_stream(0)  # as before each kernel in C++
except RuntimeError as error:
    print(error)
""",
            TORCH_XPU_HOST_MEMORY="0",
        )
        self.assertIn("Install Triton, `pip install 'torch_xpu_runtime[nvidia]'`, or use", printed)


instantiate_parametrized_tests(TestStandIn)


if __name__ == "__main__":
    run_tests()
