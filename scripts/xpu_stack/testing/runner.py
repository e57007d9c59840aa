"""Runs the C++ and Python tests of a stage, in the configurations that they need.

How they ended is in JUnit files, as pytest and GoogleTest write them.

A configuration is a mapping of devices with one ordinal for each device, or with
two; `copied`: the CPU device is treated like a GPU, whose memory the host cannot use.

- Every test runs on the CPU device, with one ordinal (Python: in wheel/trial.py) and with
  two, and with the mapping GPU: without a GPU it is then skipped, and says so.
- Tests of the stage that brings tensors run copied as well.
- AUTO and EXPLICIT give the same devices as CPU or GPU: only the tests of the stage
  that does the mapping run in all eight configurations.
- The brief run, for the stages below the one that is asked for and for a sanitizer, is CPU
  with two ordinals, in which no test is skipped for want of a device. It leaves out
  programs that passed before and are the same, and Python tests of lower stages; of those
  of the stage it runs the share TEST_SLOW. Those of the last stage run them all.

A test is counted for the change that brought it.
"""

import functools
import hashlib
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xpu_stack.build import cmake
from xpu_stack.build.build import targets_of
from xpu_stack.build.configuration import Build, Outcome, Record, Sanitizer, program_environment
from xpu_stack.core.series.change import Change
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import TestError
from xpu_stack.testing import python_tests
from xpu_stack.testing.python_tests import Run

_LIMIT = 120  # seconds for one test program, when TEST_TIMEOUT does not say
_LIMIT_WITH_SANITIZER = 600  # which makes it several times slower
_SUPPRESSIONS = "ci/sanitizers"
_CTEST = "ctest.xml"  # what CTest says of each program
_SHOWN = 60  # lines of a failed test that are shown; the log has all
_LOADED = re.compile(r"=> (/.*) \(")  # as ldd tells of a library

COPIED = {"TORCH_XPU_HOST_MEMORY": "0"}  # see Note [Host memory] of HostCall.h
_TWO = {"TORCH_XPU_VIRTUAL_DEVICES": "2"}
_MAPPINGS = {
    f"{mapping}{suffix}": {"TORCH_XPU_MAPPING": mapping, **ordinals}
    for mapping in ("CPU", "GPU", "AUTO", "EXPLICIT")
    for suffix, ordinals in (("", {}), ("-2", _TWO))
}
# name -> environment
CONFIGURATIONS = {**_MAPPINGS, "CPU-2-copied": {**_MAPPINGS["CPU-2"], **COPIED}}


def configurations(change: str, *, brief: bool = False, python: bool = False) -> tuple[str, ...]:
    """Those that the C++ or Python tests of a change run in."""
    stage = change.partition("/")[0]
    if brief:
        return ("CPU-2",)
    if stage == "device" and not python:
        return tuple(_MAPPINGS)
    every = ("CPU-2", "GPU") if python else ("CPU", "CPU-2", "GPU")
    return (*every, "CPU-2-copied") if stage == "tensor" else every


def scripts_of(changes: list[Change], *, brief: bool) -> dict[str, str]:
    stage = changes[-1].stage
    return python_tests.owners([one for one in changes if not brief or one.stage == stage])


@dataclass(frozen=True)
class Case:
    """One test, and how it ended: passed, failed or skipped."""

    file: str  # or the program
    group: str  # its class; "" for what a program as a whole did
    name: str
    how: str
    why: str = ""
    output: str = field(default="", compare=False)  # of a failure

    @property
    def id(self) -> str:
        return f"{self.group or self.file}.{self.name}"

    @property
    def full(self) -> str:
        return f"{self.file}.{self.id}"


def cases(path: Path) -> Iterator[Case]:
    """The tests in a file that is named after theirs."""
    for case in ElementTree.parse(path).iter("testcase"):
        group = case.get("classname", "").rpartition(".")[2]
        yield Case(path.stem, group, case.get("name", ""), *_ended(case))


def _ended(case: ElementTree.Element) -> tuple[str, str, str]:
    parts = {part.tag: part for part in case}
    bad, skipped = parts.get("failure", parts.get("error")), parts.get("skipped")
    if bad is not None:
        message = bad.get("message") or ""
        return "failed", message.split("\n")[0], (bad.text or message).strip()
    by_google = case.get("result") == "skipped"
    if skipped is None and not by_google:
        return "passed", "", ""
    told = (skipped.get("message") or skipped.text or "") if skipped is not None else ""
    lines = [line.strip() for line in told.splitlines() if line.strip()] or ["no reason given"]
    # GoogleTest puts the place first: <file>:<line>
    return "skipped", lines[-1 if by_google else 0], ""


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
            run = Run(this, CONFIGURATIONS[configuration], junit / configuration, bar)
            here = sorted(owners.keys() & programs.keys())
            output += _run_changed(run, here, again) if here and brief else _run(run, here)
            mine = sorted(owners.keys() & scripts.keys())
            output += python_tests.run(run, mine, brief=brief and not again)
            _count(run.folder, owners, outcomes)
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
    this: Build, name: str, only: str, runs: Sequence[str], junit: Path, *, python: bool
) -> None:
    """Runs some cases of one program or Python file in `runs`; JUnit goes to `junit`."""
    run = python_tests.run if python else _run
    with progress(len(runs), f"testing {name}") as bar:
        for configuration in runs:
            shutil.rmtree(junit / configuration, ignore_errors=True)
            run(Run(this, CONFIGURATIONS[configuration], junit / configuration, bar), [name], only)


def kept(
    build: Path, programs: Iterable[str], settings: str, env: Mapping[str, str]
) -> dict[str, Path]:
    """Where the JUnit of each program is, if it has passed as it is now.

    The file is named by what the result depends on: the program, the libraries of the build
    that it loads, and `settings`: how it is run, with what is not of the build.
    """
    digest = functools.cache(lambda path: hashlib.sha256(path.read_bytes()).hexdigest())
    artifacts = {target.name: target.artifact for target in cmake.targets(build)}
    found = {}
    for name in programs:
        listed = shell.run(["ldd", str(artifacts[name])], env=env, check=False).text
        loaded = {Path(path).resolve() for path in _LOADED.findall(listed)}
        ours = [artifacts[name], *(one for one in loaded if build.resolve() in one.parents)]
        key = "\n".join([settings, name, *sorted(map(digest, ours))])
        found[name] = build / "passed" / f"{hashlib.sha256(key.encode()).hexdigest()}.xml"
    return found


def _run_changed(run: Run, tests: list[str], again: bool) -> list[str]:
    """The same as `_run`, but for programs that passed as they are now."""
    this = run.build
    # what the outcome of a program depends on beside the build
    listed = sorted((this.work.layout.repository / _SUPPRESSIONS).glob("*.supp"))
    suppressed = [f"{path.name}\n{path.read_text()}" for path in listed]
    settings = f"{run.environment}\n{this.sycl}\n{_sanitizer_options(this)}\n{suppressed}"
    known = kept(this.folder, tests, settings, program_environment(this))
    new = [name for name in tests if again or not known[name].exists()]
    run.folder.mkdir(parents=True)
    for name in known.keys() - new:
        shutil.copyfile(known[name], run.folder / f"{name}.xml")
    if len(new) < len(tests):
        run.bar.at(advance=len(tests) - len(new))
        say(f"{len(tests) - len(new)} program(s) passed before and have not changed")
    output = _run(run, new)
    for name in new:
        junit = run.folder / f"{name}.xml"
        if all(case.how != "failed" for case in cases(junit)):
            files.write(known[name], junit.read_text())
    return output


def _run(run: Run, tests: list[str], only: str = "*") -> list[str]:
    """One run of CTest; what it printed of failures."""
    if not tests:
        return []
    this, folder = run.build, run.folder
    folder.mkdir(parents=True, exist_ok=True)

    def line(text: str) -> None:
        if "Test  #" in text or " Test #" in text:
            run.bar.step(f"testing {folder.name}")

    limit = _LIMIT if this.sanitizer is Sanitizer.NONE else _LIMIT_WITH_SANITIZER
    limit = cmake.number("TEST_TIMEOUT", commands.make("test", TEST_TIMEOUT="300")) or limit
    command = [
        *("ctest", "--test-dir", str(this.folder), "--output-on-failure", "--no-tests=error"),
        *("-R", f"^({'|'.join(tests)})$", "-j", str(cmake.local_jobs())),
        *("--timeout", str(limit), "--output-junit", str(folder / _CTEST)),
    ]
    env = {
        **this.env,
        **run.environment,
        **program_environment(this),
        **_sanitizer_options(this),
        "GTEST_OUTPUT": f"xml:{folder}/",
        "GTEST_FILTER": only,
        "MAKEFLAGS": "",  # CTest would take part in the jobserver of a make above
    }
    code, printed = shell.follow(command, line, env=env)
    _write_process_failures(folder, tests)
    return [f"== {folder.name}", *printed] if code else []


def _write_process_failures(folder: Path, tests: list[str]) -> None:
    """Counts a program that ended badly though none of its tests did.

    It died before it wrote a result, or at its end: a leak, a race, a crash in a destructor.
    """
    programs = ElementTree.parse(folder / _CTEST).iter("testcase")
    failed = {one.get("name"): one for one in programs if one.get("status") != "run"}
    for name in tests:
        path = folder / f"{name}.xml"
        if path.exists() and (
            name not in failed or any(case.how == "failed" for case in cases(path))
        ):
            continue
        suite = ElementTree.Element("testsuite", name=name)
        case = ElementTree.SubElement(suite, "testcase", name="process")
        failure = ElementTree.SubElement(case, "failure", message=f"{name} ended badly")
        if name in failed:
            lines = (failed[name].findtext("system-out") or "").splitlines()
            failure.text = "\n".join(lines[-_SHOWN:])
        files.write(path, ElementTree.tostring(suite, "unicode"))


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
