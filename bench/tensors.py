"""Tensors on XPU beside those of the CPU, in one run: ratios of times, and memory.

For devices whose memory is host memory. Run it with the PyTorch to measure:
`make python FILE=bench/tensors.py`, or the Python of a stock torch with the extension. With
TORCH_XPU_KERNELS=1 it measures what oneDNN then computes.
"""

import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

ROUNDS = 41


def seconds(function, count):
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def compare(name, bound, on_cpu, on_xpu, count):
    """`on_cpu` and `on_xpu` take a count, and return the seconds that one takes.

    The rounds alternate, so that both have the same machine.
    """
    for measure in (on_cpu, on_xpu):
        measure(max(1, count // 10))
    pairs = [(on_cpu(count), on_xpu(count)) for _ in range(ROUNDS)]
    ratios = sorted(xpu / cpu for cpu, xpu in pairs)
    ratio = statistics.median(ratios)
    times = [statistics.median(column) * 1e6 for column in zip(*pairs, strict=True)]
    verdict = "met" if ratio <= bound else "MISSED"
    print(
        f"{name:38} {times[0]:10.2f} us {times[1]:10.2f} us {ratio:6.2f}"
        f" ({ratios[0]:.2f} .. {ratios[-1]:.2f})  <= {bound}  {verdict}"
    )


class Block(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        same = stride == 1 and width == out
        self.short = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    width = 64
    for out in (64, 128, 256, 512):
        layers += [Block(width, out, 1 if out == 64 else 2), Block(out, out, 1)]
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def transformer():
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


def training(make, *shape):
    def on(device):
        model, data = make().to(device), torch.randn(shape).to(device)

        def step():
            model.zero_grad()
            model(data).square().mean().backward()

        return step

    return on


def product(size, dtype):
    def on(device):
        a = torch.randn(size, size).to(device, dtype)
        return lambda: torch.mm(a, a)

    return on


def convolution(channels, size, dtype):
    def on(device):
        x = torch.randn(8, channels, size, size).to(device, dtype)
        weight = torch.randn(channels, channels, 3, 3).to(device, dtype)
        x, weight = (t.contiguous(memory_format=torch.channels_last) for t in (x, weight))
        return lambda: nn.functional.conv2d(x, weight, padding=1)

    return on


TRAINING = {
    "ResNet-18, 4 x 3 x 64 x 64, training": (training(resnet18, 4, 3, 64, 64), 1.03, 2),
    "6 layers of transformer, training": (training(transformer, 4, 64, 128), 1.03, 4),
}
BY_ONEDNN = {
    "mm of 512, float": (product(512, torch.float), 1.2, 20),
    "mm of 1024, float": (product(1024, torch.float), 1.2, 4),
    "mm of 2048, float": (product(2048, torch.float), 1.2, 1),
    "mm of 1024, bfloat16": (product(1024, torch.bfloat16), 1.2, 10),
    "3 x 3, 64 channels of 56, float": (convolution(64, 56, torch.float), 1.3, 4),
}
STEPS = {**TRAINING, **BY_ONEDNN}


def measure_step(name, device):
    """Measures it as often as each line of the standard input says."""
    torch.backends.cudnn.allow_tf32 = False
    run = STEPS[name][0](device)

    def step():
        run()
        if device == "xpu":
            torch.xpu.synchronize()

    for line in sys.stdin:
        print(seconds(step, int(line)), flush=True)


def in_process(name, device):
    """The same from outside. A process for each device, since the threads that one uses
    slow down the other."""
    process = subprocess.Popen(
        [sys.executable, __file__, name, device],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def measure(count):
        print(count, file=process.stdin, flush=True)
        return float(process.stdout.readline())

    return measure


def memory():
    """Bytes: allocated on the device, reserved there, and of the process."""
    torch.xpu.synchronize()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    process = pages * os.sysconf("SC_PAGE_SIZE")
    return torch.xpu.memory_allocated(), torch.xpu.memory_reserved(), process


def hold_memory(count=10_000, warm=1_000, bound=1 << 20):
    """Trains, and says by how much memory grew; `bound` is for the process."""
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(144, 3)).to("xpu")
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(warm + count):
        if step == warm:
            before = memory()
        x, y = torch.randn(8, 1, 8, 8).to("xpu"), torch.randint(3, (8,)).to("xpu")
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    allocated, reserved, process = (now - then for now, then in zip(memory(), before, strict=True))
    verdict = "met" if allocated == reserved == 0 and process <= bound else "MISSED"
    print(
        f"{count:,} training steps: allocated +{allocated} B, reserved +{reserved} B, "
        f"process +{process / 1e6:.2f} MB  <= {bound / 1e6:.2f}  {verdict}"
    )


def compare_steps(steps):
    for name, (_, bound, count) in steps.items():
        compare(name, bound, in_process(name, "cpu"), in_process(name, "xpu"), count)


def main():
    print(f"torch {torch.__version__}, {torch.xpu.get_device_name(0)}")
    print(f"{'':38} {'CPU':>13} {'XPU':>13}  ratio")
    if os.environ.get("TORCH_XPU_KERNELS") == "1":
        compare_steps(BY_ONEDNN)
        return
    compare(
        "empty(16)",
        1.2,
        partial(seconds, lambda: torch.empty(16, device="cpu")),
        partial(seconds, lambda: torch.empty(16, device="xpu")),
        20_000,
    )
    for name, bound, operator, a, count in (
        ("add of 16 floats", 1.5, torch.add, torch.randn(16), 10_000),
        ("add of 2^20 floats", 1.03, torch.add, torch.randn(1 << 20), 200),
        ("mm of 512", 1.02, torch.mm, torch.randn(512, 512), 20),
    ):
        x = a.to("xpu")
        on_cpu, on_xpu = partial(operator, a, a), partial(operator, x, x)
        compare(name, bound, partial(seconds, on_cpu), partial(seconds, on_xpu), count)
    # From here on the current stream has a queue, as after each event and copy.
    event, a = torch.xpu.Event(), torch.randn(16)
    event.record()
    event.synchronize()
    x = a.to("xpu")

    def add_after_record(tensor):
        event.record()
        torch.add(tensor, tensor)

    for name, call, count in (
        ("add of 16 floats, stream was used", lambda y: torch.add(y, y), 10_000),
        ("event, and add of 16 floats", add_after_record, 2_000),
    ):
        on_cpu, on_xpu = partial(call, a), partial(call, x)
        compare(name, 1.5, partial(seconds, on_cpu), partial(seconds, on_xpu), count)
    compare_steps(TRAINING)
    hold_memory()


if __name__ == "__main__":
    if sys.argv[1:]:
        measure_step(*sys.argv[1:])
    else:
        main()
