"""The environment in which what was built runs."""

from pathlib import Path

import pytest
from xpu_stack import runtime
from xpu_stack.build import Build, Mode, Sanitizer
from xpu_stack.packages import Sycl


def built(folder: Path) -> Build:
    sycl = Sycl(folder, "0", "this test")
    return Build(None, Mode.FAST, Sanitizer.NONE, folder, sycl, {})  # type: ignore[arg-type]


def test_the_cpu_device_is_the_sycl_runtimes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    assert runtime.cpu_device(built(tmp_path)) == {}  # a runtime without one
    library = tmp_path / "lib" / "libintelocl.so"
    library.parent.mkdir()
    library.touch()
    assert runtime.cpu_device(built(tmp_path)) == {"OCL_ICD_FILENAMES": str(library)}
    monkeypatch.setenv("OCL_ICD_FILENAMES", "mine")
    assert runtime.cpu_device(built(tmp_path)) == {}
