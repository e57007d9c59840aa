"""What a build is: of which checkout, in which mode, with which sanitizer, and where."""

import enum
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import installed_torch, package_view, packages
from xpu_stack.build.base_settings import Package
from xpu_stack.build.installed_torch import Torch
from xpu_stack.build.results import Results
from xpu_stack.core.move.workspace import Workspace


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
        """For compiling and linking; with -O1 reports have good stacks."""
        # GCC takes the checks of std::optional for uses of what it may not hold.
        common = "-g1 -fno-omit-frame-pointer -Wno-maybe-uninitialized"
        if self is Sanitizer.THREAD:
            return f"{common} -fsanitize=thread"
        if self is Sanitizer.ADDRESS:
            # vptr compares type infos across libraries that hide theirs
            kinds = "-fsanitize=address,undefined -fno-sanitize=vptr"
            return f"{common} {kinds} -fno-sanitize-recover=undefined"
        return ""


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
        return package_view.folder(self.folder)


def results_of(work: Workspace, mode: Mode, sanitizer: Sanitizer = Sanitizer.NONE) -> Results:
    """What is known of builds and tests so far, without preparing a build."""
    sycl = packages.installed_sycl(work.layout)
    runtime = f"{sycl.root} {sycl.version}" if sycl else "none"
    package = Package.of(work.base)
    torch = installed_torch.found(work.layout, package) if package else None
    environment = f"{mode.value} {sanitizer.value} {runtime}" + (f" {torch}" if package else "")
    return Results(work.layout, work.repository.folder, environment)


def folder_of(work: Workspace, mode: Mode, sanitizer: Sanitizer = Sanitizer.NONE) -> Path:
    name = "-".join(filter(None, (mode.value, sanitizer.value)))
    return work.layout.for_checkout(work.repository.folder) / name
