"""The fast build's libraries, put where setup.py expects those of a full one."""

import shutil
from pathlib import Path

from xpu_stack.build import build as building
from xpu_stack.build import cmake, compilers, ninja
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import shell
from xpu_stack.core.system.git import Repository
from xpu_stack.wheel import setuppy
from xpu_stack.wheel.identity import Identity


def prepare(work: Workspace, identity: Identity, source: Path) -> dict[str, str]:
    """Builds the stage and installs it below torch/ in the tree; setup.py's environment."""
    this = building.prepare(work, identity.stage, Mode.FAST)
    building.build(this, work.series.changes(identity.stage), python=True)
    installed = [target.name for target in cmake.targets(this.folder) if target.destination]
    ninja.build(this.folder, installed, this.env, compilers.jobs())
    shell.run(["cmake", "--install", this.folder, "--prefix", source / "torch"], env=this.env)
    _copy_generated(work.repository, source)
    # setup.py reads from its configuration which packages there are
    (source / "build").mkdir(exist_ok=True)
    shutil.copyfile(this.folder / "CMakeCache.txt", source / "build" / "CMakeCache.txt")
    return {**this.env, **setuppy.environment(work, identity)}


def _copy_generated(checkout: Repository, source: Path) -> None:
    """The package's files that the build has generated into the checkout."""
    ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", "torch")
    for name in checkout.run(*ignored).text.split("\0"):
        if name.endswith((".py", ".pyi")):
            copy = source / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkout.folder / name, copy)
