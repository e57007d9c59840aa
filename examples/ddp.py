"""Fits a line in two processes: `python ddp.py [cpu|xpu|cuda]`.

Each process has half of the points. DistributedDataParallel averages the gradients, so
that both have the same model.
"""

import gc
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2


def fit(rank, store, kind):
    index = 0 if kind == "cpu" else rank % getattr(torch, kind).device_count()
    device = torch.device(kind, index)
    if kind != "cpu":
        getattr(torch, kind).set_device(device)
    # Without a backend PyTorch takes the one of the accelerator.
    backend = "gloo" if kind == "cpu" else None
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=PROCESSES)

    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 200).unsqueeze(1)
    y = 3 * x - 2 + 0.1 * torch.randn(200, 1)
    x, y = x[rank::PROCESSES].to(device), y[rank::PROCESSES].to(device)

    model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    found = torch.cat([each.detach().flatten() for each in model.parameters()])
    all_found = [torch.empty_like(found) for _ in range(PROCESSES)]
    dist.all_gather(all_found, found)
    if rank == 0:
        same = all(each.equal(found) for each in all_found)
        print(
            f"{kind}, {PROCESSES} processes: y = {found[0]:.1f} x + {found[1]:.1f}, "
            f"{'the same' if same else 'not the same'} in each"
        )
    # A thread of gloo that still lets go of a tensor while Python ends aborts the process.
    # The group waits for its threads when nothing refers to it any more, as the model does.
    del model, optimizer
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    has_accelerator_api = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    default = torch.accelerator.current_accelerator().type if has_accelerator_api else "cpu"
    kind = sys.argv[1] if len(sys.argv) > 1 else default
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(fit, (f"{folder}/store", kind), PROCESSES)
