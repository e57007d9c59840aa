"""A dry run of torchgen is run once for the same input."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT

GEN = """
import os, pathlib, sys
words = sys.argv[1:]
assert os.getcwd() in sys.path or "" in sys.path, sys.path
if pathlib.Path("broken").exists():
    sys.exit("broken")
to = pathlib.Path(words[words.index("--output-dependencies") + 1])
names = pathlib.Path("aten/native/native_functions.yaml").read_text()
to.write_text(names)
to.with_name(f"ops_{to.name}").write_text(f"ops of {names}")
with open("runs", "a") as runs:
    runs.write(words[0] + " ")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "torchgen/__init__.py": "",
        "torchgen/gen.py": GEN,
        "aten/native/native_functions.yaml": "add",
        "aten/templates/Functions.h": "// $",
        "build/other.cmake": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def dry_run(tree: Path, listed: str = "lists.cmake", flag: str = "--per-operator-headers") -> int:
    """How often torchgen was run until now; a negative number: it failed."""
    program = ROOT / "scripts" / "xpu_stack" / "build" / "dry_run.py"
    words = ("-m", "torchgen.gen", flag, "--source-path", "aten")
    words = (*words, "--output-dependencies", str(tree / "build" / listed), "--dry-run")
    done = subprocess.run([sys.executable, program, *words], cwd=tree, check=False)
    return -1 if done.returncode else len((tree / "runs").read_text().split())


def lists(tree: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (tree / "build").glob("*lists.cmake")}


def test_the_same_is_not_run_again(tree: Path) -> None:
    assert dry_run(tree) == 1
    made = lists(tree)
    assert made == {"lists.cmake": "add", "ops_lists.cmake": "ops of add"}
    written = (tree / "build" / "lists.cmake").stat().st_mtime_ns
    assert dry_run(tree) == 1
    assert (tree / "build" / "lists.cmake").stat().st_mtime_ns == written
    (tree / "build" / "lists.cmake").unlink()
    (tree / "build" / "ops_lists.cmake").write_text("other")
    assert dry_run(tree) == 1
    assert lists(tree) == made


@pytest.mark.parametrize(
    "name", ["torchgen/gen.py", "aten/native/native_functions.yaml", "aten/templates/Functions.h"]
)
def test_another_input_is_run(tree: Path, name: str) -> None:
    assert dry_run(tree) == 1
    with (tree / name).open("a") as file:
        file.write("# more")
    assert dry_run(tree) == 2
    assert lists(tree)["lists.cmake"] == (tree / "aten/native/native_functions.yaml").read_text()
    assert dry_run(tree, flag="--rocm") == 3
    assert dry_run(tree, listed="sources.cmake") == 4


def test_what_failed_is_not_kept(tree: Path) -> None:
    (tree / "broken").touch()
    assert dry_run(tree) == -1
    (tree / "broken").unlink()
    assert dry_run(tree) == 1


def test_what_was_not_finished_is_made_again(tree: Path) -> None:
    assert dry_run(tree) == 1
    (kept,) = (tree / "build" / "dry-runs").iterdir()
    shutil.move(kept, kept.with_suffix(".draft"))
    (kept.with_suffix(".draft") / "lists.cmake").write_text("")
    assert dry_run(tree) == 2
    assert lists(tree)["lists.cmake"] == "add"
