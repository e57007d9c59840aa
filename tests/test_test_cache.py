"""Which test programs need not run again, on real CMake, ninja and g++."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from xpu_stack.core.system import files
from xpu_stack.testing.runner import kept

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(three CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(low SHARED low.cpp)
set_target_properties(low PROPERTIES VERSION 1.2 SOVERSION 1)
add_library(high SHARED high.cpp)
target_link_libraries(high PRIVATE low)
foreach(name alone low_test high_test)
  add_executable(${name} ${name}.cpp)
endforeach()
target_link_libraries(low_test low)
target_link_libraries(high_test high)
"""
SOURCES = {
    "low.cpp": "int low() { return 1; }\n",
    "high.cpp": "int low();\nint high() { return low(); }\n",
    "alone.cpp": "int main() { return 0; }\n",
    "low_test.cpp": "int low();\nint main() { return low(); }\n",
    "high_test.cpp": "int high();\nint main() { return high(); }\n",
}
PROGRAMS = ("alone", "low_test", "high_test")


@dataclass(frozen=True)
class Three:
    """A program that loads no library of the build, one that loads one, one that loads two."""

    tree: Path

    @property
    def build(self) -> Path:
        return self.tree / "build"

    def make(self) -> None:
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)

    def kept(self, settings: str = "as always") -> dict[str, Path]:
        return kept(self.build, PROGRAMS, settings, {})

    def all_pass(self) -> None:
        for junit in self.kept().values():
            files.write(junit, "")

    def known(self, settings: str = "as always") -> list[str]:
        """The programs that passed as they are now."""
        return [name for name, junit in self.kept(settings).items() if junit.exists()]


@pytest.fixture
def three(tmp_path: Path) -> Three:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    made = Three(tmp_path)
    query = made.build / ".cmake/api/v1/query"
    query.mkdir(parents=True)
    (query / "codemodel-v2").touch()
    command = ["cmake", "-S", tmp_path, "-B", made.build, "-GNinja"]
    subprocess.run(command, check=True, capture_output=True)
    made.make()
    return made


def test_nothing_is_known_before_it_passed(three: Three) -> None:
    assert three.known() == []
    three.all_pass()
    assert three.known() == [*PROGRAMS]


def test_a_program_that_was_made_again_and_is_the_same_is_known(three: Three) -> None:
    three.all_pass()
    (three.tree / "low.cpp").write_text("// more\n" + SOURCES["low.cpp"])
    three.make()
    assert three.known() == [*PROGRAMS]


@pytest.mark.parametrize(
    ("edited", "known"),
    [
        ("low", ["alone"]),
        ("high", ["alone", "low_test"]),
        ("low_test", ["alone", "high_test"]),
    ],
)
def test_what_a_program_loads_decides_on_it(three: Three, edited: str, known: list[str]) -> None:
    three.all_pass()
    source = three.tree / f"{edited}.cpp"
    source.write_text(SOURCES[source.name].replace("return ", "return 2 + "))
    three.make()
    assert three.known() == known


def test_settings_decide_on_all(three: Three) -> None:
    three.all_pass()
    assert three.known("with other suppressions") == []
