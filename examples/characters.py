"""A small transformer learns which character follows which in this repository's licence.

Ends with an error if it gets less than 85 % of them right.
"""

import pathlib
import sys

import torch
from torch import nn

LENGTH = 64  # characters that the model sees
device = torch.device("xpu")
torch.manual_seed(0)

text = (pathlib.Path(__file__).parent.parent / "LICENSE").read_text()[:800]
letters = sorted(set(text))
codes = torch.tensor([letters.index(letter) for letter in text], device=device)


class Model(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letter = nn.Embedding(len(letters), width)
        self.place = nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, len(letters))
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH).triu(1).bool())

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        n = codes.shape[1]
        x = self.letter(codes) + self.place(torch.arange(n, device=codes.device))
        return self.out(self.layers(x, self.mask[:n, :n]))


model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(251):
    starts = torch.randint(len(codes) - LENGTH, (16,), device=device)
    batch = codes[starts.unsqueeze(1) + torch.arange(LENGTH + 1, device=device)]
    logits = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.2f}")

model.eval()
with torch.no_grad():
    windows = codes.unfold(0, LENGTH + 1, LENGTH)
    right = model(windows[:, :-1]).argmax(-1) == windows[:, 1:]
share = right.float().mean().item()
print(f"{share:.0%} of the characters follow as in the text")
sys.exit(share < 0.85)
