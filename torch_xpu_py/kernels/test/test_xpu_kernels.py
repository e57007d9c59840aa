# Owner(s): ["module: intel"]
"""Operators that the device computes itself, compared with the CPU's. The tests run in
a process of their own with TORCH_XPU_KERNELS=1, since a process decides once."""

import copy
import itertools
import os
import random
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
NARROW = (torch.half, torch.bfloat16)
USUAL = (torch.float, torch.long, torch.bool)
needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")


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
        self.dtypes = [DTYPES[one] for one in types if has(DTYPES[one])]
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
                result.append(x)
        return result

    def run(self, function, choice, tensors, **kwargs):
        rest = iter(tensors)
        args = [next(rest) if isinstance(x, tuple) else x for x in choice]
        keyword_only = {x.name: y for x, y in zip(self.arguments, args) if x.kwarg_only}
        args = [y for x, y in zip(self.arguments, args) if not x.kwarg_only]
        return function(*args, **keyword_only, **kwargs)


@needs_device
@unittest.skipIf(ON, "it is the process of the tests below")
class TestProcesses(TestCase):
    """Each starts processes that share one folder of kernels."""

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
        cache = os.path.join(self.folder.name, "kernels")
        env = {**os.environ, "TORCH_XPU_KERNELS": "1", "TORCH_XPU_KERNEL_CACHE": cache, **env}
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

    def test_kernels(self):
        # not run_tests(): where CI is set, it wants packages to write a report
        name = "test_xpu_kernels.TestKernels"
        self.assertIn("OK", self.run_python("-m", "unittest", name, CI="1"))

    ADD = (
        "import torch; x = torch.arange(8.).to('xpu'); "
        "print((x + x).cpu().tolist() == [2. * i for i in range(8)], "
        "sorted(torch._C._xpu_fallbackStatistics()))"
    )

    def files(self, folder):
        return {
            name: os.stat(os.path.join(folder, name)).st_ino
            for name in os.listdir(folder)
            if name.endswith(".kernels")
        }

    def test_cache(self):
        folder = os.path.join(self.folder.name, "kernels-of-add")
        add = lambda **env: self.run_python("-c", self.ADD, **env)  # noqa: E731
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

    def test_failure_falls_back(self):
        folder = os.path.join(self.folder.name, "kernels-that-fail")
        self.run_python("-c", self.ADD, TORCH_XPU_KERNEL_CACHE=folder)
        (name,) = self.files(folder)
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            data = file.read()

        def parts(data):
            while data:
                size, _, rest = data.partition(b"\n")
                yield rest[: int(size)]
                data = rest[int(size) :]

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
        printed = self.run_python("-c", self.ADD, TORCH_XPU_KERNEL_CACHE=folder)
        self.assertIn("True ['aten::add.Tensor']", printed)
        self.assertEqual(printed.count("cannot be compiled"), 1, msg=printed)
        self.assertIn("pointwise-f32-add_contiguous.log", printed)

    def test_off(self):
        printed = self.run_python("-c", self.ADD, TORCH_XPU_KERNELS="0")
        self.assertIn("True ['aten::add.Tensor']", printed)
        refused = "import torch; torch.ones(2).to('xpu')"
        with self.assertRaisesRegex(AssertionError, "must be '0' or '1'"):
            self.run_python("-c", refused, TORCH_XPU_KERNELS="yes")


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernels(TestCase):
    def operators(self):
        torch.empty(1, device="xpu")  # registers them
        return [Operator(line) for line in torch.ops.torch_xpu._pointwise_table()]

    def compare(self, got, expected, msg):
        self.assertEqual(got.device.type, "xpu", msg=msg)
        self.assertEqual(got.cpu(), expected, msg=msg, exact_dtype=True)

    def test_table(self):
        """Each operator: values, layouts, a broadcast, no elements, one, out=, in place."""
        operators = self.operators()
        self.assertGreater(len(operators), 250)
        torch._C._xpu_resetFallbackStatistics()
        for i, op in enumerate(operators):
            for dtype in self.some_dtypes(op, i):
                for choice in op.choices(dtype):
                    with torch.backends.mkldnn.flags(enabled=False):  # its gelu of inf is NaN
                        self.check_operator(op, dtype, choice)
            self.assertEqual(fallbacks(), {}, msg=op.name)

    def some_dtypes(self, op, i):
        """Of a new result all, on the CPU device one of the less usual; else only one."""
        usual = [x for x in op.dtypes if x in USUAL]
        others = [x for x in op.dtypes if x not in USUAL]
        if op.out is not None or op.is_in_place:
            return usual[:1]
        if torch.xpu.get_device_properties(0).type == "cpu" and others:
            return [*usual, others[i % len(others)]]
        return op.dtypes

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
        return {x for x in fallbacks() if "sum" not in x and x != "aten::_efficientzerotensor"}

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


if __name__ == "__main__":
    run_tests()
