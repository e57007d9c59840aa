"""What a build is, where it is, how what was built runs, and what is known of it."""

import enum
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.build.packages import Torch
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import files
from xpu_stack.core.system.git import TreeId
from xpu_stack.core.system.layout import Layout


@dataclass
class Outcome:
    """How the tests of one change ended: counts over all configurations."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # why skipped -> how often
    failures: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped


@dataclass
class Record:
    """All that is known of one tree in one environment."""

    built: bool = False
    tests: dict[str, Outcome] | None = None  # change id -> outcome
    whole: bool = False  # tested in all configurations, not only in the brief one

    @property
    def passed(self) -> bool:
        return self.tests is not None and not any(one.failed for one in self.tests.values())


@dataclass(frozen=True)
class Results:
    """The records of one checkout. key: what else an outcome depends on.

    They are kept by tree id: found again whatever was checked out meanwhile.
    """

    folder: Path
    key: str

    def junit_folder(self, tree: TreeId) -> Path:
        """Where the JUnit files of the tree's tests are; its record is beside it."""
        return self.folder / f"{tree}-{self.key}"

    def get(self, tree: TreeId) -> Record:
        data = files.load(self.junit_folder(tree).with_suffix(".json"))
        if data is None:
            return Record()
        if data["tests"] is not None:
            data["tests"] = {change: Outcome(**told) for change, told in data["tests"].items()}
        return Record(**data)

    def put(self, tree: TreeId, record: Record) -> None:
        path = self.junit_folder(tree).with_suffix(".json")
        files.write(path, json.dumps(asdict(record), indent=1))


class Mode(enum.Enum):
    """What is compiled: what the series alone brings, or everything."""

    FAST = "fast"
    FULL = "full"


class Sanitizer(enum.Enum):
    """What the compiler adds to find errors at run time."""

    NONE = ""
    THREAD = "thread"  # ThreadSanitizer
    ADDRESS = "address"  # AddressSanitizer, with leaks and undefined behaviour

    @property
    def flags(self) -> str:
        """For compiling and linking."""
        # GCC takes the checks of std::optional for uses of what it may not hold.
        common = "-g1 -fno-omit-frame-pointer -Wno-maybe-uninitialized"
        return {
            Sanitizer.NONE: "",
            Sanitizer.THREAD: f"{common} -fsanitize=thread",
            # vptr compares type infos across libraries that hide theirs
            Sanitizer.ADDRESS: f"{common} -fsanitize=address,undefined -fno-sanitize=vptr "
            "-fno-sanitize-recover=undefined",
        }[self]

    @property
    def level(self) -> str:
        """How much the compiler optimizes; with either, reports have good stacks.

        GCC takes much longer to optimize the checks of undefined behaviour.
        """
        return "-O0" if self is Sanitizer.ADDRESS else "-O1"


@dataclass(frozen=True)
class Build:
    """A configured build of a checkout at a stage."""

    work: Workspace
    mode: Mode
    sanitizer: Sanitizer
    folder: Path
    sycl: packages.Sycl
    env: dict[str, str]
    torch: Torch | None = None  # None: the checkout has a torch itself

    @property
    def python(self) -> Path:
        """What it is compiled for, and runs in."""
        return self.torch.python if self.torch else self.work.layout.python / "bin" / "python"

    @property
    def results(self) -> Results:
        return results_of(self.work, self.mode, self.sanitizer)

    @property
    def site(self) -> Path:
        """The folder from which Python imports the package that was built."""
        return self.folder / "site"


def results_of(work: Workspace, mode: Mode, sanitizer: Sanitizer = Sanitizer.NONE) -> Results:
    """What is known of builds and tests so far, without preparing a build."""
    sycl = packages.installed_sycl(work.layout)
    runtime = f"{sycl.root} {sycl.version}" if sycl else "none"
    torch = f" {packages.found_torch(work.layout, work.base)}" if work.base.package else ""
    environment = f"{mode.value} {sanitizer.value} {runtime}{torch}"
    key = hashlib.sha256(environment.encode()).hexdigest()[:8]
    return Results(work.layout.for_checkout(work.repository.folder) / "results", key)


def folder_of(work: Workspace, mode: Mode, sanitizer: Sanitizer = Sanitizer.NONE) -> Path:
    name = "-".join(filter(None, (mode.value, sanitizer.value)))
    return work.layout.for_checkout(work.repository.folder) / name


# -- running what was built ----------------------------------------------------------


def program_environment(this: Build) -> dict[str, str]:
    """In which a C++ program of `this` runs.

    The OpenCL loader has to be told of Intel's CPU device. For Python,
    `import torch` does it; c10/xpu itself sets no variable of the process.
    """
    opencl = os.environ.get("OCL_ICD_FILENAMES") or str(this.sycl.root / "lib" / "libintelocl.so")
    # The SYCL runtime's libraries are found first: the distribution's libtorch_cpu brings
    # the distribution's OpenCL loader and oneTBB into the process, and Intel's OpenCL
    # library does not load with an older oneTBB. A sanitizer's dlopen() hides who called
    # it, and with that the runpath by which the SYCL runtime finds its adapters.
    libraries = _before(str(this.sycl.root / "lib"), "LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": libraries, "OCL_ICD_FILENAMES": opencl}


def compiled_kernels(layout: Layout) -> Path:
    """Where tests keep compiled kernels, and packages bring theirs to: both bases have the same."""
    return layout.state / "kernels" / "compiled"


def python_environment(this: Build) -> dict[str, str]:
    environment = program_environment(this)
    if not this.torch:  # an installed torch knows nothing of Intel's CPU device
        del environment["OCL_ICD_FILENAMES"]
    path = _before(str(this.python.parent), "PATH")
    # The package's folders are those of the checkout, and its modules are compiled once.
    compiled = {"PYTHONPYCACHEPREFIX": str(this.folder / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}
    return {**environment, "PATH": path, "PYTHONPATH": str(this.site), **compiled}


def _before(first: str, variable: str) -> str:
    return os.pathsep.join(filter(None, (first, os.environ.get(variable))))
