# Owner(s): ["module: intel"]
"""The vendors' libraries: how they are found, and what is said of those that cannot be used.
Other files stand in for them, in processes that look there first."""

import os
import shutil
import subprocess
import tempfile
import unittest

import torch
from test_xpu_kernels import NAME, Processes
from torch.testing._internal.common_utils import run_tests

COMPILER = shutil.which("c++") or shutil.which("g++")
PRINT = "import torch\nfor each in torch.xpu.libraries().items(): print(*each)"
VERSION = 'extern "C" unsigned long {}GetVersion() {{ return {}; }}'
FILES = {"cublasLt": "libcublasLt.so.13", "cudnn": "libcudnn.so.9"}


class TestLibraries(Processes):
    def printed(self, sources, *args):
        """What a process prints that finds libraries of these sources."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "lib"))
            for name, source in sources.items():
                path = os.path.join(folder, "lib", FILES[name])
                command = [COMPILER, "-shared", "-fPIC", "-x", "c++", "-", "-o", path]
                subprocess.run(command, input=source.encode(), check=True, timeout=60)
            printed = self.run_python(*(args or ("-c", PRINT)), CUDA_PATH=folder)
            return printed.replace(folder, "FOLDER")

    def check_problems(self, sources, problems):
        printed = self.printed(sources)
        for name, problem in problems.items():
            path = f"FOLDER/lib/{FILES[name]}"
            words = f"path='{path}', problem='{path} {problem}')"
            self.assertRegex(printed, rf"(?m)^{name} Library\(version='[0-9.]*', ")
            self.assertIn(words, printed)

    @unittest.skipUnless(COMPILER, "there is no compiler")
    def test_old(self):
        self.check_problems(
            {
                "cublasLt": VERSION.format("cublasLt", 110399),
                "cudnn": VERSION.format("cudnn", 8899),
            },
            {
                "cublasLt": "has version 11.3.99, which is too old",
                "cudnn": "has version 8.8.99, which is too old",
            },
        )

    @unittest.skipUnless(COMPILER, "there is no compiler")
    def test_incomplete(self):
        self.check_problems(
            {
                "cublasLt": VERSION.format("cublasLt", 130100),
                "cudnn": VERSION.format("cudnn", 92801),
            },
            {
                "cublasLt": "has no function cublasLtCreate",
                "cudnn": "has no function cudnnGetErrorString",
            },
        )

    @unittest.skipUnless(COMPILER, "there is no compiler")
    def test_another_library(self):
        self.check_problems(
            dict.fromkeys(FILES, "int nothing;"),
            {
                "cublasLt": "has no function cublasLtGetVersion",
                "cudnn": "has no function cudnnGetVersion",
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


if __name__ == "__main__":
    run_tests()
