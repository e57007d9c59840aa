"""torch.compile on an NVIDIA card: XPU beside torch.cuda, each in a process of its own.

    python bench/compile.py PEER

runs with the stock torch and the extension; PEER is a Python with a torch for CUDA, which is
measured before and after: the faster of the two counts. Without it XPU alone is measured. What
is compiled is the same; times are the medians of rounds, per call, until the device is done.
"""

import json
import os
import statistics
import subprocess
import sys
import time

# What is measured, and how many calls a round has.
COUNTS = {"softmax over gelu, 4096 x 4096": 50, "layer norm and backward, 4096 x 1024": 50}
LAUNCH = "launch of 1,024 floats from Python"
ROUNDS = 21


def measure(device):
    """Prints a line of JSON: microseconds by name."""
    import torch
    from torch.nn import functional

    backend = getattr(torch, device)

    def median(call, count, waits=True):
        for _ in range(20):
            call()
        times = []
        for _ in range(ROUNDS):
            backend.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            if waits:
                backend.synchronize()
            times.append((time.perf_counter() - start) / count * 1e6)
        return statistics.median(times)

    def softmax(x):
        return torch.softmax(functional.gelu(x) * 2 + 1, -1).sum(0)

    def norm(x):
        return functional.layer_norm(x, (1024,), weight, bias).sum()

    large = torch.randn(4096, 4096, device=device)
    weight, bias = (torch.ones(1024, device=device, requires_grad=True) for _ in range(2))
    rows = torch.randn(4096, 1024, device=device, requires_grad=True)
    small = torch.ones(1024, device=device)
    softmax, norm, add = (torch.compile(it) for it in (softmax, norm, lambda x: x + 1))

    def forward_and_backward():
        torch.autograd.grad(norm(rows), [rows, weight, bias])

    calls = (lambda: softmax(large), forward_and_backward)
    found = {
        name: median(call, count) for (name, count), call in zip(COUNTS.items(), calls, strict=True)
    }
    # Few enough that none waits for a place in the queue.
    found[LAUNCH] = median(lambda: add(small), 200, waits=False)
    print(json.dumps({"torch": torch.__version__, "card": backend.get_device_name(), **found}))


def measured(python, device):
    env = dict(os.environ)
    if device == "cuda":  # with its own libraries, and the driver's, as ci/gpu/run has it
        env.pop("PYTHONPATH", None)
        env["LD_LIBRARY_PATH"] = "/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu"
    command = [python, __file__, "--device", device]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(peer):
    before = measured(peer, "cuda") if peer else None
    ours = measured(sys.executable, "xpu")
    after = measured(peer, "cuda") if peer else None
    for one in filter(None, (ours, before)):
        print(f"torch {one['torch']} on {one['card']}")
    for name in (*COUNTS, LAUNCH):
        if before is None or after is None:
            print(f"{name:40} {ours[name]:10.2f} us")
            continue
        theirs = min(before[name], after[name])
        # Of a launch the bound is one of time, of the others one of speed.
        ratio = ours[name] / theirs if name == LAUNCH else theirs / ours[name]
        bound = "<= 1.2" if name == LAUNCH else ">= 0.97"
        met = ratio <= 1.2 if name == LAUNCH else ratio >= 0.97
        verdict = "met" if met else "MISSED"
        print(f"{name:40} {ours[name]:10.2f} us {theirs:10.2f} us {ratio:6.2f}  {bound}  {verdict}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--device"]:
        measure(sys.argv[2])
    else:
        main(sys.argv[1] if sys.argv[1:] else None)
