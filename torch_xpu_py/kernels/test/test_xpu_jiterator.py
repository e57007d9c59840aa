# Owner(s): ["module: intel"]
"""torch.xpu.jiterator: a user's function as a kernel, on every device."""

import os
import pathlib
import re
import tempfile
import unittest

import torch
from test_xpu_kernels import has, needs_device, ON_CUDA, Processes
from torch.testing._internal.common_utils import run_tests

BLEND = "template <typename T> T blend(T x, T y, T alpha) { return -x + alpha * y; }"


def make(code, **kwargs):
    return torch.xpu.jiterator._create_jit_fn(code, **kwargs)


def has_compiler():
    """It is a library beside SYCL's, which what is packed for a machine with a card leaves out."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    libraries = {pathlib.Path(line.split()[-1]) for line in lines if "/libsycl.so" in line}
    return any(path.with_name("libsycl-jit.so").exists() for path in libraries)


@needs_device
@unittest.skipIf(ON_CUDA and not has_compiler(), "SYCL's compiler is not here")
class TestJiterator(Processes):
    def test_types(self):
        blend = make(BLEND, alpha=2)
        for dtype in (torch.float, torch.double, torch.half, torch.bfloat16, torch.long, torch.uint8):
            if not has(dtype):
                continue
            x, y = torch.arange(12).to(dtype), (torch.arange(12) % 5).to(dtype)
            for alpha in ({}, {"alpha": 3}):
                expected = -x + alpha.get("alpha", 2) * y
                got = blend(x.xpu(), y.xpu(), **alpha)
                self.assertEqual(got.cpu(), expected, exact_dtype=True)
        # promoted, and with a number of the CPU
        got = blend(torch.arange(3, device="xpu"), torch.tensor([0.5, 1, 2], device="xpu"))
        self.assertEqual(got.cpu(), torch.tensor([1.0, 1, 2]))
        got = blend(torch.ones(3, device="xpu"), torch.tensor(2.5))
        self.assertEqual(got.tolist(), [4, 4, 4])

    def test_layouts(self):
        blend = make(BLEND, alpha=0.5)
        torch.manual_seed(0)
        x, y = torch.rand(6, 8), torch.rand(8)
        for a, b in (
            (x, y),
            (x.t(), x.t() * 3),
            (x[::2, 1:], x[1::2, 1:]),
            (x[:0], y),
            (x[0, 0], y[1]),
            (x[:, :1], y[None]),
        ):
            got = blend(a.xpu(), b.xpu())
            self.assertEqual(got.cpu(), -a + 0.5 * b)
        strides = blend(x.xpu().t(), x.xpu().t()).stride()
        self.assertEqual(strides, (1, 8))
        z = torch.rand(4, device="xpu", requires_grad=True)
        self.assertFalse(blend(z, z).requires_grad)

    def test_functions(self):
        """SYCL's, several in one code, and results by reference."""
        code = "template <typename T> T half_of(T x) { return x / 2; }\n"
        code += "template <typename T> T f(T x, T y) { return min(sin(x), half_of(exp(y))); }"
        x, y = torch.rand(50), torch.rand(50)
        got = make(code)(x.xpu(), y.xpu())
        self.assertEqual(got.cpu(), torch.minimum(x.sin(), y.exp() / 2))
        code = """template <typename T> void both(T x, T y, T scale, T& a, T& b) {
            a = scale * (x + y);
            b = x - y;
        }"""
        both = torch.xpu.jiterator._create_multi_output_jit_fn(code, num_outputs=2, scale=1)
        total, difference = both(x.xpu(), y.xpu(), scale=2)
        self.assertEqual((total.cpu(), difference.cpu()), (2 * (x + y), x - y))
        code = "template <typename T> void one(T x, T& a) { a = x + 1; }"
        one = torch.xpu.jiterator._create_multi_output_jit_fn(code, num_outputs=1)
        self.assertEqual(one(x.xpu()).cpu(), x + 1)

    def test_errors(self):
        with self.assertRaisesRegex(Exception, "Couldn't parse code"):
            make("float f(float x) { return x; }")
        blend = make(BLEND, alpha=1)
        x = torch.ones(3, device="xpu")
        with self.assertRaisesRegex(KeyError, "beta is not declared"):
            blend(x, x, beta=1)
        with self.assertRaisesRegex(ValueError, "1 to 8 tensor inputs, got 9"):
            blend(*[x] * 9)
        with self.assertRaisesRegex(RuntimeError, "'blend' needs a tensor on XPU"):
            blend(x.cpu(), x.cpu())
        with self.assertRaisesRegex(RuntimeError, "at least two devices, xpu:0 and cpu"):
            blend(x, x.cpu())
        with self.assertRaisesRegex(RuntimeError, "'blend' cannot be called with ComplexFloat"):
            blend(x.to(torch.complex64), x)

    def test_compiler_words(self):
        wrong = make("template <typename T> T\nwrong(T x) {\n  return missing(x);\n}")
        with self.assertRaisesRegex(RuntimeError, "The function 'wrong' cannot be compiled.") as raised:
            wrong(torch.ones(3, device="xpu"))
        text = str(raised.exception)
        found = re.search(r"says is in (\S+\.log)", text)
        if found:
            with open(found[1]) as file:
                text = file.read()
        self.assertRegex(text, r"'missing'\n +3 \|   return missing")

    def test_cache(self):
        """Another process finds the kernel."""
        code = (
            "import torch\n"
            "f = torch.xpu.jiterator._create_jit_fn("
            "'template <typename T> T thrice(T x) { return 3 * x; }')\n"
            "print(f(torch.ones(3, device='xpu')).tolist())"
        )
        with tempfile.TemporaryDirectory() as folder:
            kept = []
            for _ in range(2):
                env = {"TORCH_XPU_KERNEL_CACHE": folder, "TORCH_XPU_KERNELS": "0"}
                self.assertIn("[3.0, 3.0, 3.0]", self.run_python("-c", code, **env))
                kept.append(self.files(folder))
            self.assertEqual(len(kept[0]), 1)
            self.assertEqual(*kept)


if __name__ == "__main__":
    run_tests()
