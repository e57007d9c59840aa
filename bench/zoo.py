"""Whole models on XPU beside torch.cuda: do they agree, train alike, and stay on the device?

    python bench/zoo.py [--only TEXT,TEXT] [--json FILE] [PEER]

runs with the stock torch and the extension. The models are those of zoo_models.py; ZOO is a
folder in which both Pythons find the packages that they are of. See peer.py.

Outputs and gradients in float are compared with the CPU's. Then a model trains in bf16 by
autocast, and again from weights that are changed as rounding them to bf16 would: how far apart
these losses are is the noise.
"""

import copy
import math
import os
import statistics
import sys
import warnings

import peer
import torch
from zoo_models import MODELS, SCALE, let_torchvision_load, part

sys.path += filter(None, [os.environ.get("ZOO")])
STEPS = max(10, 100 // SCALE)
BATCHES = 4  # of data, one after the other
TOLERANCES = {"outputs": 1e-4, "gradients": 5e-3}
MEMORY = 1.1  # of the peer's
LEAST = 1e-3  # of a loss, which is noise


def results(net, batch, loss, device):
    """Outputs and gradients in float."""
    net = copy.deepcopy(net).to(device)
    *inputs, target = (x.to(device) for x in batch)
    out = net(*inputs)
    loss(out, target).backward()
    return out.detach().cpu(), [p.grad.cpu() for p in net.parameters() if p.grad is not None]


def differences(expected, got):
    """Of the outputs the largest difference, relative to the largest magnitude. Of the gradients
    the norm of it, relative to the norm of the parameter's or to a thousandth of the largest
    parameter's: one that is 0 is made of rounding alone, and where rounding puts a number on the
    other side of a ReLU's 0 some elements are others."""
    (out, grads), (out_got, grads_got) = expected, got
    norms = [grad.norm().item() for grad in grads]
    ratios = [
        (x - y).norm().item() / max(norm, max(norms) / 1000)
        for x, y, norm in zip(grads, grads_got, norms, strict=True)
    ]
    far = (out - out_got).abs().max() / out.abs().max()
    return {"outputs": far.item(), "gradients": torch.tensor(ratios).max().item()}  # NaN, too


class Training:
    """In bf16 by autocast, with a fused AdamW. A call is a step."""

    def __init__(self, net, batches, loss, device):
        self.net, self.loss, self.device = copy.deepcopy(net).to(device), loss, device
        self.batches = [[x.to(device) for x in batch] for batch in batches]
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=3e-4, fused=True)
        self.losses = []

    def __call__(self):
        *inputs, target = self.batches[len(self.losses) % BATCHES]
        self.optimizer.zero_grad()
        with torch.autocast(self.device, torch.bfloat16):
            loss = self.loss(self.net(*inputs).float(), target)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())


def waits_of(call, device):
    """How often a call waits for the device; None of the CPU."""
    if device == "cpu":
        return None
    switch = getattr(torch._C, f"_{device}_set_sync_debug_mode")
    switch(1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    switch(0)
    return sum("synchronizing" in str(one.message) for one in said)


def of_model(device, make, count, loss):
    """What is measured of it."""
    torch.manual_seed(0)
    net, *made = make()
    count = part(count, 4)
    batches = [[one(count) for one in made] for _ in range(BATCHES)]
    found = {"parameters": sum(p.numel() for p in net.parameters()), "losses": [], "memory": None}
    with torch.no_grad():  # another torch, or another package, may make others by the same seed
        found["weights"] = sum(p.abs().sum(dtype=torch.double).item() for p in net.parameters())
    backend, few = getattr(torch, device), [one(max(4, count // 8)) for one in made]
    if device == "xpu":
        found |= differences(*(results(net, few, loss, at) for at in ("cpu", device)))
    for noise in (0, 2**-9):
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(1 + noise * torch.randn_like(p))
        call = None
        peer.empty_cache(device)
        before = 0 if device == "cpu" else backend.memory_allocated()
        call = Training(net, batches, loss, device)
        for step in range(STEPS):
            if step == BATCHES and device != "cpu":
                backend.reset_peak_memory_stats()
            call()
        # one of each batch
        found["losses"].append(torch.stack(call.losses[-BATCHES:]).mean().item())
        if device != "cpu":
            found["memory"] = backend.max_memory_allocated() - before
    found["waits"] = waits_of(call, device)
    if device == "xpu":
        backend.reset_fallback_statistics()
        call()
        found["on host"] = sorted(backend.fallback_statistics())
    row = peer.Row(make, max(1, 4 // SCALE), 0.9)
    rounds, calls = peer.size_of_rounds(backend, call, row)
    times = [peer.round_of(backend, call, row, calls) for _ in range(rounds)]
    found["time"] = statistics.median(times)
    return found


def begin(device, row):
    """All that is known of a model: it has no rounds."""
    torch.backends.cudnn.allow_tf32 = False
    let_torchvision_load()
    return of_model(device, *row), None


def loss_of(runs):
    """The mean, and how far apart they are."""
    losses = [loss for run in runs for loss in run["losses"]]
    return sum(losses) / len(losses), max(losses) - min(losses)


def compare(rows, sides):
    """Yields what is known of each model, and what of it misses its bound. torch.cuda trains
    each twice, because its losses differ from run to run."""
    for name in rows:
        print(name, file=sys.stderr, flush=True)
        again = [side for side in sides[1:] if side.device == "cuda"]
        own, *theirs = (side.ask("begin", name) for side in (*sides, *again))
        if "failed" in own:
            yield {"name": name, **own}
            continue
        own["loss"], spread = loss_of([own])
        missed = [key for key, most in TOLERANCES.items() if not own[key] <= most]
        missed += ["on the host"] * bool(own["on host"])
        theirs = [one for one in theirs if "failed" not in one]
        best = min(theirs, key=lambda one: one["time"], default={})
        if theirs:
            best["loss"], their_spread = loss_of(theirs)
            own["noise"] = 2 * max(spread, their_spread, LEAST * best["loss"])
            same = math.isclose(own["weights"], best["weights"])
            missed += ["other weights"] * (not same or own["parameters"] != best["parameters"])
            missed += ["loss"] * (not abs(own["loss"] - best["loss"]) <= own["noise"])
        if best.get("memory"):
            missed += ["memory"] * (own["memory"] > MEMORY * best["memory"])
        if best.get("waits", 0) is not None:
            missed += ["waits"] * (own["waits"] > best.get("waits", 0))
        yield {"name": name, **own, "peer": best, "missed": missed}


COLUMNS = (  # what is above, how it is written, and of what
    ("parameters, M", ".1f", lambda one: one["parameters"] / 1e6),
    ("outputs", ".0e", lambda one: one["outputs"]),
    ("gradients", ".0e", lambda one: one["gradients"]),
    ("loss", ".4f", lambda one: one["loss"]),
    ("peer's", ".4f", lambda one: one["peer"]["loss"]),
    ("noise", ".4f", lambda one: one["noise"]),
    ("step, ms", ".2f", lambda one: one["time"] / 1e3),
    ("peer's", ".2f", lambda one: one["peer"]["time"] / 1e3),
    ("speed", ".2f", lambda one: one["peer"]["time"] / one["time"]),
    ("peak, MiB", ".0f", lambda one: one["memory"] / 2**20),
    ("peer's", ".0f", lambda one: one["peer"]["memory"] / 2**20),
    ("ratio", ".2f", lambda one: one["memory"] / one["peer"]["memory"]),
    ("waits", "d", lambda one: one["waits"]),
    ("peer's", "d", lambda one: one["peer"]["waits"]),
    ("on the host", "", lambda one: ", ".join(one["on host"])),
    ("missed", "", lambda one: one.get("failed") or ", ".join(one["missed"])),
)


def cell(form, value, one):
    try:
        return format(value(one), form)
    except (KeyError, TypeError):  # it failed, or there is no peer, or no memory of a CPU
        return ""


def table(found):
    """Yields the lines of a table of what `compare` found."""
    yield f"| | {' | '.join(title for title, _, _ in COLUMNS)} |"
    yield f"|---|{'|'.join('--:' if form else '---' for _, form, _ in COLUMNS)}|"
    for one in found:
        cells = (cell(form, value, one) for _, form, value in COLUMNS)
        yield f"| {one['name']} | {' | '.join(cells)} |"


if __name__ == "__main__":
    peer.main(__file__, __doc__, MODELS, begin, compare, table)
