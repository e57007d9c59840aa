"""PyTorch's own tests, as patches/<base>/own-tests.yaml selects them, in one of three ways.

On the patched package and the unpatched one: a test must end in the same way on both
sides; one that does not is listed, with the reason.

On an installed torch with the extension, whose wheel brings no tests: those of an earlier
release, whose source package is fetched. Those tests fail that are listed, and no others.
What came of it is the page docs/stock-torch-tests.md.

On a device of ours, the part `device`: what passes on the CPU has to pass there. A test of
a class for the device, such as TestViewOpsXPU, stands beside the same test for the CPU, and
counts where that one passes. Files without tests for the CPU compare with it themselves; a
failure that they expect is a skipped test that says so. They run on host memory, copied, as
on a GPU, and with kernels. Where each operator runs with kernels is what bench/places.py says.
"""

import fnmatch
import shutil
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xpu_stack.build.configuration import Build
from xpu_stack.core.bases.providers import Unavailable, source_packages, tarball
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import files, pages, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import MissingError, TestError
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.yaml_file import Node
from xpu_stack.testing import python_tests
from xpu_stack.testing.python_tests import Run
from xpu_stack.testing.runner import CONFIGURATIONS, COPIED, Case, cases

PAGE = "docs/stock-torch-tests.md"
_TEMPLATES = Path(__file__).parent / "templates"
_SHOWN = 20  # problems that are shown; the JUnit files have all
_ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"  # PyTorch's: types of devices
_KERNELS = {"TORCH_XPU_KERNELS": "1"}
_EXPECTED = "expected failure: "  # how a skipped test begins that stands for a failure


@dataclass(frozen=True)
class OnDevice:
    """Which tests are run on the device, how, and which fail."""

    files: tuple[str, ...]
    environment: dict[str, str]
    fail: dict[str, str]  # pattern of fnmatch -> reason
    fail_copied: dict[str, str] = field(default_factory=dict)  # only where memory is copied
    fail_kernels: dict[str, str] = field(default_factory=dict)  # only with kernels


@dataclass(frozen=True)
class Selection:
    """Which tests are run, and which of them may end otherwise than they should."""

    files: tuple[str, ...]
    differ: dict[str, str] = field(default_factory=dict)  # test -> reason
    release: str = ""  # that they are of, if they are not the base's
    fails: dict[str, tuple[str, ...]] = field(default_factory=dict)  # reason -> tests
    device: OnDevice | None = None

    @classmethod
    def load(cls, base: Base) -> "Selection":
        path = base.file("own-tests.yaml")
        return Node.load(path, f"patches/{path.parent.name}/own-tests.yaml").into(cls)

    @property
    def reasons(self) -> dict[str, str]:
        return {test: reason for reason, tests in self.fails.items() for test in tests}


def _refuse(problems: Sequence[str], what: str, next: str) -> None:
    if problems:
        raise TestError(what, why=problems[0], next=next, detail="\n".join(problems[:_SHOWN]))


def _counts(hows: Iterable[str]) -> str:
    found = Counter(hows)
    return ", ".join(f"{found[kind]} {kind}" for kind in ("passed", "failed", "skipped"))


def _ended(
    this: Build, files: Iterable[str], environment: dict[str, str], suffix: str
) -> list[Case]:
    """How the tests ended; those of files that are not known from before for this tree are run."""
    names = [Path(file).stem for file in files]
    tree = this.work.repository.tree_of("HEAD")
    results = this.results.junit_folder(tree)
    folder = results.with_name(f"{results.name}-{suffix}")
    missing = [name for name in names if not (folder / f"{name}.xml").exists()]
    with progress(len(missing), f"PyTorch's own tests in {this.work.repository.folder}") as bar:
        for name in missing:
            python_tests.run(Run(this, environment, folder, bar), [name])
    say(f"JUnit: {folder}")
    return [case for name in names for case in cases(folder / f"{name}.xml")]


# -- on both packages --------------------------------------------------------------


def compare(patched: Build, unpatched: Build) -> None:
    """Runs the selection on both sides; refuses differences that are not listed."""
    selection = Selection.load(patched.work.base)
    before, after = (
        {one.full: one.how for one in _ended(side, selection.files, {}, "own-tests")}
        for side in (unpatched, patched)
    )
    judge_both(before, after, selection.differ)


def judge_both(before: dict[str, str], after: dict[str, str], foreseen: dict[str, str]) -> None:
    """Says how the tests ended before and after, or refuses. foreseen: test -> reason."""
    differ = {
        name: f"{before.get(name, 'not there')} before, {after.get(name, 'not there')} now"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }
    problems = [f"{name}: {how}" for name, how in differ.items() if name not in foreseen]
    same = [name for name in foreseen if name not in differ]
    problems += [f"{name}: is said to differ and does not" for name in same]
    for name, reason in foreseen.items():
        say(f"  differs, as listed: {name}: {reason}")
    _refuse(
        problems,
        f"{len(problems)} of PyTorch's own tests end differently from the unpatched package.",
        "fix the change, or list the test with a reason in own-tests.yaml",
    )
    say(
        f"{len(after)} of PyTorch's own tests end as they do on the unpatched package: "
        f"{_counts(after.values())}"
    )


# -- an earlier release's ----------------------------------------------------------


def run_release(this: Build) -> None:
    """Runs them on what is built; refuses what ends otherwise than listed."""
    selection = Selection.load(this.work.base)
    folder = this.folder / "own-tests"
    shutil.rmtree(folder, ignore_errors=True)
    _unpack(this.work.layout, selection, folder)
    ended: dict[str, dict[str, Case]] = {}
    two = CONFIGURATIONS["CPU-2"]
    with progress(len(selection.files), f"tests of PyTorch {selection.release}") as bar:
        for file in selection.files:
            name = Path(file).stem
            python_tests.run(Run(this, two, folder, bar), [name], tests=folder / "test")
            ended[file] = {one.id: one for one in cases(folder / f"{name}.xml")}
    say(f"JUnit: {folder}")
    every = {test: one for tests in ended.values() for test, one in tests.items()}
    judge_listed(every, selection.reasons)
    files.write(this.work.layout.repository / PAGE, page(selection, ended))
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
            if path in selection.files and (content := archive.extractfile(member)):
                files.write(folder / path, content.read().decode())


def judge_listed(ended: Mapping[str, Case], fails: Mapping[str, str]) -> None:
    """Refuses a failure that is not listed, and a listed one that is none."""
    failed = {test for test, one in ended.items() if one.how == "failed"}
    problems = [f"{test}: {ended[test].why}" for test in sorted(failed - fails.keys())]
    for test in sorted(fails.keys() - failed):
        how = ended[test].how if test in ended else "not there"
        problems.append(f"{test}: is said to fail and is {how}")
    _refuse(
        problems,
        f"{len(problems)} of PyTorch's own tests end otherwise than listed.",
        "fix it, or edit the list in own-tests.yaml",
    )
    told = _counts(one.how for one in ended.values())
    say(f"{len(ended)} of PyTorch's own tests end as listed: {told}")


def page(selection: Selection, ended: Mapping[str, Mapping[str, Case]]) -> str:
    skipped: dict[str, list[str]] = {}
    for tests in ended.values():
        for test, one in tests.items():
            if one.why and one.how == "skipped":
                skipped.setdefault(one.why, []).append(test)
    return pages.render(
        _TEMPLATES / "release.md",
        release=selection.release,
        files={file: Counter(one.how for one in tests.values()) for file, tests in ended.items()},
        parts={"What fails": selection.fails, "What is skipped": skipped},
    )


# -- on a device -------------------------------------------------------------------


Judged = tuple[Case, str, str]  # what a test counts as, such as "expected", and why


def run_device(this: Build, device: str, docs: Path | None) -> None:
    """Runs the selection on the device type; refuses failures that are not listed.

    docs: the folder of the documentation, to write the table into.
    """
    name = this.work.base.name
    selection = Selection.load(this.work.base).device
    assert selection is not None
    problems, sections = [], []
    ended: list[Case] = []
    # What is copied does not change the CPU's tests, so that they run once.
    only = {_ONLY_FOR: device} if _ONLY_FOR in selection.environment else {}
    for mode, variables, expected in (
        ("Host memory", {}, selection.fail),
        ("Copied", COPIED | only, selection.fail | selection.fail_copied),
        ("Kernels", _KERNELS | only, selection.fail | selection.fail_kernels),
    ):
        suffix = "-".join(["own-tests", device, *([mode.lower()] if variables else [])])
        ended += _ended(this, selection.files, selection.environment | variables, suffix)
        judged, wrong = judge_device(ended, device, expected)
        problems += [f"{mode}: {problem}" for problem in wrong]
        sections.append(f"### {mode}\n\n{markdown(judged)}")
    text = "\n".join(sections)
    say(text)
    if docs is not None:
        for part, content in ((name, text), (f"{name}, places", _places(this))):
            marks = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
            pages.put_between(*marks, content, docs / "operators.md")
    _refuse(
        problems,
        f"{len(problems)} of PyTorch's own tests fail on {device} without a reason.",
        "fix it, or list the test with a reason",
    )


def _places(this: Build) -> str:
    """Where each operator runs with kernels."""
    program = this.work.layout.repository / "bench" / "places.py"
    environment = python_tests.environment(this) | {"TORCH_XPU_MAPPING": "CPU"} | _KERNELS
    with progress(None, "looking where each operator runs"):
        return shell.run([this.python, program], env=environment).text


def judge_device(
    ended: Iterable[Case], device: str, expected: dict[str, str]
) -> tuple[list[Judged], list[str]]:
    """The tests of the device, and what is wrong; `expected`: pattern of names -> reason."""
    upper = device.upper()
    by_name = {case.full: case for case in ended}
    twins = any(case.group.endswith("CPU") for case in by_name.values())
    judged, problems, used = [], [], set()
    for case in by_name.values():
        if twins and not case.group.endswith(upper):
            continue
        pattern = next((one for one in expected if fnmatch.fnmatchcase(case.full, one)), "")
        group = f"{case.group.removesuffix(upper)}CPU"
        twin = by_name.get(f"{case.file}.{group}.{case.name.replace(f'_{device}', '_cpu')}")
        used.add(pattern)
        kind, reason = _kind(case, twin, expected.get(pattern))
        judged.append((case, kind, reason))
        if kind == "failed":
            problems.append(case.full)
        elif kind == "passed" and pattern:
            problems.append(f"{case.full}: is said to fail and passes")
    problems += [f"{one}: no test has this name" for one in expected if one not in used]
    return judged, problems


def _kind(case: Case, twin: Case | None, reason: str | None) -> tuple[str, str]:
    """What a test counts as, and why. reason: that it is listed with."""
    if case.why.startswith(_EXPECTED):
        return "expected", case.why.removeprefix(_EXPECTED)
    if case.how != "failed":
        return case.how, case.why
    if reason is not None:
        return "expected", reason
    if twin is not None and twin.how != "passed":
        return "skipped", f"it is {twin.how} on the CPU too"
    return "failed", ""


def markdown(judged: Iterable[Judged]) -> str:
    rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    reasons = {"fail": Counter[str](), "are skipped": Counter[str]()}
    for case, kind, why in judged:
        rows[case.file, case.group][kind] += 1
        if why:
            reasons["fail" if kind == "expected" else "are skipped"][" ".join(why.split())] += 1
    total = sum(rows.values(), Counter())
    return pages.render(
        _TEMPLATES / "device.md",
        total=total,
        judged=total["passed"] + total["failed"] + total["expected"],
        rows=[*sorted(rows.items()), (("all", ""), total)],
        reasons=reasons,
    )
