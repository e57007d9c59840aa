# Owner(s): ["module: intel"]
"""Operators that the device computes itself, compared with the CPU's. The tests run in
a process of their own with TORCH_XPU_KERNELS=1, since a process decides once."""

import copy
import importlib.util
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, slowTest, TestCase

ON = os.environ.get("TORCH_XPU_KERNELS") == "1"
LATER = hasattr(torch, "accelerator")  # than 1.13
DTYPES = {
    "f64": torch.double,
    "f32": torch.float,
    "f16": torch.half,
    "bf16": torch.bfloat16,
    "i64": torch.long,
    "i32": torch.int,
    "i16": torch.short,
    "i8": torch.int8,
    "u8": torch.uint8,
    "b8": torch.bool,
}
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.5, 300.0]
NARROW = (torch.half, torch.bfloat16)
USUAL = (torch.float, torch.long, torch.bool)
ON_CUDA = torch.xpu.device_count() > 0 and torch._C._xpu_cudaDevice(0) is not None
ON_CPU = torch.xpu.device_count() > 0 and torch.xpu.get_device_properties(0).type == "cpu"
# For tests that are not about sub-groups. The CPU device's compiler makes vectors of the
# items of one, which takes it more time than all else.
WITHOUT_VECTORS = {"CL_CONFIG_USE_VECTORIZER": "False"}
WIDE = {"CL_CONFIG_CPU_VECTORIZER_MODE": "64"}  # items of a sub-group, as some GPUs have
needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")


def installed(package, path):
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.origin).parent / path if spec else pathlib.Path(path)


NAME = "torch_xpu_runtime" if importlib.util.find_spec("torch_xpu_runtime") else "torch"
PACKAGE = installed(NAME, "lib/kernels")
PTXAS = installed("triton", "backends/nvidia/bin/ptxas")
HAS_ALL = PACKAGE.is_dir() and ON_CUDA


def parts(data):
    """What a file of kernels is made of: each with its size before it."""
    while data:
        size, _, rest = data.partition(b"\n")
        yield rest[: int(size)]
        data = rest[int(size) :]


def joined(parts):
    """The other way round."""
    return b"".join(b"%d\n%s" % (len(part), part) for part in parts)


def on_both(function, *tensors):
    """On the CPU and on XPU: the result, whether it is conjugate, and the gradients of the sum
    of its magnitudes."""
    for device in ("cpu", "xpu"):
        moved = [one.detach().to(device).requires_grad_() for one in tensors]
        result = function(*moved)
        if result.requires_grad:
            result.abs().sum().backward()
        grads = (one.grad if one.grad is None else one.grad.cpu() for one in moved)
        yield (result.detach().cpu(), result.is_conj(), *grads)


def fallbacks():
    return torch._C._xpu_fallbackStatistics()


def has(dtype):
    if dtype == torch.double:
        return bool(torch.xpu.get_device_properties(0).has_fp64)
    return True


def types_of(test, dtypes):
    """On the CPU device, whose compiler takes long, float and one that TEST_SEED chooses."""
    dtypes = [dtype for dtype in dtypes if has(dtype)]
    if torch.xpu.get_device_properties(0).type != "cpu":
        return dtypes
    chooser = random.Random(os.environ.get("TEST_SEED", "0") + test.id())
    return [torch.float, chooser.choice([dtype for dtype in dtypes if dtype != torch.float])]


def numbers(dtype, seed=0):
    torch.manual_seed(seed)
    values = torch.randn(1027) * 5
    if dtype.is_floating_point:
        values[: len(SPECIAL)] = torch.tensor(SPECIAL).roll(seed)
    else:
        values = values.abs() if dtype == torch.uint8 else values
    return values.to(dtype)


class BesideCpu(TestCase):
    """For tests of functions with gradients."""

    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch._C._xpu_resetFallbackStatistics()

    def no_fallbacks(self):
        self.assertEqual(fallbacks(), {})

    def check(self, function, *inputs, msg=None):
        """Results and gradients beside the CPU's, which computes half in float. Returns
        the device's."""
        dtype = inputs[0].dtype
        results = []
        for move in (lambda x: x.float() if dtype in NARROW else x, torch.Tensor.xpu):
            moved = [move(x).detach().requires_grad_(x.is_floating_point()) for x in inputs]
            y = function(*moved)
            weights = torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype)
            y.backward(weights.to(y))
            results.append([y.detach(), *(x.grad for x in moved if x.is_floating_point())])
        tolerance = TOLERANCE[dtype] * 4
        for got, expected in zip(results[1], results[0]):
            self.assertEqual(got.dtype, dtype, msg=msg)
            scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1
            self.assertEqual(
                got.cpu(), expected.to(dtype), rtol=tolerance, atol=tolerance * scale, msg=msg
            )
        return [got.cpu() for got in results[1]]


def with_codes(path, change):
    """Changes each code in a file of kernels, with the checksum of what it is then."""
    magic, key, content, _ = parts(path.read_bytes())
    images = list(parts(content))
    images[1::2] = [change(code) for code in images[1::2]]
    content = joined(images)
    check = 0xCBF29CE484222325
    for byte in content:
        check = (check ^ byte) * 0x100000001B3 % 2**64
    path.write_bytes(joined([magic, key, content, b"%016x" % check]))


def on_cpu(function, *args, **kwargs):
    """The CPU's result, computed in float as the kernels do: it lacks many operators of
    float16, and rounds within some of bfloat16."""
    narrow = [x.dtype for x in args if isinstance(x, torch.Tensor) and x.dtype in NARROW]
    args = [x.float() if isinstance(x, torch.Tensor) and x.dtype in NARROW else x for x in args]
    result = function(*args, **kwargs)
    return result.to(narrow[0]) if narrow and result.dtype == torch.float else result


class Operator:
    """An overload that has a kernel, and the arguments to test it with."""

    def __init__(self, line):
        self.name, *types = line.split()
        self.is_special = "special" in types
        self.dtypes = [DTYPES[one] for one in types if one in DTYPES and has(DTYPES[one])]
        base, _, overload = self.name.partition("::")[2].partition(".")
        self.call = getattr(getattr(torch.ops.aten, base), overload or "default")
        self.is_in_place = base.endswith("_")
        self.new = getattr(torch.ops.aten, base.rstrip("_"))  # of any overload, a new result
        arguments = self.call._schema.arguments
        outputs = [x for x in arguments if x.name in ("out", "grad_input")]
        self.out = outputs[0].name if outputs else None
        self.arguments = [x for x in arguments if x not in outputs]

    def choices(self, dtype):
        """Lists of arguments, with a number in the place of each tensor."""
        numbers = iter((0.75, 1.5, 2.0) if dtype.is_floating_point else (2, 3, 4))
        tensors = itertools.count()
        values = []
        for argument in self.arguments:
            kind = str(argument.type)
            if argument.name == "alpha" and dtype == torch.bool:
                values.append([True])
            elif "Tensor" in kind:
                values.append([(next(tensors),)])
            elif "number" in kind or "Scalar" in kind:
                number = next(numbers)
                values.append([number, None] if "Optional" in kind else [number])
            elif kind == "bool":
                values.append([False, True])
            elif "int" in kind:
                values.append([0, 1, 2, 3])
            elif "float" in kind:
                values.append([None, 0.25])
            else:
                names = {"approximate": ["none", "tanh"], "rounding_mode": [None, "floor", "trunc"]}
                values.append(names[argument.name])
        lists = [list(x) for x in itertools.product(*values)]
        return [x for x in lists if x.count(None) < 2]  # clamp needs a bound

    def tensors(self, dtype, choice):
        result = []
        for name, argument in zip((x.name for x in self.arguments), choice):
            if isinstance(argument, tuple):
                x = numbers(dtype, argument[0])
                if name == "condition":
                    x = x > 0
                elif name == "buffer":  # that log_sigmoid gives its gradient
                    x = result[1].abs().neg().exp()
                elif "hardswish_backward" in self.name:  # the bound differs by release
                    x = x.masked_fill(x == -3, 1)
                elif "softshrink" in self.name:  # NaN became 0 once
                    x = x.masked_fill(x != x, 1)
                elif "shift" in self.name and name == "other":
                    x = x.abs() % 8
                elif ("fmod" in self.name or "remainder" in self.name) and name == "other":
                    x = x if dtype.is_floating_point else x.masked_fill(x == 0, 3)
                result.append(x)
        return result

    def run(self, function, choice, tensors, **kwargs):
        rest = iter(tensors)
        args = [next(rest) if isinstance(x, tuple) else x for x in choice]
        keyword_only = {x.name: y for x, y in zip(self.arguments, args) if x.kwarg_only}
        args = [y for x, y in zip(self.arguments, args) if not x.kwarg_only]
        return function(*args, **keyword_only, **kwargs)


def operators():
    torch.empty(1, device="xpu")  # registers them
    return [Operator(line) for line in torch.ops.torch_xpu._pointwise_table()]


def some(dtypes, i):
    """All, on the CPU device one of the less usual, by the number of the case."""
    usual = [x for x in dtypes if x in USUAL]
    others = [x for x in dtypes if x not in USUAL]
    if torch.xpu.get_device_properties(0).type == "cpu" and others:
        return [*usual, others[i % len(others)]]
    return dtypes


class Processes(TestCase):
    """For tests that start processes with kernels. A folder of kernels that the variable
    names is shared with other runs."""

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
            timeout=290,
            universal_newlines=True,
            cwd=os.path.dirname(os.path.abspath(__file__)),
        )
        self.assertEqual(result.returncode, 0, msg=result.stdout)
        return result.stdout

    def files(self, folder, below=""):
        found = pathlib.Path(folder, below).glob("*.kernels")
        return {path.name: os.stat(path).st_ino for path in found}

    def run_class(self, name, **env):
        """A class of the file that this one is in."""
        # not run_tests(): where CI is set, it wants packages to write a report
        module = pathlib.Path(sys.modules[type(self).__module__].__file__).stem
        name = module + "." + name
        self.assertIn("OK", self.run_python("-m", "unittest", name, CI="1", **env))


@needs_device
@unittest.skipIf(ON, "it is the process of the tests below")
class TestProcesses(Processes):
    COMMAND = ("-m", "torch.xpu.kernels" if NAME == "torch" else NAME + ".kernels")

    @slowTest
    def test_kernels(self):
        printed = self.run_python(*self.COMMAND)  # which compiles in parallel
        self.assertRegex(printed, r"(?m)^(\d+) of \1 units of kernels are there; kept in ")
        self.run_class("TestKernels", **WITHOUT_VECTORS)

    @slowTest
    def test_reductions(self):
        self.run_class("TestKernelReductions")

    @slowTest
    def test_wide_sub_groups(self):
        self.run_class("TestKernelReductions.test_softmax", **WIDE)

    ADD = (
        "import torch; x = torch.arange(8, dtype=torch.{}).to('xpu'); "
        "print((x + x).cpu().tolist() == [2 * i for i in range(8)], "
        "sorted(torch._C._xpu_fallbackStatistics()))"
    )
    # of a type that a package has kernels for NVIDIA for, and no others
    RARE = ADD.format("int16")

    @unittest.skipIf(HAS_ALL, "the package has all kernels for this device")
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
        # a folder that cannot be made is no error
        with open(os.path.join(folder, "file"), "w"):
            pass
        self.assertIn("True []", add(TORCH_XPU_KERNEL_CACHE=os.path.join(folder, "file", "x")))

    @unittest.skipIf(not ON_CPU, "a GPU's driver keeps what it compiles itself")
    @slowTest
    def test_built(self):
        """The CPU device's driver compiles a kernel once for all processes."""
        folder = os.path.join(self.folder.name, "kernels-built")
        add = lambda **env: self.run_python(  # noqa: E731
            "-c", self.ADD.format("float32"), TORCH_XPU_KERNEL_CACHE=folder, **env
        )
        self.assertIn("True []", add())
        (name,) = files = self.files(folder, "built")
        path = pathlib.Path(folder, "built", name)
        # used by the next process: then it is not old, and not written again
        os.utime(path, (0, 0))
        self.assertIn("True []", add())
        self.assertEqual(self.files(folder, "built"), files)
        self.assertGreater(path.stat().st_mtime, 1)
        # what the driver refuses is made again
        whole = path.read_bytes()
        for change in (lambda code: code[: len(code) // 2], lambda code: b"", lambda code: b"\0" * 99):
            with_codes(path, change)
            self.assertIn("True []", add())
            self.assertEqual(len(path.read_bytes()), len(whole))
        # another setting of the driver gives other code
        self.assertIn("True []", add(CL_CONFIG_CPU_VECTORIZER_MODE="1"))
        self.assertEqual(len(self.files(folder, "built")), 2)

    @unittest.skipIf(not PACKAGE.is_dir(), "kernels are compiled ahead for a wheel only")
    def test_package(self):
        """What a wheel brings is not compiled."""
        folder = os.path.join(self.folder.name, "kernels-of-package")
        for name in ("float32", "int64", "uint8"):
            add = self.ADD.format(name)
            self.assertIn("True []", self.run_python("-c", add, TORCH_XPU_KERNEL_CACHE=folder))
        self.assertEqual(self.files(folder), {})

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
        # On a card a function that kept its argument in memory got other numbers.
        kept = {name for code in codes for name in re.findall(rb"mov\.b64\s+%rd\d+, (_Z\w+_param_\d+);", code)}
        self.assertEqual(kept, set())
        chooser = random.Random(os.environ.get("TEST_SEED", "0"))
        for code in chooser.sample(codes, 30):
            path = os.path.join(self.folder.name, "kernel.ptx")
            with open(path, "wb") as file:
                made = b".version 6.3\n.target sm_75\n"
                self.assertIn(made, code)  # which the runtime replaces
                loaded = code.replace(made, b".version 7.0\n.target sm_80\n")
                file.write(loaded.rstrip(b"\0"))
            command = [str(PTXAS), "-arch=sm_90", path, "-o", path + ".cubin"]
            ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(ended.returncode, 0, msg=ended.stdout.decode())

    @unittest.skipIf(HAS_ALL, "the package has all kernels for this device")
    @slowTest
    def test_command(self):
        """python -m torch.xpu.kernels"""
        folder = os.path.join(self.folder.name, "kernels-of-command")
        run = lambda *args: self.run_python(*self.COMMAND, *args, TORCH_XPU_KERNEL_CACHE=folder)  # noqa: E731
        self.run_python("-c", self.RARE, TORCH_XPU_KERNEL_CACHE=folder)
        (name,) = self.files(folder)
        count = 1 + len(self.files(folder, "built"))
        self.assertRegex(run("--list"), rf"MB  {name}\n(.*\n)*.*MB in {count} file\(s\) of {folder}")
        self.assertEqual(run("--clear"), f"removed {count} file(s) from {folder}\n")
        self.assertEqual({**self.files(folder), **self.files(folder, "built")}, {})
        with self.assertRaisesRegex(AssertionError, "error: Kernels are not kept"):
            self.run_python(*self.COMMAND, TORCH_XPU_KERNEL_CACHE="0")

    @unittest.skipIf(HAS_ALL, "the package has all kernels for this device")
    def test_failure_falls_back(self):
        folder = os.path.join(self.folder.name, "kernels-that-fail")
        self.run_python("-c", self.RARE, TORCH_XPU_KERNEL_CACHE=folder)
        (name,) = self.files(folder)
        with_codes(pathlib.Path(folder, name), lambda code: code[:60])
        printed = self.run_python("-c", self.RARE, TORCH_XPU_KERNEL_CACHE=folder)
        self.assertIn("True ['aten::add.Tensor']", printed)
        self.assertEqual(printed.count("cannot be compiled"), 1, msg=printed)
        self.assertIn("pointwise-i16-add.log", printed)

    def test_off(self):
        printed = self.run_python("-c", self.RARE, TORCH_XPU_KERNELS="0")
        self.assertIn("True ['aten::add.Tensor']", printed)
        refused = "import torch; torch.ones(2).to('xpu')"
        with self.assertRaisesRegex(AssertionError, "must be '0' or '1'"):
            self.run_python("-c", refused, TORCH_XPU_KERNELS="yes")


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernels(TestCase):
    def operators(self):
        return [op for op in operators() if not op.is_special]

    def compare(self, got, expected, msg):
        self.assertEqual(got.device.type, "xpu", msg=msg)
        self.assertEqual(got.cpu(), expected, msg=msg, exact_dtype=True)

    def test_table(self):
        """Each operator: values, layouts, a broadcast, no elements, one, out=, in place."""
        operators = self.operators()
        self.assertGreater(len(operators), 250)
        torch._C._xpu_resetFallbackStatistics()
        with torch.backends.mkldnn.flags(enabled=False):  # its gelu of infinity is NaN
            for i, op in enumerate(operators):
                for dtype in self.some_dtypes(op, i):
                    for choice in op.choices(dtype):
                        self.check_operator(op, dtype, choice)
                self.assertEqual(fallbacks(), {}, msg=op.name)

    def some_dtypes(self, op, i):
        """Of a new result some(), else only one."""
        if op.out is not None or op.is_in_place:
            return [x for x in op.dtypes if x in USUAL][:1]
        return some(op.dtypes, i)

    def check_operator(self, op, dtype, choice):
        msg = f"{op.name} {dtype} {choice}"
        flat = op.tensors(dtype, choice)
        square = [x[:1024].view(32, 32) for x in flat]
        expected = on_cpu(lambda *x: op.run(op.new, choice, x), *square)
        device = [x.xpu() for x in square]
        if op.out is not None:
            out = torch.empty(32, 64, dtype=expected.dtype, device="xpu")[:, ::2]
            self.assertIs(op.run(op.call, choice, device, **{op.out: out}), out)
            self.compare(out, expected, msg)
            return
        if op.is_in_place:
            at = device[0].data_ptr()
            self.assertIs(op.run(op.call, choice, device), device[0])
            self.assertEqual(device[0].data_ptr(), at)
            self.compare(device[0], expected.to(dtype), msg)
            return
        cases = [
            flat,
            [x.t()[::2, 1:] for x in square],
            [x[1:] for x in flat],  # not aligned
            [square[0], *(x[3] for x in square[1:])],
            [square[0], *(x[:, 3:4] for x in square[1:])],
            [x[:0] for x in flat],
            [x[9] for x in flat],
        ]
        for case in cases if dtype in USUAL else cases[:2]:
            expected = on_cpu(lambda *x: op.run(op.new, choice, x), *case)
            self.compare(op.run(op.call, choice, [x.xpu() for x in case]), expected, msg)

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
        for dtype in (*types, torch.complex64):
            x = (torch.randn(2, 3, 4, 2, 3, 2, 5) * 9).to(dtype)
            y = x.permute(6, 2, 4, 0, 5, 1, 3)  # more dimensions than a kernel has
            self.compare(x.xpu().permute(6, 2, 4, 0, 5, 1, 3).contiguous(), y.contiguous(), "")
        copied = {k: v for k, v in fallbacks().items() if "copy" in k}
        self.assertEqual(copied, {})

    @unittest.skipUnless(LATER, "PyTorch 1.13 has no float8")
    def test_float8(self):
        """All of its numbers, and what is between two of them, nearer to one or the other."""
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            numbers = torch.arange(256, dtype=torch.uint8).view(dtype)
            for other in (torch.float, torch.half, torch.bfloat16, torch.long, torch.float8_e5m2):
                few = numbers[:112] if other == torch.long else numbers
                got, expected = (x.to(other).float() for x in (few.xpu(), few))
                self.assertEqual(got.cpu(), expected, rtol=0, atol=0)
            x = numbers.float().nan_to_num(nan=1.0)
            between = (x[1:] + x[:-1]) / 2
            ends = [torch.nextafter(between, torch.tensor(end)) for end in (-1e9, 1e9)]
            x = torch.cat([numbers.float(), between, *ends, torch.tensor(SPECIAL), x * 3e4])
            for other in (torch.float, torch.half, torch.bfloat16, torch.double):
                if has(other):
                    y = x.to(other)
                    bits = [z.to(dtype).cpu().view(torch.uint8) for z in (y.xpu(), y)]
                    for one in bits:  # a card may take the sign of NaN
                        one[y.isnan()] &= 127
                    self.assertEqual(*bits, msg=f"{other} to {dtype}")
            y = torch.full((3, 14), 2.0, dtype=dtype, device="xpu")
            y[:, ::2].copy_(x[:7].xpu())
            self.assertEqual(y[:, ::2].t().bfloat16().float().cpu(), x[:7, None].expand(7, 3))
            self.assertEqual(y[:, 1::2].float().sum().item(), 42)
        y = torch.full((5,), 40000, dtype=torch.uint16, device="xpu")
        self.assertEqual(y.cpu(), torch.full((5,), 40000, dtype=torch.uint16))
        self.assertEqual(fallbacks(), {})
        torch._C._xpu_resetFallbackStatistics()

    def test_fill(self):
        for dtype in (*(d for d in DTYPES.values() if has(d)), torch.complex64):
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

    def test_composed(self):
        """What is made of the operators of the table, and what is not tested by schema."""
        torch._C._xpu_resetFallbackStatistics()
        x, y = numbers(torch.float), numbers(torch.float, 1)
        mask = x > 1
        for function in (
            lambda x, y, m: x // y,
            lambda x, y, m: torch.floor_divide(x, y, out=torch.empty_like(x)),
            lambda x, y, m: x.clone().floor_divide_(2),
            lambda x, y, m: x % 3 + 7 % y,
            lambda x, y, m: torch.isnan(x) | torch.isinf(y) ^ torch.isfinite(x),
            lambda x, y, m: torch.isnan(x.nan_to_num(0).long()),
            lambda x, y, m: m.logical_not(),
            lambda x, y, m: x.clone().logical_not_(),
            lambda x, y, m: torch.logical_not(x, out=torch.empty_like(x)),
            lambda x, y, m: ~m & (y > 0),
            lambda x, y, m: 2**x,
            lambda x, y, m: torch.pow(2, x, out=torch.empty_like(x)),
            lambda x, y, m: torch.rsub(x, y, alpha=2),
            lambda x, y, m: torch.square(x) + x**0.5 - y**3,
            lambda x, y, m: x.masked_fill(m, 2),
            lambda x, y, m: x[:512].view(2, 256).clone().masked_fill_(m[:256], float("-inf")),
            lambda x, y, m: x.long().clone().masked_fill_(m, torch.tensor(7)),
            lambda x, y, m: x.clone().masked_fill_(m, y[10]),
            lambda x, y, m: torch.where(m, x, 2.5),
            lambda x, y, m: torch.where(m, x.half(), y.double()),
            lambda x, y, m: torch.where(m[:32], x[:32, None], y[None, :32]),
            lambda x, y, m: torch.nn.functional.logsigmoid(x),
            lambda x, y, m: torch.nn.functional.celu(x),
            lambda x, y, m: torch.nn.functional.relu6(x),
            lambda x, y, m: x.clamp(min=y, max=y + 1),
            lambda x, y, m: x.nan_to_num(0).int().clamp(-2.5, max=3),
            lambda x, y, m: torch.clamp(x, float("nan"), 1),
            lambda x, y, m: torch.lerp(x, y, 0.25),
            lambda x, y, m: torch.add(x, y).addcmul_(x, y.half(), value=0.5),
        ):
            expected = function(x[8:], y[8:], mask[8:])
            self.compare(function(x[8:].xpu(), y[8:].xpu(), mask[8:].xpu()), expected, "")
        self.assertEqual({k for k in fallbacks() if "nan_to_num" not in k}, set())
        with self.assertRaisesRegex(RuntimeError, "overflow"):
            torch.ones(2, dtype=torch.uint8).xpu().masked_fill_(mask[:2].xpu(), 300)

    def test_gradients(self):
        """The formulas of the gradients are made of operators that have kernels."""
        functional = torch.nn.functional
        torch._C._xpu_resetFallbackStatistics()
        for function in (
            lambda x: torch.relu(x * 2 - 1).exp() / (x.sigmoid() + 1),
            lambda x: functional.gelu(x) + functional.gelu(x, approximate="tanh"),
            lambda x: functional.silu(x) * functional.mish(x) + functional.hardswish(x),
            lambda x: functional.elu(x) + functional.elu(x + 1, inplace=True),
            lambda x: functional.leaky_relu(x, 0.2) + functional.hardtanh(x),
            lambda x: functional.softplus(x) + functional.logsigmoid(x),
            lambda x: functional.threshold(x, 0.1, 2) + torch.log1p(x.square()),
            lambda x: functional.softshrink(x) + functional.hardshrink(x),
            lambda x: x.abs() ** 1.5 + x**2 + 2**x + torch.pow(x.abs(), x),
            lambda x: torch.where(x > 0, x, x * 2).clamp(-0.5, 1) + x.clamp_min(0.2),
            lambda x: torch.maximum(x, -x) * torch.atan2(x, x + 3) + torch.hypot(x, x + 2),
            lambda x: x.erf() + x.tan() + x.tanh() * x.cosh() - x.expm1().log1p(),
            lambda x: torch.addcmul(x, x, x, value=2) + torch.addcdiv(x, x, x + 9),
            lambda x: torch.lerp(x, x * 2, 0.3) + torch.fmod(x, 0.4) + x.masked_fill(x > 1, 0),
        ):
            results = []
            for device in ("cpu", "xpu"):
                y = torch.linspace(-2, 2, 40).view(8, 5).to(device).requires_grad_()
                (gradient,) = torch.autograd.grad((function(y) ** 2).sum(), y, create_graph=True)
                gradient.sum().backward()
                results.append((gradient.detach().cpu(), y.grad.cpu()))
            self.assertEqual(*results)
        self.assertEqual(self.not_of_sums(), set())

    def not_of_sums(self):
        """What fell back but sums, and the tensor of zeros that has no memory."""
        return {x for x in fallbacks() if "sum" not in x}

    def test_training(self):
        """A step of a perceptron leaves only its products to the host."""
        for activation in (torch.nn.ReLU, torch.nn.GELU, torch.nn.SiLU):
            torch.manual_seed(3)
            model = torch.nn.Sequential(
                torch.nn.Linear(6, 16), activation(), torch.nn.Linear(16, 2)
            )
            x, target = torch.randn(9, 6), torch.randn(9, 2)
            results = []
            for device in ("cpu", "xpu"):
                copied = copy.deepcopy(model).to(device)
                inputs, wanted = x.to(device), target.to(device)
                torch._C._xpu_resetFallbackStatistics()
                for _ in range(3):
                    copied.zero_grad()
                    ((copied(inputs) - wanted) ** 2).sum().backward()
                    with torch.no_grad():
                        for parameter in copied.parameters():
                            parameter.add_(parameter.grad, alpha=-0.01)
                results.append([p.detach().cpu() for p in copied.parameters()])
            self.assertEqual(*results)
            left = {name.partition(".")[0] for name in self.not_of_sums()}
            self.assertLessEqual(left, {"aten::addmm", "aten::mm"})

    def test_samples(self):
        """PyTorch's own samples of the operators, a seeded choice, with gradients."""
        from torch.testing._internal.common_methods_invocations import op_db

        chooser = random.Random(7)
        names = {op.name.partition("::")[2].partition(".")[0] for op in self.operators()}
        checked = 0
        for info in op_db:
            if info.aten_name not in names or not info.op or info.variant_test_name:
                continue
            dtype = chooser.choice([d for d in (torch.float, torch.long) if d in info.dtypes])
            torch.manual_seed(11)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                samples = list(
                    info.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point)
                )
            for sample in chooser.sample(samples, min(4, len(samples))):
                self.check_sample(info, sample)
                checked += 1
        self.assertGreater(checked, 250)

    def check_sample(self, info, sample):
        results = []
        for device in ("cpu", "xpu"):
            moved = sample.transform(
                lambda x: (
                    x.detach().to(device).requires_grad_(x.requires_grad)
                    if isinstance(x, torch.Tensor)
                    else x
                )
            )
            result = info.op(moved.input, *moved.args, **moved.kwargs)
            leaves = [x for x in (moved.input, *moved.args) if isinstance(x, torch.Tensor)]
            leaves = [x for x in leaves if x.requires_grad]
            gradients = ()
            if leaves and info.supports_autograd and result.requires_grad:
                weights = torch.linspace(0.5, 1.5, result.numel()).view(result.shape).to(result)
                gradients = torch.autograd.grad((result * weights).sum(), leaves, allow_unused=True)
            results.append((result, *gradients))
        for cpu, xpu in zip(*results):
            moved = xpu.cpu() if isinstance(xpu, torch.Tensor) else xpu
            self.assertEqual(moved, cpu, msg=f"{info.name} {sample}", equal_nan=True)

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


TOLERANCE = {torch.half: 2e-3, torch.bfloat16: 2e-2, torch.float: 2e-5, torch.double: 1e-10}


def wide(x):
    return x.double() if x.dtype.is_floating_point else x


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelReductions(TestCase):
    """Reductions and what is made of them, compared with the CPU's of float64."""

    SHAPES = [(5,), (70001,), (40, 50), (3, 4, 5, 6), (1, 3, 1), (3000, 3), (900, 300), ()]
    FLOATING = [torch.float, torch.half, torch.bfloat16, torch.double]
    # the function of a tensor, of dimensions and keepdim, and whether it takes them all
    FLOATING_ONLY = {
        "mean": lambda x, *dim, **k: x.mean(*dim, **k),
        "var": lambda x, *dim, **k: x.var(*dim, unbiased=False, **k),
        "std": lambda x, *dim, **k: x.std(*dim, unbiased=False, **k),
        "var_mean": lambda x, *dim, **k: torch.var_mean(x, *dim, unbiased=False, **k),
        "std_mean": lambda x, *dim, **k: torch.std_mean(x, *dim, unbiased=False, **k),
    }
    NORMS = [0, 1, 2, 3, -1.5, float("inf"), -float("inf")]
    ALL = {
        "sum": lambda x, *dim, **k: x.sum(*dim, **k),
        "amax": lambda x, *dim, **k: x.amax(*dim, **k),
        "amin": lambda x, *dim, **k: x.amin(*dim, **k),
    }
    ONE_DIM = {
        "prod": lambda x, *dim, **k: (x / 2 if x.is_floating_point() else x).prod(*dim, **k),
        "any": lambda x, *dim, **k: x.any(*dim, **k),
        "all": lambda x, *dim, **k: x.all(*dim, **k),
        "max": lambda x, *dim, **k: x.max(*dim, **k),
        "min": lambda x, *dim, **k: x.min(*dim, **k),
        "argmax": lambda x, *dim, **k: x.argmax(*dim, **k),
        "argmin": lambda x, *dim, **k: x.argmin(*dim, **k),
        "aminmax": lambda x, *dim, **k: torch.aminmax(x, **dict(zip(["dim"], dim)), **k),
    }

    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def no_fallbacks(self):
        self.assertEqual(fallbacks(), {})

    def compare(self, got, expected, msg=None, like=None, factor=1):
        """`like`: the type that was computed in. `factor`: of the tolerance."""
        if isinstance(expected, tuple):
            self.assertEqual(len(got), len(expected), msg=msg)
            for one, other in zip(got, expected):
                self.compare(one, other, msg, like, factor)
            return
        self.assertEqual(got.device.type, "xpu", msg=msg)
        if like is not None and expected.dtype == torch.double:
            expected = expected.to(like)
        tolerance = TOLERANCE.get(got.dtype, 0) * factor
        self.assertEqual(
            got.cpu(), expected, rtol=tolerance, atol=tolerance, msg=msg, exact_dtype=True
        )

    def cases(self, shapes, dtypes):
        return itertools.product(shapes, types_of(self, dtypes))

    def input(self, shape, dtype):
        torch.manual_seed(len(shape))
        x = torch.rand(shape) * 3
        signed = dtype not in (torch.uint8, torch.bool) and not dtype.is_floating_point
        return (x - 1 if signed else x).to(dtype)

    def layouts(self, x):
        yield x
        if x.dim() > 1:
            yield x.transpose(0, -1)
            yield x[..., ::2]
            yield x[:, -1:].expand(x.shape)

    def check(self, function, x, *dims, **kwargs):
        expected = function(wide(x), *dims, **kwargs)
        msg = f"{x.dtype} {tuple(x.shape)} {x.stride()} {dims} {kwargs}"
        self.compare(function(x.xpu(), *dims, **kwargs), expected, msg, x.dtype)

    def test_dims(self):
        for shape, dtype in self.cases(self.SHAPES, DTYPES.values()):
            several = dict(self.ALL)
            several.update(self.FLOATING_ONLY if dtype.is_floating_point else {})
            for x in self.layouts(self.input(shape, dtype)):
                for function in several.values():
                    self.check(function, x)
                    self.check(function, x, -1)
                    self.check(function, x, [0], keepdim=True)
                    if x.dim() > 2:
                        self.check(function, x, (0, -1))
                        self.check(function, x, (1, 2), keepdim=True)
                for name, function in self.ONE_DIM.items():
                    if "arg" in name and dtype == torch.bool:
                        continue  # refused
                    if name == "aminmax" and x.dim() == 0:
                        continue  # PyTorch 1.13's CPU gives it a dimension
                    if name != "prod" or x.numel() < 100:
                        self.check(function, x)
                    if name != "prod" or x.dim() == 0 or x.size(0) < 100:
                        self.check(function, x, 0)
                    if name != "prod" or x.dim() == 0 or x.size(-1) < 100:
                        self.check(function, x, -1, keepdim=True)
                self.check(lambda x: torch.count_nonzero(x), x)
                self.check(lambda x: torch.count_nonzero(x, dim=-1), x)
        self.no_fallbacks()

    def test_norms(self):
        for shape, dtype in self.cases(self.SHAPES, self.FLOATING):
            for p, x in itertools.product(self.NORMS, self.layouts(self.input(shape, dtype))):
                x = x + 0.5
                if p in (1, 2, float("inf")) or x.dtype == torch.double or x.numel() < 1000:
                    self.check(lambda x: torch.linalg.vector_norm(x, p), x)
                self.check(lambda x: torch.linalg.vector_norm(x, p, dim=-1), x)
                self.check(lambda x: torch.norm(x, p, dim=0, keepdim=True), x)
        x = self.input((30, 20), torch.half)
        got = torch.linalg.vector_norm(x.xpu(), dim=0, dtype=torch.float)
        self.compare(got, torch.linalg.vector_norm(x.float(), dim=0))
        self.no_fallbacks()

    def test_variance(self):
        """It is not lost beside a mean that is much larger, nor in many elements."""
        torch.manual_seed(0)
        for shape, dim in (((300001,), 0), ((7, 5000), 1), ((5000, 7), 0)):
            x = torch.randn(shape) + 1000
            expected = x.double().var(dim)
            self.assertEqual(x.xpu().var(dim).cpu().double(), expected, rtol=1e-4, atol=0)
            for function in (torch.var_mean, torch.std_mean):
                both = zip(function(x.xpu(), dim), function(x.double(), dim))
                for got, expected in both:
                    self.assertEqual(got.cpu().double(), expected, rtol=1e-4, atol=0)
            self.check(lambda x: torch.var(x, dim, unbiased=True), self.input(shape, torch.float))
        x = torch.randn(6, 5)
        for function in (
            lambda x: torch.var(x, dim=1, correction=3),
            lambda x: torch.std(x, dim=(0, 1), correction=2, keepdim=True),
            lambda x: torch.std_mean(x, dim=None, correction=0),
            lambda x: torch.var(x.expand(4, 6, 5), (0, 2)),
        ):
            self.compare(function(x.xpu()), function(x.double()), like=torch.float)
        self.no_fallbacks()
        out = torch.empty(6, device="xpu")
        torch.var(x.xpu(), 1, out=out)  # by the host
        self.compare(out, x.var(1))
        self.assertTrue(torch.ones(1).xpu().var().isnan().item())

    def test_special_values(self):
        nan, inf = float("nan"), float("inf")
        rows = [[1, nan, 2, nan], [nan] * 4, [inf, -inf, 0, 1], [-inf] * 4, [-0.0, 0, -1, 1]]
        for dtype in types_of(self, self.FLOATING):
            x = torch.tensor(rows).to(dtype)
            for function in (*self.ALL.values(), *self.ONE_DIM.values()):
                self.check(function, x, 1)
                self.check(function, x, 0)
                self.check(function, x)
            for p in (0, 1, 2, inf, -inf):
                self.check(lambda x: torch.linalg.vector_norm(x, p, dim=1), x)
            self.check(lambda x: x[:2].var(1), x)
        # the first of equal ones, however many items look for it
        x = torch.zeros(200000)
        for at in (199999, 77777, 5):
            x[at] = 1
            self.assertEqual(x.xpu().argmax().item(), at)
            self.assertEqual((-x).xpu().argmin().item(), at)
        x[150000] = x[100000] = nan
        self.assertEqual(x.xpu().argmax().item(), 100000)
        self.assertEqual(x.xpu().view(2, -1).max(1).indices.tolist(), [5, 0])

    def test_empty(self):
        for function in (
            lambda x: x.sum(),
            lambda x: x.sum(0),
            lambda x: x.mean(1),
            lambda x: x.prod(0),
            lambda x: x.prod(),
            lambda x: x.any(0),
            lambda x: x.all(),
            lambda x: x.amax(1),
            lambda x: x.max(1),
            lambda x: x.argmin(1, keepdim=True),
            lambda x: torch.count_nonzero(x, 0),
            lambda x: torch.norm(x, dim=0),
            lambda x: torch.linalg.vector_norm(x, 0),
        ):
            self.compare(function(torch.ones(0, 3).xpu()), function(torch.ones(0, 3)))
        self.no_fallbacks()
        x = torch.ones(0, 3)
        self.compare(torch.var_mean(x.xpu(), 0), torch.var_mean(x, 0))

    def test_out_and_dtype(self):
        x = torch.rand(30, 20) * 5
        d = x.xpu()
        for function, dtype in (
            (lambda x, out: torch.sum(x, 0, dtype=torch.double, out=out), torch.double),
            (lambda x, out: torch.mean(x, 0, out=out), torch.float),
            (lambda x, out: torch.amax(x, 0, out=out), torch.float),
            (lambda x, out: torch.any(x > 4.9, 0, out=out), torch.bool),
            (lambda x, out: torch.all(x > 1, 0, out=out), torch.uint8),
            (lambda x, out: torch.argmax(x, 0, out=out), torch.long),
            (lambda x, out: torch.norm(x, 2, 0, out=out), torch.float),
            (lambda x, out: torch.prod(x.int(), 0, dtype=torch.int, out=out), torch.int),
        ):
            got = torch.empty(40, dtype=dtype, device="xpu")[::2]
            at = got.data_ptr()
            expected = torch.empty(20, dtype=dtype)
            self.assertIs(function(d, got), got)
            self.assertEqual(got.data_ptr(), at)
            function(x, expected)
            self.compare(got, expected)
        values, indices = torch.empty(20).xpu(), torch.empty(20, dtype=torch.long).xpu()
        torch.max(d, 0, out=(values, indices))
        self.compare((values, indices), tuple(torch.max(x, 0)))
        low, high = torch.empty(0).xpu(), torch.empty(0).xpu()
        torch.aminmax(d, dim=0, out=(low, high))
        self.compare((low, high), tuple(torch.aminmax(x, dim=0)))
        for function in (
            lambda x: x.sum(0, dtype=torch.half),
            lambda x: x.int().sum(dtype=torch.float),
            lambda x: x.mean((0, 1), dtype=torch.double),
            lambda x: x.int().mean(0, dtype=torch.float),
            lambda x: (x > 1).int().prod(1, dtype=torch.float),
            lambda x: x.norm(1, 0, dtype=torch.double),
        ):
            self.compare(function(d), function(x))
        self.no_fallbacks()

    def test_same_bits(self):
        x = torch.rand(300, 2000).xpu()
        for function in (torch.sum, torch.var, torch.norm, torch.prod, lambda x: x.mean(0)):
            first = function(x)
            for _ in range(5):
                self.assertEqual(function(x), first, rtol=0, atol=0)

    def test_gradients(self):
        for function in (
            lambda x: x.mean(1).sum(),
            lambda x: x.amax(1).sum(),
            lambda x: x.max(1).values.sum() + x.min(),
            lambda x: x.var(0).sum() + x.std(),
            lambda x: x.norm() + x.norm(1, 0).sum(),
            lambda x: (x + 3).prod(1).sum(),
            lambda x: x.logsumexp(1).sum(),
        ):
            results = []
            for device in ("cpu", "xpu"):
                torch.manual_seed(1)
                y = torch.randn(8, 5).to(device).requires_grad_()
                function(y).backward()
                results.append(y.grad.cpu())
            self.assertEqual(*results)

    def test_errors(self):
        """The texts are PyTorch's."""
        for function in (
            lambda x: x.sum(3),
            lambda x: x.sum((0, 0)),
            lambda x: x.int().mean(),
            lambda x: x[:0].max(),
            lambda x: x[:0].amax(0),
            lambda x: x[:0].argmax(),
            lambda x: (x > 0).argmin(0),
            lambda x: x[:0].max(0),
            lambda x: x.int().var(),
            lambda x: torch.norm(x.int(), dim=0),
            lambda x: torch.linalg.vector_norm(x[:0], float("inf")),
            lambda x: torch.amax(x, 0, out=torch.empty(4, dtype=torch.int).to(x.device)),
            lambda x: torch.any(x, 0, out=torch.empty(4).to(x.device)),
            lambda x: torch.var(x, (0, 0)),
            lambda x: torch.aminmax(x[:0]),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, IndexError)) as raised:
                    function(torch.randn(6, 4).to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)

    ROWS = [(5,), (40, 50), (3, 4, 5, 6), (3000, 3), (2, 20001), (20001, 2), (5, 1027), (900, 300)]
    ROWS += [(1, 1), ()]

    def check_gradients(self, function, *inputs, msg):
        """Results and gradients, computed in float64 by the CPU."""
        results = []
        for move in (lambda x: x.detach().double(), lambda x: x.detach().xpu()):
            moved = [move(x).requires_grad_() for x in inputs]
            result = function(*moved)
            weights = torch.linspace(-1, 1, result.numel(), dtype=torch.double)
            weights = weights.view(result.shape).to(inputs[0].dtype)
            result.backward(weights.to(result.device).to(result.dtype))
            results.append((result.detach(), *(x.grad for x in moved)))
        (expected, *grads), (got, *got_grads) = results
        self.compare(got, expected, msg, inputs[0].dtype)
        # they are made of a result that was rounded
        self.compare(tuple(got_grads), tuple(grads), msg, inputs[0].dtype, factor=8)

    def test_softmax(self):
        for shape, dtype in self.cases(self.ROWS, self.FLOATING):
            for x in self.layouts(self.input(shape, dtype)):
                dims = {0, -1, x.dim() // 2} if x.dim() else {0}
                for dim, function in itertools.product(dims, (torch.softmax, torch.log_softmax)):
                    msg = f"{function} {dtype} {shape} {x.stride()} {dim}"
                    self.check_gradients(lambda x: function(x, dim), x, msg=msg)
        self.no_fallbacks()
        inf = float("inf")
        rows = [[1, 2, -inf], [-inf] * 3, [inf, 1, 2], [inf, inf, 0], [float("nan"), 1, 2]]
        x = torch.tensor(rows + [[1e30, -1e30, 0], [800, 801, 802]])
        for function in (torch.softmax, torch.log_softmax):
            self.compare(function(x.xpu(), 1), function(x, 1))
            self.compare(function(x.xpu(), 0), function(x, 0))
            self.compare(function(x.xpu()[:0], 1), function(x[:0], 1))
            # float of half, which the CPU does not make
            got = function(x.half().xpu(), 1, dtype=torch.float)
            self.compare(got, function(x.half().float(), 1))
            y = torch.randn(4, 9)
            direct = getattr(torch, "_" + function.__name__)
            out = torch.empty(9, 4, device="xpu").t()
            self.assertIs(direct(y.xpu(), 1, False, out=out), out)
            self.compare(out, function(y, 1))
        self.no_fallbacks()
        y = torch.randn(3, 9000).xpu()
        first = y.softmax(1)
        self.assertEqual(y.softmax(1), first, rtol=0, atol=0)
        for device in ("cpu", "xpu"):
            with self.assertRaisesRegex(IndexError, "Dimension out of range"):
                y.to(device).softmax(2)

    def test_layer_norm(self):
        cases = [((40, 50), 1), ((3, 4, 5, 6), 2), ((2, 30001), 1), ((30001, 2), 1), ((7,), 1)]
        for (shape, dims), dtype in self.cases(cases, self.FLOATING):
            torch.manual_seed(0)
            x = (torch.randn(shape) * 2 + 1).to(dtype)
            w, b = (torch.randn(shape[-dims:]).to(dtype) for _ in range(2))
            size = w.shape
            scale = len(x.flatten()) // w.numel()
            norm = lambda x, *wb: F.layer_norm(x, size, *wb) / scale  # noqa: E731
            for y in (x, x.flip(-1).transpose(0, -1).contiguous().transpose(0, -1)):
                msg = f"{dtype} {shape} {y.stride()}"
                self.check_gradients(norm, y, w, b, msg=msg)
                self.check_gradients(norm, y, w, msg=msg)
                self.check_gradients(norm, y, msg=msg)
        # what is saved, and variance beside a large mean
        x = torch.randn(8, 1000) + 1000
        got = torch.native_layer_norm(x.xpu(), (1000,), None, None, 1e-5)
        expected = torch.native_layer_norm(x.double(), (1000,), None, None, 1e-5)
        for one, other in zip(got, expected):
            self.assertEqual(one.cpu(), other.float(), rtol=1e-4, atol=1e-3)
            self.assertEqual(one.shape, other.shape)
        for mask in itertools.product((False, True), repeat=3):
            w = torch.rand(1000)
            grads = torch.ops.aten.native_layer_norm_backward(
                x.xpu(), x.xpu(), (1000,), *got[1:], w.xpu(), w.xpu(), mask
            )
            self.assertEqual([grad is not None for grad in grads], list(mask))
        self.assertEqual([name for name in fallbacks() if "layer_norm" in name], [])
        texts = []
        for device in ("cpu", "xpu"):
            with self.assertRaises(RuntimeError) as raised:
                F.layer_norm(x.to(device), (999,))
            texts.append(str(raised.exception).splitlines()[0])
        self.assertEqual(*texts)
        # the host does what has several types, if it can, or no elements
        w = torch.rand(1000)
        try:
            expected = F.layer_norm(x.bfloat16(), (1000,), w, w)
        except RuntimeError:
            with self.assertRaisesRegex(RuntimeError, "expected scalar type"):
                F.layer_norm(x.bfloat16().xpu(), (1000,), w.xpu(), w.xpu())
        else:
            got = F.layer_norm(x.bfloat16().xpu(), (1000,), w.xpu(), w.xpu())
            self.assertEqual(got.cpu(), expected)
        self.assertEqual(F.layer_norm(x[:0].xpu(), (1000,)).shape, (0, 1000))

    @unittest.skipIf(torch.xpu.device_count() < 2, "needs two devices")
    def test_tensors_of_two_devices(self):
        x, y = (torch.rand(4, 9).to(f"xpu:{i}") for i in range(2))
        aten = torch.ops.aten
        for function in (
            lambda: F.layer_norm(x, (9,), y[0], y[0]),
            lambda: F.layer_norm(x, (9,), x[0], y[0]),
            lambda: aten._softmax_backward_data(x, y, 1, x.dtype),
            lambda: aten._log_softmax_backward_data(y, x, 1, x.dtype),
            lambda: aten.native_layer_norm_backward(
                x, y, (9,), x[:, :1], x[:, :1], None, None, (True, False, False)
            ),
            lambda: aten.native_layer_norm_backward(
                x, x, (9,), y[:, :1], x[:, :1], None, None, (True, False, False)
            ),
            lambda: torch.cat([x, y]),
            lambda: torch.sum(x, 1, out=y[:, 0]),
            lambda: torch.cumsum(x, 1, out=y),
            lambda: torch.where(x > 0, x, y),
            lambda: torch.addcmul(x, x, y),
            lambda: x.clamp(y),
            lambda: torch.lerp(x, x, y),
        ):
            with self.assertRaisesRegex(RuntimeError, "same device|to have device"):
                function()

    SCANS = {
        "cumsum": lambda x, dim: x.cumsum(dim),
        "cumprod": lambda x, dim: x.cumprod(dim),
        "cummax": lambda x, dim: x.cummax(dim),
        "cummin": lambda x, dim: x.cummin(dim),
        "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
    }

    def test_scans(self):
        for shape, dtype in self.cases(self.ROWS, DTYPES.values()):
            x = self.input(shape, dtype)
            if dtype in NARROW and x.numel() > 3000:
                continue
            ones = torch.tensor([1.0, 3.0] if dtype == torch.uint8 else [1.0, -1.0])
            factors = ones[(x * 2).long() % 2].to(dtype)
            same = (x.float() * 2).round().to(dtype) if dtype.is_floating_point else x
            for name, function in self.SCANS.items():
                given = {"cumprod": factors, "cummax": same, "cummin": same}.get(name, x)
                if name == "logcumsumexp" and not dtype.is_floating_point:
                    continue
                for i, y in enumerate(self.layouts(given)):
                    for dim in {0, -1, x.dim() // 2} if x.dim() else {0}:
                        if name == "cumsum" or i < 2:
                            self.check(function, y, dim)
        self.no_fallbacks()

    def test_scans_of_special_numbers(self):
        inf, nan = float("inf"), float("nan")
        rows = [[1, 2, -inf], [-inf] * 3, [inf, 1, 2], [inf, inf, 0], [1, nan, nan], [-inf, inf, 1]]
        x = torch.tensor(rows + [[800, 801, 802], [0, -0.0, 0]])
        for y in (x, x.repeat(1, 40)):  # by an item, and by a group
            for function, dim in itertools.product(self.SCANS.values(), (0, 1)):
                self.compare(function(y.xpu(), dim), function(y, dim))
        self.no_fallbacks()

    def test_scans_to_outputs(self):
        x = torch.rand(6, 500)
        flipped = lambda x: torch.empty_like(x).t().contiguous().t()  # noqa: E731
        for function in (
            lambda x: x.cumsum(1, dtype=torch.double),
            lambda x: x.int().cumsum(0, dtype=torch.int),
            lambda x: x.clone().cumsum_(1),
            lambda x: x.t().clone().t().cumsum_(1),
            lambda x: x[:0].cumsum(0),
            lambda x: torch.cumsum(x, 1, out=flipped(x)),
            lambda x: x.clone().cumprod_(1),
            lambda x: x.int().cumprod(1, dtype=torch.double),
            lambda x: torch.cumprod(x, 0, out=flipped(x)),
            lambda x: torch.cummax(x, 1, out=(flipped(x), flipped(x).long())),
            lambda x: torch.cummin(x, 0, out=(x[:0].clone(), x[:0].long())),
            lambda x: torch.logcumsumexp(x, 1, out=flipped(x)),
            lambda x: torch.logcumsumexp(x[:0], 1),
        ):
            self.compare(function(x.xpu()), function(x))
        self.no_fallbacks()
        long = torch.rand(100003).xpu()
        for name in ("cumsum", "cumprod", "logcumsumexp"):
            first = self.SCANS[name](long, 0)
            self.assertEqual(self.SCANS[name](long, 0), first, rtol=0, atol=0)
        for function in (
            lambda x: x.cumsum(2),
            lambda x: x.int().cumsum_(0, dtype=torch.long),
            lambda x: x.cumprod(-3),
            lambda x: x.cummax(2),
            lambda x: x.logcumsumexp(2),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, IndexError)) as raised:
                    function(x.to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)

    def test_scans_that_overlap(self):
        for function in (torch.cumsum, torch.cumprod, torch.logcumsumexp):
            x = torch.ones(5).xpu()
            with self.assertRaisesRegex(RuntimeError, "single memory location"):
                function(x[:-1], 0, out=x[1:])
            function(x, 0, out=x)  # all of it
            self.assertEqual(x.cpu(), function(torch.ones(5), 0))

    def test_gradients_of_scans(self):
        torch.manual_seed(0)
        x = torch.rand(4, 70) + 0.5
        with_zeros = x.clone()
        with_zeros[1, 3] = with_zeros[2, 5] = with_zeros[2, 60] = 0
        for name, function in self.SCANS.items():
            torch._C._xpu_resetFallbackStatistics()
            for dim in (0, 1):

                def values(x):
                    result = function(x, dim)
                    return result[0] if isinstance(result, tuple) else result

                self.check_gradients(values, x, msg=name)
                if name == "cumprod":
                    self.check_gradients(values, with_zeros, msg="cumprod of zeros")
            self.assertEqual(fallbacks(), {})

    def test_cat(self):
        x, y = torch.randn(4, 5), torch.randn(4, 3)
        for function in (
            lambda x, y: torch.cat([x, y], 1),
            lambda x, y: torch.cat([x.t(), y.t()], 0),
            lambda x, y: torch.cat([x, x[:0], x[1:]]),
            lambda x, y: torch.cat([torch.empty(0, device=x.device), x, x]),
            lambda x, y: torch.cat([torch.empty(0, device=x.device)], 1),
            lambda x, y: torch.cat([x[:0], torch.empty(0, device=x.device)], 1),
            lambda x, y: torch.cat([x.int(), y.half()], -1),
            lambda x, y: torch.cat([x[:, :3] > 0, y], 1),
            lambda x, y: torch.stack([x, x + 1], 1),
            lambda x, y: torch.hstack([y[::2], x[::2]]),
            lambda x, y: torch.cat([x, y], 1, out=torch.empty(8, 4, device=x.device).t()),
        ):
            self.compare(function(x.xpu(), y.xpu()), function(x, y))
        self.assertEqual([name for name in fallbacks() if "cat" in name], [])
        image = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
        got = torch.cat([image.xpu(), image.xpu()], 1)
        self.compare(got, torch.cat([image, image], 1))
        self.assertTrue(got.is_contiguous(memory_format=torch.channels_last))
        for function in (
            lambda x, y: torch.cat([x, y]),
            lambda x, y: torch.cat([]),
            lambda x, y: torch.cat([x, y], 2),
            lambda x, y: torch.cat([x[:2], x[2:]], out=x),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, IndexError, ValueError)) as raised:
                    function(x.to(device), y.to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)
        with self.assertRaisesRegex(RuntimeError, "same device"):
            torch.cat([x.xpu(), y], 1)
        self.check_gradients(lambda x, y: torch.cat([x, y], 1), x, y, msg="cat")


if __name__ == "__main__":
    run_tests()
