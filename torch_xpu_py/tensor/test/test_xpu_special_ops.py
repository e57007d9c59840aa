# Owner(s): ["module: intel"]
"""Operators on XPU that the fallback to the CPU's kernels cannot run as they are."""

import copy
import itertools
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase
from xpu_host_memory import on_cpu_and_xpu

needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")


@needs_device
class TestSpecialOps(TestCase):
    def test_kernels_past_the_dispatcher(self):
        x = torch.tensor([[1.0, 2.0, 1.0], [3.0, 4.0, 4.0], [5.0, 6.0, 7.0]])
        for function in (
            lambda x: torch.nanmean(x, 1, out=x.new_empty(3)),
            lambda x: torch.linalg.eigvals(x, out=x.new_empty(3) + 0j),
            lambda x: torch.mode(x, 1)[0],
            lambda x: (x + 1j).conj_physical_(),
            lambda x: torch.kaiser_window(5, device=x.device),
            lambda x: torch.kaiser_window(5, False, device=x.device),
            lambda x: torch.kaiser_window(5, True, 3.0, dtype=torch.double, device=x.device),
        ):
            self.assertEqual(*on_cpu_and_xpu(function, x))

    def test_convolution_with_narrow_types(self):
        image, kernel = torch.rand(1, 1, 5, 5), torch.rand(1, 1, 3, 3)
        expected = torch.nn.functional.conv2d(image, kernel)
        for dtype in (torch.float16, torch.bfloat16):
            # An operator is called in another way once its kernel has failed.
            for _ in range(2):
                result = torch.nn.functional.conv2d(image.to("xpu", dtype), kernel.to("xpu", dtype))
                self.assertEqual(result.dtype, dtype)
                self.assertEqual(result.float().cpu(), expected, atol=0.05, rtol=0)

    def test_training_with_float16(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(18, 2)
        ).xpu()
        image = torch.rand(4, 1, 5, 5)
        expected = copy.deepcopy(model).cpu()(image).sum()
        with torch.autocast("xpu", torch.float16):
            loss = model(image.xpu()).sum()
        self.assertEqual(loss.float().cpu(), expected, atol=0.02, rtol=0)
        (loss * 128).backward()
        self.assertTrue(all(one.grad.isfinite().all() for one in model.parameters()))
        self.assertEqual(model[0].weight.grad.dtype, torch.float32)

    def test_autograd(self):
        def gradients(device):
            torch.manual_seed(0)
            model = torch.nn.Sequential(
                torch.nn.Conv2d(3, 8, 3, padding=1),
                torch.nn.BatchNorm2d(8),
                torch.nn.ReLU(),
                torch.nn.ConvTranspose2d(8, 4, 2, groups=2),
                torch.nn.GroupNorm(2, 4),
                torch.nn.MaxPool2d(2),
                torch.nn.Flatten(),
                torch.nn.Linear(64, 5),
            )
            x = torch.randn(2, 3, 8, 8)
            target = torch.tensor([1, 4])
            model, x, target = model.to(device), x.to(device), target.to(device)
            x.requires_grad_()
            torch.nn.functional.cross_entropy(model(x), target).backward()
            return [x.grad.cpu()] + [p.grad.cpu() for p in model.parameters()]

        self.assertEqual(gradients("xpu"), gradients("cpu"))

    def test_recurrent_cells(self):
        for cell in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
            for options in ({}, {"bias": False}, {"bidirectional": True}):
                torch.manual_seed(0)
                on_cpu = cell(4, 5, 2, **options)
                on_xpu = copy.deepcopy(on_cpu).to("xpu")
                x = torch.randn(3, 2, 4)
                y = x.to("xpu").requires_grad_()
                x.requires_grad_()
                expected, found = on_cpu(x)[0], on_xpu(y)[0]
                expected.pow(2).sum().backward()
                found.pow(2).sum().backward()
                self.assertEqual(found.cpu(), expected)
                self.assertEqual(y.grad.cpu(), x.grad)
                self.assertEqual(
                    [p.grad.cpu() for p in on_xpu.parameters()],
                    [p.grad for p in on_cpu.parameters()],
                )

    def test_recurrent_cells_under_autocast(self):
        """Weights are cast once, and not in each step."""
        for cell, packed in itertools.product(
            (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN), (False, True)
        ):
            torch.manual_seed(0)
            on_xpu = cell(4, 24).to("xpu")
            x = torch.randn(12, 2, 4, device="xpu")
            if packed:
                x = torch.nn.utils.rnn.pack_padded_sequence(x, [12, 7])
            kept = {}

            def keep(tensor):
                kept[tensor.data_ptr()] = tensor
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                with torch.autocast("xpu", torch.bfloat16):
                    found = on_xpu(x)[0]
            expected = on_xpu(x)[0]
            if packed:
                found, expected = found.data, expected.data
            self.assertEqual(found.dtype, torch.bfloat16)
            self.assertEqual(found.float(), expected, atol=0.05, rtol=0.05)
            found.float().sum().backward()
            large = [one for one in kept.values() if one.numel() >= 24 * 24]
            self.assertLess(len(large), 3)
            for parameter in on_xpu.parameters():
                self.assertTrue(parameter.grad.isfinite().all())

    def test_recurrent_cells_without_gradients(self):
        for cell in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
            for dtype in (torch.float, torch.double):
                model = cell(4, 5, 2, bidirectional=True, batch_first=True).to("xpu", dtype)
                x = torch.randn(3, 2, 4, device="xpu", dtype=dtype)
                expected = model(x)
                self.assertTrue(expected[0].requires_grad)
                for mode in (torch.no_grad, torch.inference_mode):
                    with mode():
                        found = model(x)
                    self.assertEqual(found, expected)
                    self.assertFalse(found[0].requires_grad)
                with torch.no_grad(), torch.autograd.forward_ad.dual_level():
                    dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
                    tangent = torch.autograd.forward_ad.unpack_dual(model(dual)[0]).tangent
                step = 1e-3
                far = (model(x + step)[0] - model(x - step)[0]) / (2 * step)
                self.assertEqual(tangent, far.detach(), atol=1e-2, rtol=1e-2)

    def test_second_gradients_of_recurrent_cells(self):
        for cell in (torch.nn.LSTM, torch.nn.GRU):
            torch.manual_seed(0)
            model = cell(2, 3).double().to("xpu")
            x = torch.randn(2, 1, 2, dtype=torch.double, device="xpu", requires_grad=True)
            self.assertTrue(torch.autograd.gradgradcheck(lambda x: model(x)[0], x))

    def test_statistics_of_batches(self):
        # The operators of SyncBatchNorm, of a batch in two parts.
        torch.manual_seed(0)
        x, grad = torch.randn(2, 6, 4, 5, device="xpu", dtype=torch.float64)
        weight, bias = torch.randn(2, 4, device="xpu", dtype=torch.float64)
        parts = x.split([4, 2])
        stats = [torch.batch_norm_stats(part, 1e-5) for part in parts]
        means, invstds = (torch.stack(each) for each in zip(*stats))
        counts = torch.tensor([20.0, 10.0], device="xpu", dtype=torch.float64)
        running = [torch.zeros_like(bias), torch.ones_like(bias)]
        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            x, means, invstds, *running, 0.1, 1e-5, counts
        )
        norm = torch.nn.BatchNorm1d(4, dtype=torch.float64)
        norm.load_state_dict(
            {**norm.state_dict(), "weight": weight.cpu(), "bias": bias.cpu()}
        )
        on_cpu = x.cpu().requires_grad_()
        expected = norm(on_cpu)
        expected.backward(grad.cpu())
        self.assertEqual(running[0].cpu(), norm.running_mean)
        self.assertEqual(running[1].cpu(), norm.running_var)
        result = torch.batch_norm_elemt(x, weight, bias, mean, invstd, 1e-5)
        self.assertEqual(result.cpu(), expected)
        out = torch.empty(0, device="xpu", dtype=torch.float64)
        torch.batch_norm_elemt(x, weight, bias, mean, invstd, 1e-5, out=out)
        self.assertEqual(out, result)
        sums = torch.batch_norm_backward_reduce(grad, x, mean, invstd, weight, True, True, True)
        self.assertEqual(sums[2].cpu(), norm.weight.grad)
        self.assertEqual(sums[3].cpu(), norm.bias.grad)
        found = torch.batch_norm_backward_elemt(
            grad, x, mean, invstd, weight, *sums[:2], counts.int()
        )
        self.assertEqual(found.cpu(), on_cpu.grad)
        # Parts of one size.
        halves = [torch.batch_norm_stats(part, 1e-5) for part in x.split([3, 3])]
        means, invstds = (torch.stack(each) for each in zip(*halves))
        again = torch.batch_norm_gather_stats(x, means, invstds, None, None, 0.1, 1e-5, 15)
        self.assertEqual(again, (mean, invstd))

    def test_attention(self):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        x = torch.randn(2, 5, 16)
        mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
        expected = layer(x, src_mask=mask)
        found = copy.deepcopy(layer).to("xpu")(x.to("xpu"), src_mask=mask.to("xpu"))
        self.assertEqual(found.cpu(), expected)

    def test_the_cpus_generator_is_left_alone(self):
        state = torch.get_rng_state()
        x = torch.ones(100, device="xpu")
        torch.nn.functional.dropout(x)
        torch.nn.functional.dropout(x, 0.5, inplace=True)
        torch.bernoulli(x / 2)
        torch.multinomial(x, 3)
        torch.nn.functional.rrelu(-x, training=True)
        self.assertEqual(torch.get_rng_state(), state)


if __name__ == "__main__":
    run_tests()
