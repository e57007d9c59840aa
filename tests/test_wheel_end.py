"""The end of a full build, on a small package with the libraries that the real one carries."""

import os
import re
import select
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import ROOT, Project, write
from workspace import workspace
from xpu_stack.build import cmake, packages
from xpu_stack.build.base_settings import BaseSettings
from xpu_stack.build.configuration import Mode
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import shell
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.layout import Layout
from xpu_stack.wheel import finish, making
from xpu_stack.wheel.finish import Identity
from xpu_stack.wheel.making import Order

THIS = Identity("1.13.1", "b" * 40, "a source package", "stream", "c" * 64, Mode.FULL)

# As PyTorch's: what it is linked with, and where it is installed.
CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(Torch C)
set(CMAKE_INSTALL_RPATH "$ORIGIN:$ORIGIN/../lib")
add_library(torch_cpu SHARED cpu.c)
target_link_libraries(torch_cpu PRIVATE -Wl,--no-as-needed
  openblas cpuinfo onnx onnx_proto protobuf sleef gomp
  ${OTHER})
add_library(c10_xpu SHARED xpu.c)
target_link_libraries(c10_xpu PRIVATE torch_cpu ${RUNTIME})
add_executable(torch_shm_manager manager.c)
target_link_libraries(torch_shm_manager PRIVATE torch_cpu)
install(TARGETS torch_cpu c10_xpu DESTINATION lib)
install(TARGETS torch_shm_manager DESTINATION bin)
add_custom_target(gen_torch_version COMMAND ${CMAKE_COMMAND} -E copy
  ${CMAKE_SOURCE_DIR}/version.txt ${CMAKE_SOURCE_DIR}/torch/version.py)
"""

SETUP = """\
import os
from setuptools import Extension, setup
setup(
    name="torch",
    version=os.environ["PYTORCH_BUILD_VERSION"],
    description="Tensors",
    long_description="The text.",
    packages=["torch"],
    package_data={"torch": ["lib/*.so", "bin/*"]},
    ext_modules=[Extension("torch._C", ["stub.c"], libraries=["torch_cpu"],
                           library_dirs=["torch/lib"],
                           extra_link_args=["-Wl,-rpath,$ORIGIN/lib"])],
)
"""

STUB = """\
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&definition); }
"""

# What of a package of the distribution is carried, by the package that it is of.
CARRIED = {
    "libcpuinfo0", "libgfortran5", "libgomp1", "libonnx1", "libopenblas0-openmp",
    "libprotobuf32", "libquadmath0", "libsleef3",
}  # fmt: skip


def compiled(path: Path, source: str) -> Path:
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-o", path, "-x", "c", "-"]
    subprocess.run(command, input=source.encode(), check=True)
    return path


@pytest.fixture
def base() -> Base:
    """PyTorch 1.13.1, with all installed that its full build is linked with."""
    packages.need_python("wheel")
    loaded = Base.load(Layout.current(), "v1.13.1")
    wanted = BaseSettings.of(loaded)
    packages.need_apt([*wanted.apt, *wanted.full.apt])
    return loaded


@pytest.fixture
def order(project: Project, base: Base, tmp_path: Path) -> Iterator[Order]:
    """A wheel of a small package, whose tree is not configured yet."""
    assert BaseSettings.of(base).full.apt  # installed: the package is linked with them
    runtime = compiled(tmp_path / "libsycl.so.9", "int sycl(void) { return 42; }")
    source = tmp_path / "wheel-full" / "src"
    write(
        source,
        {
            "CMakeLists.txt": CMAKE.replace("${RUNTIME}", str(runtime)),
            "setup.py": SETUP,
            "stub.c": STUB,
            "cpu.c": "int cpuinfo_initialize(void); int cpu(void) { return !cpuinfo_initialize; }",
            "xpu.c": "int sycl(void); int cpu(void); int answer(void) { return sycl() + cpu(); }",
            "manager.c": "int cpu(void); int main(void) { return cpu(); }",
            "version.txt": "__all__ = ['__version__']\n__version__ = '1.13.0a0'\n",
            "torch/__init__.py": "",
        },
    )
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTORCH_BUILD_VERSION": THIS.version,
    }
    with workspace(project) as work:
        yield Order(work, THIS, source, env, 0.0)


def configure(order: Order, other: str = "") -> None:
    options = {"CMAKE_INSTALL_PREFIX": str(order.source / "torch"), "OTHER": other}
    cmake.configure(order.source, order.source / "build", options, order.env, "")


def objects(order: Order) -> list[Path]:
    """What the build has compiled; setup.py has an object of its own."""
    return list((order.source / "build").glob("CMakeFiles/*.dir/*.o"))


def test_what_comes_after_the_compiler_is_rehearsed_before_it(order: Order) -> None:
    configure(order)
    making.rehearse(order)
    assert objects(order) == []
    assert list((order.source / "torch").rglob("*.so")) == []
    assert list((order.source.parent / "finished").iterdir()) == []
    # once for each configuration
    raw = order.source.parent / "raw"
    raw.rename(raw.with_name("of the first"))
    making.rehearse(order)
    assert not raw.exists()


def test_a_library_without_a_licence_is_found_before_anything_is_compiled(
    order: Order, tmp_path: Path
) -> None:
    own = compiled(tmp_path / "libown-1.so.2", "int own;")
    configure(order, other=str(own))
    env = order.env | {"LD_LIBRARY_PATH": str(tmp_path)}
    with pytest.raises(ToolError) as raised:
        making.rehearse(Order(order.work, THIS, order.source, env, 0.0))
    assert re.search(r"has one for libown-1-\w{8}\.so\.2$", raised.value.why)
    assert objects(order) == []


def test_the_wheel_has_what_it_needs_with_licences_and_names_no_folder(
    order: Order, tmp_path: Path
) -> None:
    configure(order)
    cmake.build(order.source / "build", ["gen_torch_version", "install"], order.env)

    made = making.pack(order)

    assert made.name.startswith(f"torch-{THIS.version}-cp")
    assert "manylinux" in made.name
    names = zipfile.ZipFile(made).namelist()
    folder = f"torch-{THIS.version}.dist-info/licenses/"
    licences = {name.removeprefix(folder) for name in names if name.startswith(folder)}
    assert licences == {f"{package}.txt" for package in ("xpu-stack", *CARRIED)}

    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", site, made], check=True)
    (site / "lib").mkdir()
    (tmp_path / "libsycl.so.9").rename(site / "lib" / "libsycl.so.9")
    for path in finish.binaries(site):
        if path.parent != site / "lib":
            assert all(way.startswith("$ORIGIN") for way in finish.ways(path)), path
    program = (
        "import ctypes, torch._C, torch.version\n"
        f"assert torch.version.__version__ == {THIS.version!r}\n"
        f"assert torch.version.xpu_series == {THIS.facts['xpu_series']!r}\n"
        "assert ctypes.CDLL('torch/lib/libc10_xpu.so').answer() == 42\n"
        "for line in open('/proc/self/maps'):\n"
        "    assert '.so' not in line or 'openblas' not in line or '/torch.libs/' in line, line\n"
        "print(sum('openblas' in line for line in open('/proc/self/maps')) > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=site, env={}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert shell.run([site / "torch/bin/torch_shm_manager"], env={"LD_LIBRARY_PATH": ""}).code == 0


def test_headers_that_become_part_of_the_libraries_bring_their_licences(
    base: Base, tmp_path: Path
) -> None:
    settings = BaseSettings.of(base)
    wanted = settings.wheel.compiled_in + settings.full.compiled_in
    finish._write_licences(tmp_path, tmp_path, wanted)
    found = {path.stem for path in (tmp_path / "licenses").iterdir()}
    assert found - {"xpu-stack"} == set(wanted) >= {"libfmt-dev", "libflatbuffers-dev"}
    assert "xpu-stack authors" in (tmp_path / "licenses/xpu-stack.txt").read_text()
    with pytest.raises(ToolError) as raised:
        finish._write_licences(tmp_path, tmp_path, ["no-such-dev"])
    assert raised.value.why.endswith("has one for no-such-dev")


@pytest.mark.parametrize(
    ("carried", "name"),
    [
        ("libgomp-f9a9ad78.so.1.0.0", "libgomp.so.1.0.0"),
        ("libopenblasp-r0-3c5ecc47.3.21.so", "libopenblasp-r0.3.21.so"),
        ("libonnx_proto-a63dd27b.so.1", "libonnx_proto.so.1"),
        ("libplain.so.1", "libplain.so.1"),
    ],
)
def test_a_carried_library_was_called(carried: str, name: str) -> None:
    assert finish.own_name(Path(carried)) == name


def test_aten_finds_its_headers_where_the_package_is(tmp_path: Path) -> None:
    name = "torch/share/cmake/ATen/ATenConfig.cmake"
    write(tmp_path, {name: 'set(ATEN_FOUND 1)\nset(ATEN_INCLUDE_DIR "/built/torch/include")\n'})
    finish._relocate(tmp_path)
    program = tmp_path / "say.cmake"
    program.write_text(
        f"include({tmp_path / name})\n"
        "get_filename_component(found ${ATEN_INCLUDE_DIR} ABSOLUTE)\n"
        "message(${found})\n"
    )
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = shell.run(["cmake", "-P", program], env=path).complaint
    assert said == str(tmp_path / "torch/include")


def test_only_what_the_build_does_not_make_is_foreign(tmp_path: Path) -> None:
    links = (
        "-Wl,-rpath,/somewhere:", "/usr/lib/libopenblas.so", "lib/libc10.so", "-lsleef",
        "-ltorch_cpu", f"{tmp_path}/lib/libshm.so", "/usr/lib/libpthread.a",
    )  # fmt: skip
    found = list(making.foreign(links, tmp_path, {"torch_cpu"}))
    assert found == ["/usr/lib/libopenblas.so", "-lsleef"]


def test_with_a_runtime_of_ones_own_its_release_must_be_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SYCL_ROOT", str(tmp_path))
    monkeypatch.delenv("SYCL_VERSION", raising=False)
    with pytest.raises(ToolError, match="The release of the SYCL runtime"):
        making.runtime("wheel")
    monkeypatch.setenv("SYCL_VERSION", "2027.1.0")
    assert "intel-sycl-rt>=2027.1.0,<2028" in making.runtime("wheel")


# -- the hours before ----------------------------------------------------------------

# Its second library has a source that is there when a person lets it be.
SLOW = """\
cmake_minimum_required(VERSION 3.18)
project(Torch C)
add_library(first SHARED cpu.c)
add_custom_command(OUTPUT second.c DEPENDS first
  COMMAND sh -c "echo at it > ${CMAKE_SOURCE_DIR}/started"
  COMMAND sh -c "cat ${CMAKE_SOURCE_DIR}/go > second.c"
  VERBATIM)
add_library(second SHARED second.c)
install(TARGETS first second DESTINATION lib)
"""


def test_after_ctrl_c_the_build_goes_on_where_it_stopped(order: Order) -> None:
    write(order.source, {"CMakeLists.txt": SLOW, "cpu.c": "int cpu(void) { return 0; }"})
    configure(order)
    started, go = order.source / "started", order.source / "go"
    os.mkfifo(started)
    os.mkfifo(go)
    program = f"from pathlib import Path; from xpu_stack.wheel import making; \
making.install(Path({str(order.source)!r}), {{}})"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **order.env, "PYTHONPATH": str(ROOT / "scripts")},
        start_new_session=True,
        # A shell's background jobs ignore Ctrl-C, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    reading = os.open(started, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert select.select([reading], [], [], 120)[0], "the second library was not begun"
    finally:
        os.close(reading)
        os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == -signal.SIGINT

    (first,) = (order.source / "build").glob("CMakeFiles/first.dir/*.o")
    compiled_at = first.stat().st_mtime_ns
    assert not (order.source / "torch/lib/libfirst.so").exists()
    for path, content in ((started, ""), (go, "int second;\n")):
        path.unlink()
        path.write_text(content)
    told = making.install(order.source, order.env)
    # The source, its object, the library: done when the installation begins.
    assert told == "3 step(s)"
    assert first.stat().st_mtime_ns == compiled_at
    assert {path.name for path in (order.source / "torch/lib").iterdir()} == {
        "libfirst.so",
        "libsecond.so",
    }
