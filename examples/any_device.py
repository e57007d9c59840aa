"""Fits a line on the device that there is: `python any_device.py [cpu|xpu|cuda]`."""

import sys

import torch


def default() -> str:
    """An accelerator that this torch knows and finds, or the CPU."""
    for name in ("xpu", "cuda"):
        module = getattr(torch, name, None)
        if module is not None and module.is_available():
            return name
    return "cpu"


device = torch.device(sys.argv[1] if len(sys.argv) > 1 else default())

torch.manual_seed(0)
x = torch.linspace(-1, 1, 200, device=device).unsqueeze(1)
y = 3 * x + 2 + 0.1 * torch.randn(200, 1).to(device)

model = torch.nn.Linear(1, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
for _ in range(100):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()

print(f"{device.type}: y = {model.weight.item():.0f} x + {model.bias.item():.0f}")
