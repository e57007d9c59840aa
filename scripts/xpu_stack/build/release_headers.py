"""Headers that the source package leaves out, from a source release on PyPI."""

import hashlib
import os
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

from xpu_stack.build import packages
from xpu_stack.build.base_settings import Headers
from xpu_stack.core.system import shell
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import MissingError, ToolError
from xpu_stack.core.system.layout import Layout

_NO_ANSWER = 30  # seconds


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
    if not path.exists():
        with progress(None, f"fetching {wanted.file}"):
            _download(wanted, path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != wanted.sha256:
        path.unlink()
        raise _unavailable(wanted, f"it has sha256 {found}, not {wanted.sha256}")
    return path


def _download(wanted: Headers, path: Path) -> None:
    packages.need_python("wheel")
    # pip would build the release to learn its metadata; only the file is wanted.
    pypi: Any = import_module("pypi_simple")
    requests: Any = import_module("requests")
    # that which pip is configured to use
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = os.environ.get("PIP_INDEX_URL") or shell.run(asked, check=False).text.strip()
    partial = path.with_name(path.name + ".partial")
    try:
        with pypi.PyPISimple(index) if index else pypi.PyPISimple() as client:
            page = client.get_project_page(wanted.project, timeout=_NO_ANSWER)
            (found,) = [one for one in page.packages if one.filename == wanted.file]
            client.download_package(found, partial, timeout=_NO_ANSWER)
    except (requests.RequestException, ValueError) as error:
        raise _unavailable(wanted, str(error).splitlines()[0]) from None
    partial.rename(path)


def _unavailable(wanted: Headers, why: str) -> ToolError:
    return MissingError(
        f"{wanted.file}, which has {next(iter(wanted.names))}, is not available here.",
        why=why,
        next=f"pip config debug # PyPI or a mirror of it must have {wanted.project}",
    )
