"""PyTorch's own tests, on the patched package and on the unpatched one.

patches/<base>/own-tests.yaml names the files. A test must end in the same way
on both sides; one that does not is named there, with the reason. Its part
`device` is for testing/device_tests.py.
"""

import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build.configuration import Build
from xpu_stack.core.series.base import Base
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import TestError
from xpu_stack.core.system.yaml_file import Node
from xpu_stack.testing import python_tests
from xpu_stack.testing.junit import cases

KINDS = ("passed", "failed", "skipped")  # how a test ends
SHOWN = 20  # problems that are shown; the JUnit files have all


def listed(base: Base) -> Node:
    path = base.file("own-tests.yaml")
    return Node.load(path, f"patches/{path.parent.name}/own-tests.yaml")


@dataclass(frozen=True)
class Selection:
    """Which tests are compared, and which of them may end differently."""

    files: tuple[str, ...]
    differ: dict[str, str]  # test -> reason
    device: Node | None = None  # for device_tests.py

    @classmethod
    def load(cls, base: Base) -> "Selection":
        return listed(base).into(cls)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(Path(name).stem for name in self.files)


def compare(patched: Build, unpatched: Build) -> None:
    """Runs the selection on both sides; refuses differences that are not listed."""
    selection = Selection.load(patched.work.base)
    before = _outcomes(unpatched, selection.names)
    after = _outcomes(patched, selection.names)
    judge(before, after, selection.differ)


def judge(before: dict[str, str], after: dict[str, str], foreseen: dict[str, str]) -> None:
    """Says how the outcomes compare, test by test, or refuses.

    before, after: test -> passed, failed or skipped; foreseen: test -> reason.
    """
    names = sorted(before.keys() | after.keys())
    differ = {
        name: f"{before.get(name, 'not there')} before, {after.get(name, 'not there')} now"
        for name in names
        if before.get(name) != after.get(name)
    }
    problems = [f"{name}: {how}" for name, how in differ.items() if name not in foreseen]
    problems += [
        f"{name}: is said to differ and does not" for name in foreseen if name not in differ
    ]
    for name, reason in foreseen.items():
        say(f"  differs, as listed: {name}: {reason}")
    if problems:
        raise TestError(
            f"{len(problems)} of PyTorch's own tests end differently from the unpatched package.",
            why=problems[0],
            next="fix the change, or list the test with a reason in own-tests.yaml",
            detail="\n".join(problems[:SHOWN]),
        )
    say(
        f"{len(after)} of PyTorch's own tests end as they do on the unpatched package: "
        f"{counts(after.values())}"
    )


def counts(hows: Iterable[str]) -> str:
    found = Counter(hows)
    return ", ".join(f"{found[kind]} {kind}" for kind in KINDS)


def _outcomes(this: Build, names: tuple[str, ...]) -> dict[str, str]:
    folder = junit_of(this, names, {}, "own-tests")
    return {one.full: one.how for name in names for one in cases(folder / f"{name}.xml")}


def junit_of(this: Build, names: tuple[str, ...], environment: dict[str, str], suffix: str) -> Path:
    """Runs the files that are not known from before for this tree; the folder of their JUnit."""
    tree = this.work.repository.tree_of("HEAD")
    results = this.results.junit_folder(tree)
    folder = results.with_name(f"{results.name}-{suffix}")
    missing = [name for name in names if not (folder / f"{name}.xml").exists()]
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    with progress(len(missing), f"PyTorch's own tests in {this.work.repository.folder}") as bar:
        for name in missing:
            python_tests.run(this, environment, [name], draft, bar)
            (draft / f"{name}.xml").replace(folder / f"{name}.xml")
    draft.rmdir()
    say(f"JUnit: {folder}")
    return folder
