"""Files and folders that are there whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Content = tuple[int, bytes] | None  # mode and content of a file; None: there is none


def write(path: Path, text: str) -> None:
    """Writes a file in one step: a reader, or the next run, sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(path)
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """An empty folder to fill, which takes the place of `path` when the block ends well."""
    draft = _draft(path)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    shutil.rmtree(path, ignore_errors=True)
    draft.rename(path)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.draft")
