"""`make test-wheel`: installs a wheel as a user would, and tests it.

In an empty environment outside the repository, with no LD_LIBRARY_PATH, pip
installs the file and its requirements. Then it checks the metadata, computes
something, checks that every library comes from the environment or the system, and
runs the stages' Python tests and the examples on the installed package.
"""

import json
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xpu_stack.build import packages
from xpu_stack.build.base_settings import BaseSettings
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import MissingError
from xpu_stack.wheel import carry, examples, making
from xpu_stack.wheel.environment import Environment, refuse_wrong, run_tests
from xpu_stack.wheel.identity import Identity

_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


@dataclass
class Trial(Environment):
    work: Workspace
    identity: Identity
    wheel: Path


def run(work: Workspace, identity: Identity) -> None:
    """Tries the wheel of `identity`. What is wrong is a ToolError."""
    packages.need_python("wheel")
    wheel = _find(work, identity)
    with TemporaryDirectory(prefix="torch-wheel-") as folder:
        this = Trial(Path(folder), work, identity, wheel)
        with progress(None, "installing the wheel in an empty environment"):
            this.make(Path(sys.executable))
            this.pip("install", str(wheel))
        this.pip("check")
        say("installed with pip alone; pip check is clean")
        refuse_wrong(wheel, list(_wrong(this)), "wheel")
        run_tests(this, work, identity.stage)
        examples.run(this, work, identity.stage)
    say(f"{wheel.name} passes all checks")


def _find(work: Workspace, identity: Identity) -> Path:
    tag = sysconfig.get_config_var("py_version_nodot")
    found = sorted(making.wheels(work).glob(f"torch-{identity.version}-cp{tag}-*.whl"))
    if len(found) != 1:
        raise MissingError(
            f"There is no wheel of the stage '{identity.stage}' as it is now.",
            why=f"its version would be {identity.version}",
            next=commands.make("wheel", STAGE=identity.stage, MODE=identity.mode.value),
        )
    return found[0]


# -- what is wrong -------------------------------------------------------------


def _wrong(this: Trial) -> Iterator[str]:
    result = this.run(Path(__file__).with_name("probe.py"), mapping={"TORCH_XPU_MAPPING": "CPU"})
    if result.code:
        yield f"the probe failed: {(result.complaint.splitlines() or ['no reason'])[-1]}"
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
    yield from _wrong_ways(this)
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
    licences = {Path(name).name for name in found["licences"]}
    carried = ("xpu-stack", *BaseSettings.of(this.work.base).wheel.compiled_in)
    for name in ("LICENSE", *(f"{package}.txt" for package in carried)):
        if name not in licences:
            yield f"there is no licence file {name}"


def _wrong_places(this: Trial, mapped: list[str]) -> Iterator[str]:
    """What is in the process comes from the environment, Python and the system."""
    own = (str(this.folder), sys.base_prefix, *_SYSTEM, "/dev/", "/usr/share/", "/SYSV", "/memfd")
    for path in mapped:
        if not path.startswith(own):
            yield f"{path} is mapped, which is neither the environment's nor the system's"
    libraries = {Path(path).name for path in mapped}
    if not any(name.startswith("libintelocl.so") for name in libraries):
        yield "OpenCL for the CPU was not loaded"
    carried = {carry.own_name(path) for path in (this.site / carry.CARRIED).glob("*")}
    ours = {path.stem for path in (this.site / "torch" / "lib").glob("*.so")}
    if this.identity.mode is Mode.FAST:
        # The distribution's part of these is wanted, and brings its libtorch, which is empty.
        ours -= {
            f"lib{name}" for name in ("torch", *BaseSettings.of(this.work.base).prebuilt.targets)
        }
    for path in mapped:
        name = Path(path).name
        foreign = not path.startswith(str(this.folder))
        if name in carried or (foreign and name.partition(".")[0] in ours):
            yield f"{path} was loaded beside the one that the wheel carries"
        runtime = name.startswith(("libsycl", "libOpenCL", "libtbb."))
        if runtime and foreign:
            yield f"{path} was loaded in place of the environment's"


def _wrong_ways(this: Trial) -> Iterator[str]:
    for package in ("torch", "torch.libs", "functorch"):
        for library in carry.binaries(this.site / package):
            for way in carry.ways(library):
                if not way.startswith("$ORIGIN"):
                    yield f"{library.relative_to(this.site)} looks for libraries in {way}"


def _wrong_words(this: Trial) -> Iterator[str]:
    """Nothing names a folder that the wheel was made in, but for messages of checks."""
    state = str(this.work.layout.state).encode()
    for path in sorted((this.site / "torch").rglob("*")):
        if path.suffix in (".py", ".cmake", ".h", ".pyi") and state in path.read_bytes():
            yield f"{path.relative_to(this.site)} names a folder of the build"
