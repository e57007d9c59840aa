"""Building, testing and packing the payload against an installed torch, on the small project."""

import os
import re
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from project import Ended, Project, write
from test_wheel_base import WHEEL_BASE
from xpu_stack.build.packages import missing_apt, need_python

MISSING = missing_apt(["g++", "libgtest-dev"])
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(torch_xpu_runtime CXX)
set(CMAKE_INSTALL_RPATH "$ORIGIN:$ORIGIN/../../torch/lib")
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import torch; print(torch.__version__)"
  OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT version)
  message(FATAL_ERROR "There is no torch")
endif()
add_library(c10_xpu SHARED c10/xpu/Device.cpp)
install(TARGETS c10_xpu DESTINATION torch_xpu_runtime/lib)
if(EXISTS ${CMAKE_SOURCE_DIR}/c10/xpu/test)
  enable_testing()
  find_package(GTest REQUIRED)
  add_executable(DeviceTest c10/xpu/test/DeviceTest.cpp)
  target_link_libraries(DeviceTest c10_xpu GTest::gtest_main)
  add_test(NAME DeviceTest COMMAND DeviceTest)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/torch_xpu_runtime) # as the payload's: at later stages
  install(DIRECTORY torch_xpu_runtime DESTINATION .)
endif()
"""
DEVICE_TEST = """\
#include <gtest/gtest.h>
extern int device;
TEST(DeviceTest, IsThere) { EXPECT_EQ(device, 0); }
"""
RUNTIME = """\
def autoload():
    import ctypes
    import pathlib
    import torch
    folder = pathlib.Path(__file__).parent
    torch.device = ctypes.c_int.in_dll(ctypes.CDLL(folder / "lib/libc10_xpu.so"), "device").value
    torch.found, torch.found_in = "xpu", folder
"""
PYTHON_TEST = """\
import os
import unittest
import torch

class TestRuntime(unittest.TestCase):
    def test_device(self):
        self.assertEqual(torch.device, 0)
        self.assertTrue(os.environ["OCL_ICD_FILENAMES"].endswith("libintelocl.so"))
"""
TORCH = """\
import importlib.metadata, os, types
__version__ = "{version}"
found = None
accelerator = types.SimpleNamespace(current_accelerator=lambda: found)
xpu = types.SimpleNamespace(get_device_properties=lambda number: "a device")
if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0":
    for one in importlib.metadata.entry_points(group="torch.backends"):
        one.load()()
"""


def packed(folder: Path, name: str, version: str, code: str = "") -> None:
    """A wheel that pip finds there."""
    info = f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/__init__.py", code)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")


def index(folder: Path, packages: Path, *names: str) -> str:
    """An index for pip that has some of the packages; its address."""
    for name in names:
        (wheel,) = packages.glob(f"{name}-*.whl")
        link = f'<a href="{wheel.as_uri()}">{wheel.name}</a>'
        write(folder, {f"{name.replace('_', '-')}/index.html": link})
    folder.mkdir(exist_ok=True)
    return folder.as_uri()


def environment(folder: Path, version: str) -> Path:
    """A Python environment with a torch that does what matters: it looks for backends."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (tools,) = (one for one in sys.path if one.endswith("site-packages"))
    about = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
    write(
        site,
        {
            "torch/__init__.py": TORCH.format(version=version),
            f"torch-{version}.dist-info/METADATA": about,
            "tools.pth": tools,  # pytest
        },
    )
    return folder


@pytest.fixture
def project(project: Project, tmp_path: Path) -> Project:
    """A stage that is C++ alone, and one with the Python package."""
    series = (project.folder / "patches/series.yaml").read_text()
    series = series.replace("[c10_xpu/stream]", "[c10_xpu/stream, torch_xpu_py/stream]")
    variants = "patches/v2.13/payload"
    write(
        project.folder,
        {
            "patches/series.yaml": series,
            "patches/v2.13/base.yaml": WHEEL_BASE,
            "LICENSE": "the licence\n",
            f"{variants}/c10_xpu/device/CMakeLists.txt": CMAKE,
            f"{variants}/torch_xpu_py/stream/torch_xpu_runtime/__init__.py": RUNTIME,
            f"{variants}/torch_xpu_py/stream/test/test_runtime.py": PYTHON_TEST,
        },
    )
    write(tmp_path / "sycl", {"lib/libsycl.so": "", "include/sycl/sycl.hpp": ""})
    environment(tmp_path / "torch", "2.13.0+cpu")
    return project


def env(tmp_path: Path, torch: str = "torch") -> dict[str, str]:
    sycl = {"SYCL_ROOT": str(tmp_path / "sycl"), "SYCL_VERSION": "2026.2.0"}
    return {**sycl, "TORCH": str(tmp_path / torch), "JOBS": "1"}


@pytest.mark.slow
def test_stages_are_built_and_tested(project: Project, tmp_path: Path) -> None:
    test = "patches/v2.13/payload/c10_xpu/device/c10/xpu/test/DeviceTest.cpp"
    write(project.folder, {test: DEVICE_TEST})
    said = project.ok("test", "--base", "v2.13", source=False, env=env(tmp_path))
    assert "device/runtime: 1 passed, 0 failed, 0 skipped in 1 configuration(s)" in said
    assert "device/runtime: 8 passed, 0 failed, 0 skipped in 8 configuration(s)" in said
    assert "stream/stream: 2 passed, 0 failed, 0 skipped in 2 configuration(s)" in said
    assert "compiled here: c10_xpu" in said
    assert re.search(r"from .*/torch/bin/python: torch 2\.13\.0\+cpu", said)
    again = project.ok("test", "--base", "v2.13", source=False, env=env(tmp_path))
    assert "stream: passed before on this tree" in again
    told = project.ok(
        *("python", "--base", "v2.13", "--code", "import torch; print(torch.found_in)"),
        source=False,
        env=env(tmp_path),
    )
    assert "/site/torch_xpu_runtime" in told
    # a Python is as good as its environment; its torch is another one
    environment(tmp_path / "other", "2.14.0")
    other = env(tmp_path, "other/bin/python")
    assert "3 passed" not in project.ok("status", "--base", "v2.13", source=False, env=other)
    said = project.ok("build", "--base", "v2.13", source=False, env=other)
    assert "torch 2.14.0" in said


RUN = """\
import sys, torch
print('runs', flush=True)
sys.stdin.read()
import torch_xpu_runtime.late
"""


@pytest.mark.parametrize("verb", ["python", "shell"])
def test_several_run_on_one_build_and_none_changes_it_meanwhile(
    project: Project, tmp_path: Path, verb: str
) -> None:
    late = "patches/v2.13/payload/torch_xpu_py/stream/torch_xpu_runtime/late.py"
    write(project.folder, {late: "print('late')\n"})
    checkout = project.folder / ".xpu/pytorch-v2.13"

    def run(*words: str) -> Ended:
        return project.run(*words, "--base", "v2.13", source=False, env=env(tmp_path))

    def refused(*words: str) -> None:
        ended = run(*words) if words != ("clean",) else project.run("clean", source=False)
        assert (ended.code, ended.out) == (3, "")
        assert "error: Another run is at work on" in ended.err
        assert f"is held by '{verb}' (process {first.pid})\n  next: kill {first.pid} #" in ended.err

    shell = tmp_path / "shell"
    write(tmp_path, {"shell": f'#!/bin/sh\npython -c "{RUN}"\n'})
    shell.chmod(0o755)
    words = ("python", "--code", RUN) if verb == "python" else ("shell",)
    with subprocess.Popen(
        project.command(*words, "--base", "v2.13", source=False),
        cwd=project.folder,
        env={**project.environment(), **env(tmp_path), "SHELL": str(shell)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert "runs\n" in iter(first.stdout.readline, "")
        second = run("python", "--code", "import torch; print(torch.found)")
        assert (second.code, second.out) == (0, "xpu\n"), second.err
        assert run("status").code == 0
        refused("apply", "--stage", "device")
        refused("build", "--stage", "device")
        refused("python", "--stage", "device", "--code", "0")
        refused("clean")
        # an edit is not built under the first one's feet
        source = checkout / "c10/xpu/Device.cpp"
        before = source.read_bytes()
        source.write_text("int device = 1;\n")
        refused("python", "--code", "0")
        source.write_bytes(before)
        first.stdin.close()
        assert first.stdout.read() == "late\n"
    assert run("apply", "--stage", "device").code == 0
    assert project.run("clean", source=False).code == 0


def test_a_torch_with_cuda_has_no_python_tests(project: Project, tmp_path: Path) -> None:
    (site,) = environment(tmp_path / "cuda", "2.14.1").glob("lib/python*/site-packages")
    write(site, {"torch/lib/libtorch_cuda.so": ""})
    given = env(tmp_path, "cuda")
    said = project.ok("test", "--base", "v2.13", source=False, env=given)
    assert "Python tests are left out: the package refuses a torch that has CUDA" in said


@pytest.mark.parametrize(
    ("torch", "what"),
    [
        ("old", "error: torch 2.12.1 of TORCH=old is not in the range."),
        ("none", "error: TORCH=none has no torch."),
    ],
)
def test_an_environment_that_does_not_fit(
    project: Project, tmp_path: Path, torch: str, what: str
) -> None:
    environment(tmp_path / "old", "2.12.1")
    ended = project.run("build", "--base", "v2.13", source=False, env=env(tmp_path, torch))
    lines = ended.lines.replace(f"{tmp_path}/", "").splitlines()
    assert what in lines
    assert "  next: unset TORCH # to use an environment of the tool's own" in lines


def test_there_is_one_mode(project: Project, tmp_path: Path) -> None:
    words = ("build", "--base", "v2.13", "--mode", "full")
    ended = project.run(*words, source=False, env=env(tmp_path))
    assert ended.code == 2
    assert "error: There is no MODE=full for the base v2.13." in ended.err


def test_the_wheel(project: Project, tmp_path: Path) -> None:
    told = project.ok("extension", "--base", "v2.13", source=False, env=env(tmp_path))
    (wheel,) = (project.folder / ".xpu/wheels").glob("*.whl")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert re.fullmatch(
        rf"torch_xpu_runtime-0\.1\+g\w{{12}}-{tag}-{tag}-[\w.]*manylinux_\w+\.whl", wheel.name
    )
    assert wheel.name in told
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (info,) = (name for name in names if name.endswith("/METADATA"))
        metadata = archive.read(info).decode()
        licence = archive.read(f"{info.rpartition('/')[0]}/licenses/LICENSE")
    assert {"torch_xpu_runtime/__init__.py", "torch_xpu_runtime/lib/libc10_xpu.so"} < {*names}
    assert "Requires-Dist: torch>=2.13,<2.14\n" in metadata
    assert "Requires-Dist: intel-sycl-rt>=2026.2.0,<2027\n" in metadata
    extra = 'Provides-Extra: nvidia\nRequires-Dist: triton==3.7.1; extra == "nvidia"\n'
    extra += 'Requires-Dist: nvidia-cublas~=13.0; extra == "nvidia"\n'
    assert extra in metadata
    assert "triton~=3.8.0" not in metadata
    assert "License-Expression: BSD-3-Clause\n" in metadata
    assert "Project-URL: API, https://example.org/api\n" in metadata
    assert f"Classifier: Programming Language :: Python :: 3.{sys.version_info[1]}\n" in metadata
    assert licence == b"the licence\n"
    # as a person installs it: torch finds it
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    subprocess.run([*pip, wheel], check=True)
    code = "import torch; print(torch.device, torch.found_in)"
    done = subprocess.run(
        [tmp_path / "torch/bin/python", "-c", code],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"0 {target}/torch_xpu_runtime\n"


def test_the_same_input_makes_the_same_wheel(project: Project, tmp_path: Path) -> None:
    """In another folder, at another time, with another umask."""
    made = []
    for name, umask in (("one", 0o022), ("two", 0o077)):
        home = tmp_path / name
        given = env(tmp_path) | {"XPU_STACK_HOME": str(home)}
        before = os.umask(umask)
        try:
            project.ok("extension", "--base", "v2.13", source=False, env=given)
        finally:
            os.umask(before)
        (wheel,) = home.glob("wheels/*.whl")
        made.append((wheel.name, wheel.read_bytes()))
        with zipfile.ZipFile(wheel) as archive:
            infos = archive.infolist()
        assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
        for file in project.folder.rglob("*.py"):
            os.utime(file)
    assert made[0] == made[1]


@pytest.mark.slow
def test_the_tools_own_environment_and_an_empty_one(project: Project, tmp_path: Path) -> None:
    """Without TORCH, and with a torch that the base's index alone has."""
    (project.folder / "patches/v2.13/payload/torch_xpu_py/stream/test/test_runtime.py").unlink()
    need_python("wheel")  # the index below has none of it
    packages = tmp_path / "packages"
    for name in ("intel_sycl_rt", "intel_opencl_rt"):
        packed(packages, name, "2026.2.0")
    packed(packages, "torch", "2.13.0", TORCH.format(version="2.13.0"))
    own = index(tmp_path / "own", packages, "intel_sycl_rt", "intel_opencl_rt")
    theirs = index(tmp_path / "theirs", packages)
    base = WHEEL_BASE.replace("file:///nowhere", theirs)
    write(project.folder, {"patches/v2.13/base.yaml": base})
    given = env(tmp_path) | {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": own}
    given |= {"PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "TORCH": ""}
    ended = project.run("build", "--base", "v2.13", source=False, env=given)
    assert "error: torch==2.13.0 could not be installed." in ended.err
    assert f"why: pip ended with 1; {theirs} was asked too" in ended.err
    assert "next: make build TORCH=<an environment that has it> BASE=v2.13" in ended.err
    index(tmp_path / "theirs", packages, "torch")
    digest = sha256(next(packages.glob("torch-*.whl")).read_bytes()).hexdigest()
    lock = project.folder / "patches/v2.13/requirements.txt"
    lock.write_text(f"torch==2.13.0 --hash=sha256:{digest[::-1]}\n")
    ended = project.run("build", "--base", "v2.13", source=False, env=given)
    assert "error: torch==2.13.0 could not be installed." in ended.err
    lock.write_text(f"torch==2.13.0 --hash=sha256:{digest}\n")
    ended = project.run("test-extension", "--base", "v2.13", source=False, env=given)
    assert "next: make extension BASE=v2.13" in ended.err
    said = project.ok("extension", "--base", "v2.13", source=False, env=given)
    assert "from PROJECT/.xpu/torch-2.13.0/bin/python: torch 2.13.0" in said
    said = project.ok("test-extension", "--base", "v2.13", source=False, env=given)
    assert "xpu a device\n" in said
    assert "bring no Python tests" in said
    assert "passes all checks" in said


def test_a_source_tree_has_no_extension(project: Project) -> None:
    for verb in ("extension", "test-extension"):
        ended = project.run(verb, source=False)
        assert ended.code == 2
        assert f"error: 'make {verb}' is not for the base v1.13.1." in ended.err
        assert f"next: make {verb} BASE=v2.13" in ended.err
