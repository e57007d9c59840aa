"""Runs the C++ and Python tests of a stage, in the configurations that they need.

A configuration is a mapping of devices with one ordinal for each device, or with
two; `copied`: the CPU device is treated like a GPU, whose memory the host cannot
use. What runs in which:

- Every test runs on the CPU device, with one ordinal and with two, and with the
  mapping GPU: on a machine without a GPU it is then skipped, and says so. Python
  tests run with one ordinal on the installed wheel, see wheel/environment.py.
- Tests of the stage that brings tensors run copied as well.
- AUTO and EXPLICIT give the same devices as CPU or GPU, and ordinals are made in
  one way for all: only the tests of the stage that does the mapping run in all
  eight configurations.
- The brief run is CPU with two ordinals, in which no test is skipped for want of a
  device. It is enough for the stages below the one that is asked for, whose tests
  all run again there, and for a sanitizer. It leaves out programs that passed
  before and are still the same, with all that they load, and the Python tests of
  lower stages.

A test is counted for the change that brought it.
"""

import shutil
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import cmake, compilers, runtime
from xpu_stack.build.build import targets_of
from xpu_stack.build.configuration import Build, Sanitizer
from xpu_stack.build.results import Outcome, Record
from xpu_stack.core.series.change import Change
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import Bar, progress, say
from xpu_stack.core.system.errors import TestError
from xpu_stack.testing import python_tests
from xpu_stack.testing.junit import cases
from xpu_stack.testing.test_cache import Passed

_LIMIT = 120  # seconds for one test program, when TEST_TIMEOUT does not say
_SUPPRESSIONS = "ci/sanitizers"
_CTEST = "ctest.xml"  # what CTest says of each program
_SHOWN = 60  # lines of a failed test that are shown; the log has all


@dataclass(frozen=True)
class Configuration:
    mapping: str
    virtual_devices: int | None
    copied: bool = False

    @property
    def name(self) -> str:
        count = f"-{self.virtual_devices}" if self.virtual_devices else ""
        return f"{self.mapping}{count}{'-copied' if self.copied else ''}"

    @property
    def environment(self) -> dict[str, str]:
        count = {"TORCH_XPU_VIRTUAL_DEVICES": str(self.virtual_devices)}
        return {
            "TORCH_XPU_MAPPING": self.mapping,
            **(count if self.virtual_devices else {}),
            **(COPIED if self.copied else {}),
        }


COPIED = {"TORCH_XPU_HOST_MEMORY": "0"}  # see Note [Host memory] of HostCall.h
_MAPPINGS = tuple(
    Configuration(mapping, count)
    for mapping in ("CPU", "GPU", "AUTO", "EXPLICIT")
    for count in (None, 2)
)
CONFIGURATIONS = (*_MAPPINGS, Configuration("CPU", 2, copied=True))


_BRIEF = ("CPU-2",)
_EVERY_TEST = ("CPU", "CPU-2", "GPU")
_PYTHON = ("CPU-2", "GPU")
_MAPPING_STAGE = "device"
_TENSOR_STAGE = "tensor"


def configurations(
    change: str, *, brief: bool = False, python: bool = False
) -> tuple[Configuration, ...]:
    """Those that the C++ or Python tests of a change run in."""
    stage = change.partition("/")[0]
    if not brief and not python and stage == _MAPPING_STAGE:
        return _MAPPINGS
    names: tuple[str, ...] = _BRIEF if brief else _PYTHON if python else _EVERY_TEST
    if not brief and stage == _TENSOR_STAGE:
        names += ("CPU-2-copied",)
    return tuple(one for one in CONFIGURATIONS if one.name in names)


def scripts_of(changes: list[Change], *, brief: bool) -> dict[str, str]:
    stage = changes[-1].stage
    return python_tests.owners([one for one in changes if not brief or one.stage == stage])


def _sanitizer_options(this: Build) -> dict[str, str]:
    """What the sanitizers need to know of libraries that are not ours."""
    folder = this.work.layout.repository / _SUPPRESSIONS
    return {
        "TSAN_OPTIONS": f"suppressions={folder / 'tsan.supp'} "
        # The SYCL runtime was not compiled with the sanitizer: what it does
        # within itself cannot be judged.
        "ignore_noninstrumented_modules=1 die_after_fork=0 second_deadlock_stack=1",
        # The SYCL runtime changes the alternate signal stack of threads.
        "ASAN_OPTIONS": "detect_leaks=1 strict_string_checks=1 use_sigaltstack=0",
        "LSAN_OPTIONS": f"suppressions={folder / 'lsan.supp'} print_suppressions=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def test(this: Build, changes: list[Change], *, brief: bool, again: bool) -> None:
    """Runs the tests that `changes` bring; the record is kept by tree.

    again: also those that a brief run would leave out.
    """
    tree = this.work.repository.tree_of("HEAD")
    targets = cmake.targets(this.folder)
    programs = {
        target.name: change.id
        for change in changes
        for target in targets_of(targets, [change])
        if target.kind == "EXECUTABLE"
    }
    scripts = scripts_of(changes, brief=brief)
    if scripts and this.sanitizer is not Sanitizer.NONE:
        say("Python tests are left out: the interpreter is built without the sanitizer")
        scripts = {}
    if scripts and this.torch and this.torch.cuda:
        say("Python tests are left out: the package refuses a torch that has CUDA")
        scripts = {}
    runs = {
        configuration: {
            name: change
            for name, change in (programs | scripts).items()
            if configuration in configurations(change, brief=brief, python=name in scripts)
        }
        for configuration in CONFIGURATIONS
    }
    junit = this.results.junit_folder(tree)
    shutil.rmtree(junit, ignore_errors=True)
    outcomes = {change.id: Outcome() for change in changes}
    output: list[str] = []
    with progress(sum(map(len, runs.values())), "testing", may_be_nothing=True) as bar:
        for configuration, owners in runs.items():
            folder = junit / configuration.name
            here = sorted(owners.keys() & programs.keys())
            if here and brief:
                output += _run_changed(this, configuration, here, folder, bar, again=again)
            elif here:
                output += _run(this, configuration, here, folder, bar)
            here = sorted(owners.keys() & scripts.keys())
            output += python_tests.run(this, configuration.environment, here, folder, bar)
            _count(folder, owners, outcomes)
    this.results.put(tree, Record(True, outcomes, whole=not brief))
    in_runs = Counter(change for owners in runs.values() for change in set(owners.values()))
    _report(outcomes, in_runs)
    say(f"JUnit: {junit}")
    failures = [one for outcome in outcomes.values() for one in outcome.failures]
    if failures:
        raise TestError(
            f"{len(failures)} test(s) failed.",
            why=failures[0],
            next="fix it and run the same command again",
            detail="\n".join(output[-_SHOWN:]),
        )


def run_one(
    this: Build, name: str, only: str, runs: Sequence[Configuration], junit: Path, *, python: bool
) -> None:
    """Runs some cases of one program or Python file in `runs`; JUnit goes to `junit`."""
    with progress(len(runs), f"testing {name}") as bar:
        for configuration in runs:
            folder = junit / configuration.name
            shutil.rmtree(folder, ignore_errors=True)
            if python:
                python_tests.run(this, configuration.environment, [name], folder, bar, only)
            else:
                _run(this, configuration, [name], folder, bar, only)


def _run_changed(
    this: Build,
    configuration: Configuration,
    tests: list[str],
    folder: Path,
    bar: Bar,
    *,
    again: bool,
) -> list[str]:
    """The same as `_run`, but for programs that passed as they are now."""
    folder.mkdir(parents=True)
    # what the outcome of a program depends on beside the build
    paths = sorted((this.work.layout.repository / _SUPPRESSIONS).glob("*.supp"))
    files = [f"{path.name}\n{path.read_text()}" for path in paths]
    settings = f"{configuration}\n{this.sycl}\n{_sanitizer_options(this)}\n{files}"
    passed = Passed(this.folder, settings)
    new = [one for one in tests if again or not passed.recall(one, folder / f"{one}.xml")]
    if len(new) < len(tests):
        bar.at(advance=len(tests) - len(new))
        say(f"{len(tests) - len(new)} program(s) passed before and have not changed")
    output = _run(this, configuration, new, folder, bar) if new else []
    for name in new:
        if all(case.how != "failed" for case in cases(folder / f"{name}.xml")):
            passed.remember(name, folder / f"{name}.xml")
    return output


def _run(
    this: Build,
    configuration: Configuration,
    tests: list[str],
    folder: Path,
    bar: Bar,
    only: str = "*",
) -> list[str]:
    """One run of CTest; what it printed of failures."""
    folder.mkdir(parents=True, exist_ok=True)
    printed: list[str] = []

    def line(text: str) -> None:
        printed.append(text)
        if "Test  #" in text or " Test #" in text:
            bar.step(f"testing {configuration.name}")

    names = "|".join(tests)
    limit = compilers.number("TEST_TIMEOUT", commands.make("test", TEST_TIMEOUT="300")) or _LIMIT
    ctest = folder / _CTEST
    command = [
        *("ctest", "--test-dir", str(this.folder), "--output-on-failure", "--no-tests=error"),
        *("-R", f"^({names})$", "-j", str(compilers.local_jobs()), "--timeout", str(limit)),
        *("--output-junit", str(ctest)),
    ]
    env = {
        **this.env,
        **configuration.environment,
        **runtime.program_environment(this),
        **_sanitizer_options(this),
        "GTEST_OUTPUT": f"xml:{folder}/",
        "GTEST_FILTER": only,
    }
    code = shell.follow(command, line, env=env)
    _write_process_failures(folder, tests)
    return [f"== {configuration.name}", *printed] if code else []


def _write_process_failures(folder: Path, tests: list[str]) -> None:
    """Counts a program that ended badly though none of its tests did.

    It died before it had written a result, or after: a leak, a race that a
    sanitizer reports at the end, a crash in a destructor.
    """
    programs = ElementTree.parse(folder / _CTEST).iter("testcase")
    failed = {one.get("name"): one for one in programs if one.get("status") != "run"}
    for name in tests:
        path = folder / f"{name}.xml"
        told = path.exists() and any(case.how == "failed" for case in cases(path))
        if path.exists() and (told or name not in failed):
            continue
        suite = ElementTree.Element("testsuite", name=name)
        case = ElementTree.SubElement(suite, "testcase", name="process")
        failure = ElementTree.SubElement(case, "failure", message=f"{name} ended badly")
        if name in failed:
            lines = (failed[name].findtext("system-out") or "").splitlines()
            failure.text = "\n".join(lines[-_SHOWN:])
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _count(folder: Path, owners: dict[str, str], outcomes: dict[str, Outcome]) -> None:
    for name, change in owners.items():
        outcome = outcomes[change]
        for case in cases(folder / f"{name}.xml"):
            if case.how == "failed":
                outcome.failed += 1
                outcome.failures.append(f"{folder.name}: {name}: {case.id}")
            elif case.how == "skipped":
                outcome.skipped += 1
                outcome.reasons[case.why] = outcome.reasons.get(case.why, 0) + 1
            else:
                outcome.passed += 1


def _report(outcomes: dict[str, Outcome], runs: Counter[str]) -> None:
    for change, outcome in outcomes.items():
        if not outcome.total:
            say(f"{change}: has no tests of its own in this run")
            continue
        say(
            f"{change}: {outcome.passed} passed, {outcome.failed} failed, "
            f"{outcome.skipped} skipped in {runs[change]} configuration(s)"
        )
        for reason, count in sorted(outcome.reasons.items()):
            say(f"  {count} skipped: {reason}")
