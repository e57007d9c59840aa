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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from project import CMAKE, ROOT, TEXT, Project, drift, git, release, write
from real import Home
from xpu_stack.build.packages import missing_apt
from xpu_stack.cli import reference
from xpu_stack.cli.options import DEFAULT_BASE
from xpu_stack.core.edit import plan
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.layout import Layout

MISSING = missing_apt(["g++", "libgtest-dev"])

TARGETS = {one.name: one for one in reference.targets(ROOT / "Makefile")}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def commands(text: str) -> list[str]:
    """What a person types of a page's blocks, one by one."""
    found, fence = [], ""
    for line in re.sub(r" *\\\n +", " ", text).splitlines():
        if line.startswith("```"):
            fence = "" if fence else line
        elif fence == "```sh" or (not fence and re.match(r" {4,}\S", line)):
            found.append(re.sub(r"\s+#.*", "", line).strip())
    program = re.compile(
        r"([A-Z_]+=\S+ )*(make|git|pip|python3?|mkdir|cp|tar|export|ci/\S+|\.xpu/\S+) "
    )
    return [one for one in found if program.match(f"{one} ")]


# Why a command is not run in a clean clone, and what runs it: a file, and what stands in it.
# Without a file it is only seen to be a target with these options.
Place = tuple[str, str] | None
TRIAL = "scripts/xpu_stack/wheel/trial.py"
LIBRARIES = "torch_xpu_py/libraries/test/test_xpu_libraries.py"
KERNELS = "torch_xpu_py/kernels/test/test_xpu_kernels.py"
HEADERS = "patches/v2.13/payload/torch_xpu_py/frontend/test/test_stock_headers.py"
TEST = ("Makefile", "'$(MAKE) test'")
ELSEWHERE: dict[str, dict[str, Place]] = {
    "it compiles for minutes or hours": {
        "make bisect RUN='python my_test.py' BUILD=1": None,
        "make bisect TEST=XPUStreamTest.Priorities": ("tests/test_bisect.py", '"--test"'),
        "make bisect TEST=test/test_xpu.py::TestDevice::test_device_selects_for_a_scope": None,
        "make extension BASE=v2.13 TORCH=~/venv": None,
        "make extension BASE=v2.13": ("Makefile", "'$(MAKE) extension BASE=v2.13'"),
        "make own-tests BASE=v2.13 DEVICE=xpu": None,
        "make own-tests BASE=v2.13": None,
        "make test BASE=v2.13 STAGE=event": ("Makefile", "'$(MAKE) test BASE=v2.13 LAST=1'"),
        "make test STAGE=device": TEST,
        "make test STAGE=hello": TEST,
        "make test STAGE=stream": TEST,
        "make test": TEST,
        "make verify": (".ci/run", "'make verify'"),
        "make wheel CCACHE_REMOTE=redis://host": ("ci/remote", "CCACHE_REMOTE=redis://"),
        "make wheel DISTCC='localhost/2 other/8'": ("ci/remote", 'DISTCC="127.0.0.1:'),
        "make wheel [STAGE=x] [MODE=full|fast]": ("Makefile", "'$(MAKE) wheel MODE=fast'"),
        "make wheel": ("ci/workflows/wheel.yml", "run: make wheel MODE=full"),
    },
    "it needs what was compiled": {
        "TORCH_XPU_MAPPING=CPU make python ARGS='-m pytest "
        ".xpu/pytorch-v1.13.1/test/test_xpu.py -k stream'": None,
        "TORCH_XPU_MAPPING=CPU make python CODE='import torch; "
        "print(torch.xpu.get_device_properties(0))'": None,
        'TORCH_XPU_MAPPING=CPU python -c "import torch; print('
        'torch.accelerator.current_accelerator(), torch.xpu.get_device_properties(0))"': (
            TRIAL,
            "print(torch.accelerator.current_accelerator(), torch.xpu.get_device_properties(0))",
        ),
        "TORCH_XPU_MAPPING=CPU OCL_ICD_FILENAMES=$PWD/.xpu/sycl-2026.2.0/lib/libintelocl.so "
        ".xpu/work/pytorch-v1.13.1-*/fast/bin/c10_xpu_XPUStreamTest "
        "--gtest_filter='*AccessorsAgree'": None,
        "export CPATH=$(python -c 'import torch_xpu_runtime as x; "
        """print(":".join(x.include_paths()))')""": (HEADERS, "CPATH=os.pathsep.join("),
        "export LIBRARY_PATH=$(python -c 'import torch_xpu_runtime as x; "
        """print(":".join(x.library_paths()))')""": (HEADERS, "LIBRARY_PATH=os.pathsep.join("),
        "export TORCH_XPU_MAPPING=CPU": (TRIAL, '{"TORCH_XPU_MAPPING": "CPU"}'),
        "make python BASE=v2.13 FILE=examples/characters.py": ("examples/list.yaml", "characters"),
        "make python BASE=v2.13 FILE=examples/ddp.py": ("examples/list.yaml", "name: ddp\n"),
        "make python FILE=examples/characters.py": ("examples/list.yaml", "name: characters"),
        "make python FILE=train.py ARGS='--epochs 3'": None,
        "make shell": ("tests/test_extension.py", '("shell",)'),
        "make test-extension BASE=v2.13": ("Makefile", "'$(MAKE) test-extension BASE=v2.13 "),
        "make test-wheel [STAGE=x] [MODE=full|fast]": ("Makefile", "test-wheel MODE=fast"),
        "make test-wheel": ("ci/workflows/wheel.yml", "run: make test-wheel MODE=full"),
        "pip install --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu "
        ".xpu/wheels/torch_xpu_runtime-*.whl": (TRIAL, 'this.pip("install", *("--", pin'),
        "python -m torch_xpu_runtime": (LIBRARIES, "def test_command"),
        "python -m torch_xpu_runtime.kernels --list": (KERNELS, 'run("--list")'),
        "python -m torch_xpu_runtime.kernels": (KERNELS, "self.run_python(*self.COMMAND)"),
        "python setup.py build_ext --inplace": (HEADERS, '"setup.py", "build_ext", "--inplace"'),
    },
    "it is a test of the toolkit": {
        "make self-test ARGS='tests/test_apply.py -k dirty'": ("Makefile", "'$(MAKE) self-test'"),
    },
    "it needs GitHub, for which a fake stands in": {
        "git -C ~/pytorch remote add mine git@github.com:me/pytorch.git": None,
        "make submit DRAFT=1 REVIEWERS=alice,bob": ("tests/test_submit_fork.py", "reviewers=("),
        "make submit DRY_RUN=1": ("tests/test_submit_real.py", "upstream.states(first, dry"),
        "make submit FORK=mine PYTORCH_SRC=~/pytorch": ("tests/test_submit_fork.py", '"mine"'),
        "make submit": ("tests/test_submit_real.py", "upstream.submit()"),
    },
    "it needs a card": {
        "PYTHONPATH=scripts python3 -m xpu_stack.bench.page RESULTS docs": (
            "tests/test_bench_page.py",
            "publish(",
        ),
        "TORCH_XPU_MAPPING=GPU make bench": None,
        "UR_ADAPTER=libur_adapter_cuda.so.0 ci/gpu/pack xpu-gpu.tar.xz": (
            "ci/gpu/pack",
            "# Usage: ci/gpu/pack OUT.tar.xz",
        ),
        "cp libur_adapter_cuda.so.0 .xpu/sycl-2026.2.0/lib/": None,
        "pip install --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu "
        '"$(echo .xpu/wheels/torch_xpu_runtime-*.whl)[nvidia]"': None,
        "tar -xf xpu-gpu.tar.xz && xpu-gpu/run": ("ci/gpu/pack", 'ci/gpu/run" "$top/run"'),
    },
}


def typed(path: Path) -> list[str]:
    """The commands of a page that are run here."""
    left_out = {command for listed in ELSEWHERE.values() for command in listed}
    return [one for one in commands(path.read_text()) if one not in left_out]


class Guide:
    """A page, run block by block or command by command."""

    def __init__(self, folder: Path, env: dict[str, str], blocks: list[str]) -> None:
        self.folder, self.env, self.blocks = folder, env, blocks

    @classmethod
    def small(cls, name: str, project: Project) -> "Guide":
        """On the small project."""
        shutil.copy(ROOT / "Makefile", project.folder)
        write(project.folder, {".gitignore": "/.xpu/\n__pycache__/\n"})
        git(project.folder, "init", "-q")
        git(project.folder, "add", ".")
        git(project.folder, "commit", "-qm", "The series")
        bin = project.folder.parent / "bin"
        write(bin, {"make": f'#!/bin/sh\nexec {shutil.which("make")} tool="$TOOL" "$@"\n'})
        (bin / "make").chmod(0o755)
        env = {
            **project.make_environment(),
            "HOME": str(project.folder.parent),
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "TOOL": f"{sys.executable} -m xpu_stack",
            "GIT_EDITOR": "false",
            "GIT_PAGER": "cat",
        }
        return cls(project.folder, env, re.findall(r"^```sh\n(.*?)^```", page(name), re.M | re.S))

    def block(self, first: str, code: int = 0) -> str:
        """Runs the next block, which begins with `first`; what it printed."""
        text = self.blocks.pop(0)
        assert text.startswith(first)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
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


def new_files(name: str) -> dict[str, str]:
    """The files that a page shows, by their paths."""
    return dict(re.findall(r"`(\S+)`:\n\n```cpp\n(.*?)^```", page(name), re.M | re.S))


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_fork(fork: Project) -> None:
    drift(fork, "other.txt", "ours\n")
    guide = Guide.small("fork.md", fork)
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


@pytest.fixture
def clone(home: Home, tmp_path: Path) -> Home:
    """A clean clone, beside a person's ~/pytorch that is a clone of the release."""
    clone = home.copied(tmp_path)
    write(clone.project, {".git/info/exclude": "/.xpu\n"})
    (clone.project / ".xpu").symlink_to(home.folder)
    clone.start_over()
    return clone


@dataclass
class Person:
    """Reads a page in a clean clone of the project, and types what it says."""

    guide: Guide
    clone: Home
    base: str

    @property
    def fork(self) -> Path:
        return Path(self.guide.env["HOME"]) / "pytorch"

    @property
    def checkout(self) -> Path:
        return self.clone.folder / f"pytorch-{self.base}"

    def makes_a_fork(self) -> None:
        git(
            self.fork.parent, "clone", "-q", "--branch", "base", str(self.clone.checkout), "pytorch"
        )
        git(self.fork, "switch", "-qc", "main")

    def edits_the_fork(self, branch: str, name: str, old: str, new: str) -> str:
        """A commit of the fork's own on a branch that is not checked out there then."""
        head = git(self.fork, "branch", "--show-current").strip()
        git(self.fork, "switch", "-q", branch)
        edit(self.fork, name, old, new)
        git(self.fork, "commit", "-qam", f"Edit {name}")
        git(self.fork, "switch", "-q", head)
        return git(self.fork, "rev-parse", branch).strip()

    def resolves(self) -> None:
        """Both sides of the conflict stay."""
        (conflict,) = self.clone.folder.glob("work/pytorch-*/conflict")
        path = conflict / "c10/CMakeLists.txt"
        path.write_text(re.sub(r"^(<{7}|={7}|>{7}).*\n", "", path.read_text(), flags=re.M))


ROCM = ("c10/CMakeLists.txt", "if(USE_ROCM)\n", "if(USE_OURS)\nendif()\n\nif(USE_ROCM)\n")
HEADER = ("c10/xpu/XPUStream.h", "#pragma once\n", "#pragma once\n\n// As ours has it.\n")


def reads_the_readme(person: Person) -> None:
    types = person.guide.block
    assert "is now at stage 'stream'" in types("make apply STAGE=stream")
    if person.base == "v1.13.1":
        person.makes_a_fork()
        assert "is now at stage 'device'" in types("make apply STAGE=device PYTORCH_SRC=~/pytorch")
        newer = person.edits_the_fork("main", "README.md", "PyTorch", "Our PyTorch")
        git(person.fork, "update-ref", "refs/remotes/origin/main", newer)
        assert "2 change(s): 2 applies" in types("make rebase ONTO=origin/main")
    assert "is now at stage 'libraries'" in types("make apply")
    edit(person.checkout, *HEADER)
    assert "+// As ours has it." in types("make diff")
    assert "wrote c10_xpu/stream/c10/xpu/XPUStream.h" in types("make export")
    assert "are in order" in types("make check")
    assert "wrote patches/texts/hello/hello.md" in types("make new CHANGE=hello/hello")
    git(person.clone.project, "checkout", "-q", "patches")
    git(person.clone.project, "clean", "-qfd", "patches")
    assert "stream/stream" in types("make status")
    assert "XPU-Change: device/aten" in types("make show CHANGE=device/aten")
    assert "stream/stream" in types("make which FILE=c10/xpu/XPUStream.cpp:40")
    if person.base == "v1.13.1":
        assert "index.html" in types("make review")


def contributes(person: Person) -> None:
    assert "ok  git" in person.guide.block("make doctor")


def has_a_fork(person: Person) -> None:
    types = person.guide.block
    person.makes_a_fork()
    assert "is now at stage 'device'" in types("make apply STAGE=device PYTORCH_SRC=~/pytorch")
    assert "device/aten" in types("make status")
    assert "1 change(s)" in types("make apply STAGE=device PYTORCH_SRC=~/pytorch DROP=device/aten")
    person.clone.ok("undo", f"PYTORCH_SRC={person.fork}")
    person.edits_the_fork("main", *ROCM)
    assert "device/runtime: c10/CMakeLists.txt: 1 hunk(s)" in types("make rebase")
    assert "error: Change 1 of 2, device/runtime, does not fit the base." in types("make rebase", 2)
    assert "<<<<<<<" in types("git -C")
    assert "discarded" in types("make abort")
    person.clone.make("rebase", "ONTO=main", f"PYTORCH_SRC={person.fork}")
    person.resolves()
    types("git -C")
    assert "is now at stage 'device'" in types("make continue")
    assert "wrote patches/ours/device/runtime.patch" in types("make export BASE=ours")
    person.clone.ok("undo", f"PYTORCH_SRC={person.fork}")
    types("make apply")
    name = "aten/src/ATen/detail/XPUHooksInterface.cpp"
    edit(person.checkout, name, "\n#include", "\n// Where PyTorch looks.\n#include")
    assert "wrote aten_xpu/device/aten" in types("make edit CHANGE=device/aten")
    assert "are in order" in types("make check")
    assert "+// Where PyTorch looks." in types("git diff")
    person.guide.blocks.remove("make review")  # as in the README
    types("git commit")
    assert "is now at stage 'libraries'" in types("make apply PYTORCH_SRC=~/pytorch")
    assert "Where PyTorch looks" in (person.fork / name).read_text()
    types("git -C")
    assert "wrote patches/series.yaml" in types("make export")
    assert "stage 'device'" in types("make undo")


def has_several_stacks(person: Person) -> None:
    types = person.guide.block
    person.makes_a_fork()
    person.clone.ok("apply", f"PYTORCH_SRC={person.fork}")
    assert "2 change(s)" in types("make apply STAGE=device PYTORCH_SRC=~/pytorch BRANCH=experiment")
    types("git -C")
    assert "is now at stage 'libraries'" in types("make apply")
    types("git -C")
    assert ", experiment, on-main\n" in types("make status")
    types("git -C")
    assert "is now at stage 'libraries'" in types("make apply")


def adds_a_base(person: Person) -> None:
    types = person.guide.block
    person.makes_a_fork()
    git(person.fork, "switch", "-qc", "release")
    person.edits_the_fork("main", *ROCM)
    git(person.fork, "tag", "v2.2.2", "main")
    assert "is now at stage 'libraries'" in types("make apply")
    assert "1 conflict" in types("make rebase")
    types("make rebase", 2)
    person.resolves()
    (conflict,) = person.clone.folder.glob("work/pytorch-*/conflict")
    git(conflict, "add", ".")
    person.clone.ok("continue", f"PYTORCH_SRC={person.fork}")
    said = types("make export BASE=v2.2.2")
    assert "wrote patches/v2.2.2/device/runtime.patch\n" in said
    assert "wrote patches/v2.2.2/base.yaml\n" in said
    assert "are in order" in types("make check")
    assert "pytorch-v2.2.2 is now at stage 'libraries'" in types("make apply")
    types("mkdir")
    types("cp")
    person.edits_the_fork("main", "README.md", "PyTorch", "Our PyTorch")
    assert "is now at stage 'libraries'" in types("make rebase")
    assert "wrote patches/v2.2.2/base.yaml\n" in types("make export")
    person.clone.in_order("v2.2.2")


def adds_a_stage(person: Person) -> None:
    types = person.guide.block
    types("make new")
    types("make apply")
    write(person.checkout, new_files("new-stage.md"))
    for first in ("git -C", "git -C"):
        types(first)
    assert "wrote c10_xpu/hello/c10/xpu/XPUHello.h" in types("make export")
    assert "the summary of 'hello' is not written yet" in types("make check", 2)
    edit(
        person.clone.project, "patches/series.yaml", "summary: to be written", "summary: greetings"
    )
    text = TEXT.format(title="Greet from the current device")
    write(person.clone.project, {"patches/texts/hello/hello.md": text})
    assert "are in order" in types("make check")
    assert "is now at stage 'hello'" in types("make apply")


def bisects(person: Person) -> None:
    person.makes_a_fork()
    person.clone.ok("apply", "STAGE=device", f"PYTORCH_SRC={person.fork}")
    assert "was broken by" in person.guide.block("make bisect")


PEOPLE: dict[str, Callable[[Person], None]] = {
    "CONTRIBUTING.md": contributes,
    "README.md": reads_the_readme,
    "bisect.md": bisects,
    "fork.md": has_a_fork,
    "new-base.md": adds_a_base,
    "new-stage.md": adds_a_stage,
    "several-stacks.md": has_several_stacks,
}


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "base"),
    [*((path.name, "v1.13.1") for path in PAGES if typed(path)), ("README.md", "v2.13")],
)
def test_a_guide_in_a_clean_clone(clone: Home, tmp_path: Path, name: str, base: str) -> None:
    """Word for word. What a person does between the commands is in PEOPLE.

    The other guides are about the release, or a fork of it: with both bases that means
    that the series is in order for both afterwards.
    """
    (path,) = (path for path in PAGES if path.name == name)
    blocks = typed(path)
    env = Project(clone.project, clone.checkout).make_environment() | {
        "HOME": str(tmp_path),
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
    }
    del env["PYTHONPATH"]
    if base != "v1.13.1":
        env["BASE"] = base
        # a package has no fork; the pages of a review take as long as all else here
        blocks = [one for one in blocks if "PYTORCH_SRC" not in one and one != "make review"]
    guide = Guide(clone.project, env, blocks)
    PEOPLE[name](Person(guide, clone, base))
    guide.ended()
    if git(clone.project, "status", "--porcelain"):
        clone.in_order()


@pytest.mark.slow
@pytest.mark.real
def test_the_examples_of_a_fork_in_a_clean_clone(clone: Home) -> None:
    """Word for word, on the project itself with both bases."""
    text = page("fork.md")
    examples = re.findall(r"^\| `(make .*?)` \|", text, re.M)
    assert {one.split()[1] for one in examples} == {*plan.VERBS} - {"edit"}

    def run(example: str) -> None:
        assert example in text
        clone.ok(*shlex.split(example)[1:])
        clone.in_order()

    clone.ok("apply")
    # the first is not in v2.13's tree
    for name in ("detail/XPUHooksInterface.cpp", "xpu/XPUContext.cpp"):
        path = clone.checkout / "aten/src/ATen" / name
        path.write_text(f"// As our fork has it.\n{path.read_text()}")
        run("make edit CHANGE=device/aten")
        assert len(git(clone.project, "status", "--porcelain", "-uall").splitlines()) == 1
        git(clone.project, "commit", "-qam", "Edited")
    for example in examples:
        run(example)
        if " drop " not in example and " undrop " not in example:
            assert git(clone.project, "status", "--porcelain")
            clone.ok("undo")
        assert (" drop " in example) == bool(git(clone.project, "status", "--porcelain")), example


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
    guide = Guide.small("new-stage.md", project)
    # The small project needs no SYCL; the tool wants one to be there.
    sycl = project.folder.parent / "sycl"
    write(sycl, {"lib/libsycl.so": "", "include/sycl/sycl.hpp": ""})
    guide.env |= {"SYCL_ROOT": str(sycl), "MODE": "full"}
    assert "hello/hello" in guide.block("make new")
    own = project.folder / ".xpu/pytorch-v1.13.1"
    files = new_files("new-stage.md")
    assert files.keys() == {"c10/xpu/XPUHello.h", "c10/xpu/test/impl/XPUHelloTest.cpp"}
    write(own, files)
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
    guide = Guide.small("new-base.md", fork)
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


def made(text: str) -> Iterator[tuple[str, set[str]]]:
    """The targets and the variables of the `make` commands in a line of a shell."""
    lexer = shlex.shlex(re.sub("<[^>]*>", "x", text), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    command: list[str] = []
    for word in (*lexer, ";"):
        if set(word) <= set(";&|"):
            named = [one for one in command if "=" not in one]
            if len(named) > 1 and named[0] == "make":
                assert len(named) == 2, text
                after = command[command.index("make") :]
                yield named[1], {one.partition("=")[0] for one in after if "=" in one}
            command = []
        else:
            command.append(word)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_command_is_a_target_with_these_options(path: Path) -> None:
    """In blocks and in the text; the messages are tested where they are made."""
    text, _, _ = path.read_text().partition("<!-- written by make reference -->")
    text = re.sub(r"[][]", "", text) if path.name == "wheel.md" else text
    for span in (*commands(text), *re.findall(r"(?<!`)`([^`]+)`(?!`)", text)):
        for target, variables in made(span) if "make " in span else ():
            if path.name != "CHANGELOG.md":  # which has those of earlier versions
                assert variables <= {*TARGETS[target].variables, *reference.ENVIRONMENT}, span


def test_the_tests_that_the_guides_name_are_in_the_series() -> None:
    series = Series.load(Layout.current(), DEFAULT_BASE)
    files = [file for change in series.all_changes() for file in change.files]
    sources = {one.target: one.source.read_text() for one in files if "/test/" in f"/{one.target}"}
    declared = re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", "\n".join(sources.values()), re.M)
    text = "\n".join(one for path in PAGES for one in commands(path.read_text()))
    named = re.findall(
        r"TEST=(\w+)\.(\w+)|gtest_filter='\*(\w+)|(test/\S+\.py)::(\w+)::(\w+)", text
    )
    assert len(named) > 2
    for suite, case, filtered, script, group, method in named:
        if script:
            of_group = sources[script].partition(f"class {group}(")[2].partition("\nclass ")[0]
            assert f"def {method}(" in of_group
        else:
            assert (suite, case) in declared or filtered in [one for _, one in declared]


def test_what_is_not_run_in_a_clean_clone_is_run_elsewhere() -> None:
    typed_anywhere = {one for path in PAGES for one in commands(path.read_text())}
    for listed in ELSEWHERE.values():
        for command, place in listed.items():
            assert command in typed_anywhere
            assert place is None or place[1] in (ROOT / place[0]).read_text(), command


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
