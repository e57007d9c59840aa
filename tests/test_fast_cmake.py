"""The fast mode's CMake, on a small project: what is compiled of a shipped library."""

import json
import subprocess
from pathlib import Path

import pytest
from project import write
from xpu_stack.build.build import CMAKE_MODULES

HEADERS = ("torch/csrc/python_headers.h", "torch/csrc/utils/pybind.h", "ATen/ATen.h")
GENERATED = "torch/csrc/autograd/generated"
FUNCTION = 'const char* {}() {{ return "{}"; }}\n'
# `kept` is of the shipped library alone, and calls what others have.
KEPT = (
    "const char* edited(); const char* made(); const char* plain();\n"
    "const char* through_kept(int i) { return i == 0 ? edited() : i == 1 ? made() : plain(); }\n"
)
MAIN = """
#include <cstdio>
const char* through_kept(int);
const char* added();
int main() { std::printf("%s %s %s %s", through_kept(0), through_kept(1), through_kept(2), added()); }
"""
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(Torch CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
include_directories("${{{{CMAKE_SOURCE_DIR}}}}")
add_library(more OBJECT torch/csrc/added.cpp)
set_target_properties(more PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library({{target}} SHARED torch/csrc/edited.cpp torch/csrc/kept.cpp torch/csrc/plain.cpp
  "${{{{CMAKE_SOURCE_DIR}}}}/{GENERATED}/made_0.cpp")
target_sources({{target}} PRIVATE $<TARGET_OBJECTS:more>)
add_executable(program main.cpp)
target_link_libraries(program PRIVATE {{target}})
"""


def configured(tmp_path: Path, target: str) -> subprocess.CompletedProcess[str]:
    sources = {
        f"torch/csrc/{name}.cpp": FUNCTION.format(name, "new") for name in ("edited", "plain")
    }
    sources |= {f"{GENERATED}/made_0.cpp": FUNCTION.format("made", "new")}
    sources |= {"torch/csrc/kept.cpp": KEPT}
    shipped = {name: text.replace('"new"', '"shipped"') for name, text in sources.items()}
    write(tmp_path / "before", shipped)
    library = tmp_path / f"prebuilt/lib{target}.so.1"
    library.parent.mkdir()
    compiler = ("c++", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", library)
    subprocess.run([*compiler, *(tmp_path / "before" / name for name in sources)], check=True)
    added = {"torch/csrc/added.cpp": FUNCTION.format("added", "new"), "main.cpp": MAIN}
    added |= dict.fromkeys(HEADERS, "#pragma once\n")
    write(tmp_path / "source", sources | added | {"CMakeLists.txt": PROJECT.format(target=target)})
    edited = "torch/csrc/edited.cpp\n"
    lists = {
        "SOURCES": "torch/csrc/added.cpp\n",
        "EDITED": edited,
        "TOUCHED": f"{edited}tools/autograd/templates/made.cpp\n",
        "OWN_UNITS": "",
    }
    write(tmp_path, lists)
    options = {
        "CMAKE_PROJECT_Torch_INCLUDE": CMAKE_MODULES / "fast.cmake",
        "XPU_STACK_PREBUILT_DIR": library.parent,
        "XPU_STACK_PREBUILT_VERSION": "1",
        "XPU_STACK_PREBUILT_TARGETS": target,
        **{f"XPU_STACK_{name}": tmp_path / name for name in lists},
    }
    words = ["cmake", "-G", "Ninja", "-S", tmp_path / "source", "-B", tmp_path / "build"]
    words += [f"-D{name}={value}" for name, value in options.items()]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_of_the_bindings_what_the_series_touches_is_compiled_and_found_first(
    tmp_path: Path,
) -> None:
    build = tmp_path / "build"
    assert configured(tmp_path, "torch_python").returncode == 0
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    ended = subprocess.run([build / "program"], check=True, capture_output=True, text=True)
    assert ended.stdout == "new new shipped new"
    commands = json.loads((build / "compile_commands.json").read_text())
    compiled = {Path(one["file"]).name for one in commands}
    own = {"added.cpp", "edited.cpp", "made_0.cpp", "main.cpp"}
    assert compiled == own | {"cmake_pch.hxx.cxx"}  # what compiles the headers
    listed = (build / "xpu_stack_torch_python_sources.txt").read_text().split()
    names = {Path(name).name for name in listed}
    assert names == {"edited.cpp", "kept.cpp", "made_0.cpp", "plain.cpp"}


@pytest.mark.parametrize("target", ["torch_cpu", "c10"])
def test_of_other_libraries_an_edited_source_is_refused(tmp_path: Path, target: str) -> None:
    ended = configured(tmp_path, target)
    assert ended.returncode != 0
    assert "edited.cpp, which the shipped" in " ".join(ended.stderr.split())
