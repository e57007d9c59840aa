"""Operators that XPU has kernels for: XPU beside torch.cuda, each in a process of its own.

    python bench/ops.py [--only TEXT,TEXT] [--json FILE] [PEER]

runs with the stock torch and the extension; PEER is a Python with a torch for CUDA. Without it
XPU alone is measured. What an operator moves is compared with what a copy of the same memory
moves, which is the card's own limit. See peer.py. SIZE is the length of a side of the larger
tensors, for a device that would take too long.
"""

import os

import torch
from peer import Row, main
from torch.nn import functional

SIZE = int(os.environ.get("SIZE", "8192"))  # 2^26 elements
COUNT = SIZE * SIZE
LIMIT = "copy_, float"
TYPES = {"float": torch.float32, "bf16": torch.bfloat16}


def random(device, *shape, dtype=torch.float32, grad=False):
    return torch.rand(shape, device="cpu").to(device, dtype).requires_grad_(grad)


def square(device, dtype):
    # Made there: two of the largest would take seconds to be copied.
    return torch.ones(SIZE, SIZE, device=device, dtype=dtype).mul_(0.5)


def pointwise(name, dtype):
    """Yields what is measured of a type: a name, what makes the call, and the elements moved."""

    def with_tensors(function):
        def make(device):
            x, out = square(device, dtype), square(device, dtype)
            return lambda: function(x, out)

        return make

    def last(device):
        x = square(device, dtype).view(16, SIZE // 16, SIZE // 16, 16).permute(0, 3, 1, 2)
        return lambda: x + x

    yield f"add, {name}", with_tensors(lambda x, out: torch.add(x, out, out=out)), 3
    yield f"exp, {name}", with_tensors(lambda x, out: torch.exp(x, out=out)), 2
    yield f"add of a row, {name}", with_tensors(lambda x, out: torch.add(x, x[0], out=out)), 2
    yield (
        f"add of a transposed, {name}",
        with_tensors(lambda x, out: torch.add(x, x.t(), out=out)),
        3,
    )
    yield f"add, channels last, {name}", last, 2
    yield f"transpose, {name}", with_tensors(lambda x, out: out.copy_(x.t())), 2
    yield f"copy_, {name}", with_tensors(lambda x, out: out.copy_(x)), 2
    yield f"fill_, {name}", with_tensors(lambda _x, out: out.fill_(1.5)), 1


def cast(of, to):
    def make(device):
        x, out = square(device, of), square(device, to)
        return lambda: out.copy_(x)

    return make


def of_rows(function, rows, columns, grad=False):
    def make(device):
        x = random(device, rows, columns, grad=grad)
        return function(x)

    return make


def sums(dim):
    return lambda x: lambda: x.sum(dim)


def softmax(x):
    return lambda: functional.softmax(x, 1)


def softmax_backward(x):
    y, grad = functional.softmax(x, 1), torch.ones_like(x)
    return lambda: torch.autograd.grad(y, x, grad, retain_graph=True)


def norm_of(x):
    weight, bias = (
        torch.ones(x.size(1), device=x.device, requires_grad=x.requires_grad) for _ in range(2)
    )
    return (x, weight, bias), lambda: functional.layer_norm(x, (x.size(1),), weight, bias)


def norm(x):
    return norm_of(x)[1]


def norm_backward(x):
    tensors, call = norm_of(x)
    y, grad = call(), torch.ones_like(x)
    return lambda: torch.autograd.grad(y, tensors, grad, retain_graph=True)


def along(function):
    def make(device):
        x = random(device, COUNT // 4)
        return lambda: function(x)

    return make


ROWS_OF_64 = COUNT // 64


def selected(device):
    table = random(device, ROWS_OF_64, 64)
    return table, torch.randint(ROWS_OF_64, (ROWS_OF_64,), device="cpu").to(device)


def index_select(device):
    table, index = selected(device)
    return lambda: table.index_select(0, index)


def index_add(device):
    table, index = selected(device)
    source = table.clone()
    return lambda: table.index_add_(0, index, source)


def embedding_backward(device):
    table, index = selected(device)
    table.requires_grad_(True)
    y = functional.embedding(index, table)
    grad = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, table, grad, retain_graph=True)


def fused_adamw(device):
    weights = [torch.nn.Parameter(random(device, COUNT // 80, 1)) for _ in range(148)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    return torch.optim.AdamW(weights, fused=True).step


def foreach_add(device):
    tensors = [random(device, COUNT // 4096) for _ in range(148)]
    return lambda: torch._foreach_add_(tensors, tensors)


def small(device):
    x = torch.ones(1024, device=device)
    return lambda: x + x


FLOAT = 4
ROWS = {
    f"{name}": Row(make, 10, 0.95, elements * dtype.itemsize * COUNT)
    for title, dtype in TYPES.items()
    for name, make, elements in pointwise(title, dtype)
}
ROWS["float to bf16"] = Row(cast(torch.float32, torch.bfloat16), 10, 0.95, 6 * COUNT)
ROWS["bf16 to float"] = Row(cast(torch.bfloat16, torch.float32), 10, 0.95, 6 * COUNT)
for rows, columns in ((4096, 4096), (65536, 512), (256, 50257)):
    moved = rows * columns * FLOAT
    for title, function, times, grad in (
        ("sum", sums(None), 1, False),
        ("sum of rows", sums(1), 1, False),
        ("sum of columns", sums(0), 1, False),
        ("softmax", softmax, 2, False),
        ("softmax, backward", softmax_backward, 3, True),
        ("layer_norm", norm, 2, False),
        ("layer_norm, backward", norm_backward, 3, True),
    ):
        make = of_rows(function, rows, columns, grad)
        ROWS[f"{title}, {rows:,} x {columns:,}"] = Row(make, 20, 0.9, times * moved)
ROWS |= {
    "cumsum": Row(along(lambda x: x.cumsum(0)), 10, 0.7, COUNT // 4 * 2 * FLOAT),
    "sort": Row(along(lambda x: x.sort()), 5, 0.7),
    "topk": Row(along(lambda x: x.topk(100)), 5, 0.7),
    "index_select": Row(index_select, 10, 0.7, 2 * COUNT * FLOAT),
    "index_add_": Row(index_add, 10, 0.7, 3 * COUNT * FLOAT),
    "embedding, backward": Row(embedding_backward, 10, 0.7, 3 * COUNT * FLOAT),
    "fused AdamW, 124 M": Row(fused_adamw, 5, 0.95, COUNT // 80 * 148 * 7 * FLOAT),
    "_foreach_add_ of 148 tensors": Row(foreach_add, 20, 0.95),
    "launch of add, 1,024 floats": Row(small, 200, 1.2, launch=True),
}

if __name__ == "__main__":
    main(__file__, __doc__, ROWS, LIMIT)
