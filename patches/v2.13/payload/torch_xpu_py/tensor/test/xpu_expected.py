"""Tests of test_xpu_ops.py that fail on XPU, by fnmatch patterns of their names,
each with the reason. A test that is named here and passes is a failure.

A reason that begins with "crash:" keeps the test from being run at all."""

EXPECTED: dict[str, str] = {
    "TestOut.test_lu_[cf]*": "torch.lu copies its results into out= in Python, whatever the device",
}

# The same of tests without kernels, and with them.
EXPECTED_WITHOUT_KERNELS = {
    "TestVariants.test_addr_*": "addr_ of a tensor that has to be broadcast: the CPU's kernel "
    "tells that it is in place by the address of the argument, which a boxed call does not keep",
}
_AS_CUDA = "what is saved for the gradient is float for half types, as with CUDA"
_NORMS = ("_native_batch_norm_legit", "native_batch_norm")
EXPECTED_WITH_KERNELS: dict[str, str] = {
    f"{kind}.test_{name}_{dtype}": _AS_CUDA
    for kind, names in {
        "TestForward": (*_NORMS, "_batch_norm_with_update", "native_layer_norm"),
        "TestNoncontiguous": (*_NORMS, "_batch_norm_with_update", "native_layer_norm"),
        "TestOut": _NORMS,
    }.items()
    for name in names
    for dtype in ("float16", "bfloat16")
} | {
    "TestErrors.test_narrow_copy": "the error for a dimension is narrow's, as with CUDA",
    "TestOut.test_add_bool": "a bool for alpha needs a result of bool, as with CUDA",
}

# With kernels these results have other strides.
_DENSE = "the result of a tensor with gaps has none"
OTHER_STRIDES_WITH_KERNELS = {
    "TestNoncontiguous.test_nn_functional_pixel_unshuffle_*": _DENSE,
    "TestNoncontiguous.test_nn_functional_prelu_*": _DENSE,
    "TestForward.test_nn_functional_scaled_dot_product_attention_*": "results are by queries and "
    "then heads, as those of flash attention, where the CPU composes attention of products too",
}
