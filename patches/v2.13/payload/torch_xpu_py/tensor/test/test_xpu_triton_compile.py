# Owner(s): ["module: intel"]
"""torch.compile by Triton: on an NVIDIA card, and for a stand-in for one, of which the kernels
are compiled, loaded and launched, and do nothing."""

import copy
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from xpu_host_memory import needs_host_memory

import xpu_stand_in_card
from xpu_stand_in_card import needs_card, needs_triton, needs_two, once

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


def compiled_elsewhere(statement):
    """A program that compiles in other processes alone. It says how many graphs the cache had."""
    return f"""
import torch, triton
from torch._dynamo.utils import counters
from torch._inductor.async_compile import AsyncCompile, shutdown_compile_workers

def here(*args, **kwargs):
    raise AssertionError("compiled in this process")

if __name__ == "__main__":
    triton.compile = here
    AsyncCompile.warm_pool()
    AsyncCompile.wait_pool_ready()
    {statement}
    print(counters["inductor"]["fxgraph_cache_hit"])
    shutdown_compile_workers()
"""


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

    def test_processes_that_compile(self):
        """They know the backend, and a second process finds in the cache what they made."""
        code = compiled_elsewhere(
            'torch.compile(lambda x: x.sin() + 1)(torch.randn(64, device="xpu"))'
        )
        for hits in ("0", "1"):
            printed, calls = self.run_on_card(code, TORCHINDUCTOR_COMPILE_THREADS="2")
            self.assertEqual(printed.split(), [hits])
            self.assertTrue(any(call.startswith("launch") for call in calls))

    def test_launcher(self):
        """Parameters by their types, and what cannot be one."""
        printed, calls = self.run_on_card(
            """
import os, triton
stream = torch._C._xpu_getCurrentRawStream(0)
x = torch.ones(8, device="xpu")
launcher = torch._C._XpuTritonLauncher
launcher(9, 4, 64, "OOibKfd", 2)(2, 1, 3, stream, x, None, -5, -1, 2**64 - 1, 0.5, 0.25)
print(hex(x.data_ptr()))
launcher(1, 4, 0, "", 0)(1, 0, 1, stream)  # of an empty grid

def refused(types, *values):
    try:
        launcher(1, 4, 0, types, 0)(1, 1, 1, stream, *values)
    except Exception as error:
        print(type(error).__name__, error)

refused("i", 2**31)
refused("I", -1)
refused("f", "1")
refused("ii", 1)
refused("x", 1)
launcher(1, 4, 0, "O", 0)(1, 1, 1, stream, torch.ones(2))  # as pinned memory
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

    def test_without_graphs(self):
        """It is said once, also of code from the cache, and the code runs."""
        code = """
x = torch.ones(64, device="xpu")
for mode in ("max-autotune-no-cudagraphs", "reduce-overhead", "max-autotune"):
    print(mode)
    torch.compile(lambda x: x.sin() + 1, mode=mode)(x)
"""
        for _ in range(2):
            printed, calls = self.run_on_card(code)
            before, said = printed.split("reduce-overhead\n", 1)
            self.assertNotIn("records no graphs for xpu", before)
            self.assertEqual(said.count("records no graphs for xpu"), 1, printed)
            self.assertGreater(sum(call.startswith("launch") for call in calls), 2)

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


def loss_of_classes(x):
    return nn.functional.cross_entropy(x, torch.arange(len(x), device=x.device))


FUNCTIONS = {
    "softmax": lambda x: torch.softmax(nn.functional.gelu(x) * 2 + 1, -1),
    "norm": lambda x: nn.functional.layer_norm(x, x.shape[1:]),
    "scan": lambda x: x.cumsum(1) + x.sort(1)[0],
    "cross_entropy": loss_of_classes,
    "gather": lambda x: x[torch.arange(0, len(x), 2, device=x.device)] * 3,
    "var_mean": lambda x: torch.cat(torch.var_mean(x, 1)),
    "product": lambda x: torch.relu(x @ x.t()),
}


@needs_card
class TestCard(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        self.addCleanup(torch.xpu.set_device, torch.xpu.current_device())

    def gradient(self, function, x):
        """The result of a function, and the gradient of its sum."""
        x = x.detach().clone().requires_grad_()
        y = function(x)
        y.sum().backward()
        return y.detach(), x.grad

    @parametrize("name", list(FUNCTIONS))
    @parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_as_eager(self, name, dtype):
        x = torch.randn(96, 160, device="xpu").to(dtype)
        function = FUNCTIONS[name]
        y, gradient = self.gradient(function, x)
        found, found_gradient = self.gradient(torch.compile(function, fullgraph=True), x)
        bound = 1e-4 if dtype == torch.float32 else 5e-2
        self.assertEqual(found, y, atol=bound, rtol=bound)
        self.assertEqual(found_gradient, gradient, atol=bound, rtol=bound)

    def test_code_is_triton(self):
        from torch._inductor.utils import run_and_get_code

        x = torch.randn(64, 64, device="xpu")
        torch.xpu.reset_fallback_statistics()
        found, (code,) = run_and_get_code(torch.compile(lambda x: x.sin().sum(0)), x)
        self.assertEqual(found, x.cpu().sin().sum(0), atol=1e-4, rtol=1e-4)
        self.assertIn("async_compile.triton", code)
        self.assertNotIn("aten::sin", str(torch.xpu.fallback_statistics()))

    def test_a_graph_would_miss_it(self):
        compiled = torch.compile(lambda x: x + 1)
        x = torch.ones(64, device="xpu")
        compiled(x)
        with self.assertRaisesRegex(RuntimeError, "would miss it"):
            with torch.xpu.graph(torch.xpu.XPUGraph()):
                compiled(x)
        self.assertEqual(compiled(x).cpu(), torch.full((64,), 2.0))

    def test_dynamic_shapes(self):
        compiled = torch.compile(lambda x: torch.softmax(x, -1), dynamic=True)
        for shape in ((4, 5), (7, 33), (128, 1000)):
            x = torch.randn(shape)
            self.assertEqual(compiled(x.to("xpu")).cpu(), torch.softmax(x, -1))

    def test_dropout(self):
        x = torch.ones(1000, 1000, device="xpu")
        compiled = torch.compile(lambda x: nn.functional.dropout(x, 0.25))
        results = []
        for _ in range(2):
            torch.manual_seed(1)
            results.append(compiled(x))
        self.assertEqual(results[0], results[1])
        self.assertEqual((results[0] == 0).float().mean().item(), 0.25, atol=0.01, rtol=0)
        self.assertNotEqual(compiled(x), results[0])

    def test_training(self):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Embedding(50, 32), nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 50)
        ).to("xpu")
        models = (model, copy.deepcopy(model))
        calls = (models[0], torch.compile(models[1], fullgraph=True))
        losses = ([], [])
        for one, call, kept in zip(models, calls, losses):
            optimizer = torch.optim.AdamW(one.parameters(), lr=1e-2)
            tokens = torch.arange(50, device="xpu").repeat(4)
            for _ in range(10):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(call(tokens), tokens)
                loss.backward()
                optimizer.step()
                kept.append(loss.item())
        self.assertEqual(losses[1], losses[0], atol=1e-3, rtol=1e-3)
        self.assertLess(losses[1][-1], losses[1][0])

    def test_streams(self):
        def function(x, stream):
            event = torch.xpu.Event()
            y = x + 1
            event.record()
            stream.wait_event(event)
            with torch.xpu.stream(stream):
                y = y * 2
            torch.xpu.current_stream().wait_stream(stream)
            return y - 1

        compiled = torch.compile(function, fullgraph=True)
        x = torch.zeros(1 << 24, device="xpu")
        for number in range(5):
            x.copy_(torch.full((1 << 24,), float(number)))
            found = compiled(x, torch.xpu.Stream())
            self.assertEqual(found.cpu().unique().tolist(), [number * 2 + 1])

    @needs_two
    def test_second_device(self):
        compiled = torch.compile(lambda x: x.cos() + torch.ones(8, device=x.device))
        for device in ("xpu:0", "xpu:1"):
            x = torch.arange(8.0)
            found = compiled(x.to(device))
            self.assertEqual(found.device, torch.device(device))
            self.assertEqual(found.cpu(), x.cos() + 1)
        self.assertEqual(torch.xpu.current_device(), 0)

    @once
    def test_max_autotune(self):
        from torch._inductor.utils import is_big_gpu, run_and_get_code

        if not is_big_gpu(0):
            self.skipTest("the card has too few multiprocessors for it")
        x = torch.randn(512, 512, device="xpu", dtype=torch.bfloat16)
        settings = {"max_autotune_gemm_backends": "TRITON", "max_autotune_gemm": True}
        with torch._inductor.config.patch(settings):
            found, (code,) = run_and_get_code(torch.compile(lambda x: torch.relu(x @ x)), x)
        expected = torch.relu(x.cpu().float() @ x.cpu().float())
        self.assertEqual(found.cpu().float(), expected, atol=0.5, rtol=2e-2)
        self.assertIn("triton_tem_fused", code)

    @once
    def test_flex_attention(self):
        from torch.nn.attention.flex_attention import flex_attention

        def attention(x):
            return flex_attention(x, x, x, score_mod=lambda s, b, h, q, k: s + (q - k) * 0.1)

        def reference(x):  # PyTorch has no backward of it for the CPU
            place = torch.arange(x.shape[-2], dtype=x.dtype)
            bias = (place[:, None] - place) * 0.1
            return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=bias)

        x = torch.randn(1, 2, 256, 64)
        compiled = torch.compile(attention, fullgraph=True)
        expected, gradient = self.gradient(reference, x)
        found, found_gradient = self.gradient(compiled, x.to("xpu"))
        self.assertEqual(found.cpu(), expected, atol=2e-2, rtol=2e-2)
        self.assertEqual(found_gradient.cpu(), gradient, atol=5e-2, rtol=5e-2)

    @once
    def test_cache_and_processes(self):
        """Kernels are compiled in other processes, and a second process finds them."""
        code = compiled_elsewhere(
            'print(torch.compile(lambda x: x * 2 + 1)(torch.ones(64, device="xpu")).sum().item())'
        )
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "program.py")
            with open(file, "w") as out:
                out.write(code)
            for hits in ("0", "1"):
                result = subprocess.run(
                    [sys.executable, file],
                    env={
                        **os.environ,
                        "TORCHINDUCTOR_CACHE_DIR": folder,
                        "TORCHINDUCTOR_COMPILE_THREADS": "2",
                    },
                    capture_output=True,
                    text=True,
                    timeout=240,
                )
                self.assertEqual(result.stdout.split(), ["192.0", hits], result.stderr)


instantiate_parametrized_tests(TestCard)


if __name__ == "__main__":
    run_tests()
