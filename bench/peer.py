"""What the benchmarks that have torch.cuda beside them share."""

import json
import os
import statistics
import subprocess
import time


def median(backend, call, count, rounds, waits=True):
    """Microseconds of a call: the median of rounds of `count` calls.

    A round lasts until the device is done, or without `waits` until all is submitted.
    """
    for _ in range(5):
        call()
    times = []
    for _ in range(rounds):
        backend.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        if waits:
            backend.synchronize()
        times.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(times)


def measured(python, file, device, *arguments):
    """The JSON that the file prints last, run for "xpu" or "cuda" by this Python."""
    env = dict(os.environ)
    if device == "cuda":  # with its own libraries, and the driver's, as ci/gpu/run has it
        env.pop("PYTHONPATH", None)
        env["LD_LIBRARY_PATH"] = "/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu"
    command = [python, file, "--device", device, *arguments]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])
