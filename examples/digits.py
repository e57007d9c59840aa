"""A small CNN learns to read scikit-learn's handwritten digits.

Needs scikit-learn. Ends with an error if it reads less than 97 % of the test set.
"""

import sys

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

device = torch.device("xpu" if hasattr(torch, "xpu") and torch.xpu.is_available() else "cpu")
torch.manual_seed(0)

images, labels = load_digits(return_X_y=True)
x = torch.tensor(images, dtype=torch.float32, device=device).view(-1, 1, 8, 8) / 16
y = torch.tensor(labels, device=device)
train, test = train_test_split(range(len(y)), test_size=0.25, random_state=0, stratify=labels)
train, test = torch.tensor(train, device=device), torch.tensor(test, device=device)

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Dropout(0.3),
    nn.Linear(32 * 4 * 4, 10),
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

for epoch in range(1, 21):
    model.train()
    for batch in train[torch.randperm(len(train), device=device)].split(64):
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch}: loss {loss.item():.3f}")

model.eval()
with torch.no_grad():
    right = (model(x[test]).argmax(1) == y[test]).float().mean().item()
print(f"{right:.1%} of {len(test)} digits are read on {device.type}")
sys.exit(right < 0.97)
