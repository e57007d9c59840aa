"""A table of XPU's times beside torch.cuda's, each in a process of its own.

The file that has the rows is started again for each of the two. Rounds alternate between the
processes, so that both have the same machine: a ratio is the median of the rounds' ratios, and
its spread is from the lower to the upper quartile. The peer is a Python with a torch for CUDA;
`cpu` is the CPU of the same torch. Times are medians, per call, until the device is done, or for
a launch until it is submitted.
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


def round_of(backend, call, row, calls):
    """Microseconds of a call, after one that is not counted: another process had the device."""
    call()
    backend.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    if not row.launch:
        backend.synchronize()
    taken = time.perf_counter() - start
    backend.synchronize()
    return taken / calls * 1e6


def size_of_rounds(backend, call, row):
    """How many rounds there are, and calls in each: few of what takes more than a second."""
    return (3, 1) if round_of(backend, call, row, 1) > 1e6 else (ROUNDS, row.calls)


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
    return f"torch {torch.__version__} on {card}"


def empty_cache(device):
    import torch

    gc.collect()
    if device != "cpu":
        getattr(torch, device).empty_cache()


def begin(device, row):
    """What there is to say of a row before its rounds, and its call if it has rounds."""
    import torch

    backend = getattr(torch, device)
    call = row.make(device)
    if not callable(call):
        return {"times": [call]}, None
    call()
    on_host = []
    if device == "xpu":
        backend.reset_fallback_statistics()
        call()
        on_host = sorted(backend.fallback_statistics())
    size = size_of_rounds(backend, call, row)
    for _ in range(size[1] // 4):
        call()
    return {"on host": on_host, "size": size}, call


def serve(device, rows, begin):
    """Answers questions of stdin, a line of JSON each."""
    import torch

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    backend = getattr(torch, device)
    call = row = None
    for line in sys.stdin:
        question, of = json.loads(line)
        try:
            if question == "begin":
                call = None
                if hasattr(torch, "compiler"):
                    torch.compiler.reset()
                empty_cache(device)
                row = rows[of]
                answer, call = begin(device, row)
            elif question == "round":
                answer = round_of(backend, call, row, of)
            elif question == "card":
                answer = card_time(device, call, of)
            else:
                answer = torch_and_card(device)
        except Exception as error:  # other rows are still of use
            traceback.print_exc()
            answer = {"failed": (str(error).splitlines() or [repr(error)])[0]}
        print(json.dumps(answer), file=answers, flush=True)


class Side:
    """A process that measures on a device, started again if it ends."""

    def __init__(self, python, file, device, only):
        self.device, self.process = device, None
        self.command = [python, file, "--device", device, "--only", only]
        self.env = dict(os.environ)
        if device == "cuda":  # with its own libraries and the driver, as ci/gpu/run has it
            self.env.pop("PYTHONPATH", None)
            self.env["LD_LIBRARY_PATH"] = "/usr/local/nvidia/lib64"
        self.about = self.ask("about")

    def ask(self, question, of=None):
        if not self.process:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.process = subprocess.Popen(self.command, env=self.env, **pipes)
        try:
            print(json.dumps([question, of]), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            self.process.kill()  # what it said may be no answer
            ended, self.process = self.process.wait(), None
            return {"failed": f"its process ended with {ended}"}


def measured(sides, name):
    """Of each side what it said of a row, with its times by round, their median, and the time of
    the card alone."""
    found = [side.ask("begin", name) for side in sides]
    able = [(side, one) for side, one in zip(sides, found, strict=True) if "size" in one]
    rounds, calls = min((one["size"] for _, one in able), default=(0, 0))
    for _ in range(rounds):
        for side, one in able:
            taken = side.ask("round", calls)
            if isinstance(taken, dict):
                one.pop("times", None)
                one |= taken
                able = [other for other in able if other[1] is not one]
            else:
                one.setdefault("times", []).append(taken)
    for one in found:
        if "times" in one:
            one["time"] = statistics.median(one["times"])
    for side, one in able:
        taken = side.ask("card", one["time"])
        one["on card"] = None if isinstance(taken, dict) else taken
    return found


def compare(rows, sides, limit=None):
    """Yields what is known of each row. What moves bytes is compared with the row `limit`, too."""
    all_of = {}
    for name in rows:
        all_of[name] = measured(sides, name)
        said = (one.get("failed") or f"{one['time']:.1f} us" for one in all_of[name])
        print(f"{name}: {', '.join(said)}", file=sys.stderr, flush=True)
    fastest = all_of[limit][0].get("time") if limit in all_of else None
    for name, row in rows.items():
        own, *others = all_of[name]
        theirs = others[0] if others else {}
        pairs = [
            # Of a launch the bound is one of time, of the others one of speed.
            (x / y if row.launch else y / x)
            for x, y in zip(own.get("times", []), theirs.get("times", []), strict=False)
        ]
        yield {
            "name": name,
            "xpu": own.get("time"),
            "cuda": theirs.get("time"),
            "ratio": statistics.median(pairs) if pairs else None,
            "spread": statistics.quantiles(pairs, method="inclusive")[::2] if pairs[1:] else [],
            "bound": row.bound,
            "launch": row.launch,
            "of limit": row.nbytes / own["time"] / (rows[limit].nbytes / fastest)
            if own.get("time") and fastest and row.nbytes
            else None,
            "on card": own.get("on card"),
            "cuda on card": theirs.get("on card"),
            "on host": own.get("on host", []),
        }


def table(found):
    """Yields the lines of a table of what `compare` found."""
    found = list(found)
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
            spread = " to ".join(f"{end:.2f}" for end in one.get("spread", []))
            cells += [f"{ratio:.2f}" + (f" ({spread})" if spread else "")]
            cells += [f"{'≤' if launch else '≥'} {bound}", "met" if met else "missed"]
        else:
            cells += [""] * 3
        if cards:
            both = (one.get("on card"), one.get("cuda on card"))
            cells += [f"{time:.1f}" if time else "" for time in both]
        cells.append(f"{one['of limit']:.2f}" if one["of limit"] else "")
        cells.append(", ".join(one["on host"]))
        yield f"| {' | '.join(cells)} |"


def main(file, doc, rows, begin=begin, compare=compare, table=table):
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
        serve(given.device, rows, begin)
        return
    sides = [Side(sys.executable, file, "xpu", given.only)]
    if given.peer:
        peer = (sys.executable, "cpu") if given.peer == "cpu" else (given.peer, "cuda")
        sides.append(Side(peer[0], file, peer[1], given.only))
    about = [side.about for side in sides]
    if failed := [one for one in about if not isinstance(one, str)]:
        sys.exit(f"{parser.prog}: {failed[0]['failed']}")
    found = list(compare(rows, sides))
    print(*about, *table(found), sep="\n")
    if given.json:
        document = json.dumps({"about": about, "rows": found}, indent=1)
        pathlib.Path(given.json).write_text(f"{document}\n")
