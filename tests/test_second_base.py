"""A fork that has drifted, carried as a base of its own beside the release."""

from pathlib import Path

import pytest
from project import CMAKE, CONTEXT, SERIES, TEXT, Project, drift, git, write
from test_export import changed, kept

OTHER = "".join(f"other {number};\n" for number in range(1, 31))
ALL = ["Add queues", "Add events", "Add streams", "Add hooks", "Add devices"]


def with_patch(project: Project, change: str, edits: dict[str, tuple[str, str]]) -> None:
    project.patch(change, edits)
    write(project.folder, {f"patches/texts/{change}.md": TEXT.format(title=f"Add {change[7:]}s")})


def series(project: Project) -> None:
    """Five changes, the last two in files that the fork has edited."""
    drift(project, "other.txt", OTHER)
    with_patch(project, "stream/event", {"other.txt": ("other 10;", "other 10; // event")})
    with_patch(project, "stream/queue", {"other.txt": ("other 20;", "other 20; // queue")})
    text = SERIES.replace(
        "files: [c10_xpu/stream]\n",
        "files: [c10_xpu/stream]\n      - name: event\n        files: [aten_xpu/stream]\n"
        "      - name: queue\n",
    )
    write(project.folder, {"patches/series.yaml": text})
    write(project.folder, {"aten_xpu/stream/aten/Event.cpp": "int event;\n"})


@pytest.fixture
def fork(project: Project) -> Project:
    """A fork whose stack is on the release, with the patches as export writes them."""
    series(project)
    own = project.folder / ".xpu/pytorch-v1.13.1"
    git(project.folder, "clone", "-q", str(project.checkout), str(own))
    git(own, "branch", "base")
    project.ok("apply")
    project.ok("export")
    return project


def drifted(project: Project) -> str:
    """The fork's own commits, on its branch main."""
    git(project.checkout, "switch", "-q", "main")
    git(project.checkout, "mv", "aten/Context.h", "aten/GlobalContext.h")
    drift(project, "aten/GlobalContext.h", CONTEXT.replace("int member_1;", "int member_one;"))
    drift(project, "c10/CMakeLists.txt", CMAKE.replace("# line 20\n", "# ours\n"))
    reformatted = OTHER.replace("other 10;", "    other 10 ;").replace(" 20;", " 20; // queue")
    drift(project, "other.txt", reformatted)
    commit = git(project.checkout, "rev-parse", "HEAD").strip()
    git(project.checkout, "switch", "-q", "xpu-stack")
    return commit


def resolve(project: Project, files: dict[str, str]) -> None:
    (conflict,) = project.folder.glob(".xpu/work/pytorch-*/conflict")
    write(conflict, files)
    git(conflict, "add", ".")


def rebased(project: Project) -> str:
    """The stack on the fork, conflicts resolved; its commit."""
    commit = drifted(project)
    ended = project.run("rebase", "--onto", "main", "--drop", "stream/queue")
    assert "c10/CMakeLists.txt:20-25" in ended.err
    resolve(project, {"c10/CMakeLists.txt": CMAKE.replace("# line 20\n", "# ours\n# xpu\n")})
    ended = project.run("continue")
    assert "other.txt:" in ended.err
    text = (project.checkout / "other.txt").read_text()
    reformatted = git(project.checkout, "show", f"{commit}:other.txt")
    resolve(project, {"other.txt": reformatted.replace(" 10 ;", " 10 ; // event")})
    assert text != reformatted
    project.ok("continue")
    return commit


def tree(project: Project, at: str = "HEAD") -> str:
    return git(project.checkout, "rev-parse", f"{at}^{{tree}}").strip()


def test_a_story(fork: Project) -> None:
    release = tree(fork)
    commit = rebased(fork)
    ended = fork.run("export")
    print(ended.err)
    assert ended.code == 3
    assert "next: make export BASE=<name> PYTORCH_SRC=CHECKOUT" in ended.err
    write(fork.checkout, {"aten/Hooks.cpp": "int hooks_of_the_fork;\n"})
    before = kept(fork)
    out = fork.ok("export", "--base", "fork")
    print(out)
    here = tree(fork)
    for name in sorted(changed(fork, before)):
        print(name); print(kept(fork).get(name,b"").decode())
    print(fork.ok("check", "--base", "fork", source=False))
    print(fork.ok("check", source=False))
    print(fork.ok("status", "--base", "fork"))
    print(fork.ok("apply", "--base", "fork"))
    print(fork.ok("apply", "--base", "fork", source=False))
    own = fork.folder / ".xpu/pytorch-fork"
    assert git(own, "rev-parse", "HEAD^{tree}").strip() == here
    print(fork.ok("apply", source=False))
    assert 0
