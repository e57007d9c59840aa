"""Run by the Python that a wheel was installed for: says in JSON what it found.

It imports nothing of the toolkit, and uses what a person would: a product of
matrices, an FFT, a factorisation, the devices there are.
"""

import ctypes
import importlib.metadata
import importlib.util
import json
from pathlib import Path

import torch  # type: ignore[import-not-found]


def devices() -> int:
    """How many XPU devices the runtime has, asked of the library itself."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10_xpu.so"))
    # c10::xpu::device_count_across_fork(), which does not warn if there are none
    count = library._ZN3c103xpu24device_count_across_forkEv
    count.restype = ctypes.c_int8
    return int(count())


def computed() -> dict[str, bool]:
    torch.manual_seed(0)
    a = torch.randn(64, 64, dtype=torch.double)
    q, r = torch.linalg.qr(a)
    return {
        "matmul": bool(torch.allclose(a @ torch.eye(64, dtype=torch.double), a)),
        "lapack": bool(torch.allclose(q @ r, a)),
        "fft": bool(torch.allclose(torch.fft.ifft(torch.fft.fft(a)).real, a)),
        "autograd": torch.autograd.grad((a.requires_grad_() ** 2).sum(), a)[0].equal(2 * a),
        "numpy": bool((torch.ones(2).numpy() == 1).all()),
        "oneDNN": torch.backends.mkldnn.is_available(),
        "quantised operators": "qnnpack" in torch.backends.quantized.supported_engines,
        "torch.distributed": torch.distributed.is_available(),
    }


def used() -> str:
    """What a person does first, where the package has torch.xpu: the device's name."""
    if not hasattr(torch, "xpu"):
        return ""
    torch.xpu.Stream().synchronize()
    assert torch.xpu.memory_stats()["reserved_bytes.all.current"] == 0
    return str(torch.xpu.get_device_name(0))


def has_functorch() -> bool:
    """Whether functorch is there; if so, it works."""
    if importlib.util.find_spec("functorch") is None:
        return False
    import functorch  # type: ignore[import-not-found]

    twice = functorch.vmap(lambda one: one * 2)(torch.ones(3))
    return bool((twice == 2).all())


def main() -> None:
    metadata = importlib.metadata.metadata("torch")
    files = importlib.metadata.files("torch") or []
    # memory shared by name: torch_shm_manager runs, and finds its libraries
    torch.multiprocessing.set_sharing_strategy("file_system")
    found = {
        "version": torch.__version__,
        "metadata_version": metadata["Version"],
        "description": metadata.json["description"],
        "requires": metadata.get_all("Requires-Dist"),
        "facts": {name: getattr(torch.version, name) for name in dir(torch.version)
                  if name.startswith("xpu_")},
        "licences": [str(file) for file in files if "LICENSE" in file.name
                     or "licenses" in file.parts],
        "computed": computed(),
        "devices": devices(),
        "used": used(),
        "shared": bool(torch.ones(4).share_memory_().is_shared()),
        "functorch": has_functorch(),
    }  # fmt: skip
    lines = Path("/proc/self/maps").read_text().splitlines()
    found["mapped"] = sorted({line.split(None, 5)[5] for line in lines if "/" in line})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
