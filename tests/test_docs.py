"""The commands in the guides are run as they stand, on the small project.

A block that is marked `sh` is run by bash in the folder of the project, whose
`make` is the real Makefile. What a person does between the blocks, in an
editor, the tests do.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import CMAKE, ROOT, TEXT, Project, drift, git, release, write
from real import Home
from xpu_stack.build.packages import missing_apt
from xpu_stack.core.edit import plan

MISSING = missing_apt(["g++", "libgtest-dev"])

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


class Guide:
    """A page, run block by block."""

    def __init__(self, name: str, project: Project) -> None:
        text = page(name)
        self.blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
        self.files = dict(re.findall(r"`(\S+)`:\n\n```cpp\n(.*?)^```", text, re.M | re.S))
        self.project = project
        shutil.copy(ROOT / "Makefile", project.folder)
        write(project.folder, {".gitignore": "/.xpu/\n__pycache__/\n"})
        git(project.folder, "init", "-q")
        git(project.folder, "add", ".")
        git(project.folder, "commit", "-qm", "The series")
        bin = project.folder.parent / "bin"
        write(bin, {"make": f'#!/bin/sh\nexec {shutil.which("make")} tool="$TOOL" "$@"\n'})
        (bin / "make").chmod(0o755)
        self.env = {
            **project.make_environment(),
            "HOME": str(project.folder.parent),
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "TOOL": f"{sys.executable} -m xpu_stack",
            "GIT_EDITOR": "false",
            "GIT_PAGER": "cat",
        }

    def block(self, first: str, code: int = 0) -> str:
        """Runs the next block, which begins with `first`; what it printed."""
        text = self.blocks.pop(0)
        assert text.startswith(first)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.project.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def ended(self) -> None:
        assert not self.blocks


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_fork(fork: Project) -> None:
    drift(fork, "other.txt", "ours\n")
    guide = Guide("fork.md", fork)
    assert "error:" not in guide.block("make apply")
    git(fork.checkout, "switch", "-q", "main")
    drift(fork, "c10/CMakeLists.txt", CMAKE.replace("# line 20\n", "# ours\n"))
    git(fork.checkout, "switch", "-q", "xpu-stack")
    assert "device/runtime: c10/CMakeLists.txt: 1 hunk(s)" in guide.block("make rebase")

    said = guide.block("make rebase", code=2)
    assert "error: Change 1 of 2, device/runtime, does not fit the base." in said
    assert "why: 1 file(s) in conflict; the checkout is as it was" in said
    assert "<<<<<<<" in guide.block("git -C")
    assert "discarded" in guide.block("make abort")
    fork.run("rebase", "--onto", "main")
    (conflict,) = fork.folder.glob(".xpu/work/pytorch-*/conflict")
    write(conflict, {"c10/CMakeLists.txt": CMAKE.replace("# line 20\n", "# ours\n# xpu\n")})
    assert "is now at stage 'device'" in guide.block("git -C")

    guide.block("make apply")
    fork.ok("export", source=False)  # the small project's patches are written by hand
    own = fork.folder / ".xpu/pytorch-v1.13.1"
    edit(own, "aten/Hooks.cpp", "int hooks;\n", "int hooks; // where PyTorch looks\n")
    assert "wrote aten_xpu/device/aten/Hooks.cpp" in guide.block("make edit")
    said = guide.block("make check")
    assert "3 change(s) are in order" in said
    assert "+int hooks; // where PyTorch looks" in said
    assert "index.html" in guide.block("make review")
    assert "is now at stage 'stream': 3 change(s)" in guide.block("git commit")
    assert "where PyTorch looks" in (fork.checkout / "aten/Hooks.cpp").read_text()
    assert "wrote patches/series.yaml" in guide.block("git -C")
    assert "# ours\n# xpu" in (fork.checkout / "c10/CMakeLists.txt").read_text()
    assert "stage 'device'" in guide.block("make undo")
    guide.ended()


@pytest.mark.real
def test_the_examples_of_a_fork_in_a_clean_clone(home: Home, tmp_path: Path) -> None:
    """Word for word, on the project itself with both bases, neither of which is there."""
    home = home.copied(tmp_path)
    text = page("fork.md")
    examples = re.findall(r"^\| `(make .*?)` \|", text, re.M)
    assert {one.split()[1] for one in examples} == {*plan.VERBS} - {"edit"}

    def run(example: str) -> None:
        assert example in text
        home.ok(*shlex.split(example)[1:])
        for base in ("v1.13.1", "v2.13"):
            assert "are in order" in home.ok("check", f"BASE={base}")

    home.ok("apply")
    # the first is not in v2.13's tree
    for name in ("detail/XPUHooksInterface.cpp", "xpu/XPUContext.cpp"):
        path = home.checkout / "aten/src/ATen" / name
        path.write_text(f"// As our fork has it.\n{path.read_text()}")
        run("make edit CHANGE=device/aten")
        assert len(git(home.project, "status", "--porcelain", "-uall").splitlines()) == 1
        git(home.project, "commit", "-qam", "Edited")
    for example in examples:
        run(example)
        if " drop " not in example and " undrop " not in example:
            assert git(home.project, "status", "--porcelain")
            home.ok("undo")
        assert (" drop " in example) == bool(git(home.project, "status", "--porcelain")), example


TREE = """\
cmake_minimum_required(VERSION 3.18)
project(Torch CXX)
enable_testing()
include_directories(${CMAKE_SOURCE_DIR})
file(GLOB tests CONFIGURE_DEPENDS c10/xpu/test/impl/*Test.cpp)
foreach(source ${tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(c10_xpu_${name} ${source})
  target_link_libraries(c10_xpu_${name} gtest gtest_main)
  add_test(NAME c10_xpu_${name} COMMAND c10_xpu_${name})
endforeach()
"""
# As much of the real header as the tutorial uses.
FUNCTIONS = """\
#pragma once
namespace c10::xpu {
inline int device_count() { return 1; }
inline int current_device() { return 0; }
inline void set_device(int) {}
}
"""


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_a_new_stage(project: Project) -> None:
    write(project.checkout, {"CMakeLists.txt": TREE, "c10/xpu/XPUFunctions.h": FUNCTIONS})
    release(project)
    guide = Guide("new-stage.md", project)
    # The small project needs no SYCL; the tool wants one to be there.
    sycl = project.folder.parent / "sycl"
    write(sycl, {"lib/libsycl.so": "", "include/sycl/sycl.hpp": ""})
    guide.env |= {"SYCL_ROOT": str(sycl), "MODE": "full"}
    assert "hello/hello" in guide.block("make new")
    own = project.folder / ".xpu/pytorch-v1.13.1"
    assert guide.files.keys() == {"c10/xpu/XPUHello.h", "c10/xpu/test/impl/XPUHelloTest.cpp"}
    write(own, guide.files)
    assert "wrote c10_xpu/hello/c10/xpu/XPUHello.h" in guide.block("git -C")
    assert "the summary of 'hello' is not written yet" in guide.block("make check", code=2)
    edit(project.folder, "patches/series.yaml", "summary: to be written", "summary: greetings")
    write(project.folder, {"patches/texts/hello/hello.md": TEXT.format(title="Greet")})
    assert "4 change(s) are in order" in guide.block("make check")
    said = guide.block("make test")
    assert "hello/hello: 3 passed, 0 failed, 0 skipped in 3 configuration(s)" in said
    assert "'hello' and all below it pass" in said
    guide.ended()


def test_a_new_base(fork: Project) -> None:
    git(fork.checkout, "switch", "-q", "-c", "release", "main")
    drift(fork, "c10/CMakeLists.txt", CMAKE.replace("# line 20\n", "# line twenty\n"))
    git(fork.checkout, "tag", "v2.2.2")
    git(fork.checkout, "switch", "-q", "main")
    guide = Guide("new-base.md", fork)
    assert "3 change(s): 2 applies, 1 conflict" in guide.block("make apply")
    guide.block("make rebase", code=2)
    (conflict,) = fork.folder.glob(".xpu/work/pytorch-*/conflict")
    write(conflict, {"c10/CMakeLists.txt": CMAKE.replace("# line 20\n", "# line twenty\n# xpu\n")})
    git(conflict, "add", ".")
    fork.ok("continue")
    said = guide.block("make export")
    assert "wrote patches/v2.2.2/device/runtime.patch\n" in said
    assert "wrote patches/v2.2.2/base.yaml\n" in said
    said = guide.block("make check")
    assert "3 change(s) are in order" in said
    assert "pytorch-v2.2.2 is now at stage 'stream': 3 change(s)" in said
    assert "0 file(s) of the series differ" in fork.ok("export", "--base", "v2.2.2", source=False)
    git(fork.checkout, "switch", "-q", "-C", "main", "release")
    drift(fork, "other.txt", "more\n")
    git(fork.checkout, "switch", "-q", "xpu-stack")
    assert "1 file(s) of the series differ" in guide.block("make rebase")
    guide.ended()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), link


def test_the_example_of_an_extension() -> None:
    """What test_stock_headers.py builds and runs is what the page shows."""
    shown = page("stock-torch.md")
    tests = ROOT / "patches/v2.13/payload/torch_xpu_py/frontend/test/stock_headers"
    for name, language in (("fill.cpp", "cpp"), ("setup.py", "python")):
        text = (tests / "example" / name).read_text()
        assert f"```{language}\n{text}```" in shown


def test_the_operators_that_are_missing_are_those_that_the_test_of_torch_finds() -> None:
    text = page("tensors.md")
    table = text.partition("raise `NotImplementedError`:")[2].partition("|---|---|\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    listed = [name for row in rows for name in re.findall(r"`(\S+)`", row.partition(";")[0])]
    (test,) = (ROOT / "patches").rglob("test_xpu_gpu_ops.py")
    missing = test.read_text().partition('MISSING = """')[2].partition('"""')[0].split()
    assert missing
    assert sorted(listed) == sorted(missing)
