# Owner(s): ["module: intel"]
"""Nested tensors on XPU, of both layouts, beside those of the CPU."""

import unittest
import warnings

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)

LAYOUTS = parametrize("layout", (torch.strided, torch.jagged), name_fn=lambda one: str(one)[6:])
warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors is in prototype")


def parts(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


FUNCTIONS = {
    "relu": lambda x: x.relu(),
    "scale": lambda x: x * 2 + x,
    "softmax": lambda x: F.softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (8,), *torch.ones(2, 8, device=x.device)),
    "linear": lambda x: F.linear(x, torch.ones(3, 8, device=x.device)),
    "clone": lambda x: x.clone(),
    "half": lambda x: x.half(),
}


@unittest.skipIf(torch.xpu.device_count() == 0, "there is no device")
class TestNested(TestCase):
    def compare(self, function, layout, shapes=((2, 8), (5, 8), (1, 8))):
        results = []
        for device in ("cpu", "xpu"):
            x = torch.nested.nested_tensor(
                parts(*shapes), layout=layout, device=device, requires_grad=True
            )
            y = function(x)
            self.assertEqual(y.device.type, device)
            torch.cat([one.flatten() for one in y.unbind()]).float().sum().backward()
            self.assertEqual(x.grad.device.type, device)
            results.append([one.cpu() for one in (*y.unbind(), *x.grad.unbind())])
        self.assertEqual(results[1], results[0])

    @LAYOUTS
    @parametrize("name", list(FUNCTIONS))
    def test_function(self, layout, name):
        self.compare(FUNCTIONS[name], layout)

    @LAYOUTS
    def test_attention(self, layout):
        def attention(x):
            heads = x.transpose(1, 2)
            if layout == torch.strided:
                heads = heads.contiguous()  # PyTorch takes no other
            return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)

        self.compare(attention, layout, ((2, 2, 4), (5, 2, 4), (1, 2, 4)))

    def test_attention_in_inference_mode(self):
        x = torch.nested.nested_tensor(parts((2, 3, 4), (2, 5, 4)))
        with torch.inference_mode():
            expected = F.scaled_dot_product_attention(x, x, x)
            on_device = x.to("xpu")
            found = F.scaled_dot_product_attention(on_device, on_device, on_device)
        self.assertEqual([one.cpu() for one in found.unbind()], list(expected.unbind()))

    def test_metadata_is_on_the_cpu(self):
        x = torch.nested.nested_tensor(parts((2, 3), (4, 3)), device="xpu")
        self.assertEqual(x._nested_tensor_size(), torch.tensor([[2, 3], [4, 3]]))
        self.assertEqual(x._nested_tensor_strides(), torch.tensor([[3, 1], [3, 1]]))
        self.assertEqual(x._nested_tensor_storage_offsets(), torch.tensor([0, 6]))

    @LAYOUTS
    def test_copies(self, layout):
        x = torch.nested.nested_tensor(parts((2, 3), (4, 3)), layout=layout)
        on_device = x.to("xpu")
        self.assertEqual(on_device.device, torch.device("xpu", torch.xpu.current_device()))
        back = on_device.cpu()
        self.assertEqual(back.device.type, "cpu")
        for one, other in zip(x.unbind(), back.unbind()):
            self.assertEqual(one, other)
        # No copy shares memory with what it was made of.
        for one in on_device.unbind():
            one.zero_()
        self.assertEqual([one.cpu() for one in back.unbind()], parts((2, 3), (4, 3)))
        empty = torch.empty_like(on_device)
        self.assertEqual(empty.device, on_device.device)

    def test_writes(self):
        x = torch.nested.nested_tensor(parts((2, 3), (4, 3)), device="xpu")
        expected = [one * 2 + 1 for one in parts((2, 3), (4, 3))]
        self.assertIs(x.mul_(2), x)
        for one in x.unbind():  # views
            one.add_(1)
        self.assertEqual([one.cpu() for one in x.unbind()], expected)
        x.copy_(torch.nested.nested_tensor(parts((2, 3), (4, 3))))
        self.assertEqual([one.cpu() for one in x.unbind()], parts((2, 3), (4, 3)))

    def test_part_of_a_storage(self):
        results = []
        for device in ("cpu", "xpu"):
            buffer = torch.arange(20.0, device=device)[4:16]
            x = torch._nested_view_from_buffer(
                buffer,
                torch.tensor([[2, 2], [1, 2]]),
                torch.tensor([[2, 1], [2, 1]]),
                torch.tensor([2, 8]),
            )
            one, other = x.transpose(1, 2).unbind()
            one.mul_(2)
            results.append([one.cpu(), other.cpu(), (x + 1).unbind()[1].cpu(), buffer.cpu()])
        self.assertEqual(results[1], results[0])

    def test_from_padded(self):
        x = torch.nested.nested_tensor(parts((2, 3), (4, 3)))
        padded, sizes = x.to_padded_tensor(0.0), x._nested_tensor_size()
        found = torch._nested_from_padded(padded.to("xpu"), sizes)
        self.assertEqual(found.device.type, "xpu")
        self.assertEqual([one.cpu() for one in found.unbind()], list(x.unbind()))

    @LAYOUTS
    def test_padding(self, layout):
        x = torch.nested.nested_tensor(parts((2, 3), (4, 3)), layout=layout)
        padded = torch.nested.to_padded_tensor(x.to("xpu"), -1.0)
        self.assertEqual(padded.device.type, "xpu")
        self.assertEqual(padded.cpu(), torch.nested.to_padded_tensor(x, -1.0))

    def test_encoder(self):
        """Which makes nested tensors of a mask, where no gradients are wanted."""
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 2).eval()
        x = torch.randn(3, 5, 8)
        mask = torch.arange(5) >= torch.tensor([[2], [5], [3]])
        with torch.no_grad():
            expected = model(x, src_key_padding_mask=mask)
            found = model.to("xpu")(x.to("xpu"), src_key_padding_mask=mask.to("xpu"))
        self.assertEqual(found.cpu(), expected)


instantiate_parametrized_tests(TestNested)

if __name__ == "__main__":
    run_tests()
