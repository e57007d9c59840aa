# Owner(s): ["module: intel"]
"""The vendors' libraries: how they are found, and what is said of those that cannot be used.
Other files stand in for them, in processes that look there first."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import torch
from test_xpu_kernels import NAME, needs_device, ON_CUDA, Processes
from torch.testing._internal.common_utils import run_tests

COMPILER = shutil.which("c++") or shutil.which("g++")
PRINT = "import torch\nfor each in torch.xpu.libraries().items(): print(*each)"
VERSION = 'extern "C" unsigned long {}GetVersion() {{ return {}; }}'
ONE_DNN = 'extern "C" const int* dnnl_version() {{ static int v[3] = {{{}}}; return v; }}'
FILES = {
    "cublasLt": "libcublasLt.so.13",
    "cudnn": "libcudnn.so.9",
    "onednn": "libdnnl.so.3",
}
STEP = """
import torch, torch.nn.functional as F
torch._C._set_mkldnn_enabled({})
shapes = (2, 8, 9, 9), (16, 4, 3, 3), (16, 32, 3), (6, 32, 1), (5, 163), (5,)
x, *weights = [torch.randn(shape).xpu().requires_grad_() for shape in shapes]
y = F.conv2d(x, weights[0], padding=1, groups=2)
y = F.conv_transpose1d(y.flatten(2), weights[1], stride=2)
y = F.conv1d(y, weights[2])
F.linear(y, *weights[3:]).sum().backward()
torch.xpu.synchronize()
"""


class TestLibraries(Processes):
    def printed(self, sources, *args):
        """What a process prints that finds libraries of these sources."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "lib"))
            for name, source in sources.items():
                path = os.path.join(folder, "lib", FILES[name])
                command = [COMPILER, "-shared", "-fPIC", "-x", "c++", "-", "-o", path]
                subprocess.run(command, input=source.encode(), check=True, timeout=60)
            command = args or ("-c", PRINT)
            printed = self.run_python(*command, CUDA_PATH=folder, DNNLROOT=folder)
            return printed.replace(folder, "FOLDER")

    def check_problems(self, sources, problems):
        printed = self.printed(sources)
        for name, problem in problems.items():
            path = f"FOLDER/lib/{FILES[name]}"
            words = f"path='{path}', problem='{path} {problem}')"
            self.assertRegex(printed, rf"(?m)^{name} Library\(version='[0-9.]*', ")
            self.assertIn(words, printed)

    @needs_device  # once is enough
    @unittest.skipUnless(COMPILER, "there is no compiler")
    def test_old(self):
        self.check_problems(
            {
                "cublasLt": VERSION.format("cublasLt", 110399),
                "cudnn": VERSION.format("cudnn", 8899),
                "onednn": ONE_DNN.format("2, 7, 5"),
            },
            {
                "cublasLt": "has version 11.3.99, which is too old",
                "cudnn": "has version 8.8.99, which is too old",
                "onednn": "has version 2.7.5, which is too old",
            },
        )

    @needs_device  # once is enough
    @unittest.skipUnless(COMPILER, "there is no compiler")
    def test_incomplete(self):
        self.check_problems(
            {
                "cublasLt": VERSION.format("cublasLt", 130100),
                "cudnn": VERSION.format("cudnn", 92801),
                "onednn": ONE_DNN.format("3, 5, 0"),  # as a build without SYCL has it
            },
            {
                "cublasLt": "has no function cublasLtCreate",
                "cudnn": "has no function cudnnGetErrorString",
                "onednn": "has no function dnnl_sycl_interop_engine_create",
            },
        )

    @needs_device  # once is enough
    @unittest.skipUnless(COMPILER, "there is no compiler")
    def test_another_library(self):
        self.check_problems(
            dict.fromkeys(FILES, "int nothing;"),
            {
                "cublasLt": "has no function cublasLtGetVersion",
                "cudnn": "has no function cudnnGetVersion",
                "onednn": "has no function dnnl_version",
            },
        )

    @unittest.skipUnless(COMPILER, "there is no compiler")
    def test_command(self):
        package = "torch.xpu" if NAME == "torch" else NAME
        printed = self.printed({"cudnn": VERSION.format("cudnn", 8100)}, "-m", package)
        devices = [
            f"xpu:{i}  {torch.xpu.get_device_name(i)}" for i in range(torch.xpu.device_count())
        ]
        lines = printed.splitlines()
        self.assertEqual([line for line in lines if line.startswith("xpu:")], devices)
        self.assertRegex(printed, r"(?m)^cublasLt  .*libcublasLt\.so")
        problem = f"FOLDER/lib/{FILES['cudnn']} has version 8.1.0, which is too old"
        self.assertIn(f"cudnn  {problem}", lines)

    @needs_device
    @unittest.skipIf(torch.xpu.libraries()["onednn"].problem, "there is no oneDNN")
    @unittest.skipIf(ON_CUDA, "oneDNN is for devices of Intel's")
    def test_onednn(self):
        """It computes, by its fast kernels, where it is not turned off."""
        env = {"ONEDNN_VERBOSE": "1", "TORCH_XPU_FALLBACK": "error"}
        line = r"(?m)^onednn_verbose,.*exec,[cg]pu,(?!reorder)(\w+),([^,]*),([^,]*),"
        computed = re.findall(line, self.run_python("-c", STEP.format(True), **env))
        convolved = {way for kind, _, way in computed if kind == "convolution"}
        self.assertEqual(convolved, {"forward_training", "backward_data", "backward_weights"})
        # Of the linear layer three, and two of the convolution of one tap.
        self.assertEqual([kind for kind, *_ in computed].count("matmul"), 5)
        self.assertFalse([kernel for _, kernel, _ in computed if kernel.startswith("ref")])
        self.assertEqual(re.findall(line, self.run_python("-c", STEP.format(False), **env)), [])


if __name__ == "__main__":
    run_tests()
