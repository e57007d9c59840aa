# Owner(s): ["module: intel"]
"""Tensors on XPU: memory, copies, the fallback to the CPU's kernels, random numbers, and
what PyTorch does with tensors of any device."""

import copy
import gc
import io
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
import unittest
from multiprocessing.reduction import ForkingPickler

import torch
from torch.testing._internal.common_utils import run_tests, slowTest, TestCase
from xpu_host_memory import (
    has_host_memory,
    needs_host_memory,
    on_cpu_and_xpu,
    storage_of,
)

COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0
TIMEOUT = 300  # seconds

needs_device = unittest.skipIf(COUNT == 0, "there is no device")
needs_two = unittest.skipIf(COUNT < 2, "there is one device")


class OnXpu(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.ones(2, device="xpu")


@needs_device
class TestMemory(TestCase):
    def test_factories(self):
        for tensor in (
            torch.empty(2, 3, device="xpu"),
            torch.empty_strided((2, 3), (1, 2), device="xpu"),
            torch.zeros(2, 3, device="xpu"),
            torch.full((2, 3), 7, device="xpu"),
            torch.arange(6, device="xpu").view(2, 3),
            torch.tensor([[1, 2, 3], [4, 5, 6]], device="xpu"),
            torch.ones(2, 3).to("xpu"),
            torch.ones(2, 3).xpu(),
        ):
            self.assertEqual(tensor.device, torch.device("xpu", 0))
            self.assertEqual(tensor.shape, (2, 3))
            self.assertTrue(tensor.is_xpu)
        self.assertEqual(torch.empty_strided((2, 3), (1, 2), device="xpu").stride(), (1, 2))
        channels_last = torch.empty(
            1, 2, 3, 4, device="xpu", memory_format=torch.channels_last
        )
        self.assertTrue(channels_last.is_contiguous(memory_format=torch.channels_last))

    def test_a_pinned_or_a_sparse_layout_is_refused_where_there_is_none(self):
        with self.assertRaisesRegex(RuntimeError, "Only dense CPU tensors can be pinned"):
            torch.empty(2, device="xpu", pin_memory=True)

    def test_memory_is_the_allocators(self):
        gc.collect()
        before = torch.xpu.memory_allocated()
        x = torch.empty(1000, device="xpu")
        y = x + 1
        self.assertGreaterEqual(torch.xpu.memory_allocated() - before, 2 * 4000)
        del x, y
        self.assertEqual(torch.xpu.memory_allocated(), before)

    def test_a_result_is_resized(self):
        out = torch.empty(0, device="xpu")
        torch.add(torch.ones(3, device="xpu"), 1, out=out)
        self.assertEqual(out.cpu(), torch.full((3,), 2.0))

    def test_an_empty_view_that_is_written_keeps_the_storage(self):
        """Forward gradients compare the sizes of storages."""
        for count, offset in ((0, 1), (0, 8), (4, 4), (4, 9)):
            x = torch.empty(count, device="xpu")
            x.as_strided((0,), (1,), offset).mul_(2)
            torch.add(x[:0], 1, out=x.as_strided((0,), (1,), offset))
            self.assertEqual(storage_of(x).nbytes(), 4 * count)
        x = torch.empty(0, dtype=torch.complex128, device="xpu")
        x.imag.mul_(2)
        self.assertEqual(storage_of(x).nbytes(), 0)

    def test_writing_many_rows_takes_no_command_for_each(self):
        whole = torch.zeros(3 << 18, device="xpu")

        def seconds(write):
            torch.xpu.synchronize()
            began = time.perf_counter()
            write()
            torch.xpu.synchronize()
            return time.perf_counter() - began

        def a_command_for_every_eighth():
            for i in range(1 << 14):
                whole[i : i + 1].zero_()

        rows = whole.view(512, 512, 3)
        parts = {"one pitch": rows[:, ::2, 0], "two pitches": rows[:, :256, 0]}
        for name, x in parts.items():
            with self.subTest(name):
                best = min(seconds(lambda: x.add_(1)) for _ in range(5))
                self.assertLess(best, seconds(a_command_for_every_eighth))

    def test_resize_keeps_what_is_there(self):
        x = torch.arange(4.0, device="xpu")
        x.resize_(8)
        self.assertEqual(x[:4].cpu(), torch.arange(4.0))
        storage_of(x).resize_(4)
        self.assertEqual(storage_of(x).nbytes(), 4)

    def test_set(self):
        x = torch.arange(6.0, device="xpu")
        y = torch.empty(0, device="xpu").set_(x)
        self.assertEqual(y.data_ptr(), x.data_ptr())
        y.set_(x.storage(), 1, (2, 2), (2, 1))
        self.assertEqual(y.cpu(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        y.set_()
        self.assertEqual((y.numel(), y.device.type), (0, "xpu"))

    def test_views_share_memory(self):
        x = torch.zeros(4, 6, device="xpu")
        for view in (
            x.view(24),
            x.t(),
            x[1:3, ::2],
            x.unfold(0, 2, 1),
            x.as_strided((2, 2), (1, 6)),
            x.reshape(2, 12),
            x.diagonal(),
            x.view(torch.int32),
        ):
            before = x.cpu()
            view.fill_(1 << 29)
            self.assertEqual(storage_of(view).data_ptr(), storage_of(x).data_ptr())
            self.assertFalse(torch.equal(x.cpu(), before))
            x.zero_()

    @unittest.skipUnless(
        hasattr(torch.utils, "deterministic"), "PyTorch 1.13 does not fill memory"
    )
    def test_memory_that_is_not_written_is_filled(self):
        def makers(dtype, device):
            x = torch.zeros(5, dtype=dtype, device=device)
            like = {"dtype": dtype, "device": device}
            yield from (
                lambda: torch.empty(2, 3, **like),
                lambda: torch.empty((), **like),
                lambda: torch.empty(0, **like),
                lambda: torch.empty_strided((2, 3), (1, 2), **like),
                lambda: torch.empty_like(x),
                lambda: torch.empty_permuted((2, 3), (1, 0), **like),
                lambda: x.new_empty(4),
                lambda: x.new_empty_strided((2,), (1,)),
                lambda: torch.empty(1, **like).zero_().resize_(9),
                lambda: x[1:].resize_(7),
                lambda: x.clone().resize_(3),
                lambda: x.clone().resize_as_(torch.empty(7, device=device)),
                lambda: torch.empty(7, out=x.clone()),
            )

        dtypes = (
            *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
            *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
            torch.float8_e4m3fn,
        )
        self.assertTrue(torch.utils.deterministic.fill_uninitialized_memory)
        # Freed memory that is not zero.
        torch.full((1000,), 7.0, device="xpu")
        torch.use_deterministic_algorithms(True)
        try:
            for dtype in dtypes:
                for i, (on_cpu, on_xpu) in enumerate(
                    zip(makers(dtype, "cpu"), makers(dtype, "xpu"))
                ):
                    with self.subTest(i, dtype=dtype):
                        expected, found = on_cpu(), on_xpu().cpu()
                        if dtype == torch.float8_e4m3fn:
                            expected, found = expected.float(), found.float()
                        self.assertEqual(found, expected)
            torch.utils.deterministic.fill_uninitialized_memory = False
            before = torch.xpu.fallback_statistics()
            torch.empty(3, device="xpu").resize_(9)
            self.assertEqual(torch.xpu.fallback_statistics(), before)
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = True
            torch.use_deterministic_algorithms(False)

    def test_record_stream(self):
        stream = torch.xpu.Stream()
        x = torch.ones(10, device="xpu")
        x.record_stream(stream)
        with self.assertRaises(Exception):
            x.record_stream("not a stream")

    def test_nothing_leaks(self):
        gc.collect()  # what other tests left
        model = torch.nn.Linear(8, 8).to("xpu")
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.ones(4, 8, device="xpu")
        memory = []
        for step in range(300):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()
            if step >= 10:
                memory.append(torch.xpu.memory_allocated())
        self.assertEqual(len(set(memory)), 1)


@needs_device
class TestCopies(TestCase):
    def test_between_host_and_device(self):
        for dtype in (torch.float32, torch.int8, torch.bool, torch.complex64, torch.bfloat16):
            x = torch.tensor([0.0, 1.0, 0.0, 3.0]).to(dtype)
            self.assertEqual(x.to("xpu").cpu(), x)

    def test_layouts_and_dtypes(self):
        x = torch.arange(24.0).view(4, 6)
        for source in (x, x.t(), x[::2, 1:], x[:1].expand(4, 6)):
            on_device = source.to("xpu")
            self.assertEqual(on_device.cpu(), source)
            into = torch.empty(source.shape, dtype=torch.int64, device="xpu").t().contiguous().t()
            self.assertEqual(into.copy_(source).cpu(), source.long())
            self.assertEqual(torch.empty(source.shape).copy_(on_device), source)

    def test_a_part(self):
        x = torch.zeros(4, 6, device="xpu")
        x[1:3, ::2] = torch.ones(2, 3)
        expected = torch.zeros(4, 6)
        expected[1:3, ::2] = 1
        self.assertEqual(x.cpu(), expected)

    def test_conjugate_and_negative(self):
        x = torch.tensor([1 + 2j, 3 - 1j])
        on_device = x.to("xpu")
        self.assertTrue(on_device.conj().is_conj())
        self.assertEqual(on_device.conj().cpu(), x.conj())
        self.assertEqual(on_device.conj().imag.cpu(), x.conj().imag)
        self.assertEqual(torch.empty_like(on_device).copy_(on_device.conj()).cpu(), x.conj())

    def test_to_itself(self):
        x = torch.full((4,), 6.0, device="xpu")
        x[0] /= 2  # which copies the quotient to where it is
        x[1:3] = x[1:3]
        self.assertEqual(x.cpu(), torch.tensor([3.0, 6.0, 6.0, 6.0]))

    def test_pinned_memory(self):
        # What PyTorch 1.13 takes for the device otherwise is CUDA.
        x = torch.arange(100_000.0).pin_memory("xpu")
        self.assertTrue(x.is_pinned("xpu"))
        self.assertFalse(torch.ones(1).is_pinned("xpu"))
        on_device = x.to("xpu", non_blocking=True)
        back = torch.empty_like(x).pin_memory("xpu")
        back.copy_(on_device, non_blocking=True)
        torch.xpu.synchronize()
        self.assertEqual(back, x)

    def test_pinned_memory_is_kept_until_it_was_copied(self):
        for _ in range(20):
            x = torch.full((50_000,), 3.0).pin_memory("xpu").to("xpu", non_blocking=True)
            torch.zeros(50_000).pin_memory("xpu")
            self.assertEqual(x.sum().item(), 150_000)

    @needs_two
    def test_between_devices(self):
        x = torch.arange(6.0, device="xpu:0").view(2, 3)
        for source in (x, x.t(), x.conj()):
            y = source.to("xpu:1")
            self.assertEqual(y.device.index, 1)
            self.assertEqual(y.cpu(), source.cpu())
        self.assertEqual(torch.zeros(2, 3, device="xpu:1").copy_(x).cpu(), x.cpu())

    def test_a_dataloader_pins(self):
        data = torch.utils.data.TensorDataset(torch.arange(20.0))
        loader = torch.utils.data.DataLoader(
            data, 5, pin_memory=True, pin_memory_device="xpu"
        )
        total = 0
        for (batch,) in loader:
            self.assertTrue(batch.is_pinned("xpu"))
            total += batch.to("xpu", non_blocking=True).sum().item()
        self.assertEqual(total, 190)


# PyTorch 1.13 has no _xpu_sleep to keep a stream busy.
BUSY = (False, True) if hasattr(torch._C, "_xpu_sleep") else (False,)


def keep_busy(seconds):
    torch._C._xpu_sleep(int(seconds * 1e9))


@needs_device
class TestSyncDebugMode(TestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch._C._xpu_set_sync_debug_mode, 0)

    def synchronizing(self):
        x = torch.arange(12.0).view(3, 4).to("xpu")
        host = torch.zeros(3, 4)
        pinned = host.pin_memory("xpu")
        return {
            "item": lambda: x[0, 1].item(),
            "bool": lambda: bool(x[0, 1]),
            "tolist": lambda: x.tolist(),
            "cpu": lambda: x.cpu(),
            "strided cpu": lambda: x.t().cpu(),
            "cpu of a part": lambda: x[:, 1].cpu(),
            "to the host": lambda: host.copy_(x),
            "blocking, to pinned memory": lambda: pinned.copy_(x),
            "from the host": lambda: x.copy_(host),
            "strided from the host": lambda: x.t().copy_(host.t()),
            "new from the host": lambda: host.to("xpu"),
            "dtype": lambda: x.to("cpu", torch.float64),
            "nonzero": lambda: x.nonzero(),
            "mask": lambda: x[x > 3],
            "on the host": lambda: x + 1,
            "equal": lambda: torch.equal(x, x),
            "print": lambda: str(x),
        }

    def not_synchronizing(self):
        x = torch.arange(12.0).view(3, 4).to("xpu")
        y = torch.zeros(3, 4).to("xpu")
        pinned = torch.zeros(3, 4).pin_memory("xpu")
        return {
            "empty": lambda: torch.empty(3, device="xpu"),
            "view": lambda: x.t()[1:],
            "between tensors": lambda: y.copy_(x),
            "clone": lambda: x.clone(),
            "to pinned memory": lambda: pinned.copy_(x, non_blocking=True),
            "from pinned memory": lambda: y.copy_(pinned, non_blocking=True),
            "record": lambda: torch.xpu.Event().record(),
            "query": lambda: torch.xpu.current_stream().query(),
            "wait": lambda: torch.xpu.current_stream().wait_stream(torch.xpu.Stream()),
        }

    def test_what_synchronizes_warns(self):
        for name, call in self.synchronizing().items():
            torch._C._xpu_set_sync_debug_mode(1)
            with self.subTest(name), self.assertWarnsRegex(UserWarning, "synchroniz"):
                call()
            torch._C._xpu_set_sync_debug_mode(0)

    def test_what_synchronizes_raises(self):
        for busy in BUSY:
            for name, call in self.synchronizing().items():
                if busy:
                    keep_busy(0.01)
                torch._C._xpu_set_sync_debug_mode(2)
                with self.subTest(name, busy=busy), self.assertRaisesRegex(
                    RuntimeError, "synchroniz"
                ):
                    call()
                torch._C._xpu_set_sync_debug_mode(0)
                torch.xpu.synchronize()

    def test_what_does_not_synchronize_is_silent(self):
        for busy in BUSY:
            for name, call in self.not_synchronizing().items():
                if busy:
                    keep_busy(0.01)
                torch._C._xpu_set_sync_debug_mode(2)
                with self.subTest(name, busy=busy):
                    call()
                torch._C._xpu_set_sync_debug_mode(0)
                torch.xpu.synchronize()

    def test_it_raises_before_anything_is_submitted(self):
        x = torch.ones(1 << 16, device="xpu")
        y = torch.zeros(1 << 16)
        for to, source in ((x, y), (y, x), (x.view(256, 256).t(), y.view(256, 256))):
            before = to.clone()
            if True in BUSY:
                keep_busy(0.02)
            torch._C._xpu_set_sync_debug_mode(2)
            with self.assertRaisesRegex(RuntimeError, "synchroniz"):
                to.copy_(source)
            torch._C._xpu_set_sync_debug_mode(0)
            torch.xpu.synchronize()
            self.assertTrue(torch.equal(to, before))


@needs_device
class TestFallback(TestCase):
    def test_operators(self):
        torch.manual_seed(0)
        x = torch.randn(4, 6)
        for function in (
            lambda x: x + 1,
            lambda x: x @ x.t(),
            lambda x: x.sort(1)[1],
            lambda x: torch.cat([x, x]),
            lambda x: x[x > 0],
            lambda x: x[torch.tensor([0, 2])],  # indices of the CPU are allowed
            lambda x: torch.nn.functional.layer_norm(x, (6,)),
            lambda x: torch.fft.fft(x).real,
            lambda x: torch.stack(torch.linalg.svd(x)[1].split(2)),
            lambda x: torch.einsum("ij,kj->ik", x, x),
        ):
            self.assertEqual(*on_cpu_and_xpu(function, x))

    def test_narrow_types(self):
        """float16 and bfloat16, also where the CPU's kernel does not take them."""
        torch.manual_seed(0)
        matrix = torch.rand(3, 3)
        for function, *tensors in (
            (lambda x, y: x @ y, matrix, matrix.t()),
            (lambda x, y: y.clone().addmm_(x, y), matrix, matrix.t()),
            (lambda x, y: torch.mm(x, y, out=x.new_empty(0)), matrix, matrix.t()),
            (lambda x: x.prod(1), matrix),
            (lambda x: x.sort(1).values, matrix),
        ):
            expected = function(*tensors)
            for dtype in (torch.float16, torch.bfloat16):
                # An operator is called in another way once its kernel has failed.
                for _ in range(2):
                    result = function(*(tensor.to("xpu", dtype) for tensor in tensors))
                    self.assertEqual(result.dtype, dtype)
                    self.assertEqual(result.float().cpu(), expected, atol=0.05, rtol=0)

    def test_a_narrow_type_beside_a_wider_one(self):
        x = torch.full((2,), 16.0, device="xpu")
        half = x.half()
        for _ in range(2):
            self.assertEqual((2j**half).dtype, torch.complex32)
            self.assertEqual((half**x).dtype, torch.float32)
            # That of a tensor without dimensions counts less.
            self.assertEqual(torch.atan2(x[0], half).dtype, torch.float16)
        for both in ([half, x.bfloat16()], [x, half]):
            roots = torch._foreach_sqrt(both)
            self.assertEqual([one.dtype for one in roots], [one.dtype for one in both])
        torch._foreach_sqrt_(both)  # the first is written before the second fails
        self.assertEqual([one.tolist() for one in both], [[4.0, 4.0]] * 2)

    def test_a_dtype_that_is_asked_for(self):
        x = torch.full((3,), 2.0, device="xpu")
        narrow = (torch.half, torch.bfloat16)
        for given, asked in itertools.product((torch.float, *narrow), repeat=2):
            for function in (torch.cumsum, torch.cumprod, torch.prod, torch.softmax):
                for _ in range(2):  # what a kernel lacks is known after the first
                    result = function(x.to(given), 0, dtype=asked)
                    self.assertEqual(result.dtype, asked)
                expected = function(x.cpu(), 0)
                self.assertEqual(result.float().cpu(), expected, atol=0.01, rtol=0)

    def test_training_with_narrow_types_alone(self):
        for dtype in (torch.half, torch.bfloat16):
            x = torch.randn(4, 3).to(dtype)
            table = torch.rand(5, 2).to(dtype)
            places = torch.tensor([1, 2, 4])
            for function in (
                lambda x, _t, _p: torch.softmax(x, 1),
                lambda x, _t, _p: torch.log_softmax(x, 0),
                lambda x, _t, p: torch.nn.functional.cross_entropy(x[:3], p // 2),
                lambda _x, t, p: torch.nn.functional.embedding_bag(p, t, p[:1] - 1),
            ):
                gradients = []
                for device, type in (("cpu", torch.float), ("xpu", dtype)):
                    given = [one.to(device, type).requires_grad_() for one in (x, table)]
                    function(*given, places.to(device)).square().sum().backward()
                    gradients.append([one.grad for one in given])
                for one, expected in zip(*reversed(gradients)):
                    if expected is not None:
                        self.assertEqual(one.dtype, dtype)
                        self.assertEqual(one.float().cpu(), expected, atol=0.05, rtol=0)
            drawn = torch.tensor([0.0, 1.0, 0.0], device="xpu").to(dtype).multinomial(1)
            self.assertEqual(drawn.item(), 1)

    def test_a_view_of_a_type_that_there_is_not(self):
        with self.assertRaisesRegex(RuntimeError, "only supported for"):
            torch.view_as_complex(torch.ones(2, 2, dtype=torch.bfloat16, device="xpu"))

    def test_float16_in_place(self):
        x, y = torch.rand(3, 3).half(), torch.rand(3, 3).half().xpu()
        z = y.clone()
        self.assertIs(z.addmm_(x.xpu(), y), z)
        out = torch.empty(0, dtype=torch.half, device="xpu")
        self.assertIs(torch.mm(x.xpu(), y, out=out), out)
        self.assertEqual(out.shape, (3, 3))

    def test_in_place(self):
        x = torch.arange(6.0).view(2, 3)
        self.assertEqual(*on_cpu_and_xpu(lambda x: x.clone().mul_(2).t_(), x))
        # The argument is the result, and overlaps another argument.
        self.assertEqual(*on_cpu_and_xpu(lambda x: x.gt(2).logical_not_(), x))
        self.assertEqual(*on_cpu_and_xpu(lambda x: x.clone()[:1].add_(x[1:]), x))
        lists = [torch.ones(3, device="xpu") for _ in range(2)]
        torch._foreach_add_(lists, 2)
        self.assertEqual([one.cpu() for one in lists], [torch.full((3,), 3.0)] * 2)

    def test_threads_that_write_parts_of_one_tensor(self):
        x = torch.zeros(8, 2, device="xpu")

        def count(part):
            for _ in range(300):
                part.add_(1)

        threads = [threading.Thread(target=count, args=(x[:, i],)) for i in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(x.cpu(), torch.full((8, 2), 300.0))

    def test_arguments_that_are_written_without_a_mark(self):
        """Schemas do not say that running statistics are written, for one."""
        torch.manual_seed(0)
        for module, shape in (
            (torch.nn.BatchNorm1d(3), (4, 3)),
            (torch.nn.BatchNorm2d(3), (4, 3, 2, 2)),
            (torch.nn.InstanceNorm1d(3, track_running_stats=True), (4, 3, 5)),
        ):
            on_xpu = copy.deepcopy(module).to("xpu")
            for training in (True, True, False):
                x = torch.randn(shape) + 2
                module.train(training)
                on_xpu.train(training)
                self.assertEqual(on_xpu(x.to("xpu")).cpu(), module(x))
            found = {name: one.cpu() for name, one in on_xpu.state_dict().items()}
            self.assertEqual(found, dict(module.state_dict()))

        def running_statistics(x):
            mean, variance = x.new_zeros(3), x.new_ones(3)
            torch.batch_norm_update_stats(x, mean, variance, 0.5)
            return torch.stack([mean, variance])

        self.assertEqual(*on_cpu_and_xpu(running_statistics, torch.randn(4, 3)))
        x = -torch.ones(5, device="xpu")
        noise = torch.zeros(5, device="xpu")
        result = torch._C._nn.rrelu_with_noise(x, noise, 0.1, 0.3, True)
        self.assertEqual(result.cpu(), -noise.cpu())

    @unittest.skipIf(
        not hasattr(torch.library.Library, "_destroy"),
        "PyTorch 1.13 removes an operator only when its library is collected",
    )
    def test_an_operator_is_defined_again(self):
        def on_cpu(*arguments):
            for one in arguments:
                self.assertTrue(isinstance(one, int) or one.device.type == "cpu")
            return arguments

        x, y = (torch.full((2,), value, device="xpu") for value in (1.0, 2.0))

        def add(*arguments):
            return sum(on_cpu(*arguments))

        def increase(number, tensor):
            on_cpu(number, tensor)[1].add_(number)

        for _ in range(3):
            for schema, kernel, arguments, expected in (
                ("(Tensor x) -> Tensor", add, (x,), 1.0),
                ("(Tensor x, Tensor y, Tensor z) -> Tensor", add, (x, y, y), 5.0),
                ("(int n, Tensor(a!) x) -> ()", increase, (3, y.clone()), 5.0),
                ("(Tensor x, int n) -> Tensor", add, (y, 2), 4.0),
            ):
                library = torch.library.Library("xpu_again", "DEF")
                try:
                    library.define("run" + schema)
                    library.impl("run", kernel, "CPU")
                    result = torch.ops.xpu_again.run(*arguments)
                finally:
                    library._destroy()
                result = arguments[-1] if result is None else result
                self.assertEqual(result.cpu(), torch.full((2,), expected))

    def test_tensors_of_several_types_in_one_storage(self):
        """They begin where one of a larger type could not."""

        def of_floats(z):
            return torch.mul(z[1:], z.imag[:-1])

        def cast(data):
            data[16:32].view(torch.int32).copy_(data[1:5])
            return data

        def counted(data):
            weights, numbers = data[4:12].view(torch.float), data[16:32].view(torch.long)
            return numbers.bincount(weights.copy_(torch.tensor([1.0, 2.0]))) + data[33]

        z = torch.view_as_complex(torch.arange(12.0).view(6, 2))
        data = torch.arange(64, dtype=torch.uint8)
        data[16:32] = torch.tensor([3, 3]).view(torch.uint8)
        for function, given in ((of_floats, z), (cast, data), (counted, data)):
            expected, found = on_cpu_and_xpu(lambda x: function(x.clone()), given)
            self.assertEqual(found, expected)

    def test_what_is_between_two_views_is_not_copied(self):
        x = torch.arange(1 << 20, device="xpu").float()
        torch.xpu.reset_fallback_statistics()
        found = torch.cdist(x[:8].view(2, 4), x[-8:].view(2, 4))
        self.assertEqual(found.cpu(), torch.cdist(x[:8].cpu().view(2, 4), x[-8:].cpu().view(2, 4)))
        for entry in torch.xpu.fallback_statistics().values():
            self.assertLess(entry["bytes_copied"], 1000)

    def test_an_empty_view_behind_the_end(self):
        x = torch.ones(3, device="xpu")
        self.assertEqual(torch.cat([x, x.as_strided((0,), (1,), 100_000_000)]).cpu(), x.cpu())

    @unittest.skipUnless(hasattr(torch, "_lazy_clone"), "PyTorch 1.13 copies at once")
    def test_copy_on_write(self):
        half = torch.eye(2) / 2
        for write in (
            torch.Tensor.zero_,
            lambda x: x.fill_(2),
            lambda x: x.add_(1),
            lambda x: torch.add(x, x, out=x),
            lambda x: torch.linalg.inv(torch.eye(2, device=x.device) * 2, out=x),
            lambda x: x.copy_(half),
            lambda x: torch._foreach_add_([x], 1),
        ):
            x = torch.ones(2, 2, device="xpu")
            write(torch._lazy_clone(x))
            self.assertEqual(x.cpu(), torch.ones(2, 2))

    def test_memory_of_another_cannot_be_resized(self):
        x = torch.ones(5, device="xpu")
        for function in (torch.add, torch.hypot):
            out = torch.from_dlpack(torch.zeros(2, device="xpu"))
            with self.assertRaisesRegex(RuntimeError, "not resizable"):
                function(x, x, out=out)

    def test_the_storage_of_an_argument_is_kept(self):
        x = torch.ones(3, device="xpu")
        address, version = x.data_ptr(), x._version
        x.add_(1)
        self.assertEqual((x.data_ptr(), x._version), (address, version + 1))

    def test_devices_are_not_mixed(self):
        x = torch.ones(3, device="xpu")
        with self.assertRaisesRegex(RuntimeError, "same device.*xpu:0 and cpu"):
            x + torch.ones(3)
        with self.assertRaisesRegex(RuntimeError, "same device"):
            torch.ones(3).add_(x)
        self.assertEqual((x + torch.tensor(1.0)).cpu(), torch.full((3,), 2.0))

    @needs_two
    def test_the_results_device_is_that_of_the_arguments(self):
        x = torch.ones(3, device="xpu:1")
        self.assertEqual((x + 1).device.index, 1)
        self.assertEqual(torch.xpu.current_device(), 0)
        with self.assertRaisesRegex(RuntimeError, "xpu:1 and xpu:0|xpu:0 and xpu:1"):
            x + torch.ones(3, device="xpu:0")

    def test_what_has_no_kernel_at_all(self):
        with self.assertRaisesRegex(NotImplementedError, "_cudnn_rnn_flatten_weight"):
            torch._cudnn_rnn_flatten_weight(
                [torch.ones(1, device="xpu")], 1, 1, 1, 1, 0, 1, False, False
            )

    def test_it_runs_after_the_work_on_the_stream(self):
        x = torch.zeros(1 << 20, device="xpu")
        source = torch.ones(1 << 20).pin_memory("xpu")
        for _ in range(20):
            x.copy_(source, non_blocking=True)
            self.assertEqual(x.sum().item(), 1 << 20)
            x.zero_()

    def test_statistics(self):
        torch.xpu.reset_fallback_statistics()
        x = torch.ones(4, device="xpu")
        for _ in range(3):
            x.cos_()
        counts = torch.xpu.fallback_statistics()
        # PyTorch 1.13 calls the kernel with a result.
        (entry,) = (counts[name] for name in counts if name.startswith("aten::cos"))
        self.assertEqual(entry["calls"], 3)
        self.assertEqual(entry["bytes_copied"] == 0, has_host_memory())
        torch.xpu.reset_fallback_statistics()
        self.assertEqual(torch.xpu.fallback_statistics(), {})

    def test_a_python_kernel_for_the_cpu(self):
        """It may keep what it makes, which is memory of the CPU; its results are XPU's."""

        def kernel(x, out):
            made = [torch.full((1000,), 2.0), torch.ones(3000)]
            kept.extend((*made, out.resize_(5000).fill_(3)))
            return made[0], made[0][500:], [made[1], x + 1]

        library = torch.library.Library("xpu_test_python", "DEF")
        library.define("keep(Tensor x, Tensor(a!) out) -> (Tensor, Tensor, Tensor[])")
        library.impl("keep", kernel, "CPU")
        kept = []
        x = torch.zeros(2000, device="xpu")
        out = torch.zeros(1, device="xpu")
        gc.collect()
        before = torch.xpu.memory_allocated()
        whole, part, rest = torch.ops.xpu_test_python.keep(x, out)
        self.assertEqual(storage_of(whole).data_ptr(), storage_of(part).data_ptr())
        for one, expected in zip((whole, part, *rest, out), (2, 2, 1, 1, 3)):
            self.assertEqual(one.device.type, "xpu")
            self.assertEqual(one.cpu(), torch.full(one.shape, float(expected)))
            self.assertFalse(any(one.data_ptr() == each.data_ptr() for each in kept))
        del one
        sizes = sum(4 * each.numel() for each in (whole, *rest, out))
        self.assertGreaterEqual(torch.xpu.memory_allocated() - before, sizes - 512)
        out.resize_(0).set_()
        del whole, part, rest
        self.assertLessEqual(torch.xpu.memory_allocated(), before)
        self.assertEqual([float(each[0]) for each in kept], [2, 1, 3])

    @slowTest
    def test_variables(self):
        program = "import torch; torch.zeros(2, device='xpu').cos(); print('done')"
        for name, mode, words, code in (
            ("TORCH_XPU_FALLBACK", "warn", "aten::cos", 0),
            ("TORCH_XPU_FALLBACK", "error", "has no kernel for XPU", 1),
            ("TORCH_XPU_FALLBACK", "wrong", "must be 'warn' or 'error'", 1),
            ("TORCH_XPU_HOST_MEMORY", "1", "done", 0),
            ("TORCH_XPU_HOST_MEMORY", "zzz", "must be '0' or '1'", 1),
        ):
            result = subprocess.run(
                [sys.executable, "-P", "-c", program],
                env={**os.environ, name: mode},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT,
            )
            self.assertIn(words, result.stdout)
            self.assertEqual(result.returncode, code)

    def test_sparse(self):
        x = torch.eye(3).to_sparse()
        on_device = x.to("xpu")
        self.assertEqual(on_device.device.type, "xpu")
        self.assertEqual(on_device.to_dense().cpu(), torch.eye(3))
        self.assertEqual((on_device + on_device).coalesce().values().cpu(), torch.full((3,), 2.0))
        on_device.mul_(3)
        self.assertEqual(on_device.cpu().to_dense(), torch.eye(3) * 3)
        self.assertEqual(torch.sparse.mm(on_device, torch.ones(3, 2, device="xpu")).cpu(), torch.full((3, 2), 3.0))

    def test_sparse_with_dense(self):
        # Kernels for sparse tensors raise where only one part is pinned.
        x = torch.arange(9.0).reshape(3, 3)
        for requires_grad in (False, True):
            on_device = x.to("xpu").requires_grad_(requires_grad)
            mask = torch.eye(3).to_sparse().to("xpu").coalesce()
            self.assertEqual(on_device.sparse_mask(mask).to_dense().detach().cpu(), x * torch.eye(3))
        on_device.to_sparse().to_dense().backward(torch.ones(3, 3, device="xpu"))
        self.assertEqual(on_device.grad.to_dense().cpu(), (x != 0).float())

    def test_quantized(self):
        x = torch.tensor([0.0, 0.5, 1.0])
        q = torch.quantize_per_tensor(x.to("xpu"), 0.5, 0, torch.qint8)
        self.assertEqual(q.device.type, "xpu")
        self.assertEqual(q.dequantize().cpu(), x)
        self.assertEqual(q.int_repr().cpu(), torch.tensor([0, 1, 2], dtype=torch.int8))


@needs_device
@needs_host_memory
class TestAliases(TestCase):
    def test_of_an_xpu_storage(self):
        x = torch.zeros(4, device="xpu")
        alias = torch.xpu._host_alias_storage(storage_of(x))
        self.assertEqual((alias.device.type, alias.data_ptr()), ("cpu", x.data_ptr()))
        on_host = torch.empty(0).set_(alias, 0, (4,))
        on_host[1] = 5
        self.assertEqual(x.cpu(), on_host)

    def test_of_a_cpu_storage(self):
        x = torch.zeros(4)
        alias = torch.xpu._device_alias_storage(storage_of(x), "xpu:0")
        self.assertEqual((alias.device.type, alias.data_ptr()), ("xpu", x.data_ptr()))
        on_device = torch.empty(0, device="xpu").set_(alias, 0, (4,))
        on_device.add_(2)
        self.assertEqual(x, torch.full((4,), 2.0))

    def test_memory_lives_as_long_as_an_alias(self):
        gc.collect()
        before = torch.xpu.memory_allocated()
        x = torch.full((1000,), 3.0, device="xpu")
        alias = torch.xpu._host_alias_storage(storage_of(x))
        del x
        self.assertGreater(torch.xpu.memory_allocated(), before)
        self.assertEqual(torch.empty(0).set_(alias, 0, (1000,)).sum().item(), 3000)
        del alias
        self.assertEqual(torch.xpu.memory_allocated(), before)

    def test_the_other_way_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "cannot alias|Cannot alias"):
            torch.xpu._host_alias_storage(storage_of(torch.zeros(1)))
        with self.assertRaisesRegex(RuntimeError, "Cannot alias"):
            torch.xpu._device_alias_storage(storage_of(torch.zeros(1, device="xpu")))


@needs_device
class TestRandom(TestCase):
    def test_a_seed_gives_the_same_numbers(self):
        def draw(device, generator=None):
            return [
                function().cpu()
                for function in (
                    lambda: torch.randn(5, device=device, generator=generator),
                    lambda: torch.randint(9, (5,), device=device, generator=generator),
                    lambda: torch.randperm(9, device=device, generator=generator),
                    lambda: torch.empty(5, device=device).exponential_(generator=generator),
                )
            ]

        for device in (torch.device("xpu", i) for i in range(COUNT)):
            torch.manual_seed(1)
            first = draw(device)
            second = draw(device)
            torch.manual_seed(1)
            self.assertEqual(draw(device), first)
            self.assertNotEqual(first, second)
            generator = torch.Generator(device=device).manual_seed(1)
            self.assertEqual(draw(device, generator), first)
            if device.index == 0:
                of_device_0 = first
            self.assertEqual(first, of_device_0)

    def test_a_generator_is_one_of_the_device(self):
        def calls(device, generator):
            x = torch.full((3,), 0.5, device=device)
            scalar = torch.tensor(0.5, device=device)
            given = {"generator": generator}
            yield from (
                lambda: torch.rand(3, device=device, **given),
                lambda: torch.randn(3, device=device, **given),
                lambda: torch.randint(9, (3,), device=device, **given),
                lambda: torch.randperm(3, device=device, **given),
                lambda: torch.normal(0.0, 1.0, (3,), device=device, **given),
                lambda: torch.normal(x, x, **given),
                lambda: torch.normal(x, 1.0, **given),
                lambda: torch.normal(0.0, x, **given),
                lambda: torch.normal(scalar, 1.0, **given),
                lambda: torch.normal(x, 1.0, out=torch.empty_like(x), **given),
                lambda: torch.bernoulli(x, **given),
                lambda: torch.bernoulli(x, out=torch.empty_like(x), **given),
                lambda: torch.poisson(x, **given),
                lambda: torch.binomial(x, x, **given),
                lambda: torch.multinomial(x, 2, **given),
                lambda: torch._standard_gamma(x, **given),
                lambda: torch._sample_dirichlet(x, **given),
                lambda: torch.ops.aten.rrelu_with_noise(x, x.clone(), 0.1, 0.3, True, generator),
                lambda: x.clone().bernoulli_(0.5, **given),
                lambda: x.clone().bernoulli_(x, **given),
                lambda: x.clone().cauchy_(**given),
                lambda: x.clone().exponential_(**given),
                lambda: x.clone().geometric_(0.5, **given),
                lambda: x.clone().log_normal_(**given),
                lambda: x.clone().normal_(**given),
                lambda: scalar.clone().normal_(**given),
                lambda: x.clone().random_(**given),
                lambda: x.clone().random_(9, **given),
                lambda: x.clone().random_(2, 9, **given),
                lambda: x.clone().uniform_(**given),
            )

        for device, other in (("xpu", "cpu"), ("cpu", "xpu")):
            for i, call in enumerate(calls(device, torch.Generator(other))):
                message = f"Expected a '{device}' device type for generator but found '{other}'"
                with self.subTest(i, device=device), self.assertRaisesRegex(RuntimeError, message):
                    call()
        # CUDA's operators take the generator of another of its devices, and so do these.
        for i in range(COUNT):
            generator = torch.Generator(f"xpu:{i}").manual_seed(1)
            for call in calls("xpu:0", generator):
                before = generator.get_state()
                self.assertEqual(call().device, torch.device("xpu:0"))
                self.assertNotEqual(generator.get_state(), before)

    def test_a_generator_before_the_first_tensor(self):
        code = """if True:
            import torch
            for name in torch._C._dispatch_get_registrations_for_dispatch_key("CPU"):
                plain, _, overload = name.partition(".")
                if not name.startswith("aten::"):
                    continue
                schema = torch._C._get_schema(plain, overload)
                if any("Generator" in str(each.type) for each in schema.arguments):
                    assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "XPU"), name
            try:
                torch.rand(2, generator=torch.Generator("xpu"))
            except RuntimeError as error:
                print(error)
        """
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT
        )
        self.assertEqual(
            (found.stderr, found.stdout),
            ("", "Expected a 'cpu' device type for generator but found 'xpu'\n"),
        )

    def test_the_state_can_be_saved(self):
        state = torch.xpu.get_rng_state()
        x = torch.rand(3, device="xpu")
        torch.xpu.set_rng_state(state)
        self.assertEqual(torch.rand(3, device="xpu"), x)


@needs_device
class TestTensorsOfAnyDevice(TestCase):
    def test_printing(self):
        self.assertEqual(
            repr(torch.tensor([1, 2], device="xpu")), "tensor([1, 2], device='xpu:0')"
        )

    def test_serialization(self):
        x = torch.arange(6.0, device="xpu")
        state = {"x": x, "part": x[2:4], "layer": torch.nn.Linear(2, 2).to("xpu").state_dict()}
        buffer = io.BytesIO()
        torch.save(state, buffer)
        for location, device in ((None, "xpu"), ("cpu", "cpu"), ("xpu:0", "xpu")):
            buffer.seek(0)
            loaded = torch.load(buffer, map_location=location)
            self.assertEqual(loaded["x"].device.type, device)
            self.assertEqual(loaded["layer"]["weight"].device.type, device)
            self.assertEqual(loaded["part"].cpu(), torch.tensor([2.0, 3.0]))
            self.assertEqual(
                storage_of(loaded["part"]).data_ptr(), storage_of(loaded["x"]).data_ptr()
            )
        buffer = io.BytesIO()
        torch.save(torch.ones(2), buffer)
        buffer.seek(0)
        self.assertEqual(torch.load(buffer, map_location="xpu").device.type, "xpu")

    def test_copies_of_an_object(self):
        x = torch.arange(3.0, device="xpu", requires_grad=True)
        for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            self.assertEqual(y, x)
            self.assertNotEqual(y.data_ptr(), x.data_ptr())
            self.assertEqual((y.device, y.requires_grad), (x.device, True))

    def test_another_process_cannot_have_it(self):
        x = torch.ones(2, device="xpu")
        for sent in (x, torch.nn.Parameter(x), torch.empty(0, device="xpu"), storage_of(x)):
            with self.assertRaisesRegex(RuntimeError, r"another process.*send.*tensor\.cpu\(\)"):
                ForkingPickler.dumps(sent)
        self.assertIn(b"rebuild_tensor", bytes(ForkingPickler.dumps(x.cpu())))

    def test_a_queue_gives_the_error_to_the_receiver(self):
        queue = torch.multiprocessing.get_context("spawn").Queue()
        queue.put({"sent": [torch.ones(2, device="xpu")]})
        with self.assertRaisesRegex(RuntimeError, "another process"):
            queue.get(timeout=TIMEOUT)
        queue.put(torch.ones(2))
        self.assertEqual(queue.get(timeout=TIMEOUT), torch.ones(2))
        queue.close()
        queue.join_thread()

    def test_a_worker_that_returns_tensors_of_xpu(self):
        for pin_memory in (False, True):
            loader = torch.utils.data.DataLoader(
                OnXpu(),
                batch_size=None,  # PyTorch 1.13 makes no batch of XPU tensors
                num_workers=1,
                multiprocessing_context="spawn",
                pin_memory=pin_memory,
            )
            with self.assertRaisesRegex(RuntimeError, "another process|thread exited"):
                next(iter(loader))

    def test_legacy_types(self):
        x = torch.ones(2, device="xpu")
        self.assertEqual(x.type(), "torch.xpu.FloatTensor")
        self.assertIsInstance(x, torch.xpu.FloatTensor)
        for other in (x.half(), x.cpu(), x.to_sparse(), 1.0):
            self.assertNotIsInstance(other, torch.xpu.FloatTensor)
        self.assertNotIsInstance(x, torch.FloatTensor)
        for half in (torch.xpu.HalfTensor, "torch.xpu.HalfTensor"):
            for source in (x, x.cpu()):
                self.assertEqual(source.type(half), x.half())
                self.assertIsInstance(source.type(half), torch.xpu.HalfTensor)
        with self.assertRaisesRegex(ValueError, "invalid type: 'torch.xpu.NoTensor'"):
            x.type("torch.xpu.NoTensor")

    def test_a_legacy_type_makes_tensors(self):
        self.assertEqual(torch.xpu.IntTensor(2, 3).shape, (2, 3))
        self.assertEqual(
            torch.xpu.LongTensor([1, 2]), torch.tensor([1, 2], device="xpu")
        )
        for name in (name for name in dir(torch.xpu) if name.endswith("Tensor")):
            legacy = getattr(torch.xpu, name)
            empty = legacy()
            self.assertIsInstance(empty, legacy)
            self.assertEqual((empty.type(), str(legacy)), (f"torch.xpu.{name}", f"<class 'torch.xpu.{name}'>"))
            self.assertIs(pickle.loads(pickle.dumps(legacy)), legacy)

    def test_dlpack(self):
        x = torch.arange(6.0, device="xpu").view(2, 3).t()
        self.assertEqual(x.__dlpack_device__(), (14, 0))  # kDLOneAPI
        for shared in (x, x[1:], x.to(torch.complex64)):
            y = torch.from_dlpack(shared)
            self.assertEqual((y.data_ptr(), y.device, y.dtype), (shared.data_ptr(), shared.device, shared.dtype))
            self.assertEqual((y.shape, y.stride()), (shared.shape, shared.stride()))
        y = torch.from_dlpack(x)
        del x, shared
        y += 1  # and the memory is there
        self.assertEqual(y.cpu(), torch.arange(1.0, 7.0).view(2, 3).t())
        capsule = torch.utils.dlpack.to_dlpack(y)
        self.assertEqual(torch.utils.dlpack.from_dlpack(capsule).data_ptr(), y.data_ptr())
        with self.assertRaises(RuntimeError):
            torch.utils.dlpack.from_dlpack(capsule)
        torch.utils.dlpack.to_dlpack(y)  # that nobody takes

    @unittest.skipIf(hasattr(torch, "accelerator"), "PyTorch 2 finds no device without memory")
    def test_dlpack_of_an_empty_tensor(self):
        self.assertEqual(torch.from_dlpack(torch.empty(0, device="xpu")).device.type, "xpu")

    def test_items(self):
        x = torch.tensor([1.5, 2.5], device="xpu")
        self.assertEqual((x[0].item(), x.tolist(), bool(x[0] > 1)), (1.5, [1.5, 2.5], True))
        z = torch.tensor(1 + 2j, device="xpu")
        negative = z.conj().imag
        torch.xpu.reset_fallback_statistics()
        self.assertEqual((z.conj().item(), negative.item(), x[1].item()), (1 - 2j, -2, 2.5))
        self.assertEqual(torch.xpu.fallback_statistics(), {})

    def test_numpy_wants_a_copy(self):
        with self.assertRaisesRegex(TypeError, "Tensor.cpu"):
            torch.ones(2, device="xpu").numpy()

    @needs_host_memory
    @unittest.skipIf(
        not hasattr(torch.autograd, "set_multithreading_enabled"),
        "the engine of this PyTorch has a thread for each device, always",
    )
    def test_backward_runs_in_the_thread_that_asks_for_it(self):
        threads = []

        class Watch(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                threads.append(threading.get_ident())
                return gradient * 2

        def train():
            x = torch.ones(3, device="xpu", requires_grad=True)
            Watch.apply(x).sum().backward()
            expected.append(threading.get_ident())

        expected = []
        with torch.inference_mode():  # whose end restores the state of autograd
            torch.ones(3, device="xpu") + 1
        train()
        with torch.autograd.set_multithreading_enabled(True):
            train()
        other = threading.Thread(target=train)
        other.start()
        other.join()
        self.assertEqual(len(set(threads)), 2)
        self.assertEqual(threads, expected)

    @unittest.skipIf(
        not hasattr(torch.autograd, "set_multithreading_enabled"),
        "this PyTorch has no such setting",
    )
    def test_autograds_multithreading_stays_as_it_was_set(self):
        def is_enabled():
            return torch._C._is_multithreading_enabled()

        def fail(_gradient):
            raise RuntimeError("of the hook")

        for enabled in (True, False):
            with torch.autograd.set_multithreading_enabled(enabled):
                x = torch.ones(3, device="xpu", requires_grad=True)
                y = (x * 2).sum()
                self.assertEqual(is_enabled(), enabled)
                y.backward(retain_graph=True)
                self.assertEqual(is_enabled(), enabled)
                torch.autograd.grad(y, x)
                self.assertEqual(is_enabled(), enabled)
                z = x * 3
                z.register_hook(fail)
                with self.assertRaisesRegex(RuntimeError, "of the hook"):
                    z.sum().backward()
                self.assertEqual(is_enabled(), enabled)

    @needs_two
    def test_a_gradient_is_on_the_tensors_device(self):
        x = torch.ones(2, device="xpu:0")
        with self.assertRaisesRegex(RuntimeError, "grad.* located on"):
            x.grad = torch.ones(2, device="xpu:1")
        x.grad = torch.ones(2, device="xpu:0")

    def test_optimizers(self):
        def train(name, device):
            torch.manual_seed(0)
            model = torch.nn.Linear(3, 2).to(device)
            optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01)
            x = torch.ones(4, 3).to(device)

            def loss():
                optimizer.zero_grad()
                value = model(x).pow(2).sum()
                value.backward()
                return value

            for _ in range(5):
                optimizer.step(loss)
            return [p.detach().cpu() for p in model.parameters()]

        for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "LBFGS"):
            self.assertEqual(train(name, "xpu"), train(name, "cpu"), name)

    def test_jit(self):
        function = torch.jit.script(lambda_free)
        x = torch.ones(3, device="xpu")
        self.assertEqual(function(x), lambda_free(x))
        traced = torch.jit.trace(torch.nn.Linear(3, 2).to("xpu"), x)
        self.assertEqual(traced(x).device.type, "xpu")

    def test_anomaly_and_hooks(self):
        seen = []
        x = torch.ones(2, device="xpu", requires_grad=True)
        x.register_hook(lambda gradient: seen.append(gradient.device.type))
        with torch.autograd.detect_anomaly():
            y = (x * 2).sum()
            y.backward(retain_graph=True)
            y.backward()
        self.assertEqual(seen, ["xpu"] * 2)
        self.assertEqual(x.grad.cpu(), torch.full((2,), 4.0))


def lambda_free(x):
    return (x * 2).relu() + 1


class TestWithoutADevice(TestCase):
    @unittest.skipIf(COUNT > 0, "there is a device")
    def test_the_cpu_works_as_before(self):
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
        model(torch.randn(2, 1, 8, 8)).sum().backward()
        self.assertTrue(all(each.grad is not None for each in model.parameters()))


if __name__ == "__main__":
    run_tests()
