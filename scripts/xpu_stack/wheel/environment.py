"""An environment outside the repository, with nothing but what a user installs."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import TestError
from xpu_stack.testing import python_tests
from xpu_stack.testing.runner import CONFIGURATIONS

# `make test` runs the same tests with two ordinals, and without a device.
_CONFIGURATION = next(one for one in CONFIGURATIONS if one.name == "CPU")
_SHOWN = 60  # lines of a failure that are shown; the log has all


@dataclass
class Environment:
    """A Python environment in `folder`, which is empty at first."""

    folder: Path

    def make(self, python: Path) -> None:
        """Makes it, of another environment's Python."""
        shell.run([python, "-m", "venv", self.python.parents[1]])

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    @property
    def site(self) -> Path:
        (found,) = (self.folder / "env" / "lib").glob("python*/site-packages")
        return found

    def run(self, *words: str | Path, mapping: dict[str, str] | None = None) -> shell.Result:
        """Runs the environment's Python as if nothing else were there."""
        unset = ("env", "-i", "LD_LIBRARY_PATH=", f"HOME={self.folder}", "PATH=/usr/bin:/bin")
        # pip's own settings say where packages come from
        settings = {"PIP_CONFIG_FILE": str(Path.home() / ".config" / "pip" / "pip.conf")}
        settings |= {name: text for name, text in os.environ.items() if name.startswith("PIP_")}
        kept = [f"{name}={value}" for name, value in settings.items()]
        told = [f"{name}={value}" for name, value in (mapping or {}).items()]
        command = [*unset, *kept, *told, str(self.python), *words]
        return shell.run(command, cwd=self.folder, check=False)

    def pip(self, *words: str, index: str | None = None) -> None:
        """Runs its pip. index: as packages.pip takes it."""
        command = ("-m", "pip", "--disable-pip-version-check", words[0])
        result = self.run(*command, *words[1:])
        if result.code and index and packages.NO_SUCH_VERSION in result.complaint:
            result = self.run(*command, "--extra-index-url", index, *words[1:])
        if result.code:
            told = result.complaint or result.text
            raise TestError(
                f"pip {words[0]} failed in an empty environment.",
                why=(told.splitlines() or ["pip gave no reason"])[-1],
                next=f"see the log, then {commands.make('wheel')}, or {commands.make('extension')}",
                detail=result.text + result.complaint,
            )


def refuse_wrong(wheel: Path, wrong: Sequence[str], verb: str) -> None:
    """Refuses a wheel with something wrong. verb: what makes one like it."""
    if wrong:
        raise TestError(
            f"{len(wrong)} thing(s) are wrong with {wheel.name}.",
            why=wrong[0],
            next=f"fix it, then {commands.make(verb)} and {commands.make(f'test-{verb}')}",
            detail="\n".join(wrong),
        )


def run_tests(this: Environment, work: Workspace, stage: str) -> None:
    changes = work.series.changes(stage)
    tests = [file for change in changes for file in change.files if file.target.startswith("test/")]
    if not any(file.target.endswith(".py") for file in tests):
        say(f"the stages up to '{stage}' bring no Python tests")
        return
    for file in tests:
        path = this.folder / file.target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.source, path)
    this.pip("install", "--requirement", str(packages.REQUIREMENTS / "test.txt"))
    name = _CONFIGURATION.name
    with progress(None, f"testing {name}"):
        words = ("-m", "pytest", *python_tests.options(), "test")
        result = this.run(*words, mapping=_CONFIGURATION.environment)
    if result.code:
        lines = result.text.splitlines()
        raise TestError(
            f"Tests fail on the installed wheel, {name}.",
            why=(lines or ["pytest said nothing"])[-1],
            next=f"{commands.make('test', STAGE=stage)} # do they pass in the checkout?",
            detail="\n".join(lines[-_SHOWN:]),
        )
    say(f"{name}: {result.text.splitlines()[-1].strip('= ')}")
