"""Kernels that are compiled ahead of time, by the real compiler."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from xpu_stack.build import packages
from xpu_stack.core.system.layout import Layout
from xpu_stack.wheel import images

SYCL = packages.installed_sycl(Layout.current())
pytestmark = pytest.mark.skipif(SYCL is None, reason="the SYCL runtime is not installed")
KERNEL = """\
#include <sycl/ext/oneapi/free_function_kernel_properties.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY(
    (sycl::ext::oneapi::experimental::nd_range_kernel<1>)) void {name}(float* x) {{
  x[sycl::ext::oneapi::this_work_item::get_nd_item<1>().get_global_id(0)] *= 2;
}}
"""
NAMES = ["__sycl_kernel_four", "__sycl_kernel_two"]


def compiled(folder: Path, form: str, source: str, *more: str) -> dict[str, bytes]:
    assert SYCL is not None
    (folder / "source").write_text(source)
    command = [sys.executable, images._COMPILER, SYCL.root / "lib" / "libsycl-jit.so", form]
    subprocess.run([*command, folder / "source", folder / "images", *more], check=True)
    with zipfile.ZipFile(folder / "images") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


SOURCE = KERNEL.format(name="two") + KERNEL.format(name="four")


def test_spirv(tmp_path: Path) -> None:
    found = compiled(tmp_path, "spirv", SOURCE)
    assert list(found) == NAMES
    for name, code in found.items():
        assert code.startswith(b"\x03\x02\x23\x07")
        assert name.encode() in code
    first = (tmp_path / "images").read_bytes()
    compiled(tmp_path, "spirv", SOURCE)
    assert (tmp_path / "images").read_bytes() == first  # as a package's other files


def test_ptx(tmp_path: Path) -> None:
    base = Layout.current().state / "torch-2.13.0+cpu"
    found = sorted(base.glob("lib/python3*/site-packages/triton/backends/nvidia/lib/*.bc"))
    if not found:
        pytest.skip("the stock torch of v2.13, with Triton, is not installed")
    code = compiled(tmp_path, "ptx", SOURCE, str(found[0]))
    assert list(code) == NAMES
    for name, text in code.items():
        assert f".visible .entry {name}(".encode() in text


def test_an_error_of_the_compiler(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        compiled(tmp_path, "spirv", "int x = ;")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_what_a_package_brings_is_there_for_tests(tmp_path: Path) -> None:
    brought = [tmp_path / name for name in ("one.kernels", "two.kernels")]
    for file in brought:
        file.write_text("new")
    folder = tmp_path / "compiled"
    folder.mkdir()
    (folder / "two.kernels").write_text("kept")
    images._keep_for_tests(brought, folder)
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found == {"one.kernels": "new", "two.kernels": "kept"}
