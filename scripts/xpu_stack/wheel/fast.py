"""The fast build's libraries, put where setup.py expects those of a full one."""

from pathlib import Path

from xpu_stack import build as building
from xpu_stack import cmake, compiling, ninja, shell
from xpu_stack.applying import Workspace
from xpu_stack.build import Mode
from xpu_stack.wheel import setuppy
from xpu_stack.wheel.identity import Identity


def prepare(work: Workspace, identity: Identity, source: Path) -> dict[str, str]:
    """Builds the stage and installs it below torch/ in the tree; setup.py's environment."""
    this = building.prepare(work, identity.stage, Mode.FAST)
    building.build(this, work.series.changes(identity.stage), python=True)
    installed = [target.name for target in cmake.targets(this.folder) if target.installed]
    ninja.build(this.folder, installed, this.env, compiling.jobs())
    shell.run(["cmake", "--install", this.folder, "--prefix", source / "torch"], env=this.env)
    # setup.py reads from its configuration which packages there are
    link = source / "build"
    if not link.is_symlink():
        link.symlink_to(this.folder)
    return {**this.env, **setuppy.environment(work, identity)}
