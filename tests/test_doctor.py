"""`make doctor`: which distribution this is, and what to do on another."""

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project
from xpu_stack.build import cmake, doctor, packages
from xpu_stack.core.series.base import Base
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.layout import Layout

DEBIAN = {"ID": "debian", "VERSION_ID": "12", "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)"}
UBUNTU = {"ID": "ubuntu", "VERSION_ID": "24.04", "PRETTY_NAME": "Ubuntu 24.04 LTS"}
FEDORA = {"ID": "fedora", "VERSION_ID": "41", "PRETTY_NAME": "Fedora Linux 41"}

Machine = Callable[[dict[str, str], bool], None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine of another distribution, with apt and dpkg or without."""
    which = shutil.which

    def is_of(release: dict[str, str], apt: bool) -> None:
        monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
        theirs = {"apt-get", "dpkg-query"}
        monkeypatch.setattr(
            shutil,
            "which",
            lambda name: which(name) if name not in theirs else f"/usr/bin/{name}" if apt else None,
        )

    return is_of


def base() -> Base:
    return Base.load(Layout.current(), "v1.13.1")


def distribution() -> tuple[str, str]:
    found = doctor._distribution(base())
    assert not found.get  # it is no reason to fail
    return found.found, found.note


def test_the_one_that_was_tried(machine: Machine) -> None:
    machine(DEBIAN, True)
    assert distribution() == ("Debian GNU/Linux 12 (bookworm), tried", "")


def test_another_one_with_apt(machine: Machine) -> None:
    machine(UBUNTU, True)
    found, advice = distribution()
    assert found == "Ubuntu 24.04 LTS, not tried; Debian 12 is"
    assert "Where apt has no libtorch1.13, use MODE=full." in advice
    assert advice.endswith(packages.CONTAINER)


def test_another_one_without_apt(machine: Machine) -> None:
    machine(FEDORA, False)
    found, advice = distribution()
    assert found == "Fedora Linux 41, not tried; Debian 12 is"
    assert advice.startswith(f"use a container: {packages.CONTAINER}.")
    assert "patches/v1.13.1/base.yaml" in advice


def test_no_command_of_apt_is_told_where_there_is_none(machine: Machine) -> None:
    machine(FEDORA, False)
    assert (
        packages.install_command(["ccache"])
        == "install ccache with the distribution's package manager"
    )
    packages.need_apt(["g++"])  # the person's affair
    found = [one.found for one in doctor._apt(base())]
    assert found == ["not checked: there is no dpkg"] * 2


def test_libraries_that_a_distribution_does_not_have_can_be_compiled(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(UBUNTU, True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(packages, "missing_apt", list)
    (libtorch,) = [one for one in doctor._apt(base()) if "libtorch1.13" in one.get]
    assert libtorch.get.endswith("libtorch1.13 # or use MODE=full, which needs none of them")
    with pytest.raises(ToolError) as raised:
        packages.need_apt(["libtorch1.13"], instead="make build MODE=full")
    assert raised.value.next.endswith("libtorch1.13 # or: make build MODE=full")


def test_memory_that_the_kernel_can_take_back_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cmake, "_MEMORY", tmp_path / "meminfo")
    for available, missing in ((8 << 20, False), (1 << 20, True)):  # in kB
        lines = f"MemFree: 900 kB\nMemAvailable: {available} kB\n"
        (tmp_path / "meminfo").write_text(lines)
        (found,) = [one for one in doctor._machine(Layout.current()) if one.what == "memory"]
        assert found.found == f"{available >> 20} GiB free"
        assert bool(found.get) is missing


def test_it_is_shown(project: Project) -> None:
    ended = project.run("doctor", source=False)
    assert "distribution: " in ended.out
    assert "\nok  git: git version" in ended.out
