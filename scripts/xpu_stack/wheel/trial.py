"""`make test-wheel` and `make test-extension`: install a wheel as a user would, and test it.

In an empty environment outside the repository, with no LD_LIBRARY_PATH, pip installs the
file and its requirements. Then a torch has its metadata checked and computes something, and
every library must come from the environment or the system. With the extension torch must
find the device, and leave the extension out where it is told to. The stages' Python tests
and the examples run on what is installed.
"""

import difflib
import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xpu_stack.build import packages
from xpu_stack.build.base_settings import BaseSettings, Package
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import MissingError, TestError
from xpu_stack.core.system.yaml_file import Node
from xpu_stack.testing import python_tests
from xpu_stack.testing.runner import CONFIGURATIONS
from xpu_stack.wheel import finish, making
from xpu_stack.wheel.finish import Identity

_CPU = {"TORCH_XPU_MAPPING": "CPU"}
_SHOWN = 60  # lines of a failure that are shown; the log has all


@dataclass
class Environment:
    """A Python environment, `folder`/env, with nothing but what a user installs."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    @property
    def site(self) -> Path:
        (found,) = (self.folder / "env" / "lib").glob("python*/site-packages")
        return found

    def run(self, *words: str | Path, mapping: dict[str, str] | None = None) -> shell.Result:
        """Runs the environment's Python as if nothing else were there."""
        settings = {
            "LD_LIBRARY_PATH": "",
            "HOME": str(self.folder),
            "PATH": "/usr/bin:/bin",
            # pip's own settings say where packages come from
            "PIP_CONFIG_FILE": str(Path.home() / ".config" / "pip" / "pip.conf"),
            **{name: text for name, text in os.environ.items() if name.startswith("PIP_")},
            **(mapping or {}),
        }
        given = [f"{name}={value}" for name, value in settings.items()]
        command = ["env", "-i", *given, self.python, *words]
        return shell.run(command, cwd=self.folder, check=False)

    def pip(self, *words: str, index: str | None = None) -> None:
        """Runs its pip. index: as packages.pip takes it."""
        command = ("-m", "pip", "--disable-pip-version-check", words[0])
        result = self.run(*command, *words[1:])
        if result.code and index and packages.NO_SUCH_VERSION in result.complaint:
            result = self.run(*command, "--extra-index-url", index, *words[1:])
        if result.code:
            raise TestError(
                f"pip {words[0]} failed in an empty environment.",
                why=last_line(result),
                next=f"see the log, then {commands.make('wheel')}, or {commands.make('extension')}",
                detail=result.text + result.complaint,
            )


def last_line(result: shell.Result) -> str:
    return ((result.complaint or result.text).splitlines() or ["it said nothing"])[-1]


def run_tests(this: Environment, work: Workspace, stage: str, chosen: Sequence[str]) -> None:
    """chosen: which tests, as pytest is given them; `test` is the folder of all."""
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
    name = "CPU"  # `make test` runs the same tests with two ordinals, and without a device
    with progress(None, f"testing {name}"):
        words = ("-m", "pytest", *python_tests.options(), *chosen)
        result = this.run(*words, mapping=CONFIGURATIONS[name] | python_tests.SLOW)
    if result.code:
        lines = result.text.splitlines()
        raise TestError(
            f"Tests fail on the installed wheel, {name}.",
            why=(lines or ["pytest said nothing"])[-1],
            next=f"{commands.make('test', STAGE=stage)} # do they pass in the checkout?",
            detail="\n".join(lines[-_SHOWN:]),
        )
    say(f"{name}: {result.text.splitlines()[-1].strip('= ')}")


def _judge(
    this: Environment,
    work: Workspace,
    wheel: Path,
    stage: str,
    wrong: Sequence[str],
    verb: str,
    tests: Sequence[str],
) -> None:
    """Refuses a wheel with something wrong; runs `tests`. verb: what makes one like it."""
    if wrong:
        raise TestError(
            f"{len(wrong)} thing(s) are wrong with {wheel.name}.",
            why=wrong[0],
            next=f"fix it, then {commands.make(verb)} and {commands.make(f'test-{verb}')}",
            detail="\n".join(wrong),
        )
    run_tests(this, work, stage, tests)
    run_examples(this, work, stage)
    say(f"{wheel.name} passes all checks")


# -- a torch -------------------------------------------------------------------------

_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


@dataclass
class Trial(Environment):
    work: Workspace
    identity: Identity


def run(work: Workspace, identity: Identity, tests: Sequence[str]) -> None:
    """Tries the wheel of `identity`. What is wrong is a ToolError."""
    packages.need_python("wheel")
    tag = sysconfig.get_config_var("py_version_nodot")
    found = sorted(making.wheels(work).glob(f"torch-{identity.version}-cp{tag}-*.whl"))
    if len(found) != 1:
        raise MissingError(
            f"There is no wheel of the stage '{identity.stage}' as it is now.",
            why=f"its version would be {identity.version}",
            next=commands.make("wheel", STAGE=identity.stage, MODE=identity.mode.value),
        )
    (wheel,) = found
    with TemporaryDirectory(prefix="torch-wheel-") as folder:
        this = Trial(Path(folder), work, identity)
        with progress(None, "installing the wheel in an empty environment"):
            shell.run([sys.executable, "-m", "venv", this.folder / "env"])
            this.pip("install", str(wheel))
        this.pip("check")
        say("installed with pip alone; pip check is clean")
        _judge(this, work, wheel, identity.stage, list(_wrong(this)), "wheel", tests)


def _wrong(this: Trial) -> Iterator[str]:
    result = this.run(Path(__file__).with_name("probe.py"), mapping=_CPU)
    if result.code:
        yield f"the probe failed: {last_line(result)}"
        return
    found = json.loads(result.text.splitlines()[-1])
    yield from _wrong_facts(this, found)
    yield from (f"{name} is wrong" for name, right in found["computed"].items() if not right)
    if not found["shared"]:
        yield "memory is not shared by name: torch_shm_manager does not run"
    if found["functorch"] != (this.identity.mode is Mode.FULL):
        yield "functorch is where it should not be, or is not where it should be"
    if found["devices"] < 1:
        yield "the runtime finds no device: neither a GPU nor OpenCL for the CPU"
    yield from _wrong_places(this, found["mapped"])
    yield from _wrong_ways(this, ("torch", "torch.libs", "functorch"), this.folder / "env")
    yield from _wrong_words(this)
    device = f" ({found['used']})" if found["used"] else ""
    say(
        f"{found['version']}: {found['devices']} device(s){device}, "
        f"{len(found['mapped'])} files mapped"
    )


def _wrong_facts(this: Trial, found: dict[str, Any]) -> Iterator[str]:
    for name in ("version", "metadata_version"):
        if found[name] != this.identity.version:
            yield f"{name} is {found[name]}, not {this.identity.version}"
    if found["facts"] != this.identity.facts:
        yield f"torch.version says {found['facts']}, not {this.identity.facts}"
    for fact in this.identity.facts.values():
        if fact not in found["description"]:
            yield f"the metadata does not say '{fact}'"
    for package in ("intel-sycl-rt", "intel-opencl-rt", "typing-extensions", "numpy"):
        if not any(one.replace("_", "-").startswith(package) for one in found["requires"]):
            yield f"the metadata does not require {package}"
    carried = ("xpu-stack", *BaseSettings.of(this.work.base).wheel.compiled_in)
    licences = {"LICENSE", *(f"{package}.txt" for package in carried)}
    for name in sorted(licences - {Path(name).name for name in found["licences"]}):
        yield f"there is no licence file {name}"


def _wrong_places(this: Trial, mapped: list[str]) -> Iterator[str]:
    """What is in the process comes from the environment, Python and the system."""
    own = (str(this.folder), sys.base_prefix, *_SYSTEM, "/dev/", "/usr/share/", "/SYSV", "/memfd")
    for path in mapped:
        if not path.startswith(own):
            yield f"{path} is mapped, which is neither the environment's nor the system's"
    if not any(Path(path).name.startswith("libintelocl.so") for path in mapped):
        yield "OpenCL for the CPU was not loaded"
    carried = {finish.own_name(path) for path in (this.site / finish.CARRIED).glob("*")}
    ours = {path.stem for path in (this.site / "torch" / "lib").glob("*.so")}
    if this.identity.mode is Mode.FAST:
        # The distribution's part of these is wanted, and brings its libtorch, which is empty.
        theirs = ("torch", *BaseSettings.of(this.work.base).prebuilt.targets)
        ours -= {f"lib{name}" for name in theirs}
    for path in mapped:
        name = Path(path).name
        foreign = not path.startswith(str(this.folder))
        if name in carried or (foreign and name.partition(".")[0] in ours):
            yield f"{path} was loaded beside the one that the wheel carries"
        if foreign and name.startswith(("libsycl", "libOpenCL", "libtbb.")):
            yield f"{path} was loaded in place of the environment's"


def _wrong_ways(this: Environment, packages: Sequence[str], below: Path) -> Iterator[str]:
    """Libraries are looked for below a folder alone: what is elsewhere may be of anyone."""
    for package in packages:
        for library in finish.binaries(this.site / package):
            for way in finish.ways(library):
                folder = Path(os.path.normpath(way.replace("$ORIGIN", str(library.parent))))
                if not folder.is_relative_to(below):
                    yield f"{library.relative_to(this.site)} looks for libraries in {way}"


def _wrong_words(this: Trial) -> Iterator[str]:
    """Nothing names a folder that the wheel was made in, but for messages of checks."""
    state = str(this.work.layout.state).encode()
    for path in sorted((this.site / "torch").rglob("*")):
        if path.suffix in (".py", ".cmake", ".h", ".pyi") and state in path.read_bytes():
            yield f"{path.relative_to(this.site)} names a folder of the build"


# -- the extension -------------------------------------------------------------------

_FIRST = (
    "import torch; "
    "print(torch.accelerator.current_accelerator(), torch.xpu.get_device_properties(0))"
)
_WITHOUT = "import torch; print(torch.accelerator.current_accelerator())"


def run_extension(work: Workspace, tests: Sequence[str]) -> None:
    """Tries the wheel of the checkout. What is wrong is a ToolError."""
    package, torch = Package.of(work.base), packages.need_torch(work.layout, work.base)
    name = making.extension_name(work, torch)
    wheel = max(making.wheels(work).glob(f"{name}-*.whl"), default=None)
    if wheel is None:
        raise MissingError(
            "There is no wheel of the series as it is now.",
            why=f"it would be {name}-….whl",
            next=commands.make("extension", BASE=work.base.name),
        )
    with TemporaryDirectory(prefix="torch-extension-") as folder:
        this, index = Environment(Path(folder)), package.index
        pin = f"{package.name}=={torch.version}"
        with progress(None, f"installing {pin} and the wheel in an empty environment"):
            shell.run([torch.python, "-m", "venv", this.folder / "env"])
            if package.locked.exists():
                this.pip("install", *packages.locked(package.locked), index=index)
            this.pip("install", *("--", pin, *package.install[1:], str(wheel)), index=index)
        this.pip("check")
        say(f"installed beside {pin} with pip alone; pip check is clean")
        wrong = [*_wrong_devices(this), *_wrong_ways(this, [package.extension], this.site)]
        if "-manylinux" not in wheel.name:  # with linux_x86_64 pip would install it anywhere
            wrong.append("its tag does not say which systems it is for")
        _judge(this, work, wheel, work.series.point(None), wrong, "extension", tests)


def _wrong_devices(this: Environment) -> Iterator[str]:
    first = this.run("-c", _FIRST, mapping=_CPU)
    if first.code or not first.text.startswith("xpu "):
        yield f"torch finds no device: {last_line(first)}"
    else:
        say(first.text.strip())
    told = this.run("-c", _WITHOUT, mapping=_CPU | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    if told.text.strip() != "None":
        yield f"without TORCH_DEVICE_BACKEND_AUTOLOAD torch finds a device: {last_line(told)}"


# -- examples ------------------------------------------------------------------------

# What one prints is compared with what is recorded, less figures: losses and shares of test
# data differ a little between releases and processors. A program judges those itself.
_FIGURE = re.compile(r"\d+\.\d+|\d+(?=%)")
LIST = "examples/list.yaml"


@dataclass(frozen=True)
class Program:
    """An example. only: the base that it is for; why: it is for no other."""

    name: str  # with its arguments: "ddp cpu"
    only: str = ""
    why: str = ""


@dataclass(frozen=True)
class Examples:
    """What there is to run. stage: the first that they need."""

    stage: str
    programs: tuple[Program, ...]


def run_examples(this: Environment, work: Workspace, stage: str) -> None:
    folder = work.layout.repository / "examples"
    if not folder.is_dir():
        say("there are no examples")
        return
    examples = Node.load(folder / "list.yaml", LIST).into(Examples)
    if examples.stage not in [one.name for one in work.series.up_to(stage.partition("/")[0])]:
        say(f"the examples need the stage '{examples.stage}', and are not run")
        return
    names = [one.name for one in examples.programs if one.only in ("", work.base.name)]
    with progress(None, "installing what the examples need"):
        own = dict.fromkeys(folder / f"{name.split()[0]}.txt" for name in names)
        for file in (packages.REQUIREMENTS / "examples.txt", *filter(Path.exists, own)):
            this.pip("install", "--no-compile", "--requirement", str(file))
    for name in names:
        _run_one(this, folder, name)
    for program in examples.programs:
        if program.name not in names:
            say(f"example {program.name} is left out: {program.why}")
    say(f"examples: {', '.join(names)} passed")


def _run_one(this: Environment, folder: Path, name: str) -> None:
    program, *arguments = name.split()
    given = {"ARGS": " ".join(arguments)} if arguments else {}
    run = commands.make("python", FILE=f"examples/{program}.py", **given)
    with progress(None, f"running example {name}"):
        result = this.run(folder / f"{program}.py", *arguments, mapping=_CPU)
    if result.code:
        raise TestError(
            f"The example {name} fails.",
            why=last_line(result),
            next=f"{run} # does it run in the checkout?",
            detail=result.complaint + result.text,
        )
    recorded = f"output/{name.replace(' ', '-')}.txt"
    before, now = (
        _FIGURE.sub("#", text).splitlines()
        for text in ((folder / recorded).read_text(), result.text)
    )
    different = [line for line in difflib.ndiff(before, now) if line.startswith(("- ", "+ "))]
    if different:
        raise TestError(
            f"The example {name} does not print what is in examples/{recorded}.",
            why=different[-1],
            next=f"{run} # does it run in the checkout?",
            detail="\n".join(different),
        )
