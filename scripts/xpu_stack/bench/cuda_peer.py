"""Builds bench/cuda.cpp, torch.cuda's side of the benchmark.

    python3 -m xpu_stack.bench.cuda_peer SOURCES OUT

compiles it against the torch of this Python, a build with CUDA, and ends with 1 and the
reason where there is none. All else is of the standard library, as ci/gpu/run needs.
"""

import shutil
import subprocess
import sys
from pathlib import Path


def build(sources: Path, out: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        sys.exit("there is no g++")
    try:
        import torch  # type: ignore[import-not-found]
        from torch.utils import cpp_extension  # type: ignore[import-not-found]
    except Exception as error:  # also of a library that it loads
        sys.exit(f"{type(error).__name__}: {error}")
    if not torch.cuda.is_available():
        sys.exit(f"its torch {torch.__version__} sees no CUDA device")
    try:
        includes = cpp_extension.include_paths("cuda")
    except Exception:  # an older torch, or no CUDA toolkit; the wheels have the headers
        includes = cpp_extension.include_paths()
    home = Path(torch.__file__).parent
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    command = [
        *(compiler, "-O2", "-w", f'-DBENCH_TORCH="{torch.__version__}"'),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(f"-isystem{path}" for path in (*includes, *home.parent.glob("nvidia/*/include"))),
        *(sources / "cuda.cpp", sources / "Harness.cpp", "-o", out),
        *("-Wl,--no-as-needed", f"-L{home}/lib", "-lc10", "-lc10_cuda"),
        *sorted(path for path in mapped if "libcudart" in path)[:1],
        *(f"-Wl,-rpath,{path}" for path in (home / "lib", *home.parent.glob("nvidia/*/lib"))),
        "-lpthread",
    ]
    complaints = []
    for standard in ("c++20", "c++17"):  # torch's headers want the newer from 2.10 on
        built = subprocess.run(
            [*map(str, command), f"-std={standard}"], capture_output=True, text=True, check=False
        )
        if built.returncode == 0:
            return
        complaints.append(built.stderr)
    sys.exit(f"it does not compile: {complaints[0][:2000]}")


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
