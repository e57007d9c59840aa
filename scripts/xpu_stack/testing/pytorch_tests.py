"""PyTorch's own tests, on the patched package and on the unpatched one.

patches/<base>/own-tests.yaml names the files. A test must end in the same way
on both sides; one that does not is named there, with the reason.
"""

import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build.configuration import Build
from xpu_stack.core.series.base import Base
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.yaml_file import Node
from xpu_stack.testing import python_tests

_SHOWN = 20  # differences that are shown; the JUnit files have all


@dataclass(frozen=True)
class Selection:
    """Which tests are compared, and which of them may end differently."""

    names: tuple[str, ...]  # of files in test/, without .py
    differ: dict[str, str]  # test -> reason

    @classmethod
    def load(cls, base: Base) -> "Selection":
        path = base.file("own-tests.yaml")
        node = Node.load(path, f"patches/{path.parent.name}/own-tests.yaml")
        node.fields({"files", "differ"})
        return cls(
            tuple(Path(name).stem for name in node["files"].texts()), node["differ"].text_map()
        )


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
    counts = ", ".join(
        f"{sum(how == kind for how in after.values())} {kind}"
        for kind in ("passed", "failed", "skipped")
    )
    if problems:
        raise ToolError(
            f"{len(problems)} of PyTorch's own tests end differently from the unpatched package.",
            why=problems[0],
            next="fix the change, or list the test with a reason in own-tests.yaml",
            code=ExitCode.TESTS,
            detail="\n".join(problems[:_SHOWN]),
        )
    say(f"{len(after)} of PyTorch's own tests end as they do on the unpatched package: {counts}")


def _outcomes(this: Build, names: tuple[str, ...]) -> dict[str, str]:
    """How each test ends on `this`; known from before where tree and selection are the same."""
    tree = this.work.repository.tree_of("HEAD")
    results = this.results.junit_folder(tree)
    folder = results.with_name(f"{results.name}-own-tests")
    missing = [name for name in names if not (folder / f"{name}.xml").exists()]
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    with progress(len(missing), f"PyTorch's own tests in {this.work.repository.folder}") as bar:
        for name in missing:
            python_tests.run(this, {}, [name], draft, bar)
            (draft / f"{name}.xml").replace(folder / f"{name}.xml")
    draft.rmdir()
    say(f"JUnit: {folder}")
    return {key: how for name in names for key, how in _read(folder / f"{name}.xml").items()}


def _read(junit: Path) -> dict[str, str]:
    outcomes = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        kinds = {child.tag for child in case}
        how = "failed" if kinds & {"failure", "error"} else "passed"
        outcomes[f"{case.get('classname')}.{case.get('name')}"] = (
            "skipped" if "skipped" in kinds else how
        )
    return outcomes
