"""A table of XPU's times beside torch.cuda's, each measured in a process of its own.

The file that has the rows is started again for each process. The peer, a Python with a torch
for CUDA, is measured before and after XPU, and the faster of the two counts; `cpu` is the CPU of
the same torch, measured once. Times are the medians of rounds, per call, until
the device is done, or for a launch until it is submitted.
"""

import argparse
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 21


@dataclass(frozen=True)
class Row:
    """What is measured: `make` takes "xpu", "cuda" or "cpu", and returns the call. Of what
    happens once it measures the microseconds itself, and returns those."""

    make: Callable
    calls: int  # of a round; of a launch few enough that none waits for a place in the queue
    bound: float  # the least speed beside torch.cuda's; of a launch the most time
    nbytes: int = 0  # that a call reads and writes
    launch: bool = False


def median(backend, call, row):
    """Microseconds of a call."""
    start = time.perf_counter()
    call()
    backend.synchronize()
    calls, rounds = (1, 3) if time.perf_counter() - start > 1 else (row.calls, ROUNDS)
    for _ in range(calls // 4):
        call()
    times = []
    for _ in range(rounds):
        backend.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        if not row.launch:
            backend.synchronize()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


def card_time(device, call, host):
    """Microseconds of a call that takes `host`, on the card alone: between events, behind work
    that keeps the card busy until all is submitted. None where that is no card, and of what
    takes one long: there the host is ahead."""
    import torch

    backend = getattr(torch, device)
    kind = None if device == "cpu" else backend.get_device_properties(0)
    if kind is None or getattr(kind, "type", "gpu") != "gpu" or host > 2000:
        return None
    x = torch.ones(8192, 8192, device=device, dtype=torch.bfloat16)  # its product takes over 1 ms
    times = []
    for _ in range(7):
        backend.synchronize()
        for _ in range(2 + int(10 * host / 1000)):
            x @ x
        begin, end = (backend.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            call()
        end.record()
        backend.synchronize()
        times.append(begin.elapsed_time(end) / 10 * 1e3)
    return statistics.median(times)


def torch_and_card(device):
    import torch

    card = "the CPU" if device == "cpu" else getattr(torch, device).get_device_name()
    return {"torch": torch.__version__, "card": card}


def empty_cache(device):
    import torch

    gc.collect()
    if device != "cpu":
        getattr(torch, device).empty_cache()


def measure(device, rows):
    """Prints a line of JSON after each row, with all until then: microseconds by name, those of
    the card alone, and for XPU what ran on the host."""
    import torch

    backend = getattr(torch, device)
    found, on_card, on_host = {}, {}, {}
    for name, row in rows.items():
        try:
            call = row.make(device)
            if not callable(call):
                found[name] = call
            else:
                call()
                if device == "xpu":
                    backend.reset_fallback_statistics()
                    call()
                    on_host[name] = sorted(backend.fallback_statistics())
                found[name] = median(backend, call, row)
                on_card[name] = card_time(device, call, found[name])
        except Exception:  # the others are still of use
            traceback.print_exc()
        call = None
        if hasattr(torch, "compiler"):
            torch.compiler.reset()
        empty_cache(device)
        known = {"times": found, "on card": on_card, "on host": on_host}
        print(json.dumps({**torch_and_card(device), **known}), flush=True)


def measured(python, file, device, only):
    """What `measure` prints last in a process of this Python."""
    env = dict(os.environ)
    if device == "cuda":  # with its own libraries, and the driver's, as ci/gpu/run has it
        env.pop("PYTHONPATH", None)
        env["LD_LIBRARY_PATH"] = "/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu"
    command = [python, file, "--device", device, "--only", only]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:  # what it had printed until then is of use
        print(f"{python} {file}, {device}: ended with {done.returncode}", file=sys.stderr)
    if not done.stdout:
        done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def compare(rows, ours, peers, limit=None):
    """Yields what is known of each row. What moves bytes is compared with the row `limit`, too."""
    fastest = ours["times"].get(limit)
    for name, row in rows.items():
        own = ours["times"].get(name)
        theirs = min((peer["times"].get(name, 0) for peer in peers), default=0)
        on_card = [one["on card"].get(name) for one in peers]
        both = own and theirs
        yield {
            "name": name,
            "xpu": own,
            "cuda": theirs or None,
            # Of a launch the bound is one of time, of the others one of speed.
            "ratio": (own / theirs if row.launch else theirs / own) if both else None,
            "bound": row.bound,
            "launch": row.launch,
            "of limit": row.nbytes / own / (rows[limit].nbytes / fastest)
            if own and fastest and row.nbytes
            else None,
            "on card": ours["on card"].get(name),
            "cuda on card": min(filter(None, on_card), default=None),
            "on host": ours["on host"].get(name, []),
        }


def table(found):
    """Yields the lines of a table of what `compare` found."""
    cards = any(one.get("on card") for one in found)
    alone = "on the card | `torch.cuda`'s | " if cards else ""
    yield f"| | XPU, us | `torch.cuda`, us | ratio | bound | | {alone}of the limit | on the host |"
    yield f"|---|--:|--:|--:|--:|---|{'--:|--:|' if cards else ''}--:|---|"
    for one in found:
        ratio, bound, launch = one["ratio"], one["bound"], one["launch"]
        cells = [one["name"], f"{one['xpu']:.1f}" if one["xpu"] else "failed"]
        cells.append(f"{one['cuda']:.1f}" if one["cuda"] else "")
        if ratio:
            met = ratio <= bound if launch else ratio >= bound
            cells += [f"{ratio:.2f}", f"{'≤' if launch else '≥'} {bound}"]
            cells.append("met" if met else "missed")
        else:
            cells += [""] * 3
        if cards:
            both = (one.get("on card"), one.get("cuda on card"))
            cells += [f"{time:.1f}" if time else "" for time in both]
        cells.append(f"{one['of limit']:.2f}" if one["of limit"] else "")
        cells.append(", ".join(one["on host"]))
        yield f"| {' | '.join(cells)} |"


def main(file, doc, rows, measure=measure, compare=compare, table=table):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT,TEXT",
        help="the row of this name, or those with one of these in theirs",
    )
    parser.add_argument("--json", metavar="FILE", help="also write what was measured there")
    parser.add_argument("--device", choices=("cuda", "xpu", "cpu"), help=argparse.SUPPRESS)
    parser.add_argument("peer", nargs="?", help="a Python with a torch for CUDA, or cpu")
    given = parser.parse_args()
    texts = given.only.split(",")
    rows = (
        {given.only: rows[given.only]}
        if given.only in rows
        else {name: row for name, row in rows.items() if any(text in name for text in texts)}
    )
    if not rows:
        parser.error(f"no row has {given.only} in its name")
    if given.device:
        measure(given.device, rows)
        return
    peer = (sys.executable, "cpu") if given.peer == "cpu" else (given.peer, "cuda")

    def measured_by(python, device):
        return measured(python, file, device, given.only) if python else None

    before, ours = measured_by(*peer), measured_by(sys.executable, "xpu")
    after = None if given.peer == "cpu" else measured_by(*peer)
    about = [f"torch {one['torch']} on {one['card']}" for one in (ours, before) if one]
    found = list(compare(rows, ours, [one for one in (before, after) if one]))
    print(*about, *table(found), sep="\n")
    if given.json:
        document = json.dumps({"about": about, "rows": found}, indent=1)
        pathlib.Path(given.json).write_text(f"{document}\n")
