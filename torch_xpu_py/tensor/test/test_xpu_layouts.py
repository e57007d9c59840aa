# Owner(s): ["module: intel"]
"""Tensors on XPU in a compressed sparse layout, and nested ones."""

import io
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")


def compressed_parts(tensor):
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values()


@needs_device
class TestCompressed(TestCase):
    def test_layouts(self):
        x = torch.tensor([[0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 3.0]])
        for layout in ("csr", "csc", "bsr", "bsc"):
            blocks = [(1, 2)] if layout.startswith("b") else []
            on_cpu = getattr(x, f"to_sparse_{layout}")(*blocks)
            parts = compressed_parts(on_cpu)
            on_device = on_cpu.to("xpu")
            for made in (
                on_device,
                getattr(x.to("xpu"), f"to_sparse_{layout}")(*blocks),
                torch.sparse_compressed_tensor(*parts, x.shape, layout=on_cpu.layout, device="xpu"),
                torch.sparse_compressed_tensor(*(part.to("xpu") for part in parts), layout=on_cpu.layout),
                on_device.clone(),
                on_device.detach(),
            ):
                self.assertEqual((made.device, made.layout), (torch.device("xpu:0"), on_cpu.layout))
                self.assertEqual(made.to_dense().cpu(), x)
                for part, expected in zip(compressed_parts(made), parts):
                    self.assertEqual(part.device, made.device)
                    self.assertEqual(part.cpu(), expected)
            self.assertEqual(on_device.cpu().to_dense(), x)
            self.assertEqual(on_device.double().values().dtype, torch.float64)
            on_device.values().mul_(2)
            self.assertEqual(on_device.to_dense().cpu(), x * 2)
            self.assertEqual(on_cpu.to_dense(), x)

    def test_csr(self):
        x = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
        on_device = x.to_sparse_csr().to("xpu").requires_grad_()
        weight = torch.ones(3, 2, device="xpu", requires_grad=True)
        (on_device @ weight).sum().backward()
        self.assertEqual(weight.grad.cpu(), x.t() @ torch.ones(2, 2))
        self.assertEqual(on_device.grad.device.type, "xpu")
        self.assertEqual(torch.zeros(2, 3, layout=torch.sparse_csr, device="xpu").to_dense().cpu(), torch.zeros(2, 3))
        # Not by pickle alone: PyTorch keeps what that loads until the next torch.load.
        file = io.BytesIO()
        torch.save(on_device.detach(), file)
        file.seek(0)
        loaded = torch.load(file)
        self.assertEqual((loaded.device, loaded.to_dense().cpu()), (on_device.device, x))
        resized = torch.ones(2, 3, device="xpu").to_sparse_csr().resize_(1, 3)
        self.assertEqual((resized.shape, resized._nnz()), ((1, 3), 3))
        with torch.inference_mode():
            self.assertEqual(x.to("xpu").to_sparse_csr().to_dense().cpu(), x)


@needs_device
class TestNested(TestCase):
    def test_parts(self):
        parts = [torch.arange(6.0).view(2, 3), torch.ones(4, 3)]
        on_cpu = torch.nested.nested_tensor(parts)
        for made in (
            on_cpu.to("xpu"),
            torch.nested.nested_tensor(parts, device="xpu"),
            torch.nested.nested_tensor([part.to("xpu") for part in parts]),
        ):
            self.assertEqual(made.device, torch.device("xpu:0"))
            self.assertEqual([part.cpu() for part in made.unbind()], parts)
            self.assertEqual([part.cpu() for part in made.detach().unbind()], parts)
            self.assertEqual(list(made.cpu().unbind()), parts)
            self.assertEqual(made.half().unbind()[1].dtype, torch.float16)
            made.mul_(2)
            made.transpose(1, 2).unbind()[0].zero_()
            self.assertEqual([part.cpu() for part in made.unbind()], [parts[0] * 0, parts[1] * 2])
        self.assertEqual(list(on_cpu.unbind()), parts)
        self.assertEqual(torch.nested.nested_tensor([], device="xpu").device.type, "xpu")

    def test_gradients(self):
        parts = [torch.arange(6.0).view(2, 3), torch.ones(4, 3)]

        def gradient(device):
            x = torch.nested.nested_tensor(parts, device=device, requires_grad=True)
            y = torch.nn.functional.linear(x, torch.ones(2, 3, device=device))
            torch.nested.to_padded_tensor(y * 2, 0.0).sum().backward()
            return [part.cpu() for part in (*y.detach().unbind(), *x.grad.unbind())]

        self.assertEqual(gradient("xpu"), gradient("cpu"))

    def test_transformer(self):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        x = torch.nested.nested_tensor([torch.randn(4, 8), torch.randn(2, 8)])
        with torch.inference_mode():
            expected = list(layer(x).unbind())
            found = layer.to("xpu")(x.to("xpu")).unbind()
        self.assertEqual([part.cpu() for part in found], expected)

    def test_a_view_in_inference_mode(self):
        x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], device="xpu")
        with torch.inference_mode():
            views = (x.transpose(1, 2), *x.unbind())
            self.assertTrue((x * 2).is_inference())
        self.assertEqual([view.is_inference() for view in views], [False] * 3)


if __name__ == "__main__":
    run_tests()
