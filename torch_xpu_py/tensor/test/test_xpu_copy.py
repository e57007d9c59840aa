# Owner(s): ["module: intel"]
"""copy_ with XPU tensors: results and errors are those of the CPU."""

import copy
import io
import itertools
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0

needs_device = unittest.skipIf(COUNT == 0, "there is no device")

SHAPES = ((), (0,), (1,), (3,), (0, 3), (2, 0), (1, 3), (2, 3), (2, 1, 3))
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# From, to.
DEVICES = [("xpu", "cpu"), ("cpu", "xpu"), ("xpu", "xpu")]
if COUNT > 1:
    DEVICES.append(("xpu:1", "xpu:0"))

# Two views of one tensor of 24 elements.
VIEWS = {
    "shifted": lambda x: (x[1:], x[:-1]),
    "shifted back": lambda x: (x[:-1], x[1:]),
    "one over the other": lambda x: (x[4:12], x[8:16]),
    "beside": lambda x: (x[:12], x[12:]),
    "the same": lambda x: (x, x),
    "the same view": lambda x: (x[2:8], x[2:8]),
    "interleaved": lambda x: (x[::2], x[1::2]),
    "rows": lambda x: (x.view(4, 6)[1:], x.view(4, 6)[:-1]),
    "columns": lambda x: (x.view(4, 6)[:, 1:], x.view(4, 6)[:, :-1]),
    "transposed": lambda x: (x[:16].view(4, 4), x[:16].view(4, 4).t()),
    "another dtype": lambda x: (x[:6].view(torch.int32), x[3:9]),
    "expanded": lambda x: (x[:1].expand(4), x[8:12]),
    "expanded onto itself": lambda x: 2 * (x[:1].expand(4),),
    "from expanded": lambda x: (x[:4], x[:1].expand(4)),
    "windows": lambda x: (x.unfold(0, 3, 1), x.new_ones(22, 3)),
}


def values(shape, dtype):
    x = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)
    return x * (1 + 2j) if dtype.is_complex else x


def outcome(copy):
    """What came of it: the tensor that was written, or the error."""
    try:
        result = copy()
    except Exception as error:
        return type(error), str(error)
    return result.cpu() if not result._is_zerotensor() else result


@needs_device
class TestCopy(TestCase):
    def compare(self, make, source, target, what):
        def copy(source, target):
            to, from_ = make(source, target)
            result = to.copy_(from_)
            assert result is to
            return to.resolve_conj().resolve_neg()

        expected = outcome(lambda: copy("cpu", "cpu"))
        found = outcome(lambda: copy(source, target))
        with self.subTest(what, source=source, target=target):
            if isinstance(expected, tuple):
                self.assertEqual(found, expected)
            else:
                self.assertIsInstance(found, torch.Tensor, found)
                self.assertEqual(found, expected, atol=0, rtol=0)
                self.assertEqual(found.dtype, expected.dtype)
                self.assertEqual(found.shape, expected.shape)

    def test_shapes(self):
        for (source, target), to, from_ in itertools.product(DEVICES, SHAPES, SHAPES):
            for dtype in (torch.float32, torch.int64):
                self.compare(
                    lambda source, target: (
                        torch.zeros(to, device=target),
                        values(from_, dtype).to(source),
                    ),
                    source,
                    target,
                    f"{from_} to {to}, {dtype}",
                )

    def test_dtypes(self):
        for (source, target), to, from_ in itertools.product(DEVICES, DTYPES, DTYPES):
            for shape in ((2, 3), (0,)):
                self.compare(
                    lambda source, target: (
                        torch.zeros(shape, device=target, dtype=to),
                        values(shape, from_).to(source),
                    ),
                    source,
                    target,
                    f"{from_} to {to}, {shape}",
                )

    def test_overlaps(self):
        for name, views in VIEWS.items():

            def copy(device):
                x = torch.arange(24.0).to(device)
                to, from_ = views(x)
                to.copy_(from_)
                return x

            with self.subTest(name):
                self.assertEqual(outcome(lambda: copy("xpu")), outcome(lambda: copy("cpu")))

    def test_bits(self):
        bits = {
            "plain": lambda x: x,
            "conjugate": lambda x: x.conj(),
            "negative": lambda x: x.conj().imag,
            "negative view": lambda x: torch._neg_view(x),
            "zero": lambda x: torch._efficientzerotensor(x.shape, dtype=x.dtype, device=x.device),
            "real": lambda x: x.real,
            "no elements": lambda x: x[:0].conj(),
        }
        for (source, target), to, from_ in itertools.product(DEVICES, bits, bits):
            self.compare(
                lambda source, target: (
                    bits[to](torch.full((3,), 7 - 7j, device=target)),
                    bits[from_](values((3,), torch.complex64).to(source)),
                ),
                source,
                target,
                f"{from_} to {to}",
            )

    def test_a_copy_of_meta_tensors(self):
        def copy(target, source):
            x = torch.ones(2, device=target).copy_(torch.ones(2, device=source))
            return torch.tensor(x.is_meta)

        for target, source in (("xpu", "meta"), ("meta", "xpu")):
            on_cpu = [name.replace("xpu", "cpu") for name in (target, source)]
            self.assertEqual(outcome(lambda: copy(target, source)), outcome(lambda: copy(*on_cpu)))

    @unittest.skipUnless(
        hasattr(torch.Tensor, "refine_names"), "PyTorch has no named tensors any more"
    )
    def test_names(self):
        names = ((None, None), ("N", "C"), ("N", None), ("C", "N"))
        for (source, target), to, from_ in itertools.product(DEVICES, names, names):

            def copy(source, target):
                x = torch.zeros(2, 3, device=target).rename(*to)
                return x.copy_(torch.ones(2, 3, device=source).rename(*from_)).names

            def named(*devices):
                try:
                    return copy(*devices)
                except RuntimeError as error:
                    return str(error)

            with self.subTest(f"{from_} to {to}", source=source, target=target):
                self.assertEqual(named(source, target), named("cpu", "cpu"))


@needs_device
class TestQuantized(TestCase):
    def tensors(self):
        x = torch.linspace(-2, 2, 24).view(4, 6)
        scales, zeros = torch.tensor([0.5, 0.25, 0.125, 1]), torch.tensor([0, 1, 2, 3])
        for dtype in (torch.qint8, torch.quint8, torch.qint32):
            yield torch.quantize_per_tensor(x, 0.25, 3, dtype)
            yield torch.quantize_per_channel(x, scales, zeros, 0, dtype)
        yield torch.quantize_per_tensor(x, 0.25, 3, torch.qint8).t()
        yield torch.quantize_per_tensor(x[:0], 0.25, 3, torch.qint8)

    def check(self, found, expected, device):
        self.assertEqual(found.device.type, device)
        self.assertEqual(found.dtype, expected.dtype)
        self.assertEqual(found.qscheme(), expected.qscheme())
        self.assertEqual(found.int_repr().cpu(), expected.int_repr())
        if found.qscheme() == torch.per_tensor_affine:
            self.assertEqual(found.q_scale(), expected.q_scale())
            self.assertEqual(found.q_zero_point(), expected.q_zero_point())
        else:
            self.assertEqual(found.q_per_channel_axis(), expected.q_per_channel_axis())
            for name in ("q_per_channel_scales", "q_per_channel_zero_points"):
                part = getattr(found, name)()
                self.assertEqual(part.device.type, device)
                self.assertEqual(part.cpu(), getattr(expected, name)())
        self.assertEqual(found.dequantize().cpu(), expected.dequantize())

    def test_they_cross(self):
        for q in self.tensors():
            on_device = q.to("xpu")
            self.check(on_device, q, "xpu")
            self.check(on_device.cpu(), q, "cpu")
            self.check(on_device.clone(), q, "xpu")
            for other in range(1, COUNT):
                self.check(on_device.to(f"xpu:{other}").cpu(), q, "cpu")

    def test_other_objects(self):
        for q in self.tensors():
            on_device = q.to("xpu")
            self.check(copy.deepcopy(on_device), q, "xpu")
            file = io.BytesIO()
            torch.save(on_device, file)
            file.seek(0)
            self.check(torch.load(file), q, "xpu")

    def test_several_elements_in_a_byte(self):
        x = torch.linspace(0, 3, 32).view(4, 8)
        scales, zeros = torch.full((4,), 0.5), torch.zeros(4)
        for dtype, in_a_byte in ((torch.quint4x2, 2), (torch.quint2x4, 4)):
            q = torch.quantize_per_channel(x, scales, zeros, 0, dtype)
            given = [one.to("xpu") for one in (x, scales, zeros)]
            on_device = torch.quantize_per_channel(*given, 0, dtype)
            torch.xpu.reset_fallback_statistics()
            self.assertEqual(on_device.int_repr().cpu(), q.int_repr())
            copied = torch.xpu.fallback_statistics()["aten::int_repr"]["bytes_copied"]
            self.assertIn(copied, (0, 32 // in_a_byte * 2))

    def test_copy(self):
        for (source, target), q in itertools.product(DEVICES, self.tensors()):
            to = (q.flip(0) if q.qscheme() == torch.per_tensor_affine else q.clone()).to(target)
            to.copy_(q.to(source))
            self.check(to, q, torch.device(target).type)

    def test_copy_from_floats(self):
        for (source, target), q in itertools.product(DEVICES, self.tensors()):
            x = torch.linspace(2, -2, q.numel()).view(q.shape)
            expected = outcome(lambda: q.clone().copy_(x).int_repr())
            found = outcome(lambda: q.clone().to(target).copy_(x.to(source)).int_repr())
            self.assertEqual(found, expected)

    def test_what_is_refused(self):
        one, other = itertools.islice(self.tensors(), 2)
        for source, target in DEVICES:
            for to, from_ in ((one, other), (one.dequantize(), one), (one, other[:2])):
                expected = outcome(lambda: to.clone().copy_(from_))
                self.assertIsInstance(expected, tuple)
                found = outcome(lambda: to.clone().to(target).copy_(from_.to(source)))
                self.assertEqual(found, expected)


if __name__ == "__main__":
    run_tests()
