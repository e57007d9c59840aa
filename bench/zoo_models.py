"""The models that zoo.py measures: those of timm, transformers, diffusers and torch_geometric,
made from configurations, and some of plain torch. All weights are random, and none drops out.

SCALE divides sizes, for a device that would take too long.
"""

import itertools
import os
from functools import partial

import torch
from torch import nn
from torch.nn import functional

SCALE = int(os.environ.get("SCALE", "1"))


def let_torchvision_load():
    """timm imports torchvision, and transformers where it is, for what needs nothing of its C++,
    which loads for one torch only. Where that does not load, it asks for two operators."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        pass
    except RuntimeError:
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", schema)


def part(size, least=2):
    """What SCALE leaves of a size."""
    return max(least, size // SCALE)


def words(many, *shape):
    """What makes so many samples of this shape, of integers."""
    return lambda count: torch.randint(many, (count, *shape))


def floats(*shape):
    return lambda count: torch.randn(count, *shape)


def images(*shape):
    return lambda count: torch.randn(count, *shape).to(memory_format=torch.channels_last)


def classes(out, target):
    return functional.cross_entropy(out.flatten(0, -2), target.flatten())


# Each of these makes a model, and returns with it what makes its inputs and the target.


def of_timm(name, **small):
    import timm

    net = timm.create_model(name, **(small if SCALE > 1 else {}))
    made = images(3, *2 * [part(224, 64)]), words(1000)
    return net.to(memory_format=torch.channels_last), *made


class First(nn.Module):
    """The first result of a model whose inputs have names."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        named = dict(zip(self.names, inputs, strict=True))
        return self.model(**named, return_dict=False)[0]


def of_transformers(kind, model, target, inputs, **sizes):
    import transformers

    config = {"attn_implementation": "sdpa", "use_cache": False, **sizes}
    config = getattr(transformers, f"{kind}Config")(**config)
    net = getattr(transformers, f"{kind}{model}")(config)
    return First(net, list(inputs)), *inputs.values(), target


def gpt2():
    text = words(part(50257), part(1024, 64))
    return of_transformers(
        *("GPT2", "LMHeadModel", text, {"input_ids": text}),
        vocab_size=part(50257),
        n_layer=part(12),
        n_head=part(12),
        n_embd=64 * part(12),
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0),
        **dict.fromkeys(("bos_token_id", "eos_token_id"), 0),
    )


def llama():
    """Four queries for a key."""
    text, heads = words(part(32000), part(1024, 64)), part(16, 4)
    return of_transformers(
        *("Llama", "ForCausalLM", text, {"input_ids": text}),
        vocab_size=part(32000),
        num_hidden_layers=part(10),
        num_attention_heads=heads,
        num_key_value_heads=heads // 4,
        hidden_size=64 * heads,
        intermediate_size=176 * heads,
        tie_word_embeddings=True,
    )


def bert():
    length, heads = part(512, 64), part(12)
    text = words(part(30522), length)

    def mask(count):
        return (torch.arange(length) < torch.randint(length // 2, length, (count, 1))).long()

    return of_transformers(
        *("Bert", "ForMaskedLM", text, {"input_ids": text, "attention_mask": mask}),
        vocab_size=part(30522),
        num_hidden_layers=part(12),
        num_attention_heads=heads,
        hidden_size=64 * heads,
        intermediate_size=256 * heads,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )


def t5():
    size, heads = part(32128), part(8)
    target = words(size, part(128, 16))
    inputs = {"input_ids": words(size, part(512, 64)), "decoder_input_ids": target}
    return of_transformers(
        *("T5", "ForConditionalGeneration", target, inputs),
        vocab_size=size,
        num_layers=part(6),
        num_heads=heads,
        d_model=64 * heads,
        d_ff=256 * heads,
        dropout_rate=0,
    )


def whisper():
    size, length, heads = part(51865), part(1500, 64), part(8)
    target = words(size, part(448, 16))
    inputs = {"input_features": floats(80, 2 * length), "decoder_input_ids": target}
    sides = {"layers": part(6), "attention_heads": heads, "ffn_dim": 256 * heads}
    return of_transformers(
        *("Whisper", "ForConditionalGeneration", target, inputs),
        **{f"{side}_{key}": sides[key] for key in sides for side in ("encoder", "decoder")},
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
        decoder_start_token_id=1,
        vocab_size=size,
        d_model=64 * heads,
        max_source_positions=length,
    )


def unet():
    from diffusers import UNet2DConditionModel

    image, width = images(4, *2 * [part(32, 8)]), part(512, 32)
    kinds = ["CrossAttn{}Block2D", "CrossAttn{}Block2D", "{}Block2D"]
    net = UNet2DConditionModel(
        block_out_channels=[part(192, 32), *2 * [part(384, 32)]],
        down_block_types=[kind.format("Down") for kind in kinds],
        up_block_types=[kind.format("Up") for kind in reversed(kinds)],
        cross_attention_dim=width,
    ).to(memory_format=torch.channels_last)
    inputs = {
        "sample": image,
        "timestep": words(1000),
        "encoder_hidden_states": floats(77, width),
    }
    return First(net, list(inputs)), *inputs.values(), image


class LSTM(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.words, self.last = nn.Embedding(size, width), nn.Linear(width, size)
        self.layers = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, x):
        return self.last(self.layers(self.words(x))[0])


def lstm():
    text = words(part(10000), part(70, 16))
    return LSTM(part(10000), part(650, 64)), text, text


class Graph(nn.Module):
    def __init__(self, make, *widths):
        super().__init__()
        self.layers = nn.ModuleList(map(make, widths, widths[1:]))

    def forward(self, x, edges):
        for layer in self.layers:
            x = functional.relu(layer(x, edges))
        return x


def graph(name, **more):
    """A batch is the whole graph, whose edges are always the same."""
    from torch_geometric import nn as layers

    nodes, width = part(10000), part(256, 32)
    edges = torch.randint(nodes, (2, 16 * nodes))
    net = Graph(partial(getattr(layers, name), **more), 128, width, width, 40)
    made = [lambda _, one=one: one(nodes) for one in (floats(128), words(40))]
    return net, made[0], lambda _: edges, made[1]


class DLRM(nn.Module):
    def __init__(self, rows, width, tables=26):
        super().__init__()
        bags = (nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.tables, pairs = nn.ModuleList(bags), torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", pairs)
        self.bottom = self.layers(13, 8 * width, 4 * width, width)
        self.top = self.layers(width + pairs.size(1), 8 * width, 4 * width, 1)

    def layers(self, *widths):
        made = [(nn.Linear(*two), nn.ReLU()) for two in itertools.pairwise(widths)]
        return nn.Sequential(*itertools.chain(*made))[:-1]

    def forward(self, dense, words):
        x = self.bottom(dense)
        found = [table(y) for table, y in zip(self.tables, words.unbind(1), strict=True)]
        rows = torch.stack([x, *found], 1)
        products = (rows @ rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((x, products), 1)).flatten()


def dlrm():
    rows = part(100000)
    target = words(2)
    net = DLRM(rows, part(64, 16))
    return net, floats(13), words(rows, 26, 4), lambda count: target(count).float()


mse, bits = functional.mse_loss, functional.binary_cross_entropy_with_logits
MODELS = {  # what makes them, how many samples a batch has, and the loss
    "ResNet-50": (partial(of_timm, "resnet50", layers=[1] * 4, channels=[16] * 4), 64, classes),
    "ConvNeXt-T": (partial(of_timm, "convnext_tiny", depths=[1] * 4, dims=[32] * 4), 64, classes),
    "ViT-B": (
        partial(of_timm, "vit_base_patch16_224", img_size=64, depth=2, embed_dim=192),
        *(64, classes),
    ),
    "EfficientNet-B0": (partial(of_timm, "efficientnet_b0"), 64, classes),
    "GPT-2": (gpt2, 8, classes),
    "Llama, GQA": (llama, 8, classes),
    "BERT": (bert, 16, classes),
    "T5": (t5, 16, classes),
    "Whisper": (whisper, 8, classes),
    "UNet": (unet, 16, mse),
    "LSTM, 2 x 650": (lstm, 64, classes),
    "GCN": (partial(graph, "GCNConv", cached=True), 1, classes),
    "GraphSAGE": (partial(graph, "SAGEConv"), 1, classes),
    "DLRM, 26 tables": (dlrm, 2048, bits),
}
