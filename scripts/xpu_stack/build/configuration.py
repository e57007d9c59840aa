"""What a build is: of which checkout, in which mode, with which sanitizer, and where."""

import enum
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import package_view, packages
from xpu_stack.build.results import Results
from xpu_stack.core.checkout.applying import Workspace


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
        """For compiling and linking; -O1 -g1 so that reports have good stacks."""
        common = "-g1 -O1 -fno-omit-frame-pointer"
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
    environment = f"{mode.value} {sanitizer.value} {runtime}"
    return Results(work.layout, work.repository.folder, environment)


def folder_of(work: Workspace, mode: Mode, sanitizer: Sanitizer = Sanitizer.NONE) -> Path:
    """Where a checkout is built."""
    name = "-".join(filter(None, (mode.value, sanitizer.value)))
    return work.layout.for_checkout(work.repository.folder) / name
