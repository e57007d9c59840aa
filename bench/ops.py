"""Operators that XPU has kernels for: XPU beside torch.cuda, each in a process of its own.

    python bench/ops.py [PEER]

runs with the stock torch and the extension; PEER is a Python with a torch for CUDA, which is
measured before and after: the faster of the two counts. Without it XPU alone is measured. Times
are the medians of rounds, per call, until the device is done. What an operator moves is compared
with what a copy of the same memory moves, which is the card's own limit.
"""

import json
import os
import sys
import time

from peer import measured, median

ROUNDS = 11
LAUNCH = "add of 1,024 floats, until it is submitted"
LIMIT = "copy_, float"


def cases(torch, device, size):
    """Yields what is measured: a name, a call, and the bytes that it moves."""
    count = size * size
    for name, dtype, width in (("float", torch.float, 4), ("bfloat16", torch.bfloat16, 2)):
        x = torch.rand(size, size, device=device).to(dtype)
        y, out = torch.ones_like(x), torch.empty_like(x)
        last = torch.rand(16, size // 16, size // 16, 16, device=device).to(dtype)
        last = last.permute(0, 3, 1, 2)
        yield f"add, {name}", lambda x=x, y=y, out=out: torch.add(x, y, out=out), 3 * width * count
        yield f"exp, {name}", lambda x=x, out=out: torch.exp(x, out=out), 2 * width * count
        yield (
            f"add of a row, {name}",
            lambda x=x, y=y, out=out: torch.add(x, y[0], out=out),
            2 * width * count,
        )
        yield (
            f"add of a transposed, {name}",
            lambda x=x, y=y, out=out: torch.add(x, y.t(), out=out),
            3 * width * count,
        )
        yield (
            f"add, channels last, {name}",
            lambda x=last: x + x,
            2 * width * last.numel(),
        )
        yield f"transpose, {name}", lambda x=x, out=out: out.copy_(x.t()), 2 * width * count
        yield f"fill_, {name}", lambda out=out: out.fill_(1.5), width * count
        yield f"sum, {name}", lambda x=x: x.sum(), width * count
        yield f"sum of rows, {name}", lambda x=x: x.sum(1), width * count
        yield f"sum of columns, {name}", lambda x=x: x.sum(0), width * count
    x = torch.rand(size, size, device=device)
    half, out = x.half(), torch.empty_like(x)
    yield "float to half", lambda: half.copy_(x), 6 * count
    yield "half to float", lambda: out.copy_(half), 6 * count
    yield "zero_", lambda: out.zero_(), 4 * count
    yield LIMIT, lambda: out.copy_(x), 8 * count


def measure(device, size):
    """Prints a line of JSON: microseconds and bytes by name."""
    import torch

    backend = getattr(torch, device)

    start = time.perf_counter()
    small = torch.ones(1024, device=device)
    (small + small).cpu()
    found = {"first result": ((time.perf_counter() - start) * 1e6, 0)}
    # Few enough that none waits for a place in the queue.
    found[LAUNCH] = (median(backend, lambda: small + small, 200, ROUNDS, waits=False), 0)
    for name, call, nbytes in cases(torch, device, size):
        found[name] = (median(backend, call, 10, ROUNDS), nbytes)
    print(json.dumps([torch.__version__, backend.get_device_name(), found]))


def main(peer, size):
    before = measured(peer, __file__, "cuda", str(size)) if peer else None
    version, card, ours = measured(sys.executable, __file__, "xpu", str(size))
    after = measured(peer, __file__, "cuda", str(size)) if peer else None
    print(f"{card}, torch {version}" + (f", beside torch {after[0]}" if after else ""))
    print("| | XPU, us | of the limit | torch.cuda, us | torch.cuda's time / XPU's |")
    print("| --- | --: | --: | --: | --: |")
    limit = ours[LIMIT][1] / ours[LIMIT][0]
    for name, (microseconds, nbytes) in ours.items():
        share = f"{nbytes / microseconds / limit:.2f}" if nbytes else ""
        theirs = ratio = ""
        if after:
            fastest = min(before[2][name][0], after[2][name][0])
            theirs, ratio = f"{fastest:.1f}", f"{fastest / microseconds:.2f}"
        print(f"| {name} | {microseconds:.1f} | {share} | {theirs} | {ratio} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--device"]:
        measure(sys.argv[2], int(sys.argv[3]))
    else:
        # 2^26 elements, or fewer where a CPU has to do it
        main(sys.argv[1] if len(sys.argv) > 1 else None, int(os.environ.get("SIZE", "8192")))
