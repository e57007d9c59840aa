"""A project's workspace within the test's own process."""

from collections.abc import Iterator
from contextlib import contextmanager

from project import Project
from xpu_stack.core.lay import opening
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system.layout import Layout


@contextmanager
def workspace(project: Project) -> Iterator[Workspace]:
    """What a verb on the project's checkout is given."""
    layout = Layout(project.folder, project.folder / ".xpu")
    with opening.Call(layout, "test", "v1.13.1", str(project.checkout)).opened() as work:
        yield work
