"""Tests of test_xpu_ops.py that fail on XPU, by fnmatch patterns of their names,
each with the reason. A test that is named here and passes is a failure.

A reason that begins with "crash:" keeps the test from being run at all."""

EXPECTED: dict[str, str] = {
    "TestVariants.test_addr_*": "addr_ of a tensor that has to be broadcast: the CPU's kernel "
    "tells that it is in place by the address of the argument, which a boxed call does not keep",
    "TestOut.test_lu_[cf]*": "torch.lu copies its results into out= in Python, whatever the device",
}

# The same of tests with kernels.
_AS_CUDA = "what is saved for the gradient is float for half types, as with CUDA"
_DENSE = "the result of a tensor with gaps has none"
EXPECTED_WITH_KERNELS: dict[str, str] = {
    f"{kind}.test_{name}_{dtype}": _AS_CUDA
    for kind, names in {
        "TestForward": ("_native_batch_norm_legit", "native_batch_norm", "native_layer_norm"),
        "TestNoncontiguous": ("_native_batch_norm_legit", "native_batch_norm", "native_layer_norm"),
        "TestOut": ("_native_batch_norm_legit", "native_batch_norm"),
    }.items()
    for name in names
    for dtype in ("float16", "bfloat16")
} | {
    "TestNoncontiguous.test_nn_functional_pixel_unshuffle_*": _DENSE,
    "TestNoncontiguous.test_nn_functional_prelu_*": _DENSE,
    "TestOut.test_add_bool": "a bool for alpha needs a result of bool, as with CUDA",
}
