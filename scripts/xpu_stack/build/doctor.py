"""What is installed, what is missing, and how to get it."""

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from xpu_stack.build import installed_torch, packages
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
    """One thing that was looked at."""

    what: str
    found: str
    good: bool
    get: str = ""  # what to type to get it; or a note on what is good


def examine(layout: Layout, base: Base) -> list[Finding]:
    return [
        _distribution(base),
        *_programs(),
        *_apt(base),
        _sycl(layout),
        *_torch(layout, base),
        *_checkout(layout, base),
        *_machine(layout),
    ]


def show(findings: list[Finding]) -> None:
    """Prints the findings; a ToolError names the first thing to get."""
    for one in findings:
        mark = coloured("ok", "green") if one.good else coloured("--", "red")
        put(f"{mark}  {one.what}: {one.found}")
        if one.get:
            put(f"      {'note' if one.good else 'to get it'}: {one.get}")
    lacking = [one for one in findings if not one.good]
    if lacking:
        raise MissingError(
            f"{len(lacking)} thing(s) are missing.",
            why=", ".join(one.what for one in lacking),
            next=lacking[0].get,
        )


def _distribution(base: Base) -> Finding:
    """Which one this is, and what to do where the tool has not been tried."""
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        told = {"ID": "", "PRETTY_NAME": "unknown"}
    name = told["PRETTY_NAME"]
    if (told["ID"], told.get("VERSION_ID", "")) in _TRIED:
        return Finding("distribution", f"{name}, tried", True)
    (libraries,) = BaseSettings.of(base).prebuilt.apt[:1] or ("libtorch",)
    advice = (
        f"use a container: {packages.CONTAINER}. Or install the counterparts of the packages in "
        f"patches/{base.name}/base.yaml, and use MODE=full"
    )
    if packages.has_apt():
        advice = (
            f"packages are looked for under Debian 12's names. Where apt has no {libraries}, use "
            f"MODE=full. If a package is missing or too old, use a container: {packages.CONTAINER}"
        )
    return Finding("distribution", f"{name}, not tried; Debian 12 is", True, advice)


def _programs() -> Iterator[Finding]:
    for name in ("git", "g++", "ccache", "make"):  # each in a package of this name
        path = shutil.which(name)
        if path is None:
            yield Finding(name, "not found", False, packages.install_command([name]))
        else:
            version = shell.run([name, "--version"], check=False).text.splitlines()[:1]
            yield Finding(name, version[0] if version else path, True)


def _apt(base: Base) -> Iterator[Finding]:
    wanted = BaseSettings.of(base)
    needed = [("packages to build with", wanted.apt)]
    if not wanted.package:
        fast = "PyTorch's libraries of the distribution (fast mode)"
        needed.append((fast, wanted.prebuilt.apt))
    for what, names in needed:
        if not packages.has_dpkg():
            yield Finding(what, "not checked: there is no dpkg", True)
            continue
        missing = packages.missing_apt(names)
        found = f"{len(names) - len(missing)} of {len(names)}"
        get = packages.install_command(missing) if missing else ""
        if get and names == wanted.prebuilt.apt and packages.has_apt():
            get += " # or use MODE=full, which needs none of them"
        yield Finding(what, found, not missing, get)


def _sycl(layout: Layout) -> Finding:
    found = packages.installed_sycl(layout)
    what = "SYCL runtime"
    if found is None:
        get = f"{commands.make('build')} # installs it, or set SYCL_ROOT"
        return Finding(what, "not installed", False, get)
    return Finding(what, f"{found.version} ({found.origin})", True)


def _torch(layout: Layout, base: Base) -> Iterator[Finding]:
    package = Package.of(base)
    if package is None:
        return
    found = installed_torch.found(layout, package)
    if found is None:
        get = f"{commands.make('build', BASE=base.name)} # installs it, or set TORCH"
        yield Finding(package.name, "not installed", False, get)
    else:
        yield Finding(package.name, f"{found.version} ({found.python})", True)


def _checkout(layout: Layout, base: Base) -> Iterator[Finding]:
    folder, what = layout.checkout(base.name), f"checkout of PyTorch {base.name}"
    if not base.package and (folder / ".git").exists():
        yield Finding(what, str(folder), True)
    elif not base.package:
        yield Finding(what, "not fetched", False, commands.make("apply"))


def _machine(layout: Layout) -> Iterator[Finding]:
    folder = layout.state if layout.state.exists() else layout.repository
    free = shutil.disk_usage(folder).free
    enough = free >= _DISK
    get = "" if enough else f"make room: {_DISK >> 30} GiB are needed"
    yield Finding("disk space", f"{free >> 30} GiB free", enough, get)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    enough = memory >= _MEMORY
    get = "" if enough else commands.make("build", JOBS="1")
    yield Finding("memory", f"{memory >> 30} GiB free", enough, get)
