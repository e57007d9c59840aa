"""Models on XPU beside torch.cuda, each in a process of its own.

    python bench/models.py [--only TEXT,TEXT] [--json FILE] [PEER]

runs with the stock torch and the extension; PEER is a Python with a torch for CUDA. Weights
and data are random. See peer.py. SCALE divides batches and sizes, for a device that would
take too long.
"""

import os

import torch
from peer import Row, main
from torch import nn
from torch.nn import functional

SCALE = int(os.environ.get("SCALE", "1"))


class Block(nn.Module):
    """A layer of GPT-2, or without `causal` of ViT."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = k, v
        causal = self.causal and length > 1
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = functional.gelu(self.up(self.after(x)), approximate="tanh" if self.causal else "none")
        return x + self.down(y)


class GPT2(nn.Module):
    """Of 124 M parameters."""

    def __init__(self, words=50257, length=1024, width=768, layers=12, heads=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, words, at=0, caches=None):
        places = torch.arange(at, at + words.size(1), device=words.device)
        x = self.words(words) + self.places(places)
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        return functional.linear(self.norm(x), self.words.weight)

    def generate(self, words, count):
        caches = [[] for _ in self.blocks]
        at = 0
        for _ in range(count):
            logits = self(words[:, at:], at, caches)
            at = words.size(1)
            words = torch.cat((words, logits[:, -1:].argmax(-1)), 1)
        return words


class ViT(nn.Module):
    """ViT-B/16 for 224 x 224."""

    def __init__(self, width=768, layers=12, heads=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.size(0), -1, -1).to(x), x), 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.layers = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.Conv2d(width, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        return functional.relu(self.layers(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    before = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            layers.append(Bottleneck(before, width, 2 if i == 0 and width > 64 else 1))
            before = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)]
    return nn.Sequential(*layers)


def words_of(device, *shape):
    return torch.randint(50257, shape, device="cpu").to(device)


def images(device, batch):
    x = torch.randn(batch, 3, 224, 224, device="cpu")
    return x.to(device, memory_format=torch.channels_last)


def step(make, inputs):
    """A step of training in bf16 by autocast, with a fused AdamW."""

    def make_call(device):
        torch.manual_seed(0)
        model = make().to(device)
        if any(isinstance(one, nn.Conv2d) for one in model.modules()):
            model = model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        x, y = inputs(device)

        def call():
            optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16):
                loss = functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            optimizer.step()

        return call

    return make_call


def of_words(batch, length):
    def inputs(device):
        return words_of(device, batch, length), words_of(device, batch, length)

    return inputs


def of_images(batch):
    def inputs(device):
        return images(device, batch), torch.randint(1000, (batch,), device="cpu").to(device)

    return inputs


def forward(make, inputs, in_graph=False):
    def make_call(device):
        torch.manual_seed(0)
        model = make().to(device, torch.bfloat16).eval()
        x = inputs(device)[0]
        x = x.bfloat16() if x.is_floating_point() else x

        def call():
            with torch.no_grad():
                model(x)

        if not in_graph:
            return call
        backend = getattr(torch, device)
        graph = getattr(backend, f"{device.upper()}Graph")()
        for _ in range(3):  # plans are made before it records
            call()
        backend.synchronize()
        with backend.graph(graph):
            call()
        return graph.replay

    return make_call


def generate(device):
    torch.manual_seed(0)
    model = GPT2().to(device, torch.bfloat16).eval()
    words = words_of(device, 1, 8)

    def call():
        with torch.no_grad():
            model.generate(words, 128 // SCALE)

    return call


ROWS = {
    "GPT-2 124M, step, 8 x 1024": Row(
        step(GPT2, of_words(8 // min(SCALE, 8), 1024 // SCALE)), 4, 0.9
    ),
    "ResNet-50, step, batch 128": Row(step(resnet50, of_images(128 // SCALE)), 4, 0.9),
    "ViT-B, step, batch 64": Row(step(ViT, of_images(64 // SCALE)), 4, 0.9),
    "GPT-2 124M, forward, 1 x 1024": Row(forward(GPT2, of_words(1, 1024 // SCALE)), 10, 0.8),
    "ResNet-50, forward, batch 1": Row(forward(resnet50, of_images(1)), 10, 0.8),
    "ViT-B, forward, batch 1": Row(forward(ViT, of_images(1)), 10, 0.8),
    "GPT-2 124M, generate 128 of 1": Row(generate, 1, 0.8),
    "GPT-2 124M, forward, 1 x 1024, in a graph": Row(
        forward(GPT2, of_words(1, 1024 // SCALE), True), 10, 0.95
    ),
    "ResNet-50, forward, batch 1, in a graph": Row(forward(resnet50, of_images(1), True), 10, 0.95),
    "ViT-B, forward, batch 1, in a graph": Row(forward(ViT, of_images(1), True), 10, 0.95),
}

if __name__ == "__main__":
    main(__file__, __doc__, ROWS)
