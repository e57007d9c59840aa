"""Compiles SYCL kernels by libsycl-jit.so, SYCL's run-time compiler, for a device that need
not be there:

    python sycl_jit.py libsycl-jit.so spirv source images.zip
    python sycl_jit.py libsycl-jit.so ptx source images.zip libdevice.10.bc

SYCL itself compiles for devices that it finds. A file of the archive is the code of a kernel.
It is a program, since some sources end the process of the compiler. The interface is that of
SYCL 2026.2, sycl-jit/jit-compiler/include/RTC.h of intel/llvm.
"""

import ctypes
import os
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

_FORMATS = {"spirv": 2, "ptx": 3}
# As the runtime compiles them, KernelImage.cpp
_OPTIONS = ("-fsycl-device-code-split=per_kernel",)
_EPOCH = (1980, 1, 1, 0, 0, 0)


class _File(ctypes.Structure):
    _fields_ = (("path", ctypes.c_char_p), ("content", ctypes.c_char_p))


class _Array(ctypes.Structure):
    """Of what it is about, C++ knows the type."""

    _fields_ = (("begin", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Image(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_uint32),
        ("address_bits", ctypes.c_uint64),
        ("code", _Array),
        ("symbols", _Array),
        ("properties", _Array),
    )


class _Result(ctypes.Structure):
    _fields_ = (
        ("error", ctypes.c_int),
        ("images", _Array),
        ("options", ctypes.c_char_p),
        ("ir", _Array),
        ("log", ctypes.c_char_p),
    )


_LIBSPIRV = "/lib/clang/23/lib/nvptx64-nvidia-cuda/libspirv.l64.signed_char.bc"
_PREFIX = "/sycl-jit-toolchain"


def _show_libspirv(library: str) -> None:
    """Has the compiler find its library for NVIDIA, which it carries as one of its own files.

    SYCL 2026.2 keeps it below a prefix, and looks for it without that. The table of files
    has pointers to paths, with their lengths: this one's is made to begin after the prefix.
    """
    path = f"{_PREFIX}{_LIBSPIRV}".encode()
    regions = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, mode, *_, name = line.split()
        if name == str(Path(library).resolve()) and mode.startswith("r"):
            begin, end = (int(part, 16) for part in where.split("-"))
            regions.append((begin, ctypes.string_at(begin, end - begin)))

    def find(wanted: bytes) -> int:
        for begin, content in regions:
            at = content.find(wanted)
            if at >= 0:
                return begin + at
        sys.exit(f"{library} is of another release of SYCL than 2026.2: it has no {_LIBSPIRV}")

    word = ctypes.sizeof(ctypes.c_uint64)
    at = find(path + b"\0")
    entry = find(at.to_bytes(word, "little") + len(path).to_bytes(word, "little"))
    page = 4096
    first = entry // page * page
    read_write = 3
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(first), 2 * page, read_write):
        sys.exit("mprotect failed")
    ctypes.c_uint64.from_address(entry).value = at + len(_PREFIX)
    ctypes.c_uint64.from_address(entry + word).value = len(path) - len(_PREFIX)


def images_of(library: str, form: str, options: list[str], source: bytes) -> dict[str, bytes]:
    """The code of each kernel, by name."""
    compiler = ctypes.CDLL(library).compileSYCL
    compiler.restype = None
    compiler.argtypes = (
        ctypes.c_void_p,  # the result, which C++ returns
        _File,
        _Array,  # files to include
        _Array,  # options
        _Array,  # code that was kept
        ctypes.c_bool,  # whether to keep code
        ctypes.c_uint32,
    )
    words = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    none = _Array(None, 0)
    given = _Array(ctypes.cast(words, ctypes.c_void_p), len(options))
    result = _Result()
    file = _File(b"kernels.cpp", source)
    compiler(ctypes.byref(result), file, none, given, none, False, _FORMATS[form])
    if result.error:
        sys.exit(str(result.log, "utf-8"))
    images = {}
    for image in (_Image * result.images.size).from_address(result.images.begin or 0):
        name = ctypes.c_char_p.from_address(image.symbols.begin).value or b""
        assert image.format == _FORMATS[form]
        images[name.decode()] = ctypes.string_at(image.code.begin, image.code.size)
    return images


def main(library: str, form: str, source: str, to: str, libdevice: str = "") -> None:
    options = list(_OPTIONS)
    with TemporaryDirectory() as cuda:
        if libdevice:
            # What the compiler takes for a CUDA toolkit.
            for part in ("bin", "include", "nvvm/libdevice"):
                (Path(cuda) / part).mkdir(parents=True)
            (Path(cuda) / "nvvm/libdevice/libdevice.10.bc").symlink_to(libdevice)
            options += [f"--cuda-path={cuda}", f"-fsycl-libspirv-path={_LIBSPIRV}"]
            ctypes.CDLL(library)
            _show_libspirv(library)
        images = images_of(library, form, options, Path(source).read_bytes())
    draft = f"{to}.{os.getpid()}"  # another run may make the same
    with zipfile.ZipFile(draft, "w") as archive:
        for name, code in sorted(images.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), code, zipfile.ZIP_DEFLATED)
    Path(draft).replace(to)


if __name__ == "__main__":
    main(*sys.argv[1:])
