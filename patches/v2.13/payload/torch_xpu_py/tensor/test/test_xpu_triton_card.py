# Owner(s): ["module: intel"]
"""torch.compile by Triton on an NVIDIA card."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)

from xpu_stand_in_card import compiled_elsewhere, needs_card, needs_two, once


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

    def test_in_a_graph(self):
        compiled = torch.compile(lambda x: nn.functional.softmax(x @ x, -1) + 1)
        x = torch.randn(64, 64, device="xpu")
        compiled(x)
        graph = torch.xpu.XPUGraph()
        with torch.xpu.graph(graph):
            found = compiled(x)
        for _ in range(3):
            x.copy_(torch.randn(64, 64))
            graph.replay()
            self.assertEqual(found, compiled(x))

    @parametrize("dynamic", [False, True])
    def test_reduce_overhead(self, dynamic):
        """Steps of training, with numbers drawn, are those without graphs."""
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Embedding(50, 32), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, 50)
        ).to("xpu")
        losses = {}
        for mode in ("default", "reduce-overhead"):
            torch._dynamo.reset()
            one = copy.deepcopy(model)
            call = torch.compile(one, mode=mode, fullgraph=True, dynamic=dynamic)
            optimizer = torch.optim.AdamW(one.parameters(), lr=1e-2)
            torch.manual_seed(1)
            kept = losses[mode] = []
            for step in range(12):
                tokens = torch.arange(50, device="xpu").repeat(4 if step % 4 else 3)
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(call(tokens), tokens)
                loss.backward()
                optimizer.step()
                kept.append(loss.item())
        self.assertEqual(losses["reduce-overhead"], losses["default"], atol=1e-4, rtol=1e-4)

    def test_reduce_overhead_replays(self):
        compiled = torch.compile(lambda x: x.cos() + 1, mode="reduce-overhead")
        replay = torch.xpu.XPUGraph.replay
        with mock.patch.object(torch.xpu.XPUGraph, "replay", autospec=True, side_effect=replay) as it:
            for _ in range(5):
                x = torch.randn(64)
                self.assertEqual(compiled(x.to("xpu")).cpu(), x.cos() + 1)
        self.assertEqual(it.call_count, 4)

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

    def test_optimizer(self):
        """The loop over parameters is a few kernels."""
        from torch._inductor.utils import run_and_get_code

        weights = [[torch.randn(50, 7, device="xpu") for _ in range(5)]]
        weights.append([one.clone() for one in weights[0]])
        found = []
        for group, wrap in zip(weights, (lambda step: step, torch.compile)):
            group = [nn.Parameter(one) for one in group]
            optimizer = torch.optim.AdamW(group, lr=1e-2, foreach=True)

            def step(optimizer=optimizer):
                optimizer.step()

            call = wrap(step)
            for number in range(3):
                for one in group:
                    one.grad = one.detach() * (number + 1)
                _, code = run_and_get_code(call)
            found.append(group)
        self.assertEqual(found[1], found[0], atol=1e-5, rtol=1e-5)
        self.assertNotIn("aten.add", "".join(code))

    def test_cond(self):
        def function(x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

        compiled = torch.compile(function, fullgraph=True)
        for x in (torch.ones(8), -torch.ones(8)):
            self.assertEqual(compiled(x.to("xpu")).cpu(), function(x))

    def test_autocast(self):
        layer = nn.Linear(32, 64).to("xpu")

        def function(x):
            with torch.autocast("xpu", torch.bfloat16):
                return nn.functional.gelu(layer(x)) @ x

        x = torch.randn(64, 32, device="xpu")
        found = torch.compile(function, fullgraph=True)(x)
        self.assertEqual(found, function(x), atol=0.1, rtol=0.05)

    @parametrize("export", ["export", "draft_export"])
    def test_export(self, export):
        model = nn.Sequential(nn.Linear(8, 8), nn.GELU()).to("xpu")
        x = torch.randn(4, 8, device="xpu")
        exporting = getattr(torch.export, export, None) or torch.export._draft_export.draft_export
        program = exporting(model, (x,))
        self.assertEqual(torch.compile(program.module())(x), model(x), atol=1e-4, rtol=1e-4)

    def test_in_threads(self):
        """Each on a stream of its own."""
        compiled = torch.compile(lambda x: torch.softmax(x, -1).cumsum(-1) * 2)
        found = {}

        def run(number):
            with torch.xpu.stream(torch.xpu.Stream()):
                x = torch.full((64, 100), float(number)).to("xpu")
                for _ in range(20):
                    y = compiled(x)
                found[number] = y.cpu()[:, -1]

        threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {number: torch.full((64,), 2.0) for number in range(4)})

    def test_profiler(self):
        """Work of the device has the names of Triton's kernels."""
        from torch.profiler import profile, ProfilerActivity

        compiled = torch.compile(lambda x: x.sin() + 1)
        x = torch.randn(1 << 20, device="xpu")
        compiled(x)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as profiled:
            compiled(x)
            torch.xpu.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "trace.json")
            profiled.export_chrome_trace(file)
            names = [
                one["name"]
                for one in json.loads(Path(file).read_text())["traceEvents"]
                if one.get("cat") == "kernel"
            ]
        self.assertTrue(any("triton_" in name for name in names), names)

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
    def test_max_autotune_of_convolutions(self):
        from torch._inductor.utils import is_big_gpu, run_and_get_code

        if not is_big_gpu(0):
            self.skipTest("the card has too few multiprocessors for it")
        layer = nn.Conv2d(16, 32, 3, padding=1).to("xpu")
        x = torch.randn(2, 16, 20, 20, device="xpu")
        settings = {"max_autotune_conv_backends": "TRITON", "max_autotune": True}
        with torch._inductor.config.patch(settings), torch.no_grad():
            found, (code,) = run_and_get_code(torch.compile(layer), x)
            self.assertEqual(found, layer(x), atol=1e-2, rtol=1e-2)
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
