"""torch.compile on an NVIDIA card: XPU beside torch.cuda, each in a process of its own.

    python bench/compile.py [--only TEXT,TEXT] PEER

runs with the stock torch and the extension; PEER is a Python with a torch for CUDA, which is
measured before and after: the faster of the two counts. Without it XPU alone is measured. What
is compiled is the same; times are the medians of rounds, per call, until the device is done.
A TEXT is in the names of the rows that are measured.
"""

import argparse
import functools
import json
import sys
import traceback

import torch
from peer import measured, median
from torch.nn import functional
from torch.nn.attention import flex_attention as flex


def random(device, *shape, dtype=torch.float32, grad=False):
    return torch.randn(shape).to(device, dtype).requires_grad_(grad)


def compiled(function, *tensors, **options):
    call = torch.compile(function, options=options)
    return lambda: call(*tensors)


def with_gradients(function, *tensors):
    call = torch.compile(function)
    return lambda: torch.autograd.grad(call(*tensors), tensors)


def softmax(device):
    x = random(device, 4096, 4096)
    return compiled(lambda x: torch.softmax(functional.gelu(x) * 2 + 1, -1).sum(0), x)


def norm(device):
    weight, bias = (torch.ones(1024, device=device, requires_grad=True) for _ in range(2))
    rows = random(device, 4096, 1024, grad=True)
    return with_gradients(
        lambda x, weight, bias: functional.layer_norm(x, (1024,), weight, bias).sum(),
        *(rows, weight, bias),
    )


def launch(device):
    return compiled(lambda x: x + 1, torch.ones(1024, device=device))


def cross_entropy(device):
    target = torch.randint(50257, (4096,)).to(device)
    logits = random(device, 4096, 50257, dtype=torch.bfloat16, grad=True)
    return with_gradients(lambda x: functional.cross_entropy(x.float(), target), logits)


def rope(device):
    x = random(device, 8, 32, 2048, 128, dtype=torch.bfloat16)
    angle = torch.arange(2048.0)[:, None] / 10000 ** (torch.arange(128) % 64 / 64)
    cos, sin = (it.to(device, torch.bfloat16) for it in (angle.cos(), angle.sin()))

    def rotate(x):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    return compiled(rotate, x)


def adamw(device):
    block = [(768,), (768,), (768, 2304), (2304,), (768, 768), (768,), (768,), (768,)]
    block += [(768, 3072), (3072,), (3072, 768), (768,)]
    shapes = [(50257, 768), (1024, 768), *block * 12, (768,), (768,)]
    weights = [torch.nn.Parameter(random(device, *shape)) for shape in shapes]
    for weight in weights:
        weight.grad = random(device, *weight.shape)
    optimizer = torch.optim.AdamW(weights, foreach=True)

    def step():
        optimizer.step()

    return compiled(step)


def product(size, device):
    a, b = (random(device, size, size, dtype=torch.bfloat16) for _ in range(2))
    options = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    return compiled(lambda a, b: a @ b, a, b, **options)


def attention(device, gradients=False):
    shape = (1, 16, 2048, 64)
    tensors = [random(device, *shape, dtype=torch.bfloat16, grad=gradients) for _ in range(3)]

    def causal(_b, _h, q, k):
        return q >= k

    mask = flex.create_block_mask(causal, None, None, 2048, 2048, device=device)

    def attend(q, k, v):
        return flex.flex_attention(q, k, v, block_mask=mask)

    if gradients:
        return with_gradients(lambda *tensors: attend(*tensors).sum(), *tensors)
    return compiled(attend, *tensors)


ROUNDS = 21
LAUNCH = "launch of 1,024 floats from Python"
# What is measured: what makes its call, how many of them a round has, and the least speed beside
# torch.cuda's. Of a launch it is the most time.
ROWS = {
    "softmax over gelu, 4096 x 4096": (softmax, 50, 0.97),
    "layer norm and backward, 4096 x 1024": (norm, 50, 0.97),
    # Few enough that none waits for a place in the queue.
    LAUNCH: (launch, 200, 1.2),
    "cross entropy and backward, 4096 x 50,257": (cross_entropy, 10, 0.97),
    "RoPE, 8 x 32 x 2048 x 128, bf16": (rope, 20, 0.97),
    "AdamW, 124 M": (adamw, 10, 0.97),
    **{
        f"product, Triton, {size}, bf16": (functools.partial(product, size), 10, 0.95)
        for size in (1024, 2048, 4096, 8192)
    },
    "flex_attention causal, 16 x 2048 x 64, bf16": (attention, 20, 0.95),
    "flex_attention and backward": (functools.partial(attention, gradients=True), 20, 0.95),
}


def chosen(only):
    return [name for name in ROWS if any(text in name for text in only.split(","))]


def measure(device, only):
    """Prints a line of JSON: microseconds by name, and for XPU what ran on the host."""
    backend = getattr(torch, device)

    found, on_host = {}, {}
    for name in chosen(only):
        make, count, _ = ROWS[name]
        try:
            call = make(device)
            call()
            if device == "xpu":
                backend.reset_fallback_statistics()
                call()
                on_host[name] = sorted(backend.fallback_statistics())
            found[name] = median(backend, call, count, ROUNDS, waits=name != LAUNCH)
        except Exception:  # the others are still of use
            traceback.print_exc()
        torch.compiler.reset()
        backend.empty_cache()
    about = {"torch": torch.__version__, "card": backend.get_device_name()}
    print(json.dumps({**about, "times": found, "on host": on_host}))


def main(peer, only):
    before = measured(peer, __file__, "cuda", "--only", only) if peer else None
    ours = measured(sys.executable, __file__, "xpu", "--only", only)
    after = measured(peer, __file__, "cuda", "--only", only) if peer else None
    for one in filter(None, (ours, before)):
        print(f"torch {one['torch']} on {one['card']}")
    for name in chosen(only):
        own = ours["times"].get(name)
        theirs = [one["times"][name] for one in (before, after) if one and name in one["times"]]
        if own is None or (peer and not theirs):
            print(f"{name:44} failed{'' if own is None else ' for torch.cuda'}")
            continue
        line = f"{name:44} {own:10.2f} us"
        if theirs:
            fastest, bound = min(theirs), ROWS[name][2]
            # Of a launch the bound is one of time, of the others one of speed.
            ratio = own / fastest if name == LAUNCH else fastest / own
            met = ratio <= bound if name == LAUNCH else ratio >= bound
            sign, verdict = "<=" if name == LAUNCH else ">=", "met" if met else "MISSED"
            line += f" {fastest:10.2f} us {ratio:6.2f}  {sign} {bound}  {verdict}"
        fell_back = ours["on host"][name]
        print(line, *(["on the host:", *fell_back] if fell_back else []))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT,TEXT")
    parser.add_argument("--device", choices=("cuda", "xpu"), help=argparse.SUPPRESS)
    parser.add_argument("peer", nargs="?")
    given = parser.parse_args()
    if given.device:
        measure(given.device, given.only)
    else:
        main(given.peer, given.only)
