"""Operators that XPU has kernels for: XPU beside torch.cuda, each in a process of its own.

    python bench/ops.py [--only TEXT,TEXT] [--json FILE] [PEER]

runs with the stock torch and the extension; PEER is a Python with a torch for CUDA. Without it
XPU alone is measured. What an operator moves is compared with what a copy of the same memory
moves, which is the card's own limit. See peer.py. SIZE is the length of a side of the larger
tensors, for a device that would take too long.
"""

import os
from functools import partial

import torch
from peer import Row, compare, main
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


def product(rows, inner, columns, dtype, batch=None, tf32=False):
    """Of two matrices, or of a batch of them."""

    def make(device):
        before = () if batch is None else (batch,)
        x = random(device, *before, rows, inner, dtype=dtype)
        y = random(device, *before, inner, columns, dtype=dtype)
        flags = torch.backends.cuda.matmul

        def call():
            flags.allow_tf32 = tf32
            return x @ y

        return call

    return make


def narrow_product(size, dtype, by_row=False):
    def make(device):
        x, y = ((8 * random(device, size, size)).to(dtype) for _ in range(2))
        if dtype == torch.int8:
            return lambda: torch._int_mm(x, y.t())
        one = torch.ones(size if by_row else 1, 1, device=device)
        return lambda: torch._scaled_mm(x, y.t(), one, one.t(), out_dtype=torch.bfloat16)

    return make


def linear(rows, inner, columns):
    """As GPT-2 has it, in bf16 with a bias."""

    def make(device):
        x = random(device, rows, inner, dtype=torch.bfloat16)
        weight = random(device, columns, inner, dtype=torch.bfloat16)
        bias = random(device, columns, dtype=torch.bfloat16)
        return lambda: functional.linear(x, weight, bias)

    return make


def attention(heads, length, numbers, backward, masked, dropout):
    """In bf16, causal or with a mask that is added."""

    def make(device):
        shape = (1, heads, length, numbers)
        q, k, v = (random(device, *shape, dtype=torch.bfloat16, grad=backward) for _ in range(3))
        mask = random(device, length, length, dtype=torch.bfloat16) if masked else None

        def call():
            return functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=not masked
            )

        if not backward:
            return call
        y = call()
        grad = torch.ones_like(y)
        return lambda: torch.autograd.grad(y, (q, k, v), grad, retain_graph=True)

    return make


def convolution(channels, size, out, taps, stride, dtype, backward):
    """A layer of ResNet-50 for 32 images, channels last."""

    def make(device):
        x = random(device, 32, channels, size, size, dtype=dtype, grad=False)
        x = x.contiguous(memory_format=torch.channels_last).requires_grad_(backward)
        weight = random(device, out, channels, taps, taps, dtype=dtype)
        weight = weight.contiguous(memory_format=torch.channels_last).requires_grad_(backward)

        def call():
            return functional.conv2d(x, weight, stride=stride, padding=taps // 2)

        if not backward:
            return call
        y = call()
        grad = torch.ones_like(y)
        return lambda: torch.autograd.grad(y, (x, weight), grad, retain_graph=True)

    return make


def small_product(device):
    x = torch.ones(32, 32, device=device)
    return lambda: x @ x


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
for size in (512, 1024, 2048, 4096, 8192):
    calls = max(2, min(50, 8192 // size * 4))
    for title, dtype, tf32 in (
        ("float", torch.float32, False),
        ("tf32", torch.float32, True),
        ("bf16", torch.bfloat16, False),
    ):
        ROWS[f"mm, {title}, {size}"] = Row(product(size, size, size, dtype, tf32=tf32), calls, 0.97)
ROWS["bmm, float, 64 of 512"] = Row(product(512, 512, 512, torch.float32, 64), 10, 0.97)
ROWS["bmm, bf16, 64 of 512"] = Row(product(512, 512, 512, torch.bfloat16, 64), 20, 0.97)
for size, calls in ((1024, 50), (4096, 10)):
    for title, dtype in (("int8", torch.int8), ("float8", torch.float8_e4m3fn)):
        ROWS[f"mm, {title}, {size}"] = Row(narrow_product(size, dtype), calls, 0.97)
ROWS["mm, float8 with scales of rows, 4096"] = Row(
    narrow_product(4096, torch.float8_e4m3fn, by_row=True), 10, 0.97
)
for title, inner, columns in (
    ("attention's", 768, 2304),
    ("first", 768, 3072),
    ("second", 3072, 768),
    ("last", 768, 50257),
):
    ROWS[f"linear of GPT-2, {title}, 8,192 rows"] = Row(linear(8192, inner, columns), 10, 0.97)
for name, heads, length, numbers, masked, dropout in (
    ("16 x 2048 x 64", 16, 2048, 64, False, 0),
    ("32 x 8192 x 128", 32, 8192, 128, False, 0),
    ("mask, 16 x 2048 x 64", 16, 2048, 64, True, 0),
    ("dropout, 16 x 2048 x 64", 16, 2048, 64, False, 0.1),
):
    for title, backward in (("", False), (", backward", True)):
        ROWS[f"attention, {name}{title}"] = Row(
            attention(heads, length, numbers, backward, masked, dropout), 5, 0.9
        )
for channels, size, out, taps, stride in (
    (3, 224, 64, 7, 2),
    (64, 56, 64, 3, 1),
    (256, 56, 64, 1, 1),
    (512, 28, 1024, 1, 2),
    (512, 7, 512, 3, 1),
):
    for title, dtype in TYPES.items():
        for way, backward in (("", False), (", backward", True)):
            ROWS[f"conv {taps}x{taps} of {channels} x {size}^2, {title}{way}"] = Row(
                convolution(channels, size, out, taps, stride, dtype, backward), 5, 0.9
            )
ROWS["launch of mm, 32 x 32 floats"] = Row(small_product, 200, 1.2, launch=True)

if __name__ == "__main__":
    main(__file__, __doc__, ROWS, compare=partial(compare, limit=LIMIT))
