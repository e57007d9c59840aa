"""The program with which the RFC for XPU in PyTorch begins."""

import torch

xpu = torch.device("xpu")
model = torch.nn.Linear(100, 3)

input = torch.randn([100]).to(xpu)
model.to(xpu)
output = model(input)

print(output.device, tuple(output.shape))
