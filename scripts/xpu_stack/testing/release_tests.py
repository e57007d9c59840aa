"""Tests of an earlier PyTorch release, on an installed torch with the extension.

The wheel brings no tests. patches/<base>/own-tests.yaml names the release, whose
source package is fetched, and its test files. It lists which tests fail and why: one
that is not listed must not, and one that is listed must. What came of it is the page
docs/stock-torch-tests.md.
"""

import shutil
import tarfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build.configuration import Build
from xpu_stack.core.bases.onto import source_packages
from xpu_stack.core.bases.providers import Unavailable, tarball
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import files
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import MissingError, TestError
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.yaml_file import Node
from xpu_stack.testing import python_tests, pytorch_tests
from xpu_stack.testing.junit import Case, cases
from xpu_stack.testing.pytorch_tests import KINDS, SHOWN, counts
from xpu_stack.testing.runner import CONFIGURATIONS

PAGE = "docs/stock-torch-tests.md"
_CONFIGURATION = next(one for one in CONFIGURATIONS if one.name == "CPU-2")


@dataclass(frozen=True)
class Selection:
    release: str
    files: tuple[str, ...]
    fails: dict[str, tuple[str, ...]]  # reason -> tests
    device: Node | None = None  # for device_tests.py

    @classmethod
    def load(cls, base: Base) -> "Selection":
        return pytorch_tests.listed(base).into(cls)

    @property
    def reasons(self) -> dict[str, str]:
        """Of each test that fails."""
        return {test: reason for reason, tests in self.fails.items() for test in tests}


def run(this: Build) -> None:
    """Runs them on what is built; refuses what ends otherwise than listed."""
    selection = Selection.load(this.work.base)
    folder = this.folder / "own-tests"
    shutil.rmtree(folder, ignore_errors=True)
    _unpack(this.work.layout, selection, folder)
    ended: dict[str, dict[str, Case]] = {}
    with progress(len(selection.files), f"tests of PyTorch {selection.release}") as bar:
        for file in selection.files:
            name = Path(file).stem
            python_tests.run(
                this, _CONFIGURATION.environment, [name], folder, bar, tests=folder / "test"
            )
            ended[file] = {one.id: one for one in cases(folder / f"{name}.xml")}
    say(f"JUnit: {folder}")
    judge({test: one for tests in ended.values() for test, one in tests.items()}, selection.reasons)
    written = this.work.layout.repository / PAGE
    files.write(written, page(selection, ended))
    say(f"written: {PAGE}")


def _unpack(layout: Layout, selection: Selection, folder: Path) -> None:
    package = source_packages(layout)[selection.release]
    try:
        source = tarball(layout, package)
    except Unavailable as error:
        raise MissingError(
            f"The source package of PyTorch {selection.release} is not available here.",
            why=str(error),
            next=f"put {package.tarball} into {layout.downloads}",
        ) from None
    with tarfile.open(source) as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            if path in selection.files:
                content = archive.extractfile(member)
                assert content is not None
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content.read())


def judge(ended: Mapping[str, Case], fails: Mapping[str, str]) -> None:
    """Refuses a failure that is not listed, and a listed one that is none."""
    failed = {test for test, one in ended.items() if one.how == "failed"}
    problems = [f"{test}: {ended[test].why}" for test in sorted(failed - fails.keys())]
    for test in sorted(fails.keys() - failed):
        how = ended[test].how if test in ended else "not there"
        problems.append(f"{test}: is said to fail and is {how}")
    if problems:
        raise TestError(
            f"{len(problems)} of PyTorch's own tests end otherwise than listed.",
            why=problems[0],
            next="fix it, or edit the list in own-tests.yaml",
            detail="\n".join(problems[:SHOWN]),
        )
    told = counts(one.how for one in ended.values())
    say(f"{len(ended)} of PyTorch's own tests end as listed: {told}")


def page(selection: Selection, ended: Mapping[str, Mapping[str, Case]]) -> str:
    """The results as a page, the same for the same results."""
    lines = [
        "# PyTorch's own tests on the extension",
        "",
        f"Tests of PyTorch {selection.release}, unchanged, with a stock torch and the extension:",
        "SYCL's CPU device with two ordinals. `make own-tests BASE=v2.13` runs them, compares",
        "them with `patches/v2.13/own-tests.yaml` and writes this page.",
        "",
        "| File | Passed | Failed | Skipped |",
        "| --- | --- | --- | --- |",
    ]
    for file, tests in ended.items():
        found = Counter(one.how for one in tests.values())
        lines.append(f"| `{file}` | {' | '.join(str(found[kind]) for kind in KINDS)} |")
    skipped = {
        test: one.why
        for tests in ended.values()
        for test, one in tests.items()
        if one.why and one.how == "skipped"
    }
    for title, reasons in (("What fails", selection.reasons), ("What is skipped", skipped)):
        if reasons:
            lines += ["", f"## {title}", ""]
        for reason in dict.fromkeys(reasons.values()):
            tests_of = sorted(test for test, why in reasons.items() if why == reason)
            lines += [f"{reason[:1].upper() + reason[1:]} ({len(tests_of)}):", ""]
            lines += [*(f"- `{test}`" for test in tests_of), ""]
        if reasons:
            lines.pop()
    return "\n".join(lines) + "\n"
