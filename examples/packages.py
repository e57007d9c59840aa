"""Packages that know XPU: torchvision, safetensors, transformers, accelerate and lightning.

Needs what is in packages.txt, beside it. There is a function for each package,
which ends with an error if what it finds is wrong.
"""

import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

KEPT = tempfile.TemporaryDirectory()
FOLDER = Path(KEPT.name)


def line():
    """Points of y = 3 x - 2."""
    x = torch.linspace(-1, 1, 256).unsqueeze(1)
    return TensorDataset(x, 3 * x - 2)


def say_line(name, model):
    weight, bias = model.weight.item(), model.bias.item()
    print(f"{name}: y = {weight:.0f} x - {-bias:.0f}")
    assert abs(weight - 3) < 0.1 and abs(bias + 2) < 0.1


def let_torchvision_load():
    """What PyPI's build of torchvision needs beside torch+cpu.

    It is for CUDA, so that its C++ operators do not load, and it asks for the first two.
    transformers and lightning import it. The build torchvision+cpu needs none of this.
    """
    if "+" not in metadata.version("torchvision"):
        for name in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)


def use_torchvision():
    from torchvision.models import resnet18
    from torchvision.transforms import v2

    images = torch.randint(256, (8, 3, 64, 64), dtype=torch.uint8, device="xpu")
    labels = torch.arange(8, device="xpu")
    change = v2.Compose(
        [
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.3] * 3),
        ]
    )
    model = resnet18(num_classes=8).to("xpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        loss = nn.functional.cross_entropy(model(change(images)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"torchvision: ResNet-18 learns {len(images)} images, loss {loss.item():.2f}")
    assert loss.device.type == "xpu" and loss < 0.5


def use_safetensors():
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    path = str(FOLDER / "tensors.safetensors")
    x = torch.randn(100, 3, device="xpu").to(torch.bfloat16)
    save_file({"x": x}, path)
    loaded = load_file(path, device="xpu")["x"]  # the name: it takes no torch.device
    with safe_open(path, "pt", device="xpu:0") as file:
        part = file.get_slice("x")[10:20]
    print(f"safetensors: loads to {loaded.device}, and a part to {part.device}")
    assert loaded.equal(x) and part.equal(x[10:20])


def use_transformers():
    from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback
    from transformers import Trainer, TrainingArguments, set_seed

    rows = (torch.arange(64).unsqueeze(1) + torch.arange(12)) % 16  # it learns to count
    data = [{"input_ids": row, "labels": row} for row in rows]

    def trainer():
        set_seed(0)
        config = LlamaConfig(
            vocab_size=16,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            pad_token_id=0,
        )
        arguments = TrainingArguments(
            str(FOLDER / "trainer"),
            per_device_train_batch_size=16,
            learning_rate=1e-2,
            max_steps=60,
            save_steps=30,
            bf16=True,
            disable_tqdm=True,
            report_to=[],
        )
        result = Trainer(LlamaForCausalLM(config), arguments, train_dataset=data)
        result.remove_callback(PrinterCallback)
        return result

    whole, resumed = trainer(), trainer()
    whole.train()
    resumed.train(resume_from_checkpoint=str(FOLDER / "trainer" / "checkpoint-30"))
    start = torch.tensor([[3, 4, 5]], device="xpu")
    counted = resumed.model.eval().generate(start, max_new_tokens=5, do_sample=False)
    print(f"transformers: on {resumed.model.device}, counts {counted[0].tolist()}")
    assert counted[0].tolist() == list(range(3, 11))
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def use_accelerate():
    """Runs this program in two processes, as `accelerate launch` does."""
    environment = dict(os.environ)
    if torch.xpu.device_count() < 2:  # two ordinals of one device do
        environment["TORCH_XPU_VIRTUAL_DEVICES"] = "2"
    words = ["--num_processes=2", "--num_machines=1", "--main_process_port=0"]
    words += ["--mixed_precision=bf16", "--dynamo_backend=no", __file__, str(FOLDER)]
    command = [sys.executable, "-m", "accelerate.commands.launch", *words]
    subprocess.run(command, env=environment, check=True)


def in_each_process(folder):
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    data = DataLoader(line(), batch_size=16, shuffle=True)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for _ in range(8):
        for x, y in data:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
    trained = accelerator.unwrap_model(model)
    weight = trained.weight.detach().clone()
    accelerator.save_state(folder)
    accelerator.wait_for_everyone()
    nn.init.zeros_(trained.weight)
    accelerator.load_state(folder)
    weights = accelerator.gather(trained.weight.detach().flatten())
    assert weights.tolist() == [weight.item()] * 2 and weights.device.type == "xpu"
    if accelerator.is_main_process:
        kind = accelerator.distributed_type.value
        say_line(f"accelerate: {accelerator.num_processes} processes, {kind}", trained)
    accelerator.end_training()


def use_lightning():
    import lightning
    from lightning.pytorch.accelerators import Accelerator
    from lightning.pytorch.strategies import SingleDeviceStrategy

    class XPUAccelerator(Accelerator):  # lightning has none of its own
        def setup_device(self, device):
            torch.xpu.set_device(device)

        def teardown(self):
            torch.xpu.empty_cache()

        def get_device_stats(self, device):
            return torch.xpu.memory_stats(device)

        @staticmethod
        def parse_devices(devices):
            return list(range(devices)) if isinstance(devices, int) else devices

        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device("xpu", index) for index in devices]

        @staticmethod
        def auto_device_count():
            return torch.xpu.device_count()

        @staticmethod
        def is_available():
            return torch.xpu.is_available()

        @staticmethod
        def name():
            return "xpu"

    class Line(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(1, 1)

        def training_step(self, batch, index):
            x, y = batch
            assert x.device.type == "xpu"
            return nn.functional.mse_loss(self.linear(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.3)

    trainer = lightning.Trainer(
        # The device goes with the strategy: without one, lightning takes the CPU.
        strategy=SingleDeviceStrategy("xpu:0", accelerator=XPUAccelerator()),
        max_epochs=8,
        default_root_dir=FOLDER,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line(), DataLoader(line(), batch_size=16, shuffle=True))
    path = trainer.checkpoint_callback.best_model_path
    loaded = Line.load_from_checkpoint(path, map_location="xpu")
    say_line(f"lightning: loads to {loaded.device}", loaded.linear)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # two more processes write there
    torch.manual_seed(0)
    if len(sys.argv) > 1:
        in_each_process(sys.argv[1])
    else:
        let_torchvision_load()
        use_torchvision()
        use_safetensors()
        use_transformers()
        use_accelerate()
        use_lightning()
