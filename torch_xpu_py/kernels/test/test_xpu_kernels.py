# Owner(s): ["module: intel"]
"""Operators that the device computes itself, compared with the CPU's. The tests run in
a process of their own with TORCH_XPU_KERNELS=1, since a process decides once."""

import importlib.util
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

ON = os.environ.get("TORCH_XPU_KERNELS") == "1"
DTYPES = {
    "f64": torch.double,
    "f32": torch.float,
    "f16": torch.half,
    "bf16": torch.bfloat16,
    "i64": torch.long,
    "i32": torch.int,
    "i16": torch.short,
    "u8": torch.uint8,
    "b8": torch.bool,
}
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.5, 300.0]
UNARY = ("UNARY", "PLAIN")
needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")


def installed(package, path):
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.origin).parent / path if spec else pathlib.Path(path)


NAME = "torch_xpu_runtime" if importlib.util.find_spec("torch_xpu_runtime") else "torch"
PACKAGE = installed(NAME, "lib/kernels")
PTXAS = installed("triton", "backends/nvidia/bin/ptxas")


def parts(data):
    """What a file of kernels is made of: each with its size before it."""
    while data:
        size, _, rest = data.partition(b"\n")
        yield rest[: int(size)]
        data = rest[int(size) :]


def fallbacks():
    return torch._C._xpu_fallbackStatistics()


def has(dtype):
    if dtype == torch.double:
        return bool(torch.xpu.get_device_properties(0).has_fp64)
    return True


def numbers(dtype, seed=0):
    torch.manual_seed(seed)
    values = torch.randn(1027) * 5
    if dtype.is_floating_point:
        values[: len(SPECIAL)] = torch.tensor(SPECIAL).roll(seed)
    else:
        values = values.abs() if dtype == torch.uint8 else values
    return values.to(dtype)


def on_cpu(function, *args, **kwargs):
    """The CPU's result; it lacks many operators of float16, and rounds like float."""
    wide = [x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.half else x for x in args]
    result = function(*wide, **kwargs)
    narrow = any(isinstance(x, torch.Tensor) and x.dtype == torch.half for x in args)
    return result.half() if narrow and result.dtype == torch.float else result


@needs_device
@unittest.skipIf(ON, "it is the process of the tests below")
class TestProcesses(TestCase):
    """Each starts processes. A folder of kernels that the variable names is shared with
    other runs."""

    folder = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        super().tearDownClass()

    def run_python(self, *args, **env):
        cache = {"TORCH_XPU_KERNEL_CACHE": os.path.join(self.folder.name, "kernels")}
        env = {"TORCH_XPU_KERNELS": "1", **cache, **os.environ, **env}
        env.pop("PYTEST_ADDOPTS", None)
        result = subprocess.run(
            [sys.executable, *args],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=250,
            universal_newlines=True,
            cwd=os.path.dirname(os.path.abspath(__file__)),
        )
        self.assertEqual(result.returncode, 0, msg=result.stdout)
        return result.stdout

    COMMAND = ("-m", "torch.xpu.kernels" if NAME == "torch" else NAME + ".kernels")

    def test_kernels(self):
        printed = self.run_python(*self.COMMAND)  # which compiles in parallel
        self.assertRegex(printed, r"^(\d+) of \1 units of kernels are there; kept in .*\n$")
        # not run_tests(): where CI is set, it wants packages to write a report
        name = "test_xpu_kernels.TestKernels"
        self.assertIn("OK", self.run_python("-m", "unittest", name, CI="1"))

    ADD = (
        "import torch; x = torch.arange(8, dtype=torch.{}).to('xpu'); "
        "print((x + x).cpu().tolist() == [2 * i for i in range(8)], "
        "sorted(torch._C._xpu_fallbackStatistics()))"
    )
    # of a type that no package has kernels for
    RARE = ADD.format("int16")

    def files(self, folder):
        return {
            name: os.stat(os.path.join(folder, name)).st_ino
            for name in os.listdir(folder)
            if name.endswith(".kernels")
        }

    def test_cache(self):
        folder = os.path.join(self.folder.name, "kernels-of-add")
        add = lambda **env: self.run_python("-c", self.RARE, **env)  # noqa: E731
        self.assertIn("True []", add(TORCH_XPU_KERNEL_CACHE=folder))
        files = self.files(folder)
        self.assertEqual(len(files), 1)
        # found by the next process, which writes none
        self.assertIn("True []", add(TORCH_XPU_KERNEL_CACHE=folder))
        self.assertEqual(self.files(folder), files)
        # one that is damaged is made again
        (path,) = (os.path.join(folder, name) for name in files)
        with open(path, "r+b") as file:
            whole = file.read()
            file.seek(len(whole) // 2)
            file.write(b"damaged")
        self.assertIn("True []", add(TORCH_XPU_KERNEL_CACHE=folder))
        with open(path, "rb") as file:
            self.assertEqual(len(file.read()), len(whole))
        # it is no error if the folder cannot be made
        with open(os.path.join(folder, "file"), "w"):
            pass
        self.assertIn("True []", add(TORCH_XPU_KERNEL_CACHE=os.path.join(folder, "file", "x")))

    @unittest.skipIf(not PACKAGE.is_dir(), "kernels are compiled ahead for a wheel only")
    def test_package(self):
        """What a wheel brings is not compiled."""
        folder = os.path.join(self.folder.name, "kernels-of-package")
        for name in ("float32", "int64", "uint8"):
            add = self.ADD.format(name)
            self.assertIn("True []", self.run_python("-c", add, TORCH_XPU_KERNEL_CACHE=folder))
        self.assertFalse(os.path.exists(folder))

    @unittest.skipIf(not PACKAGE.is_dir(), "kernels are compiled ahead for a wheel only")
    @unittest.skipIf(not PTXAS.exists(), "needs the package triton, which has ptxas")
    def test_package_for_nvidia(self):
        """NVIDIA's assembler takes the PTX. TEST_SEED chooses some of it."""
        codes = []
        for path in sorted(PACKAGE.iterdir()):
            _, key, content, _ = parts(path.read_bytes())
            if key.startswith(b"ptx"):
                codes.extend(list(parts(content))[1::2])
        self.assertGreater(len(codes), 100)
        random = torch.Generator().manual_seed(int(os.environ.get("TEST_SEED", "0")))
        for i in torch.randperm(len(codes), generator=random)[:30].tolist():
            path = os.path.join(self.folder.name, "kernel.ptx")
            with open(path, "wb") as file:
                file.write(codes[i].rstrip(b"\0"))
            command = [str(PTXAS), "-arch=sm_90", path, "-o", path + ".cubin"]
            ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(ended.returncode, 0, msg=ended.stdout.decode())

    def test_command(self):
        """python -m torch.xpu.kernels"""
        folder = os.path.join(self.folder.name, "kernels-of-command")
        run = lambda *args: self.run_python(*self.COMMAND, *args, TORCH_XPU_KERNEL_CACHE=folder)  # noqa: E731
        self.run_python("-c", self.RARE, TORCH_XPU_KERNEL_CACHE=folder)
        (name,) = self.files(folder)
        self.assertRegex(run("--list"), rf"MB  {name}\n.*MB in 1 file\(s\) of {folder}")
        self.assertEqual(run("--clear"), f"removed 1 file(s) from {folder}\n")
        self.assertEqual(self.files(folder), {})
        with self.assertRaisesRegex(AssertionError, "error: Kernels are not kept"):
            self.run_python(*self.COMMAND, TORCH_XPU_KERNEL_CACHE="0")

    def test_failure_falls_back(self):
        folder = os.path.join(self.folder.name, "kernels-that-fail")
        self.run_python("-c", self.RARE, TORCH_XPU_KERNEL_CACHE=folder)
        (name,) = self.files(folder)
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            data = file.read()

        def joined(parts):
            return b"".join(b"%d\n%s" % (len(part), part) for part in parts)

        magic, key, content, _ = parts(data)
        images = list(parts(content))
        images[1::2] = [code[:60] for code in images[1::2]]
        content = joined(images)
        check = 0xCBF29CE484222325
        for byte in content:
            check = (check ^ byte) * 0x100000001B3 % 2**64
        with open(path, "wb") as file:
            file.write(joined([magic, key, content, b"%016x" % check]))
        printed = self.run_python("-c", self.RARE, TORCH_XPU_KERNEL_CACHE=folder)
        self.assertIn("True ['aten::add.Tensor']", printed)
        self.assertEqual(printed.count("cannot be compiled"), 1, msg=printed)
        self.assertIn("pointwise-i16-add_contiguous.log", printed)

    def test_off(self):
        printed = self.run_python("-c", self.RARE, TORCH_XPU_KERNELS="0")
        self.assertIn("True ['aten::add.Tensor']", printed)
        refused = "import torch; torch.ones(2).to('xpu')"
        with self.assertRaisesRegex(AssertionError, "must be '0' or '1'"):
            self.run_python("-c", refused, TORCH_XPU_KERNELS="yes")


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernels(TestCase):
    def rows(self):
        for line in torch.ops.torch_xpu._pointwise_table():
            form, name, *types = line.split()
            for dtype in (DTYPES[one] for one in types):
                if has(dtype):
                    yield form, name, dtype

    def compare(self, got, expected, msg):
        self.assertEqual(got.device.type, "xpu", msg=msg)
        self.assertEqual(got.cpu(), expected, msg=msg, exact_dtype=True)

    def test_table(self):
        """Each line: values, layouts, a broadcast, no elements, one, out=, in place."""
        torch._C._xpu_resetFallbackStatistics()
        for form, name, dtype in self.rows():
            msg = f"{name} {dtype}"
            function = getattr(torch, name)
            count = 1 if form in UNARY else 2
            flat = [numbers(dtype, seed) for seed in range(count)]
            square = [x[:1024].view(32, 32) for x in flat]
            cases = [
                flat,
                [x[1:] for x in flat],  # not aligned
                [x.t()[::2, 1:] for x in square],
                [square[0], *(x[3] for x in square[1:])],
                [square[0], *(x[:, 3:4] for x in square[1:])],
                [x[:0] for x in flat],
                [x[9] for x in flat],
            ]
            for case in cases:
                self.compare(function(*[x.xpu() for x in case]), on_cpu(function, *case), msg)
            expected = on_cpu(function, *square)
            device = [x.xpu() for x in square]
            out = torch.empty(32, 64, dtype=expected.dtype, device="xpu")[:, ::2]
            if name != "relu":  # has no out= in Python
                self.assertIs(function(*device, out=out), out)
                self.compare(out, expected, msg)
            if form == "COMPARE":
                number = square[1][5, 5].item()
                self.compare(function(device[0], number), on_cpu(function, square[0], number), msg)
            if form == "ALPHA" and dtype != torch.bool:
                alpha = 3
                self.compare(
                    function(*device, alpha=alpha), on_cpu(function, *square, alpha=alpha), msg
                )
            if hasattr(torch.Tensor, name + "_") and form != "EXTREMUM":
                at = device[0].data_ptr()
                getattr(device[0], name + "_")(*device[1:])
                self.assertEqual(device[0].data_ptr(), at)
                self.compare(device[0], expected.to(dtype), msg)
        self.assertEqual(fallbacks(), {})

    def test_types(self):
        """Numbers, tensors of the CPU, and arguments of several types."""
        x = numbers(torch.float)
        i = torch.arange(-4, 4)
        u = torch.tensor([250, 1], dtype=torch.uint8)
        for function in (
            lambda x, i, u: x + 2.5,
            lambda x, i, u: 2 - x,
            lambda x, i, u: i * 1.5,
            lambda x, i, u: i / 3,
            lambda x, i, u: u + 300,
            lambda x, i, u: x[8:16].half() * i,
            lambda x, i, u: x[8:16].bfloat16() + x[:8].double(),
            lambda x, i, u: (i > 0) + i,
            lambda x, i, u: torch.exp(i),
            lambda x, i, u: x.mul_(i[1]),
            lambda x, i, u: x + torch.tensor(2.0),
            lambda x, i, u: torch.add(i, 1, out=torch.empty_like(i, dtype=torch.float)),
            lambda x, i, u: torch.neg(x)[:, None].expand(-1, 3) + x[:3],
        ):
            expected = function(x.clone(), i, u)
            self.compare(function(x.xpu(), i.xpu(), u.xpu()), expected, "")

    def test_copies(self):
        types = [dtype for dtype in DTYPES.values() if has(dtype)]
        for source, target in itertools.product(types, types):
            x = numbers(source)
            if source.is_floating_point and not target.is_floating_point:
                x = x[8:]  # what NaN becomes is not defined
                x = x.abs() if target == torch.uint8 else x
            self.compare(x.xpu().to(target), x.to(target), f"{source} {target}")
        torch._C._xpu_resetFallbackStatistics()
        for dtype in (*types, torch.int8, torch.complex64):
            x = (torch.randn(2, 3, 4, 2, 3, 2, 5) * 9).to(dtype)
            y = x.permute(6, 2, 4, 0, 5, 1, 3)  # more dimensions than a kernel has
            self.compare(x.xpu().permute(6, 2, 4, 0, 5, 1, 3).contiguous(), y.contiguous(), "")
        copied = {k: v for k, v in fallbacks().items() if "copy" in k}
        self.assertEqual(copied, {})

    def test_fill(self):
        for dtype in (*(d for d in DTYPES.values() if has(d)), torch.int8, torch.complex64):
            for value in (0, 1, 77):
                x = torch.full((4, 6), value, dtype=dtype)
                self.compare(torch.ones(4, 6, dtype=dtype).xpu().fill_(value), x, str(dtype))
                strided = torch.ones(6, 8, dtype=dtype).xpu()
                strided.t()[1:5, ::2].fill_(value)
                expected = torch.ones(6, 8, dtype=dtype)
                expected.t()[1:5, ::2].fill_(value)
                self.compare(strided, expected, str(dtype))
            zero = torch.ones(7, dtype=dtype).xpu()
            zero[1:].zero_()
            self.compare(zero, torch.tensor([1] + [0] * 6).to(dtype), str(dtype))
        with self.assertRaisesRegex(RuntimeError, "overflow"):
            torch.ones(2, dtype=torch.uint8).xpu().fill_(300)

    def test_sum(self):
        torch._C._xpu_resetFallbackStatistics()
        shapes = [(5,), (70001,), (40, 50), (3, 4, 5, 6), (1, 3, 1), (0, 3), (3000, 3), (2, 3000)]
        for shape, (name, dtype) in itertools.product(shapes, DTYPES.items()):
            if not has(dtype):
                continue
            x = (torch.rand(shape) * 3).to(dtype)
            for transposed, dim in itertools.product((False, True), (None, 0, -1, (0, -1))):
                if transposed:
                    x = x.transpose(0, -1)
                if isinstance(dim, tuple) and x.dim() == 1:
                    continue
                args = () if dim is None else (dim,)
                expected = x.double().sum(*args)
                got = x.xpu().sum(*args)
                kept = dtype if dtype.is_floating_point else torch.long
                tolerance = {torch.half: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
                self.assertEqual(got.cpu(), expected.to(kept), rtol=tolerance, atol=1e-5)
        x = torch.rand(300, 200)
        out = torch.empty(400, dtype=torch.double, device="xpu")[::2]
        torch.sum(x.xpu(), 0, dtype=torch.double, out=out)
        self.assertEqual(out.cpu(), x.double().sum(0))
        self.assertEqual(x.xpu().sum(1, keepdim=True).cpu(), x.sum(1, keepdim=True))
        first = x.xpu().sum()
        for _ in range(5):
            self.assertEqual(x.xpu().sum().item(), first.item(), rtol=0, atol=0)
        self.assertEqual([k for k in fallbacks() if "sum" in k], [])

    def test_gradients(self):
        x = torch.randn(8, 5)
        results = []
        for device in ("cpu", "xpu"):
            y = x.clone().to(device).requires_grad_()
            (torch.relu(y * 2 - 1).exp() / (y.sigmoid() + 1)).sum().backward()
            results.append(y.grad.cpu())
        self.assertEqual(*results)

    def test_errors(self):
        """The texts are PyTorch's, also where the CPU raises them."""
        for function in (
            lambda x: -(x > 0),
            lambda x: torch.relu(x > 0),
            lambda x: x + x[:3],
            lambda x: x.int().add_(0.5),
            lambda x: torch.add(x, x, out=torch.empty(6, dtype=torch.int).to(x.device)),
            lambda x: x.expand(2, 6).add_(1),
            lambda x: x[1:].add_(x[:-1]),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, NotImplementedError)) as raised:
                    function(torch.randn(6).to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)
        with self.assertRaisesRegex(RuntimeError, "same device"):
            torch.ones(3).xpu() + torch.ones(3)

    def test_streams(self):
        x = torch.rand(1 << 16).xpu()
        torch.xpu.synchronize()
        stream = torch.xpu.Stream()
        with torch.xpu.stream(stream):
            y = x
            for _ in range(20):
                y = y + x
            copied = y.cpu()
        self.assertEqual(copied, x.cpu() * 21)
        torch.xpu.synchronize()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual((y - x).cpu(), x.cpu() * 20)


if __name__ == "__main__":
    run_tests()
