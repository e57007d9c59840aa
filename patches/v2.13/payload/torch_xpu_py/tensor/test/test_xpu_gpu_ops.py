# Owner(s): ["module: intel"]
"""Operators that PyTorch has for CUDA and not for the CPU: XPU's fallback cannot run these."""

import fnmatch
import os
import re
import unittest

import torch
import torchgen
from torch.testing._internal.common_utils import run_tests, TestCase

needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")

# Not on XPU, by patterns of names. docs/tensors.md lists them for users.
MISSING = """
*cudnn* *miopen* _triton_*
_scaled_dot_product_flash_attention* _scaled_dot_product_efficient_attention*
_flash_attention_* _efficient_attention_* _fill_mem_eff_dropout_mask_
_cslt_* *sparse_semi_structured*
_convert_weight_to_int4pack _weight_int4pack_mm _mixed_dtypes_linear _scaled_grouped_mm*
_conv_depthwise2d conv_depthwise3d
_thnn_fused_*_backward*
_fused_dropout _masked_scale _fused_rms_norm_backward _philox_*
""".split()


def for_cuda_alone():
    """Names of operators, and of overloads."""
    file = os.path.join(os.path.dirname(torchgen.__file__), "packaged/ATen/native/native_functions.yaml")
    with open(file) as opened:
        blocks = re.split(r"(?m)^- func: ", opened.read())[1:]
    for block in blocks:
        dispatch = re.search(r"(?m)^  dispatch:\n((?:    .*\n)+)", block)
        lines = dispatch[1].splitlines() if dispatch else ()
        keys = ", ".join(line.split("#")[0].partition(":")[0] for line in lines)
        keys = {key.strip() for key in keys.split(",")}
        if "CUDA" in keys and "CPU" not in keys and not any("Composite" in key for key in keys):
            name, _, overload = block.partition("(")[0].partition(".")
            yield name, overload


@needs_device
class TestOperatorsOfGPUs(TestCase):
    def test_each_is_there_or_listed(self):
        torch.empty(0, device="xpu")
        found = {True: set(), False: set()}
        for name, overload in for_cuda_alone():
            full = f"aten::{name}.{overload}" if overload else f"aten::{name}"
            there = torch._C._dispatch_has_kernel_for_dispatch_key(full, "XPU")
            found[there].add(name)
        self.assertGreater(len(found[True]), 10)

        def listed(names):
            return {
                pattern: sorted(fnmatch.filter(names, pattern)) for pattern in MISSING
            }

        unlisted = found[False] - set().union(*listed(found[False]).values())
        self.assertEqual(unlisted, set())
        self.assertEqual([key for key, names in listed(found[False]).items() if not names], [])
        self.assertEqual([names for names in listed(found[True]).values() if names], [])

    def test_products_with_a_dtype(self):
        torch.manual_seed(0)
        a, b, c = torch.randn(3, 2, 40, 40)
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            x, y, z = (each.to("xpu", dtype) for each in (a, b, c))
            for out_dtype in {dtype, torch.float64 if dtype == torch.float64 else torch.float32}:
                for function, one, more in (
                    (torch.mm, 0, 0),
                    (torch.addmm, 0, 1),
                    (torch.bmm, slice(None), 0),
                    (torch.baddbmm, slice(None), 1),
                ):
                    given = [each[one] for each in ((z, x, y) if more else (x, y))]
                    expected = function(*(each.to(out_dtype) for each in given))
                    found = function(*given, out_dtype=out_dtype)
                    self.assertEqual(found.dtype, out_dtype)
                    self.assertEqual(found, expected, atol=0, rtol=0)
                    out = torch.empty(0, device="xpu", dtype=out_dtype)
                    self.assertIs(function(*given, out_dtype=out_dtype, out=out), out)
                    self.assertEqual(out, expected, atol=0, rtol=0)
        with self.assertRaisesRegex(RuntimeError, "it must be the same, or Float"):
            torch.mm(x[0], y[0], out_dtype=torch.float32)
        x, y = x[0].half(), y[0].half()
        with self.assertRaisesRegex(RuntimeError, "out is Half, and out_dtype is Float"):
            torch.mm(x, y, out_dtype=torch.float32, out=torch.empty_like(x))
        self.assertEqual(
            torch.addmm(x, x, y, out_dtype=torch.float32, beta=2, alpha=0.5),
            torch.addmm(x.float(), x.float(), y.float(), beta=2, alpha=0.5),
        )


if __name__ == "__main__":
    run_tests()
