"""Builds bench/cuda.cpp, torch.cuda's side of the benchmark.

    python3 -m xpu_stack.bench.cuda_peer SOURCES OUT

compiles it against the CUDA build of torch that `python3` has, and ends with 1
and the reason where there is none. Standard library alone, as ci/gpu/run needs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Run by the python that has torch: its version, the compiler's words, the linker's.
_ASK = """
import glob, os, sys, torch
from torch.utils import cpp_extension
if not torch.cuda.is_available():
    sys.exit("its torch " + torch.__version__ + " sees no CUDA device")
home = os.path.dirname(torch.__file__)
try:
    includes = cpp_extension.include_paths("cuda")
except Exception:  # an older torch, or no CUDA toolkit; the wheels have the headers
    includes = cpp_extension.include_paths()
includes += glob.glob(os.path.join(home, "..", "nvidia", "*", "include"))
lib = os.path.join(home, "lib")
with open("/proc/self/maps") as maps:
    mapped = {line.split()[-1] for line in maps if "libcudart" in line}
beside = glob.glob(os.path.join(home, "..", "nvidia", "*", "lib"))
print(torch.__version__)
print(*(word for path in includes for word in ("-isystem", path)), sep="\\n")
print("-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI)
print("--")
print("-L" + lib, "-lc10", "-lc10_cuda", *sorted(mapped)[:1], sep="\\n")
print(*("-Wl,-rpath," + path for path in [lib] + beside), sep="\\n")
"""


def environment() -> dict[str, str]:
    """Without the libraries that XPU programs are given."""
    driver = "/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu"
    return {**os.environ, "LD_LIBRARY_PATH": driver}


def build(sources: Path, out: Path) -> str | None:
    """Compiles the program to `out`; the reason why not, or None."""
    python, compiler = shutil.which("python3"), shutil.which("g++")
    if python is None or compiler is None:
        return "there is no python3 or no g++"
    command = [python, "-c", _ASK]
    asked = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if asked.returncode:
        return (asked.stderr.strip().splitlines() or ["python3 has no torch"])[-1]
    version, *words = asked.stdout.splitlines()
    cut = words.index("--")
    complaint = ""
    for standard in ("c++20", "c++17"):  # torch's headers want the newer from 2.10 on
        built = subprocess.run(
            [
                *(compiler, f"-std={standard}", "-O2", "-w", f'-DBENCH_TORCH="{version}"'),
                *words[:cut],
                *(str(sources / "cuda.cpp"), str(sources / "Harness.cpp"), "-o", str(out)),
                *("-Wl,--no-as-needed", *words[cut + 1 :], "-lpthread"),
            ],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        if built.returncode == 0:
            return None
        complaint = complaint or built.stderr
    return f"it does not compile: {complaint[:2000]}"


if __name__ == "__main__":
    _reason = build(Path(sys.argv[1]), Path(sys.argv[2]))
    if _reason:
        sys.exit(_reason)
