"""What is installed, what is missing, and how to get it."""

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from xpu_stack.build import cmake, packages
from xpu_stack.build.base_settings import BaseSettings, Package
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import coloured, put
from xpu_stack.core.system.errors import MissingError
from xpu_stack.core.system.layout import Layout

_DISK = 6 << 30  # bytes that the checkout, the runtime and a fast build take
_MEMORY = 4 << 30  # bytes for two compilers
_TRIED = {("debian", "12")}  # distributions, by ID and VERSION_ID


@dataclass(frozen=True)
class Finding:
    what: str
    found: str
    get: str = ""  # what to type to get it; "": it is there
    note: str = ""


def examine(layout: Layout, base: Base) -> list[Finding]:
    installed = *_programs(), *_apt(base), *_fetched(layout, base)
    return [_distribution(base), *installed, *_machine(layout)]


def show(findings: list[Finding]) -> None:
    """Prints the findings; a ToolError names the first thing to get."""
    for one in findings:
        mark = coloured("--", "red") if one.get else coloured("ok", "green")
        put(f"{mark}  {one.what}: {one.found}")
        for kind, told in (("note", one.note), ("to get it", one.get)):
            if told:
                put(f"      {kind}: {told}")
    if lacking := [one for one in findings if one.get]:
        raise MissingError(
            f"{len(lacking)} thing(s) are missing.",
            why=", ".join(one.what for one in lacking),
            next=lacking[0].get,
        )


def _distribution(base: Base) -> Finding:
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        told = {"ID": "", "PRETTY_NAME": "unknown"}
    name = told["PRETTY_NAME"]
    if (told["ID"], told.get("VERSION_ID", "")) in _TRIED:
        return Finding("distribution", f"{name}, tried")
    (libraries,) = BaseSettings.of(base).prebuilt.apt[:1] or ("libtorch",)
    advice = (
        f"use a container: {packages.CONTAINER}. Or install the counterparts of the packages in "
        f"patches/{base.name}/base.yaml, and use MODE=full"
    )
    if shutil.which("apt-get"):
        advice = (
            f"packages are looked for under Debian 12's names. Where apt has no {libraries}, use "
            f"MODE=full. If a package is missing or too old, use a container: {packages.CONTAINER}"
        )
    return Finding("distribution", f"{name}, not tried; Debian 12 is", note=advice)


def _programs() -> Iterator[Finding]:
    for name in ("git", "g++", "ccache", "make"):  # each in a package of this name
        if path := shutil.which(name):
            told = shell.run([name, "--version"], check=False).text.splitlines()
            yield Finding(name, (told or [path])[0])
        else:
            yield Finding(name, "not found", packages.install_command([name]))


def _apt(base: Base) -> Iterator[Finding]:
    wanted = BaseSettings.of(base)
    needed = {"packages to build with": wanted.apt}
    fast = "PyTorch's libraries of the distribution (fast mode)"
    if not base.package:
        needed[fast] = wanted.prebuilt.apt
    for what, names in needed.items():
        if not shutil.which("dpkg-query"):
            yield Finding(what, "not checked: there is no dpkg")
            continue
        missing = packages.missing_apt(names)
        get = packages.install_command(missing) if missing else ""
        if get and what == fast and shutil.which("apt-get"):
            get += " # or use MODE=full, which needs none of them"
        yield Finding(what, f"{len(names) - len(missing)} of {len(names)}", get)


def _fetched(layout: Layout, base: Base) -> Iterator[Finding]:
    sycl, folder = packages.installed_sycl(layout), layout.checkout(base.name)
    build = commands.make("build")
    if sycl:
        yield Finding("SYCL runtime", f"{sycl.version} ({sycl.origin})")
    else:
        yield Finding("SYCL runtime", "not installed", f"{build} # installs it, or set SYCL_ROOT")
    if torch := packages.found_torch(layout, base):
        yield Finding(Package.of(base).name, f"{torch.version} ({torch.python})")
    elif base.package:
        get = f"{commands.make('build', BASE=base.name)} # installs it, or set TORCH"
        yield Finding(Package.of(base).name, "not installed", get)
    elif (folder / ".git").exists():
        yield Finding(f"checkout of PyTorch {base.name}", str(folder))
    else:
        yield Finding(f"checkout of PyTorch {base.name}", "not fetched", commands.make("apply"))


def _machine(layout: Layout) -> Iterator[Finding]:
    folder = layout.state if layout.state.exists() else layout.repository
    memory = cmake.available_memory()
    disk, room = shutil.disk_usage(folder).free, f"make room: {_DISK >> 30} GiB are needed"
    yield Finding("disk space", f"{disk >> 30} GiB free", room if disk < _DISK else "")
    slower = commands.make("build", JOBS="1") if memory < _MEMORY else ""
    yield Finding("memory", f"{memory >> 30} GiB free", slower)
