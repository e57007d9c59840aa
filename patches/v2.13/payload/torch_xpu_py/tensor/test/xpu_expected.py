"""Tests of test_xpu_ops.py that fail on XPU, by fnmatch patterns of their names,
each with the reason. A test that is named here and passes is a failure.

A reason that begins with "crash:" keeps the test from being run at all."""

EXPECTED: dict[str, str] = {
    "TestVariants.test_addr_*": "addr_ of a tensor that has to be broadcast: the CPU's kernel "
    "tells that it is in place by the address of the argument, which a boxed call does not keep",
    "TestOut.test_lu_[cf]*": "torch.lu copies its results into out= in Python, whatever the device",
}
