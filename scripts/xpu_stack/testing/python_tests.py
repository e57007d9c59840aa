"""Runs the Python tests of a stage with pytest, on the package that was built."""

import os
import secrets
from pathlib import Path

from xpu_stack.build import compilers, packages, runtime
from xpu_stack.build.configuration import Build
from xpu_stack.core.series.series import Change
from xpu_stack.core.system import shell
from xpu_stack.core.system.console import Bar, say
from xpu_stack.core.system.errors import ExitCode, ToolError

_TEST_TIMEOUT = 300  # seconds for one test, some of which start processes
_SCRIPTS = Path(__file__).parents[2]
_WHOLE = (0, 1, 2, 5)  # exit codes of pytest after which its report is whole


def owners(changes: list[Change]) -> dict[str, str]:
    """The test files that `changes` bring, by name, and the change of each."""
    return {
        Path(file.target).stem: change.id
        for change in changes
        for file in change.files
        if file.target.startswith("test/test_") and file.target.endswith(".py")
    }


def run(
    this: Build,
    environment: dict[str, str],
    names: list[str],
    folder: Path,
    bar: Bar,
    cases: str = "",
    tests: Path | None = None,
) -> list[str]:
    """Runs the test files `names` in `environment`; what pytest printed of failures.

    Each writes <folder>/<name>.xml. They run in worker processes: of a test
    that ends its process it is known which one it was, and the others go on.
    cases: only these, a part of pytest's expression for -k.
    tests: the folder of the files, where it is not the checkout's.
    """
    if names:
        tools = _need_tools(this)
        folder.mkdir(parents=True, exist_ok=True)
    output: list[str] = []
    for name in names:
        printed: list[str] = []
        junit = folder / f"{name}.xml"
        where = tests or this.work.repository.folder / "test"
        seed = _seed(where / f"{name}.py", environment)
        python = runtime.python_environment(this)
        python["PYTHONPATH"] += f"{os.pathsep}{_SCRIPTS}{tools}"
        code = shell.follow(
            [*_command(this, name, junit, tests), f"{name}.py", *(["-k", cases] if cases else [])],
            printed.append,
            cwd=where,
            env=python | seed | environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
        bar.step(f"testing {name}")
        if code not in _WHOLE or not junit.exists():
            junit.unlink(missing_ok=True)  # it may lack tests
            raise ToolError(
                f"pytest could not run {name}.py.",
                why=next((line for line in reversed(printed) if line.strip()), "it said nothing"),
                next="fix it and run the same command again",
                code=ExitCode.TESTS,
                detail="\n".join(printed),
            )
        if code:
            output += [f"== {name} in {folder.name}", *printed]
    return output


def _seed(file: Path, environment: dict[str, str]) -> dict[str, str]:
    """For a file that runs a sample of its tests: what chooses them, which is told."""
    if environment.get("TEST_SHARE") == "1":  # all of them
        return {}
    text = file.read_text()
    if "TEST_SEED" not in text:
        return {}
    seed = os.environ.get("TEST_SEED") or str(secrets.randbelow(2**32))
    say(f"{file.name}: TEST_SEED={seed} chooses the same sample")
    return {"TEST_SEED": seed}


def _need_tools(this: Build) -> str:
    """Has pytest where the build's Python finds it; what that adds to its path."""
    if this.torch is None:
        packages.need_python("test")
        return ""
    folder = this.folder.parent / f"test-{this.torch.tag}"
    beside = packages.need_beside(this.python, "test", folder)
    return f"{os.pathsep}{folder}" if beside else ""


def options() -> list[str]:
    """How pytest is called, on whatever the package is imported from."""
    return [
        *("-q", "-p", "no:cacheprovider", "-n", str(compilers.local_jobs()), "--dist", "worksteal"),
        *(f"--timeout={_TEST_TIMEOUT}", "--timeout-method=thread"),
    ]


def _command(this: Build, name: str, junit: Path, tests: Path | None) -> list[str]:
    root = tests or this.work.repository.folder
    # -P keeps the checkout's own, unbuilt torch out of the path
    return [
        *(str(this.python), "-P", "-m", "pytest", "--rootdir", str(root)),
        *(*options(), "-p", "xpu_stack.testing.xdist_deaths"),
        *(f"--junitxml={junit}", "-o", f"junit_suite_name={name}"),
    ]
