from pathlib import Path

import pytest
from xpu_stack.build import cmake
from xpu_stack.core.system.errors import ExitCode, ToolError


def failing(folder: Path, output: str) -> ToolError:
    """The error of a build, by the real ninja, whose only step says why it fails."""
    rule = "rule cxx\n  command = echo 'x.cpp:1:2: error: redefinition of f' && false\n"
    (folder / "build.ninja").write_text(f"{rule}build {output}: cxx\n")
    with pytest.raises(ToolError) as raised:
        cmake.build(folder, [output], {})
    return raised.value


def test_a_failed_step_is_told_by_its_first_error(tmp_path: Path) -> None:
    error = failing(tmp_path, "c10.dir/x.cpp.o")
    assert error.code == ExitCode.BUILD
    assert error.why == "x.cpp:1:2: error: redefinition of f"
    assert error.next.startswith("fix it and run the same command again")


def test_a_unit_of_several_sources_can_be_taken_apart(tmp_path: Path) -> None:
    error = failing(tmp_path, "torch_python.dir/Unity/unity_torch_csrc_cxx.cxx.o")
    assert error.why == "x.cpp:1:2: error: redefinition of f"
    assert "under 'alone' in the base's base.yaml" in error.next
