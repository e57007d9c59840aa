"""Compiles XPU's kernels before they are used, and shows or clears the folder that keeps them:

    python -m torch.xpu.kernels [--list | --clear]
    python -m torch_xpu_runtime.kernels [--list | --clear]     beside a stock PyTorch

Without an option it compiles what is missing for the devices that are here.
"""

import argparse
import os
import sys
from concurrent.futures import as_completed, ThreadPoolExecutor
from pathlib import Path

import torch


def _kept(folder):
    ends = ("*.kernels", "*.log", "built/*.kernels")
    found = (path for end in ends for path in Path(folder).glob(end))
    return sorted(found, key=lambda path: path.stat().st_mtime)


def _show(folder):
    files = _kept(folder)
    for path in files:
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")
    size = sum(path.stat().st_size for path in files)
    print(f"{size / 1e6:8.2f} MB in {len(files)} file(s) of {folder}")
    return 0


def _clear(folder):
    files = _kept(folder)
    for path in files:
        path.unlink()
    print(f"removed {len(files)} file(s) from {folder}")
    return 0


def _compile(folder):
    if not torch.xpu.is_available():
        print("error: There is no XPU device to compile for.", file=sys.stderr)
        return 1
    torch.xpu.init()
    names = torch.ops.torch_xpu._kernel_units()[0::2]
    work = [(name, device) for device in range(torch.xpu.device_count()) for name in names]
    failed = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = [pool.submit(torch.ops.torch_xpu._load_kernels, *one) for one in work]
        for done, one in enumerate(as_completed(running), start=1):
            failed += not one.result()
            if sys.stderr.isatty():
                bar = ("#" * (30 * done // len(work))).ljust(30)
                end = "\n" if done == len(work) else ""
                print(f"\rcompiling kernels [{bar}] {done}/{len(work)}", end=end, file=sys.stderr)
    print(f"{len(work) - failed} of {len(work)} units of kernels are there; kept in {folder}")
    return 1 if failed else 0


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0] + ".")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--list", action="store_true", help="show what the folder has")
    either.add_argument("--clear", action="store_true", help="remove what the folder has")
    options = parser.parse_args(words)
    folder = torch.ops.torch_xpu._kernel_cache_folder()
    if not folder:
        print("error: Kernels are not kept.", file=sys.stderr)
        print("  why: TORCH_XPU_KERNEL_CACHE is 0, or there is no HOME", file=sys.stderr)
        print("  next: set TORCH_XPU_KERNEL_CACHE to a folder", file=sys.stderr)
        return 1
    return (_show if options.list else _clear if options.clear else _compile)(folder)


if __name__ == "__main__":
    sys.exit(main())
