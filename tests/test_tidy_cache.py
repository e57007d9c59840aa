"""What clang-tidy need not look at again, on real CMake, ninja and g++."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xpu_stack.build import cmake, packages
from xpu_stack.testing.tidy import _tidy, marks_of

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(two CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_library(two one.cpp two.cpp)
"""


@dataclass(frozen=True)
class Two:
    """Two sources, of which one includes a header."""

    tree: Path

    @property
    def build(self) -> Path:
        return self.tree / "build"

    @property
    def sources(self) -> list[Path]:
        return [self.tree / "one.cpp", self.tree / "two.cpp"]

    def make(self, *options: str) -> None:
        command = ["cmake", "-S", self.tree, "-B", self.build, "-GNinja", *options]
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)

    def keys(self, settings: str = "", headers: tuple[str, ...] = ()) -> list[Path | None]:
        found = marks_of(self.build, self.sources, settings, [self.tree / name for name in headers])
        return [found.get(source) for source in self.sources]


@pytest.fixture
def two(tmp_path: Path) -> Two:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "ours.h").write_text("inline int ours() { return 1; }\n")
    (tmp_path / "one.cpp").write_text('#include "ours.h"\nint one() { return ours(); }\n')
    (tmp_path / "two.cpp").write_text("int two() { return 2; }\n")
    made = Two(tmp_path)
    made.make()
    return made


def test_the_same_content_is_known_whatever_its_time(two: Two) -> None:
    before = two.keys()
    assert None not in before
    (two.tree / "ours.h").touch()
    two.make()
    assert two.keys() == before


def test_a_header_decides_on_the_sources_that_include_it(two: Two) -> None:
    before = two.keys()
    (two.tree / "ours.h").write_text("inline int ours() { return 3; }\n")
    two.make()
    after = two.keys()
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_a_header_that_counts_now_is_looked_at(two: Two) -> None:
    before = two.keys()
    after = two.keys(headers=("ours.h", "elsewhere.h"))
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_settings_and_the_command_decide_on_all(two: Two) -> None:
    before = two.keys()
    assert set(two.keys("Checks: other")).isdisjoint(before)
    two.make("-DCMAKE_CXX_FLAGS=-DOTHER")
    assert set(two.keys()).isdisjoint(before)


def test_what_was_not_compiled_has_no_key(two: Two) -> None:
    before = two.keys()
    cmake.clean(two.build, ["two"])
    assert two.keys() == [None, None]
    two.make()
    assert two.keys() == before


def tidy(two: Two, sources: list[Path], headers: list[Path]) -> list[str]:
    packages.need_python("clang")
    checks = "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\n"
    (two.tree / ".clang-tidy").write_text(checks)
    two.make()
    repository = SimpleNamespace(folder=two.tree)
    this: Any = SimpleNamespace(folder=two.build, work=SimpleNamespace(repository=repository))
    return _tidy(this, sources, headers)


def test_only_what_was_tidy_is_not_looked_at_again(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    (two.tree / "two.cpp").write_text("int* two() { return 0; }\n")
    for _ in range(2):
        (said,) = tidy(two, [*two.sources, two.tree / "three.cpp"], [])
        assert "use nullptr" in said
    told = capsys.readouterr().out
    assert told.count("1 sources were tidy before and have not changed") == 1
    assert told.count("not compiled here, not tidied: three.cpp") == 2


def test_sources_of_a_unit_are_tidied(two: Two) -> None:
    """A unit of both is compiled: the compiler's list has neither."""
    (two.tree / "one.cpp").write_text("int* one() { return 0; }\n")
    (two.tree / "two.cpp").write_text("int* two() { return 0; }\n")
    two.make("-DCMAKE_UNITY_BUILD=ON")
    assert "/one.cpp" not in (two.build / "compile_commands.json").read_text()
    assert set(cmake.compile_commands(two.build)) == set(two.sources)
    said = "\n".join(tidy(two, two.sources, []))
    assert all(f"{source}:1:" in said for source in two.sources)


def test_headers_of_the_series_are_looked_at_and_others_are_not(two: Two) -> None:
    new = ["c10/xpu/New.h", "aten/src/ATen/xpu/New.h", "torch/csrc/xpu/New.h"]
    old = ["c10/Old.h", "c10/xpu/Old.h", "aten/src/ATen/Old.h"]
    with (two.tree / "CMakeLists.txt").open("a") as file:
        file.write("target_include_directories(two PRIVATE ${CMAKE_SOURCE_DIR} aten/src)\n")
    names = [name.removeprefix("aten/src/") for name in (*new, *old)]
    for number, name in enumerate((*new, *old)):
        path = two.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"inline int* header{number}() {{ return 0; }}\n")
    (two.tree / "two.cpp").write_text("".join(f"#include <{name}>\n" for name in names))
    (said,) = tidy(two, two.sources, [two.tree / name for name in new])
    assert all(f"/{name}:1:" in said for name in new)
    assert not any(f"/{name}:1:" in said for name in old)
