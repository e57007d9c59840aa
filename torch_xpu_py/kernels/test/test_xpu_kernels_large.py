# Owner(s): ["module: intel"]
"""Tensors of more than 2^31 elements or 4 GiB by kernels, on a GPU that has the memory. As
those of test_xpu_kernels.py, the tests run in a process with TORCH_XPU_KERNELS=1."""

import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, TestCase

COUNT = 2**31 + 192
# Around places where a number of 31 or 32 bits ends, of elements and of bytes.
PLACES = [0, 5, 2**30, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, COUNT - 1]


def is_large():
    if torch.xpu.device_count() == 0:
        return False
    about = torch.xpu.get_device_properties(0)
    return about.type == "gpu" and about.total_memory >= 60 * 2**30


needs_memory = unittest.skipIf(not is_large(), "takes 60 GiB of a GPU")


@needs_memory
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestLargeProcesses(kernels.Processes):
    def test_large(self):
        self.run_class("TestKernelLarge")


@needs_memory
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelLarge(TestCase):
    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def tearDown(self):
        self.assertEqual(kernels.fallbacks(), {})
        torch.xpu.empty_cache()
        super().tearDown()

    def marked(self, dtype):
        x = torch.zeros(COUNT, dtype=dtype, device="xpu")
        for number, place in enumerate(PLACES, 1):
            x[place].fill_(number)
        return x

    def at_places(self, x):
        return [x[place].item() for place in PLACES]

    NUMBERS = list(range(1, len(PLACES) + 1))

    def test_pointwise(self):
        for dtype in (torch.uint8, torch.half):
            x = self.marked(dtype)
            self.assertEqual(self.at_places(x.clone()), self.NUMBERS)
            y = x + x
            self.assertEqual(self.at_places(y), [2 * each for each in self.NUMBERS])
            self.assertEqual(self.at_places(y.to(torch.bfloat16)), self.at_places(y))
            del y
            self.assertEqual(x.sum(dtype=torch.double if dtype == torch.half else None).item(), 36)

    def test_strides(self):
        """Rows of 64 become columns, and every second element moves."""
        x = self.marked(torch.uint8)
        turned = x.view(-1, 64).t().contiguous()
        found = [turned[place % 64, place // 64].item() for place in PLACES]
        self.assertEqual(found, self.NUMBERS)
        half = (x[1::2] + 1).cpu()
        odd = [number for place, number in zip(PLACES, self.NUMBERS) if place % 2]
        self.assertEqual(half[half != 1].tolist(), [each + 1 for each in odd])

    def test_cat(self):
        x = self.marked(torch.uint8)
        y = torch.cat([x[:3], x])
        self.assertEqual([y[place + 3].item() for place in PLACES], self.NUMBERS)

    def test_index(self):
        x = self.marked(torch.uint8)
        rows = x.view(-1, 64)
        wanted = [place // 64 for place in PLACES]
        index = torch.tensor(wanted).xpu()
        found = rows.index_select(0, index).cpu()
        self.assertEqual(
            [found[i, place % 64].item() for i, place in enumerate(PLACES)], self.NUMBERS
        )
        self.assertEqual(rows[index].cpu(), found)
        flat = torch.tensor(PLACES).xpu()
        self.assertEqual(x.take(flat).tolist(), self.NUMBERS)
        x.index_fill_(0, flat, 50)
        self.assertEqual(self.at_places(x), [50] * len(PLACES))

    def test_reduce(self):
        x = self.marked(torch.uint8).view(-1, 64)
        self.assertEqual(x.amax().item(), 8)
        largest, where = x.view(-1).max(0)
        self.assertEqual((largest.item(), where.item()), (8, COUNT - 1))
        self.assertEqual(x.sum(0).sum().item(), 36)
        self.assertEqual(x.sum(1).sum().item(), 36)

    def check_parts(self, function, *tensors):
        """Results and gradients of images that are many are those of each."""
        def run(each):
            each = [one.detach().requires_grad_(one.is_floating_point()) for one in each]
            y = function(*each)
            y.backward(torch.ones_like(y) if y.dim() == 0 else y.detach())
            return y.detach(), each[0].grad

        y, grad = run(tensors)
        count = len(tensors[0])
        for at in (0, count // 2 - 1, count // 2, count - 1):
            part, part_grad = run([one[at : at + 1] for one in tensors])
            if y.dim() > 0:
                self.assertEqual(y[at : at + 1], part)
                self.assertEqual(grad[at : at + 1], part_grad)
            else:
                self.assertEqual(grad[at : at + 1] * count, part_grad, rtol=0.02, atol=1e-5)

    def test_images(self):
        """Of which half, or less, is computed at once."""
        x = torch.randn(33, 64, 1024, 1024, dtype=torch.bfloat16, device="xpu")
        for function in (
            lambda x: F.avg_pool2d(x, 2),
            lambda x: F.max_pool2d(x, 3, 2, 1),
            lambda x: F.interpolate(x, size=(96, 100), mode="bilinear"),
            lambda x: F.interpolate(x, scale_factor=0.5, mode="nearest"),
        ):
            self.check_parts(function, x)
        last = x[:, :8].contiguous(memory_format=torch.channels_last)
        self.check_parts(lambda x: F.interpolate(x, scale_factor=3, mode="bicubic"), last)

    def test_rows(self):
        x = torch.randn(43000, 50257, dtype=torch.bfloat16, device="xpu")
        target = torch.randint(50257, (43000,), device="xpu")
        self.check_parts(lambda x: x.log_softmax(1), x)
        self.check_parts(lambda x: F.layer_norm(x, x.shape[1:]), x)
        weight = torch.ones(x.shape[1:], dtype=x.dtype, device="xpu", requires_grad=True)

        def of_weight(x):
            return torch.autograd.grad(F.layer_norm(x, x.shape[1:], weight), weight, x)[0]

        halves = of_weight(x[:21500]).float() + of_weight(x[21500:]).float()
        self.assertEqual(of_weight(x).float(), halves, rtol=0.02, atol=1)
        self.check_parts(F.cross_entropy, x, target)
        self.check_parts(lambda x: x.softmax(1), x.view(43, 1000, 50257))

    def test_sort(self):
        x = torch.zeros(3, 2**30, dtype=torch.uint8, device="xpu")
        x[2, 7].fill_(9)
        x[1, 2**30 - 1].fill_(5)
        values, indices = x.sort(dim=1, descending=True, stable=True)
        self.assertEqual(values[:, :2].tolist(), [[0, 0], [5, 0], [9, 0]])
        self.assertEqual(indices[:, :2].tolist(), [[0, 1], [2**30 - 1, 0], [7, 0]])
        self.assertEqual(indices[:, -1].tolist(), [2**30 - 1, 2**30 - 2, 2**30 - 1])


if __name__ == "__main__":
    run_tests()
