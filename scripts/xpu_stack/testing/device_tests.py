"""PyTorch's own tests on a device of ours: what passes on the CPU has to pass there.

The part `device` of patches/<base>/own-tests.yaml names the files, and the tests
that fail with the reason. A test of a class for the device, such as
TestViewOpsXPU, stands beside the same test for the CPU, and counts where that one
passes. Files without tests for the CPU compare with it themselves; a failure that
they expect is a skipped test that says so.

They run twice: on host memory, and copied, as on a GPU.
"""

import fnmatch
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from xpu_stack.build.configuration import Build
from xpu_stack.core.series.base import Base
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import TestError
from xpu_stack.testing import pytorch_tests
from xpu_stack.testing.junit import Case, cases
from xpu_stack.testing.runner import COPIED

_EXPECTED = "expected failure: "  # how a skipped test begins that stands for a failure
_KINDS = ("passed", "failed", "expected", "skipped")


@dataclass(frozen=True)
class Selection:
    """Which tests are run on the device, how, and which fail."""

    files: tuple[str, ...]
    environment: dict[str, str]
    fail: dict[str, str]  # pattern of fnmatch -> reason
    fail_copied: dict[str, str] = field(default_factory=dict)  # only where memory is copied

    @classmethod
    def load(cls, base: Base) -> "Selection":
        node = pytorch_tests.listed(base)
        node.fields({"device"}, {"files", "differ", "release", "fails"})
        return node["device"].into(cls)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(Path(name).stem for name in self.files)


@dataclass
class Table:
    """Counts of each class, and what is wrong."""

    rows: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)  # (kind, reason)
    problems: list[str] = field(default_factory=list)

    def add(self, case: Case, kind: str, reason: str = "") -> None:
        self.rows.setdefault((case.file, case.group), Counter())[kind] += 1
        if reason:
            self.reasons[kind, reason] += 1

    @property
    def total(self) -> Counter[str]:
        return sum(self.rows.values(), Counter())


def run(this: Build, device: str, docs: Path | None) -> None:
    """Runs the selection on the device type; refuses failures that are not listed.

    docs: the folder of the documentation, to write the table into.
    """
    selection = Selection.load(this.work.base)
    problems, sections = [], []
    for mode, variables, expected in (
        ("Host memory", {}, selection.fail),
        ("Copied", COPIED, selection.fail | selection.fail_copied),
    ):
        suffix = f"own-tests-{device}{'-copied' if variables else ''}"
        environment = selection.environment | variables
        folder = pytorch_tests.junit_of(this, selection.names, environment, suffix)
        ended = [case for name in selection.names for case in cases(folder / f"{name}.xml")]
        table = judge(ended, device, expected)
        problems += [f"{mode}: {problem}" for problem in table.problems]
        sections.append(f"### {mode}\n\n{markdown(table)}")
    text = "\n".join(sections)
    say(text)
    if docs is not None:
        publish(text, this.work.base.name, docs / "operators.md")
    if problems:
        raise TestError(
            f"{len(problems)} of PyTorch's own tests fail on {device} without a reason.",
            why=problems[0],
            next="fix it, or list the test with a reason",
            detail="\n".join(problems[: pytorch_tests.SHOWN]),
        )


def judge(ended: Iterable[Case], device: str, expected: dict[str, str]) -> Table:
    """Counts the tests of the device; `expected`: pattern of names -> reason."""
    upper = device.upper()
    by_name = {case.full: case for case in ended}
    twins = any(case.group.endswith("CPU") for case in by_name.values())
    table = Table()
    used = set()
    for case in by_name.values():
        if twins and not case.group.endswith(upper):
            continue
        pattern = next((one for one in expected if fnmatch.fnmatchcase(case.full, one)), None)
        twin = by_name.get(
            f"{case.file}.{case.group.removesuffix(upper)}CPU."
            f"{case.name.replace(f'_{device}', '_cpu')}"
        )
        if pattern is not None:
            used.add(pattern)
        _count(table, case, twin, expected.get(pattern or ""))
    table.problems += [f"{one}: no test has this name" for one in expected if one not in used]
    return table


def _count(table: Table, case: Case, twin: Case | None, reason: str | None) -> None:
    if case.why.startswith(_EXPECTED):
        table.add(case, "expected", case.why.removeprefix(_EXPECTED))
    elif case.how == "skipped":
        table.add(case, "skipped", case.why)
    elif case.how == "passed":
        table.add(case, "passed")
        if reason is not None:
            table.problems.append(f"{case.full}: is said to fail and passes")
    elif reason is not None:
        table.add(case, "expected", reason)
    elif twin is not None and twin.how != "passed":
        table.add(case, "skipped", f"it is {twin.how} on the CPU too")
    else:
        table.add(case, "failed")
        table.problems.append(case.full)


def markdown(table: Table) -> str:
    total = table.total
    judged = total["passed"] + total["failed"] + total["expected"]
    share = 100 * total["passed"] / judged if judged else 0
    lines = [
        f"Of {judged} tests that pass on the CPU, {total['passed']} pass: {share:.2f} %.",
        "",
        f"| file | class | {' | '.join(_KINDS)} |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for (file, group), counts in [*sorted(table.rows.items()), (("all", ""), total)]:
        lines.append(f"| {file} | {group} | {' | '.join(str(counts[one]) for one in _KINDS)} |")
    for kind in ("expected", "skipped"):
        told = sorted(
            ((count, why) for (one, why), count in table.reasons.items() if one == kind),
            reverse=True,
        )
        if told:
            lines += ["", f"Why tests are {kind}:" if kind == "skipped" else "Why tests fail:", ""]
            lines += [f"- {count}: {' '.join(why.split())}" for count, why in told]
    return "\n".join(lines) + "\n"


def publish(text: str, base: str, page: Path) -> None:
    begin, end = f"<!-- {base}: begin -->", f"<!-- {base}: end -->"
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n{text}{end}{rest.partition(end)[2]}")
