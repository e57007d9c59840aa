"""torch.compile on an NVIDIA card: XPU beside torch.cuda, each in a process of its own.

    python bench/compile.py [--only TEXT,TEXT] PEER

runs with the stock torch and the extension; PEER is a Python with a torch for CUDA. Without it
XPU alone is measured. What is compiled is the same. See peer.py.
"""

import functools
import os
import subprocess
import sys
import tempfile
import time

import torch
from models import GPT2, words_of
from peer import Row, main
from torch.nn import functional
from torch.nn.attention import flex_attention as flex


def random(device, *shape, dtype=torch.float32, grad=False):
    return torch.randn(shape).to(device, dtype).requires_grad_(grad)


def compiled(function, *tensors, **options):
    call = torch.compile(function, options=options)
    return lambda: call(*tensors)


def with_gradients(function, *tensors, mode=None):
    call = torch.compile(function, mode=mode)
    return lambda: torch.autograd.grad(call(*tensors), tensors)


def softmax(device):
    x = random(device, 4096, 4096)
    return compiled(lambda x: torch.softmax(functional.gelu(x) * 2 + 1, -1).sum(0), x)


def norm(device, mode=None):
    weight, bias = (torch.ones(1024, device=device, requires_grad=True) for _ in range(2))
    rows = random(device, 4096, 1024, grad=True)
    return with_gradients(
        lambda x, weight, bias: functional.layer_norm(x, (1024,), weight, bias).sum(),
        *(rows, weight, bias),
        mode=mode,
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


def gpt2(device):
    """A step of training in bf16 by autocast: model and loss in one graph, and a fused AdamW."""
    torch.manual_seed(0)
    model = GPT2().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    words, following = (words_of(device, 8, 1024) for _ in range(2))

    @functools.partial(torch.compile, fullgraph=True)
    def loss_of(words, following):
        return functional.cross_entropy(model(words).flatten(0, -2), following.flatten())

    def call():
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):  # in the graph PyTorch would not cache it
            loss = loss_of(words, following)
        loss.backward()
        optimizer.step()

    return call


def first_step(device, warm=False):
    """Microseconds of the first step in a new process: with nothing kept, or what one before
    it kept."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "TRITON_CACHE_DIR": f"{folder}/triton",
        }
        command = [sys.executable, __file__, "--first-step", device]
        for _ in range(1 + warm):
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
        return float(done.stdout)


def print_first_step(device):
    call = gpt2(device)
    getattr(torch, device).synchronize()
    start = time.perf_counter()
    call()
    getattr(torch, device).synchronize()
    print((time.perf_counter() - start) * 1e6)


ROWS = {
    "softmax over gelu, 4096 x 4096": Row(softmax, 50, 0.97),
    "layer norm and backward, 4096 x 1024": Row(norm, 50, 0.97),
    "the same, reduce-overhead": Row(functools.partial(norm, mode="reduce-overhead"), 50, 0.97),
    "launch of 1,024 floats from Python": Row(launch, 200, 1.2, launch=True),
    "cross entropy and backward, 4096 x 50,257": Row(cross_entropy, 10, 0.97),
    "RoPE, 8 x 32 x 2048 x 128, bf16": Row(rope, 20, 0.97),
    "AdamW, 124 M": Row(adamw, 10, 0.97),
    **{
        f"product, Triton, {size}, bf16": Row(functools.partial(product, size), 10, 0.95)
        for size in (1024, 2048, 4096, 8192)
    },
    "flex_attention causal, 16 x 2048 x 64, bf16": Row(attention, 20, 0.95),
    "flex_attention and backward": Row(functools.partial(attention, gradients=True), 20, 0.95),
    "GPT-2 124M, step, 8 x 1024": Row(gpt2, 4, 0.95),
    "GPT-2 124M, first step": Row(first_step, 1, 1.3, launch=True),
    "GPT-2 124M, first step, compiled before": Row(
        functools.partial(first_step, warm=True), 1, 1.3, launch=True
    ),
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--first-step"]:
        print_first_step(sys.argv[2])
    else:
        main(__file__, __doc__, ROWS)
