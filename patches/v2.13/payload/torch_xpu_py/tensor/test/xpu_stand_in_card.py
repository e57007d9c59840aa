"""What tests of Triton with XPU need: a card, or a stand-in for one that is not there.

The stand-in is SYCL's CPU device under the name of a card, and in place of CUDA's driver a library
that notes the calls that it gets. Kernels are compiled, loaded and launched, and do nothing.
"""

import os
import subprocess
import sys
import textwrap
import unittest

import torch

try:
    from torch_xpu_triton import _device
except ImportError:  # Triton is not installed
    _device = None

_COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0

has_card = _device is not None and _device.capability() is not None
needs_triton = unittest.skipIf(_device is None, "Triton is not installed")
needs_card = unittest.skipUnless(has_card, "there is no NVIDIA card, or no Triton")
needs_two = unittest.skipIf(_COUNT < 2, "there is one device")
# What takes long and is the same with one device and with two.
once = unittest.skipIf(_COUNT == 1, "takes long, and is run with two devices")

SOURCE = r"""
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static __thread uintptr_t current, before;

static int note(const char* format, ...) {
  FILE* file = fopen(getenv("STAND_IN_CALLS"), "a");
  va_list list;
  va_start(list, format);
  vfprintf(file, format, list);
  fputc('\n', file);
  fclose(file);
  return 0;
}

typedef struct {
  unsigned x, y, z, threads, b, c, shared;
  void* stream;
} Launch;

int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuCtxGetLimit(size_t* value, int what) { *value = 0; return 0; }
int cuCtxSetLimit(int what, size_t value) { return 0; }
int cuGetErrorString(int code, const char** text) { *text = "stand-in"; return 0; }
int cuDeviceGet(int* device, int index) { *device = index; return index > 1; }
/* 97: shared memory that a block may ask for. */
int cuDeviceGetAttribute(int* value, int what, int device) {
  *value = what == 97 ? 232448 : 65536;
  return 0;
}
/* A stream's number is its device's, times 4096, and one of its own. */
int cuStreamGetCtx(void* stream, uintptr_t* context) { *context = (uintptr_t)stream >> 12; return 0; }
int cuCtxPushCurrent_v2(uintptr_t context) { before = current; current = context; return 0; }
int cuCtxPopCurrent_v2(uintptr_t* context) { *context = current; current = before; return 0; }
int cuCtxGetDevice(int* device) { *device = (int)current - 1; return 0; }
int cuCtxGetCurrent(uintptr_t* context) { *context = current; return 0; }
int cuCtxSetCurrent(uintptr_t context) {
  if (context != current) note("context %d", (int)context);
  current = context;
  return 0;
}
int cuDevicePrimaryCtxRetain(uintptr_t* context, int device) { *context = device + 1; return 0; }
int cuModuleLoadData(void** module, const void* data) { *module = (void*)1; return 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = (void*)(uintptr_t)name[0];
  return note("load %s", name);
}
/* 0: threads of a block. */
int cuFuncGetAttribute(int* value, int what, void* function) { *value = what ? 0 : 1024; return 0; }
int cuFuncSetAttribute(void* function, int what, int value) { return 0; }
int cuFuncSetCacheConfig(void* function, int what) { return 0; }
int cuPointerGetAttribute(void* data, int what, uintptr_t pointer) {
  *(uintptr_t*)data = pointer;
  return getenv("STAND_IN_WITHOUT_HOST") != 0;
}
int cuLaunchKernelEx(const Launch* it, void* function, void** parameters, void** extra) {
  return note("launch %u,%u,%u x %u stream %d", it->x, it->y, it->z, it->threads, (int)(uintptr_t)it->stream);
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned b, unsigned c,
                   unsigned shared, void* stream, void** parameters, void** extra) {
  const Launch it = {x, y, z, threads, b, c, shared, stream};
  /* A function of which the test wants the parameters: their count. */
  for (uintptr_t i = 0; (uintptr_t)function < 32 && i < (uintptr_t)function; ++i)
    note("parameter %llx", *(unsigned long long*)parameters[i]);
  return cuLaunchKernelEx(&it, function, parameters, extra);
}
int cuModuleUnload(void* module) { return note("unload"); }
int cuGetErrorName(int code, const char** text) { *text = "STAND_IN"; return 0; }
int cuMemsetD8Async(uintptr_t pointer, unsigned char value, size_t size, void* stream) {
  return note("clear %zu stream %d", size, (int)(uintptr_t)stream);
}
"""

# Python runs it first in every process, in those that only compile too.
PRELUDE = """
import torch
card = torch._C._XpuDeviceProperties
card.platform_name = "NVIDIA CUDA BACKEND"
card.version = {version!r}
card.max_compute_units = 132
torch.xpu.Stream.native_stream = property(
    lambda it: (it.device_index + 1 << 12) + (it.stream_id & 0xfff))
# Milliseconds: what takes long is not repeated often when its time is taken.
torch.xpu.Event.elapsed_time = lambda begin, end: 50.0
"""


def run(folder, code, version="9.0", timeout=240, **environment):
    """Runs Python on two cards of this compute capability: what it printed, and the calls
    that the driver got. A program that fails is an AssertionError with its output."""
    library = os.path.join(folder, "libcuda.so.1")
    calls = os.path.join(folder, "calls")
    source = os.path.join(folder, "cuda.c")
    if not os.path.exists(library):
        with open(source, "w") as file:
            file.write(SOURCE)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = os.path.join(folder, "program.py")  # Triton reads the source of kernels
    with open(program, "w") as file:
        file.write("import torch\n" + textwrap.dedent(code))
    with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
        file.write(PRELUDE.format(version=version))
    open(calls, "w").close()
    given = {
        **os.environ,
        "STAND_IN_CALLS": calls,
        "TORCH_XPU_MAPPING": "AUTO",  # with CPU nothing asks what the devices are
        "TORCH_XPU_VIRTUAL_DEVICES": "2",
        "TRITON_LIBCUDA_PATH": folder,
        **{
            name: ":".join(filter(None, [folder, os.environ.get(name)]))
            for name in ("LD_LIBRARY_PATH", "PYTHONPATH")
        },
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, program],
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout
    with open(calls) as file:
        return done.stdout, file.read().splitlines()


def compiled_elsewhere(statement):
    """A program that compiles in other processes alone. It says how many graphs the cache had."""
    return f"""
import torch, triton
from torch._dynamo.utils import counters
from torch._inductor.async_compile import AsyncCompile, shutdown_compile_workers

def here(*args, **kwargs):
    raise AssertionError("compiled in this process")

if __name__ == "__main__":
    triton.compile = here
    AsyncCompile.warm_pool()
    AsyncCompile.wait_pool_ready()
    {statement}
    print(counters["inductor"]["fxgraph_cache_hit"])
    shutdown_compile_workers()
"""
