"""The Python package of a build, and Python run on it."""

import os
import sys
from pathlib import Path

import pytest
from project import Project, write
from workspace import workspace
from xpu_stack.build import build as building
from xpu_stack.build.configuration import Build, Mode, Sanitizer
from xpu_stack.build.packages import Sycl

SOURCE = {
    "torch/__init__.py": "from torch.version import version\n",
    "torch/version.py": 'version = "1"\n',
    "torch/_C/__init__.pyi": "\n",
    "torch/_C/__init__.pyi.in": "\n",
    "torch/CMakeLists.txt": "\n",
    "torch/csrc/Module.py": "\n",
    "torch/lib/libshm/core.cpp": "\n",
    "torch/nn/lib/kept.py": "\n",
    "torchgen/__init__.py": "\n",
}
BUILT = {
    "lib/libtorch_python.so": "",
    "lib/libgtest.a": "",
    "extensions/_C.cpython-311-x86_64-linux-gnu.so": "",
    "bin/torch_shm_manager": "",
    "bin/some_test": "",
}


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    checkout, build = tmp_path / "checkout", tmp_path / "build"
    write(checkout, SOURCE)
    write(build, BUILT)
    return checkout, build


def links(build: Path) -> set[str]:
    site = build / "site"
    return {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_symlink()}


def test_the_package_is_sources_libraries_and_extensions(trees: tuple[Path, Path]) -> None:
    building.link_package(*trees)
    assert links(trees[1]) == {
        "torch/__init__.py",
        "torch/version.py",
        "torch/_C",
        "torch/nn",
        "torch/lib/libtorch_python.so",
        "torch/bin/torch_shm_manager",
        "torch/_C.cpython-311-x86_64-linux-gnu.so",
        "torchgen/__init__.py",
    }


def test_it_follows_files_that_come_and_go(trees: tuple[Path, Path]) -> None:
    checkout, build = trees
    building.link_package(checkout, build)
    assert (build / "site/torch/nn/lib/kept.py").exists()
    before = links(build)
    write(checkout, {"torch/xpu/__init__.py": ""})
    (checkout / "torch" / "nn" / "lib" / "kept.py").unlink()
    (checkout / "torch" / "version.py").unlink()
    building.link_package(checkout, build)
    assert links(build) == (before | {"torch/xpu"}) - {"torch/version.py"}
    assert (build / "site/torch/xpu/__init__.py").exists()
    assert not (build / "site/torch/nn/lib/kept.py").exists()


def test_a_view_whose_folders_were_real_is_replaced(trees: tuple[Path, Path]) -> None:
    checkout, build = trees
    write(build, {"site/torch/nn/gone.py": "", "site/torch/gone/__init__.py": ""})
    building.link_package(checkout, build)
    assert (build / "site/torch/nn/lib/kept.py").exists()
    assert not (build / "site/torch/gone").exists()


@pytest.fixture
def built(project: Project, trees: tuple[Path, Path]) -> Build:
    (project.folder / ".xpu").mkdir()
    (project.folder / ".xpu" / "env").symlink_to(sys.prefix)
    checkout, build = trees
    building.link_package(checkout, build)
    sycl = Sycl(build / "sycl", "0", "this test")
    with workspace(project) as work:
        return Build(work, Mode.FAST, Sanitizer.NONE, build, sycl, {})


def printed(this: Build, capfd: pytest.CaptureFixture[str], code: str) -> str:
    assert building.run_python(this, ("-c", code)) == 0
    return capfd.readouterr().out


def test_an_edit_takes_effect_without_a_build(
    built: Build, trees: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    show = "import torch; print(torch.version)"
    assert printed(built, capfd, show) == "1\n"
    (trees[0] / "torch" / "version.py").write_text('version = "the second"\n')
    assert printed(built, capfd, show) == "the second\n"


def test_python_leaves_nothing_in_the_checkout(
    built: Build, trees: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    printed(built, capfd, "import torch")
    assert not list(trees[0].rglob("__pycache__"))


@pytest.mark.parametrize(
    ("code", "ended"),
    [("import sys; sys.exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 128 + 9)],
)
def test_how_the_program_ends_is_passed_on(built: Build, code: str, ended: int) -> None:
    assert building.run_python(built, ("-c", code)) == ended


def test_the_programs_variables_reach_it_and_sycl_is_found_first(
    built: Build, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_XPU_MAPPING", "CPU")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    names = ("TORCH_XPU_MAPPING", "LD_LIBRARY_PATH")
    told = printed(built, capfd, f"import os; print(*(os.environ[name] for name in {names}))")
    assert told.split() == ["CPU", f"{built.sycl.root / 'lib'}{os.pathsep}/theirs"]


def test_the_shell_finds_the_python_that_imports_the_package(
    built: Build, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "a-shell"
    script.write_text('#!/bin/sh\npython -c "import torch; print(torch.version)"\nexit 5\n')
    script.chmod(0o755)
    monkeypatch.setenv("SHELL", str(script))
    assert building.run_shell(built) == 5
    assert capfd.readouterr().out == "1\n"
