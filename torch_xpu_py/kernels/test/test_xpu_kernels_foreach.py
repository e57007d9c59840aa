# Owner(s): ["module: intel"]
"""Lists of tensors, optimizers and the scale of gradients by kernels. As those of
test_xpu_kernels.py, the tests run in a process with TORCH_XPU_KERNELS=1."""

import itertools
import unittest

import test_xpu_kernels as kernels
import torch
from torch.testing._internal.common_utils import run_tests, TestCase

FLOATING = [torch.float, torch.half, torch.bfloat16, torch.double]
INF, NAN = float("inf"), float("nan")
# PyTorch 1.13 has no fused optimizer but one function, and no more foreach than then
LATER = hasattr(torch, "_fused_adamw_")
needs_later = unittest.skipIf(not LATER, "PyTorch 1.13 has none")


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestForeachProcesses(kernels.Processes):
    def test_foreach(self):
        self.run_class("TestKernelForeach", **kernels.WITHOUT_VECTORS)

    def test_optimizers(self):
        self.run_class("TestKernelOptimizers", **kernels.WITHOUT_VECTORS)


class Lists(TestCase):
    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def no_fallbacks(self, *but):
        found = {name for name in kernels.fallbacks() if not name.startswith(but)}
        self.assertEqual(found, set())

    def dtypes(self):
        return [dtype for dtype in FLOATING if kernels.has(dtype)]

    def tensors(self, dtype, seed=0):
        """Of several layouts; without elements, with one, with many, not aligned."""
        torch.manual_seed(seed)
        x = torch.rand(17, 9) + 0.1
        tensors = [
            x[0],
            x.t(),
            x[1, 1:],
            torch.rand(0, 3),
            torch.rand(()) + 0.1,
            torch.rand(5003) + 0.1,
            torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        ]
        return [x.to(dtype) for x in tensors]

    def compare(self, got, expected, msg=None, factor=1):
        self.assertEqual(len(got), len(expected), msg=msg)
        for one, other in zip(got, expected):
            self.assertEqual(one.device.type, "xpu", msg=msg)
            tolerance = kernels.TOLERANCE[one.dtype] * factor
            self.assertEqual(
                one.cpu(), other.to(one.dtype), rtol=tolerance, atol=tolerance, msg=msg
            )

    def calls(self, function):
        """The operators that it calls, and those that these call."""
        with torch.autograd.profiler.profile() as profile:
            function()
        return {event.name for event in profile.function_events}


def moved(x):
    """To the device, with the strides that it has, and the place in memory."""
    if isinstance(x, list):
        return [moved(one) for one in x]
    if not isinstance(x, torch.Tensor):
        return x
    offset = x.storage_offset() % 4
    size = sum((a - 1) * b for a, b in zip(x.shape, x.stride())) + 1 if x.numel() else 0
    there = torch.empty(offset + size, dtype=x.dtype, device="xpu")
    return there.as_strided(x.shape, x.stride(), offset).copy_(x)


def wide(x):
    if isinstance(x, list):
        return [wide(one) for one in x]
    return x.double() if isinstance(x, torch.Tensor) else x


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelForeach(Lists):
    def operators(self):
        torch.empty(1, device="xpu")  # registers them
        names = torch.ops.torch_xpu._foreach_table()
        self.assertGreater(len(names), 70)
        return names

    def arguments(self, schema, dtype):
        """With numbers of Python for those of the schema."""
        seeds = itertools.count()
        numbers = iter((0.75, 0.5))
        for argument in schema.arguments:
            kind = str(argument.type)
            if "List[Tensor]" in kind or "Tensor[]" in kind:
                yield argument, self.tensors(dtype, next(seeds))
            elif "List" in kind or "[]" in kind:
                yield argument, [0.25 * (i + 1) for i in range(len(self.tensors(dtype)))]
            elif "Tensor" in kind:
                yield argument, torch.tensor(0.75, dtype=dtype)
            elif argument.name == "alpha" and "Tensor" in schema.overload_name:
                yield argument, 1
            else:
                yield argument, next(numbers)

    def run_operator(self, call, values):
        args = [x for argument, x in values if not argument.kwarg_only]
        return call(*args, **{argument.name: x for argument, x in values if argument.kwarg_only})

    def some_dtypes(self, i):
        """All, on the CPU device one, by the number of the operator."""
        if torch.xpu.get_device_properties(0).type != "cpu":
            return self.dtypes()
        usual, *others = self.dtypes()
        return [usual if i % 4 else others[i // 4 % len(others)]]

    def test_table(self):
        """Each operator, compared with the CPU's of float64; all by kernels for lists."""
        cases = []
        bases = []
        for name in self.operators():
            base, _, overload = name.partition("::")[2].partition(".")
            call = getattr(getattr(torch.ops.aten, base), overload or "default")
            bases.extend([] if base.rstrip("_") in bases else [base.rstrip("_")])
            for dtype in self.some_dtypes(bases.index(base.rstrip("_"))):
                values = list(self.arguments(call._schema, dtype))
                there = [(argument, moved(x)) for argument, x in values]
                cases.append((f"{name} {dtype}", call, values, there))
        results = []
        called = self.calls(
            lambda: results.extend(self.run_operator(call, there) for _, call, _, there in cases)
        )
        for (msg, call, values, there), got in zip(cases, results):
            here = [(argument, wide(x)) for argument, x in values]
            expected = self.run_operator(call, here)
            if expected is None:
                got, expected = there[0][1], here[0][1]
            self.compare(got, expected, msg)
            for one, tensor in zip(got, values[0][1]):
                self.assertEqual(one.stride(), tensor.stride(), msg=msg)
        single = {x for x in called if x.startswith("aten::") and "foreach" not in x}
        made = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::copy_"}
        self.assertLessEqual(single, {*made, "aten::as_strided"})
        self.no_fallbacks()

    def test_special_values(self):
        x = [torch.tensor([NAN, INF, -INF, -0.0, 0.0, 1.0, -1.5]), torch.tensor([-2.0, NAN])]
        y = [torch.tensor([1.0, NAN, INF, 0.0, -0.0, NAN, INF]), torch.tensor([NAN, 0.0])]
        a, b = ([t.xpu() for t in z] for z in (x, y))
        for function in (
            torch._foreach_abs,
            torch._foreach_sqrt,
            torch._foreach_round,
            lambda x: torch._foreach_add(x, NAN),
        ):
            self.compare(function(a), function(x))
        for function in (torch._foreach_maximum, torch._foreach_minimum, torch._foreach_div):
            self.compare(function(a, b), function(x, y))
        torch._foreach_zero_(a)
        self.compare(a, [torch.zeros_like(t) for t in x])
        self.no_fallbacks()

    def test_one_by_one(self):
        """What no kernel takes: PyTorch's function, and its errors."""
        x = [torch.rand(3, 4), torch.rand(5), torch.rand(2)]
        for function in (
            lambda x: torch._foreach_add(x[:1], 1.5),
            lambda x: torch._foreach_add([x[0], x[1].double()], 1.5),
            lambda x: torch._foreach_add([t.int() for t in x], 2),
            lambda x: torch._foreach_mul([t.int() for t in x], 2.5),
            lambda x: torch._foreach_mul([t.half() for t in x], x),
            lambda x: torch._foreach_add(x, 2j),
            lambda x: torch._foreach_sub(x, True),
            lambda x: torch._foreach_sub(x, [1.0, True, 2.0]),
            lambda x: torch._foreach_sub(x, x, alpha=True),
            lambda x: torch._foreach_add(x, True),
            lambda x: torch._foreach_exp([t[..., ::2] for t in x]),
            lambda x: torch._foreach_add(x, [x[0].t().contiguous().t(), *x[1:]]),
            lambda x: torch._foreach_add(x, [t[:1] for t in x]),
            lambda x: torch._foreach_addcmul(x, x, [t.double() for t in x]),
            lambda x: torch._foreach_neg([t > 0.5 for t in x]),
            lambda x: torch._foreach_add(x, x[:2]),
            lambda x: torch._foreach_add(x, [1.0]),
            lambda x: torch._foreach_add([], 1.0),
            lambda x: torch._foreach_add_([x[1][1:], x[2][1:]], [x[1][:-1], x[2][:-1]]),
            lambda x: torch._foreach_add_([t.expand(2, 2) for t in x[2:] * 2], 1.0),
        ):
            results = []
            for device in ("cpu", "xpu"):
                try:
                    got = function([t.clone().to(device) for t in x])
                    results.append([(t.cpu(), t.dtype) for t in got])
                except (RuntimeError, ValueError) as error:
                    results.append(str(error).splitlines()[0])
            self.assertEqual(*results)

    @needs_later
    def test_a_number_among_the_results(self):
        """The first results must not change the number for the rest."""
        results = []
        for device in ("cpu", "xpu"):
            x = torch.arange(1.0, 9.0).to(device)
            with self.assertRaises(RuntimeError) as caught:
                torch._foreach_mul_([x[:4], x[4:]], x[1])
            results.append(str(caught.exception).splitlines()[0])
        self.assertEqual(*results)
        torch._C._xpu_resetFallbackStatistics()

    @unittest.skipIf(torch.xpu.device_count() < 2, "needs two devices")
    def test_two_devices(self):
        x = [torch.rand(3).to(f"xpu:{i}") for i in (0, 1)]
        for got, tensor in zip(torch._foreach_add(x, 1.5), x):
            self.assertEqual(got.device, tensor.device)
            self.assertEqual(got.cpu(), tensor.cpu() + 1.5)
        y = [torch.rand(3).to("xpu:1"), torch.rand(5).to("xpu:1")]  # not the current one
        self.assertEqual(torch._foreach_neg(y)[1].cpu(), -y[1].cpu())
        with self.assertRaisesRegex(RuntimeError, "same device"):
            torch._foreach_add(x, x[::-1])

    def test_norm(self):
        for dtype, order in itertools.product(self.dtypes(), (1, 2, INF, 2.0, 3)):
            if order == 3 and dtype != torch.float:
                continue
            x = [t - 0.5 for t in self.tensors(dtype) if t.numel()]
            if dtype == torch.half and order == 1:
                x = [t for t in x if t.numel() < 1000]
            expected = [torch.linalg.vector_norm(t.double(), order) for t in x]
            self.compare(torch._foreach_norm(moved(x), order), expected, f"{dtype} {order}")
        x = [torch.ones(9), torch.ones(70000)]
        x[1][69999] = NAN
        x[0][3] = -INF
        a = [t.xpu() for t in x]
        for order in (1, 2, INF):
            self.compare(torch._foreach_norm(a, order), [t.norm(order) for t in x])
        self.assertNotIn("aten::linalg_vector_norm", self.calls(lambda: torch._foreach_norm(a)))
        self.no_fallbacks()
        empty = [torch.ones(0), torch.ones(3)]
        got = torch._foreach_norm([t.xpu() for t in empty])
        self.compare(got, torch._foreach_norm(empty))
        y = [torch.rand(300, 300).xpu() for _ in range(3)]
        first = torch._foreach_norm(y)
        for _ in range(5):
            for one, other in zip(torch._foreach_norm(y), first):
                self.assertEqual(one, other, rtol=0, atol=0)
        if LATER:
            half = [t.half() for t in x]
            got = torch._foreach_norm(moved(half), 2, dtype=torch.float)
            self.compare(got, torch._foreach_norm(half, 2, dtype=torch.float))

    def test_clip(self):
        weights = [torch.rand(4, 5), torch.rand(7)]
        totals = []
        for device in ("cpu", "xpu"):
            parameters = [w.clone().to(device).requires_grad_() for w in weights]
            for w in parameters:
                w.grad = torch.full_like(w, 3)
            total = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            totals.append([total.cpu(), *(w.grad.cpu() for w in parameters)])
        self.assertEqual(*totals)
        self.no_fallbacks()

    @needs_later
    def test_copy(self):
        for source, target in itertools.product(self.dtypes(), self.dtypes()):
            if torch.float not in (source, target) and source != torch.half:
                continue
            x = self.tensors(source)
            got = [torch.empty_like(t, dtype=target) for t in moved(x)]
            called = self.calls(lambda: torch._foreach_copy_(got, moved(x)))
            self.assertIn("aten::_foreach_copy_", called)
            for one, tensor in zip(got, x):
                self.assertEqual(one.cpu(), tensor.to(target), rtol=0, atol=0)
        for target in (torch.int, torch.cfloat):
            got = [torch.empty(5, dtype=target).xpu() for _ in range(2)]
            torch._foreach_copy_(got, [torch.full((5,), 3.0).xpu()] * 2)
            self.assertEqual(got[1].cpu(), torch.full((5,), 3).to(target))
        got = [torch.empty(5).xpu() for _ in range(2)]
        torch._foreach_copy_(got, [torch.ones(5), torch.ones(1)])  # of the CPU
        self.assertEqual(got[1].cpu(), torch.ones(5))

    def test_streams(self):
        """The table lives until the launch has run."""
        x = [torch.zeros(1 << n).xpu() for n in (18, 14, 1, 14, 15, 16, 17)]
        torch.xpu.synchronize()
        with torch.xpu.stream(torch.xpu.Stream()):
            for _ in range(100):
                torch._foreach_add_(x, list(range(7)))
            got = [t.cpu() for t in x]
        for i, t in enumerate(got):
            self.assertEqual(t, torch.full_like(t, 100 * i))


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelOptimizers(Lists):
    def train(self, device, make):
        torch.manual_seed(1)
        layers = torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)
        model = torch.nn.Sequential(*layers).to(device)
        optimizer = make(model.parameters())
        x, y = torch.randn(9, 6).to(device), torch.randn(9, 3).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).sum().backward()
            optimizer.step()
        return model, optimizer

    def check(self, make, plain):
        here = self.train("cpu", make if LATER else plain)  # whose CPU has none that is fused
        there = self.train("xpu", make)
        self.compare(list(there[0].parameters()), list(here[0].parameters()))

    OPTIONS = {
        "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True, "betas": (0.0, 0.9)}],
        "AdamW": [{}, {"amsgrad": True, "weight_decay": 0.3, "eps": 0.01}],
        "SGD": [
            {"lr": 0.01},
            {"lr": 0.01, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1},
            {"lr": 0.01, "momentum": 0.5, "nesterov": True, "maximize": True},
        ],
        "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "maximize": True}],
    }

    def test_training(self):
        """Fused, of lists and one by one: the CPU's numbers, and nothing but products on
        the host."""
        for name, options in self.OPTIONS.items():
            ways = [{"foreach": True}, {"foreach": False}, {"fused": True}]
            ways = ways if LATER or name == "Adam" else ways[:2]
            for option, way in itertools.product(options, ways):
                cls = getattr(torch.optim, name)
                with self.subTest(f"{name} {option} {way}"):
                    self.check(lambda p: cls(p, **option, **way), lambda p: cls(p, **option))
        self.no_fallbacks("aten::addmm", "aten::mm")

    @needs_later
    @unittest.skipIf(kernels.ON_CPU, "there torch.xpu.graph raises")
    def test_graph(self):
        """A whole training step, with the optimizer and the scale of gradients: a replay does
        what an eager step does, also when other work has used the memory in between."""
        for name, options in (("AdamW", {"capturable": True}), ("SGD", {"momentum": 0.9}), ("Adagrad", {})):
            for way in ({"fused": True}, {"foreach": True}):
                results = []
                for graphed in (False, True):
                    torch.manual_seed(0)
                    weights = [torch.randn(n, device="xpu", requires_grad=True) for n in (5, 300, 1)]
                    optimizer = getattr(torch.optim, name)(weights, lr=0.1, **options, **way)

                    def step():
                        for weight in weights:
                            weight.grad = weight.detach() * 2
                        torch._foreach_mul_([weight.grad for weight in weights], 0.5)
                        optimizer.step()

                    step()
                    if graphed and not (name == "Adagrad" and "foreach" in way):
                        graph = torch.xpu.XPUGraph()
                        with torch.xpu.graph(graph):
                            step()
                        again = graph.replay
                    else:
                        again = step
                    for _ in range(3):
                        again()
                        torch._foreach_add_([torch.ones(99, device="xpu") for _ in range(50)], 1)
                    results.append([weight.detach().cpu() for weight in weights])
                self.assertEqual(*results, msg=f"{name} {way}")

    @needs_later
    def test_default(self):
        """Lists are chosen for XPU, as for CUDA."""
        model, optimizer = self.train("xpu", torch.optim.Adam)
        self.assertIn("aten::_foreach_add_", self.calls(optimizer.step))

    @needs_later
    def test_types_and_rates(self):
        for dtype, name in zip(itertools.cycle(self.dtypes()[1:]), self.OPTIONS):
            results = []
            for device in ("cpu", "xpu"):
                torch.manual_seed(1)
                parameters = [torch.rand(n).to(dtype).to(device) for n in (5, 300)]
                # the CPU's own SGD of float16 is wrong behind the first vector
                fused = (name, device) != ("SGD", "cpu")
                optimizer = getattr(torch.optim, name)(parameters, lr=0.01, fused=fused)
                for _ in range(2):
                    for p in parameters:
                        p.grad = torch.rand(p.shape).to(dtype).to(device)
                    optimizer.step()
                results.append(parameters)
            self.compare(results[1], results[0], f"{dtype} {name}", 4)
        for name in self.OPTIONS:
            cls = getattr(torch.optim, name)
            for device in ("cpu", "xpu"):  # of the rate
                rate = torch.tensor(0.02)
                here, there = (
                    self.train(to, lambda p: cls(p, lr=lr, fused=True))
                    for to, lr in (("cpu", rate), ("xpu", rate.to(device)))
                )
                self.compare(list(there[0].parameters()), list(here[0].parameters()), name)
        self.no_fallbacks("aten::addmm", "aten::mm")

    def adam(self, **kwargs):
        torch.manual_seed(2)
        lists = [[torch.rand(n).xpu() for n in (5, 3000)] for _ in range(5)]
        steps = [torch.tensor(3.0).xpu() for _ in range(2)]
        rates = {"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.1, "eps": 1e-8}
        call = torch.ops.aten._fused_adam_.default
        call(*lists, steps, **rates, amsgrad=True, maximize=False, **kwargs)
        return lists

    def test_adam(self):
        """The function itself, which PyTorch 1.13 has for CUDA alone."""
        parameters, grads, averages, squares, largest = self.adam()
        torch.manual_seed(2)
        old = [[torch.rand(n).double() for n in (5, 3000)] for _ in range(5)]
        for i, (p, g, m, v, most) in enumerate(zip(*old)):
            g = g + 0.1 * p
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            most = torch.maximum(most, v)
            root = (most / (1 - 0.999**3)).sqrt() + 1e-8
            expected = [p - 0.1 / (1 - 0.9**3) * m / root, m, v, most]
            self.compare([x[i] for x in (parameters, averages, squares, largest)], expected)
        self.no_fallbacks()

    def test_infinity(self):
        """found_inf leaves all as it was; grad_scale divides, also in the list."""
        one, none = torch.ones(1).xpu(), torch.zeros(1).xpu()
        torch.manual_seed(2)
        old = [[torch.rand(n) for n in (5, 3000)] for _ in range(5)]
        for got, expected in zip(self.adam(found_inf=one), old):
            self.compare(got, expected)
        scaled = self.adam(found_inf=none, grad_scale=one * 4)
        self.compare(scaled[1], [g / 4 for g in old[1]])
        self.no_fallbacks()

    @needs_later
    def test_infinite_parameters(self):
        """Stay: without weight decay they are not read for the gradient."""
        for name, decay in (("SGD", 0), ("Adam", 0), ("AdamW", 0), ("AdamW", 0.01), ("Adagrad", 0)):
            results = []
            for device in ("cpu", "xpu"):
                parameters = [torch.tensor([-INF, 1.0, INF], device=device) for _ in range(5)]
                for one in parameters:
                    one.requires_grad_().grad = torch.tensor([0, 0.5, 0.5], device=device)
                kind = getattr(torch.optim, name)
                kind(parameters, lr=0.1, weight_decay=decay, fused=True).step()
                results.append([one.detach().cpu() for one in parameters])
            self.assertEqual(*results, msg=name)

    def test_unscale(self):
        unscale = torch._amp_foreach_non_finite_check_and_unscale_
        for dtype, bad in itertools.product(self.dtypes(), (None, INF, -INF, NAN)):
            x = self.tensors(dtype)
            if bad is not None:
                x[5][5002] = bad
            found, factor = torch.zeros(1).xpu(), torch.full((1,), 0.25).xpu()
            got = moved(x)
            unscale(got, found, factor)
            self.assertEqual(found.item(), 0.0 if bad is None else 1.0)
            self.compare(got, [t * 0.25 for t in x])
        self.no_fallbacks()

    def test_update_scale(self):
        def update(scale, steps, found):
            scale, found = torch.full((1,), scale).xpu(), torch.full((1,), found).xpu()
            tracker = torch.tensor([steps], dtype=torch.int).xpu()
            self.assertIs(torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 3), scale)
            return scale.item(), tracker.item()

        self.assertEqual(update(8.0, 0, 0.0), (8.0, 1))
        self.assertEqual(update(8.0, 2, 0.0), (16.0, 0))
        self.assertEqual(update(8.0, 2, 1.0), (4.0, 0))
        self.assertEqual(update(3e38, 2, 0.0), (torch.tensor(3e38).item(), 0))
        self.no_fallbacks()

    @needs_later
    def test_scaler(self):
        """Steps with infinities among them are left out, and nothing waits."""
        results = []
        for device, fused in itertools.product(("cpu", "xpu"), (False, True)):
            torch.manual_seed(1)
            model = torch.nn.Linear(4, 3).to(device)
            optimizer = torch.optim.Adam(model.parameters(), fused=fused)
            scaler = torch.amp.GradScaler(device, init_scale=16.0, growth_interval=2)
            for i in range(5):
                optimizer.zero_grad()
                loss = (model(torch.ones(2, 4).to(device)) ** 2).sum()
                scaler.scale(loss * (INF if i == 2 else 1)).backward()
                scaler.step(optimizer)
                scaler.update()
            results.append([scaler.get_scale(), *(p.detach().cpu() for p in model.parameters())])
        for result in results[1:]:
            self.assertEqual(result, results[0])

    def test_waits_for_nothing(self):
        parameters = list(torch.nn.Linear(6, 3).to("xpu").parameters())
        for p in parameters:
            p.grad = torch.ones_like(p)
        one = torch.ones(1).xpu()
        optimizers = [torch.optim.SGD(parameters, lr=0.1, foreach=True, momentum=0.9)]
        if LATER:
            optimizers.append(torch.optim.Adam(parameters, fused=True))
            optimizers.append(torch.optim.AdamW(parameters, lr=one[0], fused=True))
            optimizers.append(torch.optim.Adagrad(parameters, fused=True))
        self.addCleanup(torch._C._xpu_set_sync_debug_mode, 0)
        for optimizer in optimizers:
            optimizer.step()
            torch._C._xpu_set_sync_debug_mode(2)
            torch._amp_foreach_non_finite_check_and_unscale_([p.grad for p in parameters], one, one)
            optimizer.step()
            torch._C._xpu_set_sync_debug_mode(0)


if __name__ == "__main__":
    run_tests()
