"""The fast build's libraries, put where setup.py expects those of a full one."""

from pathlib import Path

from xpu_stack import build as building
from xpu_stack import shell
from xpu_stack.applying import Workspace
from xpu_stack.build import Mode
from xpu_stack.wheel import setuppy, tree
from xpu_stack.wheel.identity import Identity


def install(work: Workspace, identity: Identity) -> tuple[Path, dict[str, str]]:
    """Builds the stage and installs it below torch/ in the tree, with setup.py's environment."""
    this = building.prepare(work, identity.stage, Mode.FAST)
    building.build(this, work.series.changes(identity.stage), python=True)
    source = tree.prepare(work, Mode.FAST)
    tree.remove_installed(source)
    shell.run(["cmake", "--install", this.folder, "--prefix", source / "torch"], env=this.env)
    # setup.py reads from its configuration which packages there are
    link = source / "build"
    if not link.is_symlink():
        link.symlink_to(this.folder)
    return source, {**this.env, **setuppy.environment(work, identity)}
