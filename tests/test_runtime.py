"""The environment in which what was built runs."""

from pathlib import Path

import pytest
from xpu_stack.build import configuration
from xpu_stack.build.configuration import Build, Mode, Sanitizer
from xpu_stack.build.packages import Sycl


def built(folder: Path) -> Build:
    sycl = Sycl(folder, "0", "this test")
    return Build(None, Mode.FAST, Sanitizer.NONE, folder, sycl, {})  # type: ignore[arg-type]


def test_a_program_finds_the_cpu_device_of_the_sycl_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    environment = configuration.program_environment(built(tmp_path))
    assert environment["OCL_ICD_FILENAMES"] == f"{tmp_path}/lib/libintelocl.so"
    assert environment["LD_LIBRARY_PATH"].startswith(f"{tmp_path}/lib")
    monkeypatch.setenv("OCL_ICD_FILENAMES", "mine")
    assert configuration.program_environment(built(tmp_path))["OCL_ICD_FILENAMES"] == "mine"
