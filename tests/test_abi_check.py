"""What may be mixed with shipped libraries, on a small tree and the real compiler."""

from pathlib import Path

import pytest
from xpu_stack.build import packages
from xpu_stack.build.abi_check import Proof, compare, judge
from xpu_stack.build.trees import Tree
from xpu_stack.core.system.errors import ToolError

HEADER = """\
#pragma once
#include <cstdint>
namespace at {
enum class Backend { CPU, CUDA };
using Handle = int32_t;
class Base {
 public:
  virtual ~Base() = default;
  virtual int first() { return 1; }
};
struct Context : Base {
  static int count;
  bool enabled() const { return enabled_; }
#ifdef USE_XPU
  int64_t xpu_ = 0;
#endif
  bool enabled_ = true;
  Handle handle_ = 0;
  union {
    int32_t small_;
    float other_;
  };
};
} // namespace at
"""
SOURCE = "aten/src/ATen/Context.cpp"
OTHER = "torch/lib/libshm/core.cpp"
NAME = "aten/src/ATen/Context.h"


@pytest.fixture(autouse=True, scope="module")
def compiler() -> None:
    packages.need_apt(["g++"])


def tree(tmp_path: Path, header: str, flags: str = "", generated: str = "") -> Tree:
    """A checkout with a header that a shipped source includes through another one."""
    source, build = tmp_path / "source", tmp_path / "build"
    for path, text in (
        (source / NAME, header),
        (source / "aten/src/ATen/ATen.h", "#pragma once\n#include <ATen/Context.h>\n"),
        (source / SOURCE, "#include <ATen/ATen.h>\n"),
        (source / OTHER, "int nothing;\n"),
        (build / "aten/src/ATen/Register.cpp", f"// from {source}\n{generated}"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = f"ccache g++ -std=gnu++14 {flags} -I{source}/aten/src -o unit.o -c unit.cpp"
    return Tree(source, build, command)


def proof_of(tmp_path: Path, new: Tree, *, old: Tree | None = None) -> Proof:
    before = old or tree(tmp_path / "before", HEADER)
    sources = {
        before.at(SOURCE): "torch_cpu",
        before.at("build:aten/src/ATen/Register.cpp"): "torch_cpu",
        before.at(OTHER): "shm",
    }
    return compare(before, new, [NAME], sources, tmp_path)


def edited(tmp_path: Path, old: str, new: str) -> Proof:
    assert old in HEADER
    return proof_of(tmp_path, tree(tmp_path / "after", HEADER.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  bool enabled_", "  bool xpu_ = false;\n  bool enabled_", "member xpu_: bool"),
        ("  static int count;", "  virtual void reset() {}", "virtual _ZN2at7Context5resetEv"),
        (
            "  virtual int first",
            "  virtual int zero() { return 0; }\n  virtual int first",
            "at::Base",
        ),
        ("{ CPU, CUDA }", "{ CPU, XPU, CUDA }", "enumerator CUDA = 2"),
        ("Handle = int32_t", "Handle = uint32_t", "member handle_: unsigned int"),
        ("float other_", "double other_", "member other_: double"),
        ("struct Context : Base", "struct Context", "at::Context"),
        ("struct Context", "struct Renamed", "at::Context: no longer exists"),
    ],
)
def test_a_layout_that_differs_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    proof = edited(tmp_path, old, new)
    assert told in "\n".join(proof.layouts)
    with pytest.raises(ToolError, match="cannot be built against") as refusal:
        judge(proof, tmp_path)
    assert refusal.value.next.startswith("make build MODE=full")


def test_what_was_found_is_kept_while_the_headers_say_the_same(tmp_path: Path) -> None:
    found = edited(tmp_path, "float other_", "double other_")
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/unit.o")}
    assert len(kept) == 2
    assert edited(tmp_path, "float other_", "double other_") == found
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert "member other_: long double" in "\n".join(
        edited(tmp_path, "float other_", "long double other_").layouts
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  static int count;", "  static int count;\n  static int another;"),
        ("  static int count;", "  int added() const { return 2; }"),
        ("enum class", "// A comment.\nenum class"),
        ("class Base", "struct New { virtual ~New() = default; };\nclass Base"),
    ],
)
def test_what_no_shipped_code_can_see_is_fine(tmp_path: Path, old: str, new: str) -> None:
    proof = edited(tmp_path, old, new)
    assert (proof.layouts, proof.functions) == ([], [])
    assert proof.reaching == {NAME: [f"torch_cpu: {SOURCE}"]}
    judge(proof, tmp_path)


def test_an_inline_function_that_differs_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = edited(tmp_path, "return enabled_;", "return !enabled_;")
    judge(proof, tmp_path)
    assert "new only in what is compiled here: at::Context::enabled" in capsys.readouterr().out


def test_the_objects_that_a_header_reaches_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    before, after = tree(tmp_path / "before", HEADER), tree(tmp_path / "after", HEADER + "\n")
    middle = before.at(OTHER).with_suffix(".h")
    middle.write_text("#include <ATen/Context.h>\n")
    before.at(OTHER).write_text(f'#include "{middle.name}"\n')
    proof = proof_of(tmp_path, after, old=before)
    assert proof.reaching == {NAME: [f"shm: {OTHER}", f"torch_cpu: {SOURCE}"]}
    with caplog.at_level("INFO", logger="xpu_stack"):
        judge(proof, tmp_path)
    told = f"by #include lines, shipped objects are reached from: {NAME} (1 of 2 in torch_cpu, 1 of 1 in shm)"
    assert told in capsys.readouterr().out
    listed = f"{NAME} reaches 2 shipped objects: shm: {OTHER}, torch_cpu: {SOURCE}"
    assert listed in caplog.messages


def test_objects_are_told_also_where_mixing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = edited(tmp_path, "float other_", "double other_")
    with pytest.raises(ToolError, match="cannot be built against"):
        judge(proof, tmp_path)
    assert f"{NAME} (1 of 2 in torch_cpu, 0 of 1 in shm)" in capsys.readouterr().out


def test_a_header_that_reaches_no_shipped_source_may_differ(tmp_path: Path) -> None:
    before = tree(tmp_path / "before", HEADER)
    before.at(SOURCE).write_text("int nothing;\n")
    after = tree(
        tmp_path / "after", HEADER.replace("  bool enabled_", "  int more_;\n  bool enabled_")
    )
    assert proof_of(tmp_path, after, old=before).reaching == {}


def test_a_macro_of_the_series_is_looked_for_in_headers_that_it_does_not_edit(
    tmp_path: Path,
) -> None:
    after = tree(tmp_path / "after", HEADER, flags="-DUSE_XPU")
    before = tree(tmp_path / "before", HEADER)
    proof = compare(before, after, [], {before.at(SOURCE): "torch_cpu"}, tmp_path)
    assert "member xpu_: " in "\n".join(proof.layouts)


def test_a_generated_source_that_differs_is_refused(tmp_path: Path) -> None:
    proof = proof_of(tmp_path, tree(tmp_path / "after", HEADER, generated="int more;\n"))
    assert proof.changed_sources == ["build:aten/src/ATen/Register.cpp"]
    with pytest.raises(ToolError, match="cannot be built against"):
        judge(proof, tmp_path)


def test_where_a_tree_is_makes_no_difference(tmp_path: Path) -> None:
    assert proof_of(tmp_path, tree(tmp_path / "elsewhere", HEADER)).changed_sources == []


def test_a_header_that_does_not_compile_alone_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be compiled") as error:
        edited(tmp_path, "enum class", "missing_t x;\nenum class")
    assert "missing_t" in error.value.why
