# Owner(s): ["module: intel"]
"""grid_sample, unfold, fold and embedding_bag by kernels. As those of test_xpu_kernels.py,
the tests run in a process with TORCH_XPU_KERNELS=1."""

import itertools
import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, slowTest

FLOATING = [torch.float, torch.half, torch.bfloat16, torch.double]


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestGridProcesses(kernels.Processes):
    @slowTest
    def test_grid(self):
        self.run_class("TestKernelGrid")  # sums of half are sorted


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelGrid(kernels.BesideCpu):
    def texts(self, function):
        results = []
        for device in ("cpu", "xpu"):
            try:
                results.append(function(device).cpu())
            except (RuntimeError, ValueError, NotImplementedError, IndexError) as error:
                results.append(str(error).splitlines()[0])
        self.assertEqual(*results)

    def test_grid_sample(self):
        images = {2: (2, 3, 5, 7), 3: (2, 2, 4, 1, 6)}
        modes = [(2, m) for m in ("bilinear", "nearest", "bicubic")]
        modes += [(3, m) for m in ("bilinear", "nearest")]
        paddings = ("zeros", "border", "reflection")
        cases = itertools.product(modes, paddings, (False, True))
        dtypes = [dtype for dtype in FLOATING if kernels.has(dtype)]
        for i, ((dims, mode), padding, corners) in enumerate(cases):
            dtype = dtypes[i % len(dtypes)]
            x = torch.randn(images[dims]).to(dtype)
            grid = (torch.rand(2, *(4, 3, 5)[:dims], dims) * 3.4 - 1.7).to(dtype)
            if dtype in kernels.NARROW:
                grid = (grid * 16).float().round().to(dtype) / 16 + 1 / 64  # none where an element begins
            if dims == 2 and corners:
                x = x.contiguous(memory_format=torch.channels_last)
                grid = grid.transpose(1, 2)

            def sample(x, grid):
                return F.grid_sample(x, grid, mode, padding, corners)

            self.check(sample, x, grid, msg=f"{dims} {mode} {padding} {corners} {dtype}")
        self.no_fallbacks()
        x, grid = torch.randn(1, 2, 3, 3).xpu(), torch.rand(1, 4, 4, 2).xpu().requires_grad_()
        F.grid_sample(x, grid, align_corners=False).sum().backward()  # for the grid alone
        far = torch.tensor([1e30, -1e30, 3e9, 0.5], device="xpu").view(1, 1, 2, 2)
        for padding in ("zeros", "border"):
            for mode in ("bilinear", "nearest"):
                got = F.grid_sample(x, far, mode, padding, align_corners=False)
                expected = F.grid_sample(x.cpu(), far.cpu(), mode, padding, align_corners=False)
                self.assertEqual(got.cpu(), expected)
        self.no_fallbacks()
        for shape in ((1, 4, 4, 3), (2, 4, 4, 2), (4, 4, 2)):
            self.texts(
                lambda device: F.grid_sample(
                    torch.ones(1, 2, 3, 3, device=device),
                    torch.zeros(shape, device=device),
                    align_corners=False,
                )
            )
        torch.use_deterministic_algorithms(True)
        try:
            results = []
            for _ in range(3):
                y = x.detach().requires_grad_()
                F.grid_sample(y, grid, align_corners=False).sum().backward()
                results.append(y.grad)
            self.assertEqual(results[1], results[0], rtol=0, atol=0)
        finally:
            torch.use_deterministic_algorithms(False)

    def test_columns(self):
        cases = [
            ((2, 3, 6, 7), (2, 3), {}),
            ((2, 3, 6, 7), 3, {"padding": 1, "stride": 2}),
            ((3, 6, 7), (2, 2), {"dilation": (2, 3), "padding": (0, 2)}),
            ((1, 4, 8, 8), 4, {"stride": 4}),
            ((2, 1, 5, 5), 1, {}),
        ]
        for i, (shape, size, more) in enumerate(cases):
            for dtype in kernels.some([x for x in FLOATING if kernels.has(x)], i):
                x = torch.randn(shape).to(dtype)
                self.check(lambda x: F.unfold(x, size, **more), x, msg=f"unfold {i}")
                if x.dim() == 4:
                    last = x.contiguous(memory_format=torch.channels_last)
                    self.check(lambda x: F.unfold(x, size, **more), last)
                columns = torch.randn(F.unfold(x.float(), size, **more).shape).to(dtype)
                self.check(lambda x: F.fold(x, shape[-2:], size, **more), columns, msg=f"fold {i}")
        x = torch.randn(1, 2, 5, 5)
        same = torch.ops.aten.im2col(x.xpu(), [1, 1], [1, 1], [0, 0], [1, 1])
        same.zero_()  # is no view
        for name, x, sizes in (
            ("im2col", x, ([3, 3], [1, 1], [1, 1], [2, 2])),
            ("col2im", torch.randn(1, 18, 9), ([5, 5], [3, 3], [1, 1], [1, 1], [2, 2])),
        ):
            out = torch.empty(0).xpu()
            operator = getattr(torch.ops.aten, name).out
            self.assertIs(operator(x.xpu(), *sizes, out=out), out)
            self.assertEqual(out.cpu(), operator(x, *sizes, out=torch.empty(0)))
        self.no_fallbacks()
        for function in (
            lambda device: F.unfold(torch.ones(1, 2, 3, 3, device=device), 4),
            lambda device: F.unfold(torch.ones(1, 2, 3, 3, device=device), 2, stride=0),
            lambda device: F.unfold(torch.ones(0, 2, 3, 3, device=device), 2),
            lambda device: F.fold(torch.ones(1, 7, 4, device=device), (3, 3), 2),
            lambda device: F.fold(torch.ones(1, 8, 5, device=device), (3, 3), 2),
        ):
            self.texts(function)

    def test_bags(self):
        indices = torch.tensor([1, 3, 3, 0, 5, 2, 1, 1, 4, 3])
        offsets = torch.tensor([0, 3, 3, 4, 9])
        cases = [
            {},
            {"padding_idx": 3},
            {"include_last_offset": True},
            {"per_sample_weights": True},
            {"per_sample_weights": True, "padding_idx": 1},
        ]
        dtypes = [x for x in FLOATING if kernels.has(x)]
        for i, (case, mode) in enumerate(itertools.product(cases, ("sum", "mean", "max"))):
            if mode != "sum" and "per_sample_weights" in case:
                continue
            dtype = dtypes[i % len(dtypes)]
            table = torch.randn(6, 37).to(dtype)
            kind = torch.int if i % 3 == 0 else torch.long
            ends = offsets
            if "include_last_offset" in case:
                ends = torch.cat([offsets, torch.tensor([len(indices)])])

            def bags(table, *weights):
                given = dict(case)
                if weights:
                    given["per_sample_weights"] = weights[0]
                of, at = (x.to(table.device, kind) for x in (indices, ends))
                return F.embedding_bag(of, table, at, mode=mode, **given)

            weights = [torch.rand(10).to(dtype)] if "per_sample_weights" in case else []
            self.check(bags, table, *weights, msg=f"{mode} {case} {dtype}")
        table = torch.randn(6, 5)
        for x, ends in (
            (torch.randint(6, (4, 3)), None),
            (torch.empty(0).long(), torch.tensor([0, 0])),
        ):
            moved = ends if ends is None else ends.xpu()
            got = F.embedding_bag(x.xpu(), table.xpu(), moved)
            self.assertEqual(got.cpu(), F.embedding_bag(x, table, ends))
        self.no_fallbacks()
        for function in (
            lambda device: F.embedding_bag(torch.ones(4, device=device), table.to(device)),
            lambda device: F.embedding_bag(torch.ones(4, device=device).long(), table.to(device)),
        ):
            self.texts(function)
        grads = []
        for by_freq in (False, True):  # the CPU divides by another row's count
            x = table.xpu().requires_grad_()
            y = F.embedding_bag(indices.xpu(), x, offsets.xpu(), scale_grad_by_freq=by_freq)
            y.sum().backward()
            grads.append(x.grad.cpu())
        self.assertEqual(grads[1], grads[0] / indices.bincount()[:, None])
        x = torch.ones(2, 3, dtype=torch.half, device="xpu", requires_grad=True)
        many = torch.zeros(1, 70000, dtype=torch.long, device="xpu")  # no number of half
        F.embedding_bag(many, x).sum().backward()
        self.assertEqual(x.grad[0].cpu(), torch.ones(3).half(), rtol=0.01, atol=0)
        bad = torch.tensor([[0, 6]]).xpu()
        with self.assertRaisesRegex(IndexError, "index 6 is out of bounds"):
            F.embedding_bag(bad, table.xpu()).cpu()

    def test_index_reduce(self):
        dtypes = [x for x in kernels.DTYPES.values() if kernels.has(x) and x != torch.bool]
        ways = itertools.product(("prod", "mean", "amax", "amin"), (False, True), (0, 1))
        for i, (how, include_self, dim) in enumerate(ways):
            for dtype in kernels.some(dtypes, i):
                x = torch.rand(6, 9).mul(5).to(dtype)
                source = torch.rand(8, 9).mul(4).to(dtype)
                source = source if dim == 0 else source.t()[:6].contiguous()
                index = torch.tensor([0, 2, 2, 5, 1, 2, 0, 5])
                if how == "mean" and not dtype.is_floating_point:
                    continue  # the host's

                def run(x, index, source):
                    return x.index_reduce(dim, index, source, how, include_self=include_self)

                expected = kernels.on_cpu(run, x, index, source)
                tolerance = kernels.TOLERANCE.get(dtype, 0) * 4
                got = run(x.xpu(), index.xpu(), source.xpu())
                self.assertEqual(got.cpu(), expected, rtol=tolerance, atol=tolerance)
                moved = x.xpu()
                moved.index_reduce_(dim, index.xpu(), source.xpu(), how, include_self=include_self)
                self.assertEqual(moved.cpu(), got.cpu(), rtol=tolerance, atol=tolerance)
        self.no_fallbacks()
        for how, size in (("sum", 3), ("prod", 2)):
            self.texts(
                lambda device: torch.ones(4, 3, device=device).index_reduce(
                    0,
                    torch.zeros(3, dtype=torch.long, device=device),
                    torch.ones(size, 3, device=device),
                    how,
                )
            )

    def test_pads_to_outputs(self):
        x = torch.randn(2, 3, 4, 5)
        for name, y, padding in (
            ("reflection_pad2d", x, [1, 2, 3, 0]),
            ("replication_pad2d", x, [1, 2, 3, 4]),
            ("replication_pad3d", x[None], [1, 2, 3, 4, 0, 1]),
        ):
            out = torch.empty(0).xpu()
            pad = getattr(torch.ops.aten, name)
            self.assertIs(pad.out(y.xpu(), padding, out=out), out)
            expected = pad(y, padding)
            self.assertEqual(out.cpu(), expected)
            back = getattr(torch.ops.aten, name + "_backward")
            got = back.grad_input(out, y.xpu(), padding, grad_input=torch.empty(0).xpu())
            self.assertEqual(got.cpu(), back(expected, y, padding))
        self.no_fallbacks()


if __name__ == "__main__":
    run_tests()
