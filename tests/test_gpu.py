"""ci/gpu: what run counts, with programs that stand in for the tests, and what pack refuses."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parent.parent / "ci" / "gpu"
RUN = CI / "run"

# Each writes what GoogleTest writes, and ends as the test says.
CASE = '<testcase name="%s" status="run" result="completed">%s</testcase>'
SKIP = '<testcase name="c" status="run" result="skipped"><skipped message="t.cpp:1&#x0A;no second card&#x0A;" /></testcase>'
XML = '<testsuites tests="3" failures="%d">\n%s\n</testsuites>'


def program(path: Path, xml: str | None, then: str = "exit 0") -> None:
    write = f"cat > \"${{GTEST_OUTPUT#xml:}}\" <<'XML'\n{xml}\nXML\n" if xml else ""
    path.write_text(
        f"#!/bin/bash\necho $TORCH_XPU_MAPPING $TORCH_XPU_VIRTUAL_DEVICES\n{write}{then}\n"
    )
    path.chmod(0o755)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    folder = tmp_path / "xpu-gpu"
    for name in ("lib", "tests", "tests-libtorch", "bench"):
        (folder / name).mkdir(parents=True)
    (folder / "VERSIONS").write_text("SYCL 1.2\n")
    shutil.copy(RUN, folder / "run")
    good = [CASE % ("a", ""), CASE % ("b", ""), SKIP]
    program(folder / "tests" / "GoodTest", XML % (0, "\n".join(good)))
    return folder


def start(packed: Path, **variables: str) -> tuple[int, list[str]]:
    words = {"ONLY": "tests", "TORCH_XPU_MAPPING": "GPU", **variables}
    done = subprocess.run(
        [packed / "run", packed.parent / "results"],
        capture_output=True,
        text=True,
        env={**os.environ, **words},
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_every_program_runs_with_one_and_with_two_ordinals(packed: Path) -> None:
    code, said = start(packed)
    assert code == 0
    assert said[-1] == "4 passed, 0 failed, 2 skipped"
    assert "GoodTest, 2 ordinal(s): 2 passed, 0 failed, 1 skipped" in said
    results = packed.parent / "results"
    assert (results / "GoodTest.2.log").read_text() == "GPU 2\n"
    assert (results / "counts.txt").read_text() == said[-1] + "\n"
    assert (results / "skipped.txt").read_text().split(maxsplit=1) == ["2", "no second card\n"]


def test_a_failed_case_is_counted_once(packed: Path) -> None:
    cases = [CASE % ("a", ""), CASE % ("b", '<failure message="no" />')]
    program(packed / "tests" / "BadTest", XML % (1, "\n".join(cases)), "exit 1")
    code, said = start(packed, ORDINALS="1")
    assert (code, said[-1]) == (1, "3 passed, 1 failed, 1 skipped")


@pytest.mark.parametrize("then", ["kill -SEGV $$", "exit 1"])
def test_a_program_that_ends_badly_has_failed(packed: Path, then: str) -> None:
    program(packed / "tests" / "BadTest", None, then)
    code, said = start(packed, ORDINALS="1")
    assert (code, said[-1]) == (1, "2 passed, 1 failed, 1 skipped")


def test_so_has_one_whose_cases_all_passed(packed: Path) -> None:
    program(packed / "tests" / "BadTest", XML % (0, CASE % ("a", "")), "exit 3")
    code, said = start(packed, ORDINALS="1")
    assert (code, said[-1]) == (1, "3 passed, 1 failed, 1 skipped")


def test_one_that_hangs_is_ended(packed: Path) -> None:
    program(packed / "tests" / "HangTest", None, "while :; do read -t 1 <> <(:); done")
    code, said = start(packed, ORDINALS="1", TEST_TIMEOUT="1")
    assert (code, said[-1]) == (1, "2 passed, 1 failed, 1 skipped")
    assert any("ended with 124" in line for line in said)


def test_one_without_any_case_has_failed(packed: Path) -> None:
    program(packed / "tests" / "EmptyTest", XML % (0, ""))
    assert start(packed, ORDINALS="1")[0] == 1


def test_what_was_not_packed_is_said(packed: Path) -> None:
    assert "without the tests that need libtorch: they were not packed" in start(packed)[1]


TORCH = """
from types import SimpleNamespace as Space
__version__ = "2.13.0"
xpu = Space(is_available=lambda: True, get_device_name=lambda _: "a card")
"""
PYTHON_TESTS = """
import os, pytest
def test_passes(): assert os.environ["TORCH_XPU_VIRTUAL_DEVICES"] in "12"
def test_fails(): assert os.environ["TORCH_XPU_VIRTUAL_DEVICES"] == "1"
def test_is_skipped(): pytest.skip("no second card")
"""


@pytest.fixture
def extension(packed: Path) -> Path:
    (packed / "extension").mkdir()
    (packed / "extension" / "torch.py").write_text(TORCH)
    (packed / "tests-extension").mkdir()
    (packed / "tests-extension" / "test_it.py").write_text(PYTHON_TESTS)
    return packed


def test_the_tests_of_the_extension_are_counted(extension: Path) -> None:
    code, said = start(extension, ONLY="extension", EXTENSION_PYTHON=sys.executable)
    assert "torch 2.13.0 on a card" in said
    assert "test_it, 1 ordinal(s): 2 passed, 0 failed, 1 skipped" in said
    assert "test_it, 2 ordinal(s): 1 passed, 1 failed, 1 skipped, ended with 1" in said
    assert any("FAILED" in line and "::test_fails" in line for line in said)
    assert (code, said[-1]) == (1, "3 passed, 1 failed, 2 skipped")
    reasons = (extension.parent / "results" / "skipped.txt").read_text()
    assert reasons.split(maxsplit=1) == ["2", "no second card\n"]


def test_without_the_torch_that_it_is_for_it_is_left_out(extension: Path) -> None:
    (extension / "extension" / "torch.py").write_text(TORCH.replace("True", "False"))
    code, said = start(extension, ONLY="extension", EXTENSION_PYTHON=sys.executable)
    assert (code, said[-1]) == (1, "0 passed, 0 failed, 0 skipped")
    assert "without the tests of the extension" in said[-2]
    assert "torch 2.13.0 finds no XPU" in said[-2]


def test_the_tests_of_the_wheel_have_names_of_their_own(extension: Path) -> None:
    for name in ("", "tests-"):
        shutil.copytree(extension / f"{name}extension", extension / f"{name}wheel")
    python = {"EXTENSION_PYTHON": sys.executable, "WHEEL_PYTHON": sys.executable}
    code, said = start(extension, ONLY="wheel", ORDINALS="1", **python)
    assert "wheel-test_it, 1 ordinal(s): 2 passed, 0 failed, 1 skipped" in said
    assert (code, said[-1]) == (0, "2 passed, 0 failed, 1 skipped")


def test_a_benchmark_that_fails_is_a_failure(packed: Path) -> None:
    program(packed / "bench" / "bench_xpu", None, '[ "$1" = --only ]')
    code, said = start(packed, ONLY="bench")
    assert code == 1
    assert said[-1] == "0 passed, 1 failed, 0 skipped"


def test_without_a_device_nothing_passes(packed: Path) -> None:
    program(packed / "bench" / "bench_xpu", None, "echo no card >&2; exit 1")
    code, said = start(packed)
    assert (code, said[-1]) == (1, "0 passed, 1 failed, 0 skipped")
    assert "the mapping GPU finds no device: no card" in said


def test_it_refuses_to_run_where_nothing_was_unpacked(tmp_path: Path) -> None:
    done = subprocess.run([RUN, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "ci/gpu/pack" in done.stderr


FIRST, SECOND = "urGetDeviceProcAddrTable", "urGetQueueProcAddrTable"
ADAPTER = "libur_adapter_cuda.so.0"


def library(path: Path, soname: str, *names: str, text: str = "") -> Path:
    """A library with these functions, and with a text in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = "".join(f"void {name}(void) {{}}\n" for name in names)
    code += "".join(f'const char text_{one}[] = "{one}";\n' for one in text.split())
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{soname}", "-x", "c", "-", "-o", path]
    subprocess.run(["gcc", *flags], input=code, text=True, check=True)
    return path


def pack(folder: Path, adapter: Path | str | None) -> str:
    """What ci/gpu/pack complains of, for a SYCL runtime of version 0.12 of Unified Runtime."""
    lib = folder / "sycl" / "lib"
    loader = library(lib / "libur_loader.so.0.12.0", "libur_loader.so.0", text=f"{FIRST} {SECOND}")
    (lib / "libur_loader.so.0").symlink_to(loader.name)
    (lib / "libsycl.so").touch()
    (folder / "built").mkdir()
    given = {"SYCL_ROOT": str(folder / "sycl"), "UR_ADAPTER": str(adapter or "")}
    done = subprocess.run(
        [CI / "pack", folder / "out.tar.xz", folder / "built"],
        capture_output=True,
        text=True,
        env={**os.environ, **given},
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_without_an_adapter_it_says_where_to_get_one(tmp_path: Path) -> None:
    said = pack(tmp_path, None)
    assert "Codeplay's plugin for NVIDIA GPUs" in said
    assert "for an Intel card, none" in said


def test_an_adapter_that_fits(tmp_path: Path) -> None:
    fits = library(tmp_path / "libur_adapter_cuda.so.0.12.0", ADAPTER, FIRST, SECOND)
    assert "no test programs" in pack(tmp_path, fits)


def test_for_an_intel_card_it_takes_none(tmp_path: Path) -> None:
    assert "no test programs" in pack(tmp_path, "none")


def test_adapters_that_do_not_fit(tmp_path: Path) -> None:
    other = library(tmp_path / "a" / ADAPTER, "libur_adapter_hip.so.0", FIRST, SECOND)
    assert "its soname is 'libur_adapter_hip.so.0'" in pack(tmp_path / "1", other)
    older = library(tmp_path / "b" / ADAPTER, ADAPTER, FIRST)
    assert f"it lacks {SECOND}\n" in pack(tmp_path / "2", older)
    version = library(tmp_path / "c" / "libur_adapter_cuda.so.0.11.0", ADAPTER, FIRST, SECOND)
    assert "version 0.11 of Unified Runtime" in pack(tmp_path / "3", version)
    text = tmp_path / "text"
    text.write_text("a text")
    assert "its soname is ''" in pack(tmp_path / "4", text)
    assert "is not there" in pack(tmp_path / "5", tmp_path / "nothing")
