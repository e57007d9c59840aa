"""What clang-tidy need not look at again, on real CMake, ninja and g++."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from xpu_stack.build import ninja
from xpu_stack.testing.tidy_cache import Tidied

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

    def keys(self, settings: str = "", headers: tuple[str, ...] = ()) -> list[str | None]:
        tidied = Tidied(self.build, settings, [self.tree / name for name in headers])
        found = tidied.keys(self.sources)
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
    ninja.clean(two.build, ["two"])
    assert two.keys() == [None, None]
    two.make()
    assert two.keys() == before


def test_only_what_was_remembered_is_known(two: Two) -> None:
    one, other = two.keys()
    tidied = Tidied(two.build, "", [])
    tidied.remember(one)
    tidied.remember(None)
    again = Tidied(two.build, "", [])
    assert again.knows(one)
    assert not again.knows(other)
    assert not again.knows(None)
    assert again.compiles(two.sources[0])
    assert not again.compiles(two.tree / "ours.h")
