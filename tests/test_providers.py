"""Where a base comes from."""

import io
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from project import BASE, Project, git, write


def package(project: Project, sum: str | None = None, more: str | None = None) -> None:
    """A source package of the small base, as if it had been downloaded."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name in ("c10/CMakeLists.txt", "aten/Context.h", "other.txt"):
            data = (project.checkout / name).read_bytes()
            info = tarfile.TarInfo(f"pytorch-1.13.1/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        if more:
            archive.addfile(tarfile.TarInfo(more))
    write(project.folder, {".xpu/downloads/x": ""})
    (project.folder / ".xpu/downloads/base.tar.xz").write_bytes(buffer.getvalue())
    right = sha256(buffer.getvalue()).hexdigest()
    text = BASE.format(sha256=sum or right, url=project.folder / "nowhere")
    write(project.folder, {"patches/v1.13.1/base.yaml": text})


def own(project: Project) -> Path:
    return project.folder / ".xpu/pytorch-v1.13.1"


def test_the_source_package_becomes_a_commit(project: Project) -> None:
    package(project)
    out = project.ok("apply", "--stage", "device", source=False)
    assert "from source package base.tar.xz" in out
    log = git(own(project), "log", "--format=%s|%an|%ct").splitlines()
    assert log[0].startswith("Add hooks|xpu-stack|")
    assert log[2] == "PyTorch v1.13.1|xpu-stack|1671062400"
    # the tree, and with it the id, depends on nothing but the content
    assert_expected_inline(
        git(own(project), "rev-parse", "HEAD~2^{tree}"),
        """\
84060731c8adb314263d4b4a9fc8381113951f5a
""",
    )


def test_the_same_package_gives_the_same_commits(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        project = Project.make(tmp_path / name)
        package(project)
        # the id depends on the package's checksum, and that on nothing else here
        project.ok("apply", source=False)
        ids.append(git(own(project), "rev-parse", "HEAD", "HEAD~3"))
    assert ids[0] == ids[1]


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python has no filters")
def test_a_package_that_leaves_its_folder_is_not_unpacked(project: Project) -> None:
    package(project, more="pytorch-1.13.1/../../outside.txt")
    ended = project.run("apply", source=False)
    assert ended.code == 4
    assert "base.tar.xz: " in ended.err
    assert not list(project.folder.rglob("outside.txt"))


def test_a_damaged_package_is_not_used(project: Project) -> None:
    package(project, sum="0" * 64)
    ended = project.run("apply", source=False)
    assert ended.code == 4
    assert "not 0000000000000000" in ended.err
    assert not own(project).exists()


def test_git_is_next(project: Project) -> None:
    git(project.checkout, "tag", "v1.13.1")
    package(project, sum="0" * 64)
    url = f"file://{project.checkout}"
    out = project.ok("apply", source=False, env={"PYTORCH_GIT": url})
    assert "from git, the tag v1.13.1" in out
    assert git(own(project), "rev-parse", "base") == git(project.checkout, "rev-parse", "v1.13.1")


def test_no_provider_says_what_was_tried(project: Project) -> None:
    package(project, sum="0" * 64)
    ended = project.run("apply", source=False, env={"PYTORCH_GIT": "/nowhere"})
    assert ended.code == 4
    assert "the distribution's source package: " in ended.err
    assert "git, the tag v1.13.1: " in ended.err
    assert "next: make apply PYTORCH_SRC=" in ended.err


def test_a_folder_without_git_is_refused(project: Project) -> None:
    folder = project.folder / "plain"
    write(folder, {"c10/CMakeLists.txt": ""})
    ended = project.run("apply", "--pytorch-src", str(folder), source=False)
    assert ended.code == 2
    assert "is not a git repository of its own" in ended.err
