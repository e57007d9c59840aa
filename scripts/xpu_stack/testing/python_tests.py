"""Runs the Python tests of a stage with pytest, on the package that was built."""

import os
import secrets
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import cmake, configuration, packages
from xpu_stack.build.configuration import Build
from xpu_stack.core.series.change import Change
from xpu_stack.core.system import files, shell
from xpu_stack.core.system.console import Bar, say
from xpu_stack.core.system.errors import TestError

_TEST_TIMEOUT = 300  # seconds for one test, some of which start processes
_SCRIPTS = Path(__file__).parents[2]
SLOW = {"PYTORCH_TEST_WITH_SLOW": "1"}  # else PyTorch's slowTest skips them
_WHOLE = (0, 1, 2, 5)  # exit codes of pytest after which its report is whole


def owners(changes: list[Change]) -> dict[str, str]:
    return {
        Path(file.target).stem: change.id
        for change in changes
        for file in change.files
        if file.target.startswith("test/test_") and file.target.endswith(".py")
    }


@dataclass(frozen=True)
class Run:
    """A run of tests on a build, whose JUnit files go to `folder`, <name>.xml for each name."""

    build: Build
    environment: dict[str, str]
    folder: Path
    bar: Bar


def environment(this: Build) -> dict[str, str]:
    """Of a Python with what was built and what tests need, which is installed."""
    python = configuration.python_environment(this)
    python["PYTHONPATH"] += f"{os.pathsep}{_SCRIPTS}"
    python["TORCH_XPU_KERNEL_CACHE"] = str(configuration.compiled_kernels(this.work.layout))
    if this.torch is None:
        packages.need_python("test")
    else:
        beside = this.folder.parent / f"test-{this.torch.tag}"
        if packages.need_beside(this.python, "test", beside):
            python["PYTHONPATH"] += f"{os.pathsep}{beside}"
    return python


def run(
    on: Run, names: list[str], cases: str = "", tests: Path | None = None, *, brief: bool = False
) -> list[str]:
    """Runs the test files `names`; what pytest printed of failures.

    They run in worker processes: a test that ends its process is known, and others go on.
    cases: only these, a part of pytest's expression for -k.
    tests: the folder of the files, where it is not the checkout's.
    brief: of all tests the share TEST_SLOW, see slow_tests.py.
    """
    if not names:
        return []
    this, folder = on.build, on.folder
    python = environment(this)
    folder.mkdir(parents=True, exist_ok=True)

    def line(text: str) -> None:
        if text.endswith("%]"):
            on.bar.at(what=f"testing {folder.name} {text[-6:]}")

    scripts = [f"{name}.py" for name in names]
    where = tests or this.work.repository.folder / "test"
    whole = folder / "pytest.xml"
    share = {"TEST_BRIEF": "1"} if brief else {}
    code, printed = shell.follow(
        [
            # -P keeps the checkout's own, unbuilt torch out of the path
            *(str(this.python), "-P", "-m", "pytest"),
            *("--rootdir", str(tests or this.work.repository.folder)),
            *(*options(), "-p", "xpu_stack.testing.xdist_deaths"),
            *("-p", "xpu_stack.testing.slow_tests"),
            *("--continue-on-collection-errors", f"--junitxml={whole}", *scripts),
            *(["-k", cases] if cases else []),
        ],
        line,
        cwd=where,
        env=python | SLOW | _seed(where, names, on.environment) | on.environment | share,
    )
    if code not in _WHOLE or not whole.exists():
        whole.unlink(missing_ok=True)  # it may lack tests
        raise TestError(
            f"pytest could not run {', '.join(scripts)}.",
            why=next((line for line in reversed(printed) if line.strip()), "it said nothing"),
            next="fix it and run the same command again",
            detail="\n".join(printed),
        )
    _split(whole, names)
    on.bar.at(advance=len(names))
    return [f"== {folder.name}", *printed] if code else []


def _split(whole: Path, names: list[str]) -> None:
    """Writes the results of each file beside those of all, in place of them."""
    parts = {name: ElementTree.Element("testsuite", name=name) for name in names}
    for case in ElementTree.parse(whole).iter("testcase"):
        words = f"{case.get('classname')}.{case.get('name')}".split(".")
        # An error of pytest itself names no file.
        parts[next((word for word in words if word in parts), names[0])].append(case)
    for name, part in parts.items():
        files.write(whole.with_name(f"{name}.xml"), ElementTree.tostring(part, "unicode"))
    whole.unlink()


def _seed(where: Path, names: list[str], environment: dict[str, str]) -> dict[str, str]:
    """For files that run a sample of their tests: what chooses them, which is told."""
    sampled = [name for name in names if "TEST_SEED" in (where / f"{name}.py").read_text()]
    if environment.get("TEST_SHARE") == "1" or not sampled:  # all of them
        return {}
    seed = os.environ.get("TEST_SEED") or str(secrets.randbelow(2**32))
    for name in sampled:
        say(f"{name}.py: TEST_SEED={seed} chooses the same sample")
    return {"TEST_SEED": seed}


def options() -> list[str]:
    """How pytest is called, on whatever the package is imported from."""
    return [
        *("-q", "-p", "no:cacheprovider", "-n", str(cmake.local_jobs()), "--dist", "worksteal"),
        *(f"--timeout={_TEST_TIMEOUT}", "--timeout-method=thread"),
    ]
