"""Files for third-party folders that a source package leaves out, some of them from PyPI."""

import filecmp
import hashlib
import os
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

from xpu_stack.build import packages
from xpu_stack.build.base_settings import BaseSettings, Headers
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import shell
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import MissingError
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.layout import Layout

_NO_ANSWER = 30  # seconds


def place(work: Workspace, mode: Mode, repository: Repository) -> None:
    """Puts stand-ins where a third-party folder is empty, outside every commit.

    The list of stand-ins is that of all worktrees; a submodule is checked out in each or not.
    """
    exclude = repository.git_path("info/exclude")
    ours = set(exclude.read_text().splitlines() if exclude.exists() else [])

    def is_real(name: str) -> bool:
        """Whether a file is there, and is no stand-in."""
        folders = [repository.folder / folder for folder in Path(name).parents[:-1]]
        in_submodule = any((folder / ".git").exists() for folder in folders)
        return (repository.folder / name).exists() and (in_submodule or f"/{name}" not in ours)

    root = work.base.file("stand-ins")
    files = filter(Path.is_file, sorted(root.rglob("*")))
    wanted = {path.relative_to(root).as_posix(): path for path in files}
    headers = BaseSettings.of(work.base).full.headers
    if mode is Mode.FULL and headers:
        first = next(iter(headers.names.values()))  # if it is there, so are the others
        if not is_real(f"{headers.into}/{first}"):
            wanted |= fetched(work.layout, headers)
    placed = {name: path for name, path in wanted.items() if not is_real(name)}
    for name, source in placed.items():
        target = repository.folder / name
        if not target.exists() or not filecmp.cmp(source, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    # hidden from git, so that they never enter a commit
    if new := [f"/{name}\n" for name in placed if f"/{name}" not in ours]:
        exclude.parent.mkdir(parents=True, exist_ok=True)
        with exclude.open("a") as file:
            file.writelines(new)


def fetched(layout: Layout, wanted: Headers) -> dict[str, Path]:
    """The headers by their path in PyTorch's tree, fetched if needed."""
    folder = layout.downloads / wanted.file.removesuffix(".tar.gz")
    if not all((folder / name).exists() for name in wanted.names):
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(_archive(layout, wanted)) as archive:
            for name in wanted.names:
                content = archive.extractfile(f"{wanted.folder}/{name}")
                assert content is not None  # the archive is the one that was looked into
                (folder / name).write_bytes(content.read())
    return {f"{wanted.into}/{here}": folder / name for name, here in wanted.names.items()}


def _archive(layout: Layout, wanted: Headers) -> Path:
    path = layout.downloads / wanted.file
    try:
        if not path.exists():
            with progress(None, f"fetching {wanted.file}"):
                _download(wanted, path)
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found == wanted.sha256:
            return path
        path.unlink()
        why = f"it has sha256 {found}, not {wanted.sha256}"
    except (OSError, ValueError) as error:  # those of requests are among them
        why = str(error).splitlines()[0]
    raise MissingError(
        f"{wanted.file}, which has {next(iter(wanted.names))}, is not available here.",
        why=why,
        next=f"pip config debug # PyPI or a mirror of it must have {wanted.project}",
    )


def _download(wanted: Headers, path: Path) -> None:
    """pip would build the release to learn its metadata; only the file is wanted."""
    packages.need_python("wheel")
    pypi: Any = import_module("pypi_simple")
    # that which pip is configured to use
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = os.environ.get("PIP_INDEX_URL") or shell.run(asked, check=False).text.strip()
    partial = path.with_name(path.name + ".partial")
    with pypi.PyPISimple(index) if index else pypi.PyPISimple() as client:
        page = client.get_project_page(wanted.project, timeout=_NO_ANSWER)
        (found,) = [one for one in page.packages if one.filename == wanted.file]
        client.download_package(found, partial, timeout=_NO_ANSWER)
    partial.rename(path)
