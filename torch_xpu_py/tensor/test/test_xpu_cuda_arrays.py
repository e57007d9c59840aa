# Owner(s): ["module: intel"]
"""Native streams in Python, and arrays in common with libraries of CUDA."""

import ctypes
import gc
import threading
import unittest
import weakref
from contextlib import contextmanager
from unittest import mock

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

COUNT = torch.xpu.device_count()
ON_CUDA = COUNT > 0 and torch._C._xpu_cudaDevice(0) is not None

needs_cuda = unittest.skipIf(not ON_CUDA, "needs an NVIDIA device")
needs_another = unittest.skipIf(ON_CUDA, "needs a device that is not NVIDIA's")


@contextmanager
def as_on_cuda():
    """Gives the streams of CUDA that had to wait, and that were waited for. Memory of another
    device than NVIDIA's counts as memory of CUDA's device 0."""
    waits, waited = [], []
    if ON_CUDA:
        wait, synchronize = torch._C._xpu_letCudaStreamWait, torch._C._xpu_synchronizeCudaStream
    else:
        wait = synchronize = lambda *args: None
    with mock.patch.multiple(
        torch._C,
        _xpu_cudaDevice=lambda index: 0,
        _xpu_letCudaStreamWait=lambda *args: (waits.append(args), wait(*args)),
        _xpu_synchronizeCudaStream=lambda stream: (waited.append(stream), synchronize(stream)),
    ):
        yield waits, waited


def device_in(capsule):
    """The device that a capsule of DLPack names."""
    name, offset = b"dltensor", 8
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    if not ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name):
        name, offset = b"dltensor_versioned", 40
    return tuple((ctypes.c_int32 * 2).from_address(get(capsule, name) + offset))


class CudaArray:
    """As a library of CUDA has it, over the memory of a tensor."""

    def __init__(self, tensor, **fields):
        self.tensor = tensor
        self.interface = {
            "typestr": "<f4",
            "shape": tuple(tensor.shape),
            "data": (tensor.data_ptr(), False),
            "version": 3,
            **fields,
        }

    @property
    def __cuda_array_interface__(self):
        return self.interface


@unittest.skipIf(COUNT == 0, "needs a device")
class TestNativeStreams(TestCase):
    def test_a_stream_has_a_native_stream(self):
        streams = [torch.xpu.Stream(), torch.xpu.Stream(), torch.xpu.current_stream()]
        native = [stream.native_stream for stream in streams]
        self.assertEqual(native, [stream.native_stream for stream in streams])
        self.assertEqual(len(set(native)), 3)
        self.assertTrue(all(type(number) is int and number for number in native))
        with torch.xpu.stream(streams[1]):
            self.assertEqual(torch.xpu.current_stream().native_stream, native[1])

    def test_a_stream_whose_native_stream_was_handed_out_works(self):
        stream = torch.xpu.Stream()
        self.assertNotEqual(stream.native_stream, 0)
        with torch.xpu.stream(stream):
            x = torch.arange(1000.0, device="xpu")
            event = stream.record_event()
            y = x + 1
        event.synchronize()
        other = torch.xpu.Stream()
        other.wait_stream(stream)
        stream.synchronize()
        self.assertTrue(stream.query())
        self.assertEqual(y.cpu(), torch.arange(1000.0) + 1)

    @needs_another
    def test_only_streams_of_cuda_are_streams_of_cuda(self):
        stream = torch.xpu.Stream()
        self.assertFalse(hasattr(stream, "__cuda_stream__"))
        with self.assertRaisesRegex(AttributeError, "xpu:0 has no __cuda_stream__"):
            stream.__cuda_stream__

    @needs_cuda
    def test_a_stream_is_one_of_cuda(self):
        stream = torch.xpu.Stream()
        self.assertEqual(stream.__cuda_stream__(), (0, stream.native_stream))

    @needs_cuda
    def test_native_work_is_work_of_the_stream(self):
        cuda = ctypes.CDLL("libcuda.so.1")
        stream = torch.xpu.Stream()
        opened = threading.Event()
        x = torch.zeros(1 << 16, dtype=torch.int32, device="xpu")
        torch.xpu.synchronize()
        for wait in (
            stream.synchronize,
            torch.xpu.synchronize,
            lambda: stream.record_event().synchronize(),
            lambda: torch.xpu.current_stream().wait_stream(stream) or x.cpu(),
        ):
            opened.clear()
            x.zero_()
            torch.xpu.synchronize()
            native = ctypes.c_void_p(stream.native_stream)
            hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: opened.wait())
            self.assertEqual(cuda.cuLaunchHostFunc(native, hold, None), 0)
            memory = ctypes.c_void_p(x.__cuda_array_interface__["data"][0])
            count = ctypes.c_size_t(x.nelement() * 4)
            self.assertEqual(cuda.cuMemsetD8Async(memory, ctypes.c_ubyte(1), count, native), 0)
            event = stream.record_event()
            self.assertFalse(stream.query())
            self.assertFalse(event.query())
            timer = threading.Timer(0.2, opened.set)
            timer.start()
            wait()
            self.assertTrue(opened.is_set())
            self.assertTrue(stream.query())
            self.assertTrue(event.query())
            self.assertTrue((x.cpu() == 0x01010101).all())
            timer.join()


@unittest.skipIf(COUNT == 0, "needs a device")
class TestCudaArrays(TestCase):
    @needs_another
    def test_only_memory_of_cuda_is_shared(self):
        x = torch.ones(3, device="xpu")
        self.assertFalse(hasattr(x, "__cuda_array_interface__"))
        with self.assertRaisesRegex(BufferError, r"device \(2, 0\): it is no NVIDIA device"):
            x.__dlpack__(dl_device=(2, 0))
        with self.assertRaises((BufferError, RuntimeError)):
            x.cpu().__dlpack__(dl_device=(2, 0))
        for tensor in (x, x.cpu()):
            with self.assertRaisesRegex(ValueError, "which is no NVIDIA device"):
                torch.xpu.as_cuda_array(tensor)
        with self.assertRaisesRegex(RuntimeError, "CUDA's driver is not loaded"):
            torch.xpu.from_cuda_array(CudaArray(x, stream=1))

    def test_the_array_interface(self):
        x = torch.arange(6.0, device="xpu").view(2, 3)
        with as_on_cuda():
            expected = {
                "typestr": "<f4",
                "shape": (2, 3),
                "strides": None,
                "data": (x.data_ptr(), False),
                "stream": torch.xpu.current_stream().native_stream,
                "version": 3,
            }
            self.assertEqual(x.__cuda_array_interface__, expected)
            transposed = x.t().__cuda_array_interface__
            self.assertEqual((transposed["shape"], transposed["strides"]), ((3, 2), (4, 12)))
            self.assertEqual(x[:0].__cuda_array_interface__["data"], (0, False))
            for tensor in (x.to_sparse(), x.bfloat16(), x.cpu()):
                self.assertFalse(hasattr(tensor, "__cuda_array_interface__"))
            with self.assertRaisesRegex(RuntimeError, "use var.detach"):
                x.clone().requires_grad_().__cuda_array_interface__

    def test_dlpack_says_cuda_on_request(self):
        x = torch.arange(6.0, device="xpu")
        stream = torch.xpu.current_stream()
        with as_on_cuda() as (waits, _):
            self.assertEqual(device_in(x.__dlpack__())[0], 14)
            self.assertEqual(device_in(x.__dlpack__(dl_device=(2, 0), stream=-1)), (2, 0))
            x.__dlpack__(dl_device=(2, 0), stream=stream.native_stream)
            self.assertEqual(waits, [])
            x.__dlpack__(dl_device=(2, 0), stream=None)
            self.assertEqual(waits, [(1, 0)])
            with self.assertRaisesRegex(BufferError, r"device \(2, 1\): it is \(2, 0\)"):
                x.__dlpack__(dl_device=(2, 1))
            with self.assertRaises((BufferError, RuntimeError)):
                x.clone().requires_grad_().__dlpack__(dl_device=(2, 0))
            self.assertEqual(torch.xpu.as_cuda_array(x).__dlpack_device__(), (2, 0))
            self.assertEqual(device_in(torch.xpu.as_cuda_array(x).__dlpack__()), (2, 0))
            array = torch.xpu.as_cuda_array(x)
            self.assertEqual(array.__cuda_array_interface__, x.__cuda_array_interface__)

    def test_dlpack_both_ways(self):
        x = torch.arange(6.0, device="xpu").view(2, 3).t()
        with as_on_cuda() as (waits, _):
            y = torch.from_dlpack(torch.xpu.as_cuda_array(x))
            self.assertEqual((y.data_ptr(), y.device), (x.data_ptr(), x.device))
            self.assertEqual((y.shape, y.stride(), y.dtype), (x.shape, x.stride(), x.dtype))
            self.assertEqual(waits, [])  # it is the same stream
            del x
            y += 1
            self.assertEqual(y.cpu(), torch.arange(1.0, 7.0).view(2, 3).t())
        with mock.patch.object(torch._C, "_xpu_cudaDevice", lambda index: 5):
            array = torch.xpu.as_cuda_array(y)
            with mock.patch.object(torch._C, "_xpu_cudaDevice", lambda index: None):
                with mock.patch.object(type(array), "__dlpack_device__", lambda self: (2, 5)):
                    with self.assertRaisesRegex(ValueError, "device 5 is no device of XPU"):
                        torch.from_dlpack(array)

    @unittest.skipIf(not hasattr(torch, "accelerator"), "from_dlpack has no such arguments")
    def test_dlpack_to_another_device(self):
        x = torch.arange(6.0, device="xpu")
        with as_on_cuda():
            array = torch.xpu.as_cuda_array(x)
            self.assertEqual(torch.from_dlpack(array, device="cpu"), x.cpu())
            self.assertNotEqual(torch.from_dlpack(array, copy=True).data_ptr(), x.data_ptr())
            with self.assertRaisesRegex(ValueError, "without copying"):
                torch.from_dlpack(array, device="cpu", copy=False)

    def test_a_tensor_over_an_array(self):
        x = torch.arange(6.0, device="xpu")
        with as_on_cuda() as (_, waited):
            array = CudaArray(x, shape=(2, 3), stream=2)
            y = torch.xpu.from_cuda_array(array)
            self.assertEqual(waited, [2])
            self.assertEqual((y.data_ptr(), y.device, y.shape), (x.data_ptr(), x.device, (2, 3)))
            array = CudaArray(x, shape=(3, 2), strides=(4, 12), stream=None)
            y = torch.xpu.from_cuda_array(array)
            self.assertEqual((waited, y.stride()), ([2], (1, 3)))
            self.assertEqual(y.cpu(), torch.arange(6.0).view(2, 3).t())
            self.assertEqual(torch.xpu.from_cuda_array(CudaArray(x[:0], data=(0, False))).shape, (0,))

    def test_a_tensor_keeps_the_array(self):
        array = CudaArray(torch.arange(6.0, device="xpu"))
        gone = weakref.ref(array)
        y = torch.xpu.from_cuda_array(array)
        del array
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(y.cpu(), torch.arange(6.0))
        del y
        gc.collect()
        self.assertIsNone(gone())

    def test_arrays_that_no_tensor_can_be_over(self):
        x = torch.ones(3, device="xpu")
        with self.assertRaisesRegex(TypeError, "type '>f4'"):
            torch.xpu.from_cuda_array(CudaArray(x, typestr=">f4"))
        with self.assertRaisesRegex(TypeError, "with a mask"):
            torch.xpu.from_cuda_array(CudaArray(x, mask=x))
        with self.assertRaisesRegex(RuntimeError, "not memory of an XPU device"):
            torch.xpu.from_cuda_array(CudaArray(x.cpu()))


if __name__ == "__main__":
    run_tests()
