# Owner(s): ["module: intel"]
"""Kernels of Triton's on XPU: on an NVIDIA card, and on a stand-in for one."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase
from xpu_host_memory import needs_host_memory

import xpu_stand_in_card
from xpu_stand_in_card import has_card, needs_card, needs_triton, needs_two, once

try:
    import triton
except ImportError:
    triton = None

# In the stand-in's programs too, where Triton reads it from their source.
KERNELS = '''
import triton
import triton.language as tl


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.autotune([triton.Config({"BLOCK": size}) for size in (128, 1024)], key=["n"])
@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)
'''


@needs_triton
class TestImport(TestCase):
    def test_triton_imports_no_torch(self):
        code = "import sys, triton; print(triton.backends.backends['xpu'], 'torch' in sys.modules)"
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
        )
        self.assertRegex(result.stdout, r"XpuBackend.*XpuDriver.* False", result.stderr)

    @unittest.skipIf(has_card, "there is a card")
    def test_not_active_on_other_devices(self):
        self.assertFalse(triton.backends.backends["xpu"].driver.is_active())

    def test_targets(self):
        target, compiler = triton.backends.compiler.GPUTarget, triton.backends.backends["xpu"].compiler
        self.assertTrue(compiler.supports_target(target("xpu", 90, 32)))
        for other in (target("cuda", 90, 32), target("xpu", {"architecture": 1}, 32)):
            self.assertFalse(compiler.supports_target(other))
        ours = compiler(target("xpu", 90, 32))
        theirs = triton.compiler.make_backend(target("cuda", 90, 32))
        self.assertEqual(ours.target, theirs.target)
        self.assertNotEqual(ours.hash(), theirs.hash())


@needs_triton
@needs_host_memory
@once
class TestStandIn(TestCase):
    def run_on_card(self, code):
        with tempfile.TemporaryDirectory() as folder:
            return xpu_stand_in_card.run(folder, KERNELS + code)

    def test_launches(self):
        """On the stream and the card that are current, in a thread that has no context too."""
        printed, calls = self.run_on_card(
            """
import threading
print(triton.runtime.driver.active.get_current_target())
x, stream = torch.ones(1000, device="xpu"), torch.xpu.Stream()
def launch(x):
    with torch.xpu.device(x.device):
        add[(4,)](x, x, x, 1000, BLOCK=256)
launch(x)
with torch.xpu.stream(stream):
    launch(x)
print(stream.native_stream)
launch(torch.ones(1000, device="xpu:1"))
launch(x)
thread = threading.Thread(target=launch, args=[torch.ones(1000, device="xpu:1")])
thread.start()
thread.join()
"""
        )
        target, stream = printed.splitlines()
        self.assertEqual(target, "GPUTarget(backend='cuda', arch=90, warp_size=32)")
        launch = "launch 4,1,1 x 128 stream "
        self.assertEqual(
            calls,
            ["context 1", "load add", f"{launch}{0x1000}", f"{launch}{stream}"]
            + ["context 2", "load add", f"{launch}{0x2000}"]
            + ["context 1", f"{launch}{0x1000}", "context 2", f"{launch}{0x2000}"],
        )

    def test_time_is_measured(self):
        """The cache is emptied by the driver, before each measurement."""
        _, calls = self.run_on_card(
            """
x = torch.ones(1000, device="xpu")
triton.testing.do_bench(lambda: add[(4,)](x, x, x, 1000, BLOCK=256), warmup=1, rep=1)
scale[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, 1000)
print(scale.best_config.kwargs["BLOCK"] in (128, 1024))
"""
        )
        clear = f"clear {256 << 20} stream {0x1000}"
        for grid in ("4,1,1", "8,1,1", "1,1,1"):
            launch = f"launch {grid} x 128 stream {0x1000}"
            self.assertIn((clear, launch), list(zip(calls, calls[1:])))


@needs_card
class TestCard(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        file = os.path.join(cls.folder.name, "kernels.py")
        with open(file, "w") as out:
            out.write(KERNELS)
        sys.path.insert(0, cls.folder.name)
        import kernels

        cls.kernels = kernels

    @classmethod
    def tearDownClass(cls):
        sys.path.remove(cls.folder.name)
        cls.folder.cleanup()
        super().tearDownClass()

    def add(self, x, y):
        z = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        with torch.xpu.device(x.device):
            self.kernels.add[grid](x, y, z, x.numel(), BLOCK=1024)
        return z

    def test_bits(self):
        x, y = torch.randn(100_003), torch.randn(100_003)
        found = self.add(x.to("xpu"), y.to("xpu"))
        self.assertEqual(found.cpu().view(torch.int32), (x + y).view(torch.int32))

    def test_on_another_stream(self):
        """The stream of SYCL waits for the kernels on its native stream, and they for it."""
        x = torch.zeros(1 << 24, device="xpu")
        source, stream = torch.ones(1 << 24).pin_memory(), torch.xpu.Stream()
        for _ in range(5):
            with torch.xpu.stream(stream):
                x.copy_(source, non_blocking=True)
                y = self.add(x, x)
                for _ in range(20):
                    y = self.add(y, x)
                event = stream.record_event()
            event.synchronize()
            self.assertEqual(y.min().item(), 22)
            x.copy_(torch.zeros(1 << 24))

    @needs_two
    def test_on_the_second_device(self):
        x = torch.randn(5000)
        found = self.add(x.to("xpu:1"), x.to("xpu:1"))
        self.assertEqual(found.cpu(), x + x)
        self.assertEqual(torch.xpu.current_device(), 0)

    def test_in_threads(self):
        found = {}

        def run(number):
            with torch.xpu.stream(torch.xpu.Stream()):
                x = torch.full((1 << 20,), float(number)).to("xpu")
                for _ in range(20):
                    x = self.add(x, torch.ones_like(x))
                found[number] = x.cpu().unique().tolist()

        threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {number: [number + 20.0] for number in range(4)})

    def test_in_a_graph(self):
        x = torch.randn(5000, device="xpu")
        self.add(x, x)  # which compiles it
        graph = torch.xpu.XPUGraph()
        with torch.xpu.graph(graph):
            found = self.add(self.add(x, x), x)
        for _ in range(3):
            x.copy_(torch.randn(5000))
            graph.replay()
            self.assertEqual(found, x + x + x)

    def test_time(self):
        """A copy of 256 MiB by do_bench: below the memory's speed, and above its tenth."""
        x = torch.zeros(1 << 26, device="xpu")
        milliseconds = triton.testing.do_bench(lambda: self.add(x, x), return_mode="median")
        speed = 3 * x.nbytes / milliseconds / 1e9  # TB/s
        self.assertGreater(speed, 0.2)
        self.assertLess(speed, 10)

    def test_autotune(self):
        x = torch.ones(5000, device="xpu")
        scale = self.kernels.scale
        scale[lambda meta: (triton.cdiv(5000, meta["BLOCK"]),)](x, 5000)
        self.assertIn(scale.best_config.kwargs["BLOCK"], (128, 1024))
        self.assertEqual(x.unique().numel(), 1)

    def test_triton_op(self):
        kernel = self.kernels.add

        @torch.library.triton_op("xpu_triton_test::add", mutates_args=())
        def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = torch.empty_like(x)
            torch.library.wrap_triton(kernel)[(triton.cdiv(x.numel(), 1024),)](
                x, y, z, x.numel(), BLOCK=1024
            )
            return z

        x = torch.randn(5000, device="xpu")
        self.assertEqual(add(x, x), self.add(x, x))
        compiled = torch.compile(lambda x: add(x.sin(), x), fullgraph=True)
        self.assertEqual(compiled(x), self.add(x.sin(), x), atol=1e-6, rtol=1e-6)


if __name__ == "__main__":
    run_tests()
