# Owner(s): ["module: intel"]
"""torch.autocast("xpu"): its state, and what it casts.

What is cast is decided before an operator runs, so that it needs no operator
on XPU: the tensors here are XPU tensors by their device, and compute shapes and
types alone.
"""

import contextlib
import re
import threading
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, TestCase
from torch.utils._pytree import tree_map

HAS_DEVICE = torch.xpu.is_available()
bf16, fp16, fp32, fp64 = torch.bfloat16, torch.float16, torch.float32, torch.float64

needs_device = unittest.skipUnless(HAS_DEVICE, "there is no device")


class XpuTensor(torch.Tensor):
    """A tensor on XPU that computes its shape and type, and notes who is called."""

    calls = []  # of operators: the name, and the types of the tensors given

    @staticmethod
    def __new__(cls, meta, requires_grad=False):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            meta.shape,
            dtype=meta.dtype,
            device="xpu:0",
            requires_grad=requires_grad,
        )
        tensor.meta = meta
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        dtypes = []

        def unwrap(value):
            if isinstance(value, XpuTensor):
                dtypes.append(value.dtype)
                return value.meta
            return torch.device("meta") if isinstance(value, torch.device) else value

        def wrap(value):
            return XpuTensor(value) if isinstance(value, torch.Tensor) else value

        result = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        cls.calls.append((func.overloadpacket.__name__, dtypes))
        return tree_map(wrap, result)


def xpu(*shape, dtype=fp32, requires_grad=False):
    return XpuTensor(
        torch.empty(shape, dtype=dtype, device="meta"), requires_grad=requires_grad
    )


@contextlib.contextmanager
def casting(dtype=bf16):
    """torch.autocast("xpu"), with or without a device."""
    before = (
        torch.xpu.is_autocast_xpu_enabled(),
        torch.xpu.get_autocast_xpu_dtype(),
    )
    torch.xpu.set_autocast_xpu_enabled(True)
    torch.xpu.set_autocast_xpu_dtype(dtype)
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.xpu.set_autocast_xpu_enabled(before[0])
        torch.xpu.set_autocast_xpu_dtype(before[1])


def state():
    return torch.xpu.is_autocast_xpu_enabled(), torch.xpu.get_autocast_xpu_dtype()


class TestState(TestCase):
    def tearDown(self):
        self.assertEqual(state(), (False, bf16))
        super().tearDown()

    def test_it_is_off_at_first(self):
        self.assertEqual(state(), (False, bf16))

    def test_setting_it(self):
        with casting(fp16):
            self.assertEqual(state(), (True, fp16))
            self.assertFalse(torch.is_autocast_enabled())
            self.assertFalse(torch.is_autocast_cpu_enabled())

    def test_wrong_types(self):
        with self.assertRaisesRegex(TypeError, r"must be a bool \(got int\)"):
            torch.xpu.set_autocast_xpu_enabled(1)
        with self.assertRaisesRegex(TypeError, r"must be a torch.dtype \(got str\)"):
            torch.xpu.set_autocast_xpu_dtype("float16")

    @needs_device
    def test_a_scope(self):
        with torch.autocast("xpu"):
            self.assertEqual(state(), (True, bf16))
            with torch.autocast("xpu", enabled=False):
                self.assertEqual(state(), (False, bf16))
            with torch.autocast(device_type="xpu", dtype=fp16):
                self.assertEqual(state(), (True, fp16))
            self.assertEqual(state(), (True, bf16))
        with self.assertRaisesRegex(KeyError, "inner"), torch.autocast("xpu"):
            raise KeyError("inner")

    @needs_device
    def test_a_decorator(self):
        @torch.autocast("xpu", dtype=fp16)
        def inside():
            return state()

        self.assertEqual(inside(), (True, fp16))

    @needs_device
    def test_it_is_of_a_thread(self):
        seen = []
        with torch.autocast("xpu", dtype=fp16):
            other = threading.Thread(target=lambda: seen.append(state()))
            other.start()
            other.join()
        self.assertEqual(seen, [(False, bf16)])

    @needs_device
    def test_a_type_that_is_not_supported_turns_it_off(self):
        with self.assertWarnsRegex(UserWarning, "torch.bfloat16 and torch.float16"):
            scope = torch.autocast("xpu", dtype=fp64)
        with scope:
            self.assertFalse(torch.xpu.is_autocast_xpu_enabled())

    @unittest.skipIf(HAS_DEVICE, "there is a device")
    def test_without_a_device_it_is_off_and_says_so(self):
        with self.assertWarnsRegex(UserWarning, "XPU is not available. Disabling"):
            scope = torch.autocast("xpu")
        with scope:
            self.assertFalse(torch.xpu.is_autocast_xpu_enabled())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with torch.autocast("xpu", enabled=False):
                pass


class TestCasts(TestCase):
    def setUp(self):
        super().setUp()
        XpuTensor.calls.clear()
        self.addCleanup(XpuTensor.calls.clear)

    def given(self, name):
        """The types that the operator was given, all times it was called."""
        return [dtypes for called, dtypes in XpuTensor.calls if called == name]

    def test_nothing_is_cast_outside(self):
        result = torch.mm(xpu(2, 3), xpu(3, 4))
        self.assertEqual((result.dtype, result.device.type), (fp32, "xpu"))
        self.assertEqual(XpuTensor.calls, [("mm", [fp32, fp32])])

    def test_products_are_computed_in_the_lower_precision(self):
        for dtype in (bf16, fp16):
            with casting(dtype):
                XpuTensor.calls.clear()
                self.assertEqual(torch.mm(xpu(2, 3), xpu(3, 4)).dtype, dtype)
                self.assertEqual(self.given("mm"), [[dtype, dtype]])
                self.assertEqual(F.linear(xpu(2, 3), xpu(4, 3), xpu(4)).dtype, dtype)
                self.assertEqual(self.given("addmm"), [[dtype] * 3])
                image, weight = xpu(1, 2, 8, 8), xpu(3, 2, 3, 3)
                self.assertEqual(F.conv2d(image, weight).dtype, dtype)
                self.assertEqual(self.given("convolution"), [[dtype, dtype]])
                self.assertEqual(
                    torch.einsum("ij,jk->ik", xpu(2, 3), xpu(3, 4)).dtype, dtype
                )

    def test_a_list_of_tensors_is_cast(self):
        with casting():
            matrices = [xpu(2, 3), xpu(3, 4), xpu(4, 5)]
            self.assertEqual(torch.linalg.multi_dot(matrices).dtype, bf16)
            self.assertEqual(self.given("mm"), [[bf16, bf16]] * 2)

    def test_what_needs_range_is_computed_in_float(self):
        half = xpu(4, 3, dtype=fp16)
        with casting(fp16):
            for function in (torch.exp, torch.log, torch.norm, F.softplus):
                self.assertEqual(function(half).dtype, fp32, function)
            self.assertEqual(F.mse_loss(half, half).dtype, fp32)
            self.assertEqual(F.layer_norm(half, (3,)).dtype, fp32)
            self.assertEqual(torch.pow(half, 2).dtype, fp32)
            self.assertEqual(torch.pow(2, half).dtype, fp32)
        self.assertEqual(self.given("exp"), [[fp32]])

    def test_sums_get_float_for_their_result_and_copy_nothing(self):
        half = xpu(4, 3, dtype=fp16)
        with casting(fp16):
            self.assertEqual(torch.sum(half).dtype, fp32)
            self.assertEqual(torch.sum(half, 1).dtype, fp32)
            self.assertEqual(torch.cumsum(half, 0).dtype, fp32)
            self.assertEqual(torch.sum(half, dtype=fp16).dtype, fp16)
            self.assertEqual(torch.sum(xpu(3, dtype=torch.int32)).dtype, torch.int64)
        self.assertEqual(self.given("sum")[:2], [[fp16], [fp16]])
        self.assertEqual(self.given("_to_copy"), [])

    def test_several_types_become_the_widest(self):
        half, single = xpu(3, dtype=bf16), xpu(3)
        with casting():
            self.assertEqual(torch.addcmul(half, half, single).dtype, fp32)
            self.assertEqual(torch.addcmul(half, half, half).dtype, bf16)
            self.assertEqual(torch.atan2(single, half).dtype, fp32)
        self.assertEqual(self.given("addcmul"), [[fp32] * 3, [bf16] * 3])

    def test_what_is_not_listed_is_left_alone(self):
        half, single = xpu(3, dtype=bf16), xpu(3)
        with casting():
            self.assertEqual(torch.relu(single).dtype, fp32)
            self.assertEqual((half + half).dtype, bf16)
            self.assertEqual((half + single).dtype, fp32)
        self.assertEqual(self.given("_to_copy"), [])

    def test_double_and_whole_numbers_are_left_alone(self):
        double, whole = xpu(2, 2, dtype=fp64), xpu(2, 2, dtype=torch.int64)
        with casting():
            self.assertEqual(torch.mm(double, double).dtype, fp64)
            self.assertEqual(torch.mm(whole, whole).dtype, torch.int64)
            self.assertEqual(torch.exp(double).dtype, fp64)

    def test_what_is_unsafe_is_refused(self):
        with casting():
            with self.assertRaisesRegex(RuntimeError, "unsafe to autocast"):
                F.binary_cross_entropy(xpu(3), xpu(3))
            result = F.binary_cross_entropy_with_logits(xpu(3, dtype=bf16), xpu(3))
            self.assertEqual(result.dtype, fp32)

    def test_a_weight_is_cast_once_in_a_scope(self):
        weight = xpu(3, 3, requires_grad=True)
        for scope in (1, 2):
            with casting():
                torch.mm(torch.mm(xpu(2, 3, dtype=bf16), weight), weight)
            self.assertEqual(self.given("_to_copy"), [[fp32]] * scope)

    @needs_device  # the engine has a thread for each
    def test_a_gradient_has_the_type_of_its_weight(self):
        weight = xpu(3, 3, requires_grad=True)
        with casting():
            result = torch.mm(xpu(2, 3), weight)
        result.backward(xpu(2, 3, dtype=bf16))
        self.assertEqual((result.dtype, weight.grad.dtype), (bf16, fp32))

    def test_other_devices_are_left_alone(self):
        with casting():
            here = torch.ones(2, 2)
            self.assertEqual(torch.mm(here, here).dtype, fp32)
        with torch.autocast("cpu"):
            self.assertEqual(torch.mm(xpu(2, 2), xpu(2, 2)).dtype, fp32)
            self.assertEqual(torch.mm(here, here).dtype, bf16)

    def test_the_operators_are_those_of_cuda(self):
        listed = {
            key: {
                full_name(schema)
                for schema in torch._C._jit_get_all_schemas()
                if schema.name.startswith("aten::")
                and torch._C._dispatch_has_kernel(full_name(schema))
                and torch._C._dispatch_has_kernel_for_dispatch_key(
                    full_name(schema), f"Autocast{key}"
                )
            }
            for key in ("CUDA", "XPU")
        }
        self.assertGreater(len(listed["CUDA"]), 100)
        self.assertEqual(
            listed["CUDA"] - listed["XPU"],
            {"aten::cudnn_convolution", "aten::cudnn_convolution_transpose"},
        )
        # Whole networks are cast in the stage tensor, where CUDA casts for cuDNN.
        recurrent = re.compile(r"aten::(lstm|gru|rnn_relu|rnn_tanh)\.")
        more = {name for name in listed["XPU"] - listed["CUDA"] if not recurrent.match(name)}
        self.assertEqual(more, set())


def full_name(schema):
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    return schema.name + overload


if __name__ == "__main__":
    run_tests()
