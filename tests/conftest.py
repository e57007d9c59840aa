import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project, release
from real import Home
from xpu_stack.core.system.layout import Layout

pytest_plugins = ("xpu_stack.testing.slow_tests",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: much of the time a test waits for the disk."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path)


@pytest.fixture
def fork(project: Project) -> Project:
    """The project with its release at hand, as the ground for merges.

    The release is the small base as a source package, found as if it had been
    downloaded; the checkout is a fork of it.
    """
    release(project)
    return project


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("home")
    # What the run that this is part of has installed, downloaded and compiled: that
    # all of it can be made from nothing is what ci/fresh proves.
    layout = Layout.current()
    layout.ccache.mkdir(parents=True, exist_ok=True)
    for there in (layout.python, layout.ccache, *layout.state.glob("sycl-*")):
        (folder / there.name).symlink_to(there)
    if layout.downloads.is_dir():
        shutil.copytree(layout.downloads, folder / "downloads")
    yield Home(folder)
    shutil.rmtree(folder)
