"""What the trial of an installed wheel notices."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from project import Project, write
from workspace import workspace
from xpu_stack.build import packages
from xpu_stack.build.configuration import Mode
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import shell
from xpu_stack.core.system.layout import Layout
from xpu_stack.wheel import trial
from xpu_stack.wheel.finish import Identity
from xpu_stack.wheel.trial import Trial

SYSTEM = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture
def installed(project: Project, tmp_path: Path) -> Iterator[Callable[[Mode], Trial]]:
    """A wheel in an environment, by its mode."""
    site = tmp_path / "trial/env/lib/python3.11/site-packages"
    own = [f"torch/lib/{name}.so" for name in ("libtorch", "libtorch_cpu", "libtorch_python")]
    carried = "torch.libs/libopenblasp-r0-3c5ecc47.3.21.so"
    write(site, dict.fromkeys(["torch/__init__.py", carried, *own], ""))

    with workspace(project) as work:
        of_release = dataclasses.replace(work, base=Base.load(Layout.current(), "v1.13.1"))

        def made(mode: Mode) -> Trial:
            this = Identity("1.13.1", "b" * 40, "a package", "stream", "c" * 64, mode)
            return Trial(tmp_path / "trial", of_release, this)

        yield made


def places(this: Trial, *others: str) -> list[str]:
    """What is wrong with a process that has these mapped, beside what it should have."""
    lib = this.folder / "env/lib"
    own = [f"{lib}/{name}" for name in ("libintelocl.so.1", "libOpenCL.so.1", "libsycl.so.9")]
    return list(trial._wrong_places(this, [*own, f"{SYSTEM}/libc.so.6", *others]))


@pytest.mark.parametrize("mode", Mode)
def test_what_is_the_environments_and_the_systems_is_right(
    installed: Callable[[Mode], Trial], mode: Mode
) -> None:
    this = installed(mode)
    own = f"{this.site}/torch.libs/libopenblasp-r0-3c5ecc47.3.21.so"
    assert places(this, own, f"{this.site}/torch/lib/libtorch_python.so") == []


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ("/somewhere/build/lib/libc10.so", "neither the environment's nor the system's"),
        (f"{SYSTEM}/openblas-openmp/libopenblasp-r0.3.21.so", "beside the one that the wheel"),
        (f"{SYSTEM}/libOpenCL.so.1.0.0", "in place of the environment's"),
        (f"{SYSTEM}/libtbb.so.12.8", "in place of the environment's"),
    ],
)
@pytest.mark.parametrize("mode", Mode)
def test_a_library_from_elsewhere_is_noticed(
    installed: Callable[[Mode], Trial], mode: Mode, library: str, why: str
) -> None:
    (wrong,) = places(installed(mode), library)
    assert wrong.startswith(library)
    assert why in wrong


@pytest.mark.parametrize("name", ["libtorch_cpu", "libtorch", "libtorch_python"])
def test_only_a_fast_wheel_has_the_distributions_libraries(
    installed: Callable[[Mode], Trial], name: str
) -> None:
    library = f"{SYSTEM}/{name}.so.1.13.0"
    assert places(installed(Mode.FAST), library) == []
    assert places(installed(Mode.FULL), library) != []


def test_an_absolute_way_is_noticed_in_programs_too(installed: Callable[[Mode], Trial]) -> None:
    packages.need_python("wheel")
    this = installed(Mode.FULL)
    write(this.folder, {"m.c": "int main(void) { return 0; }"})
    program = this.site / "torch/bin/torch_shm_manager"
    program.parent.mkdir()
    command = ["cc", "-o", program, this.folder / "m.c", "-Wl,-rpath,/built/lib"]
    shell.run(command)
    assert list(trial._wrong_ways(this, ["torch"], this.folder / "env")) == [
        "torch/bin/torch_shm_manager looks for libraries in /built/lib"
    ]


def test_a_folder_of_the_build_is_noticed(installed: Callable[[Mode], Trial]) -> None:
    this = installed(Mode.FULL)
    assert list(trial._wrong_words(this)) == []
    folder = this.work.layout.state / "work"
    write(this.site, {"torch/share/cmake/ATen/ATenConfig.cmake": f'set(A "{folder}/include")'})
    assert list(trial._wrong_words(this)) == [
        "torch/share/cmake/ATen/ATenConfig.cmake names a folder of the build"
    ]
