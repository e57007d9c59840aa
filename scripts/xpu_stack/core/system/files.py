"""Files and folders that are there whole or not at all."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xpu_stack.core.system import commands
from xpu_stack.core.system.console import say
from xpu_stack.core.system.objects import Blob, Objects, id_of_file, mode_of

Content = tuple[int, bytes | Blob] | None  # mode and content of a file; None: there is none


def current(path: Path, objects: Objects) -> Content:
    """What a file is, as git has it."""
    if not os.path.lexists(path):
        return None
    mode, blob = objects.store({"": path})[""]
    return mode, Blob(objects, blob)


def is_as(path: Path, wanted: Content) -> bool:
    there = os.path.lexists(path)
    if wanted is None or not there:
        return wanted is None and not there
    mode, content = wanted
    if mode != mode_of(path) or not (path.is_symlink() or path.is_file()):
        return False
    if path.is_symlink():
        told = content.content if isinstance(content, Blob) else content
        return told == os.fsencode(path.readlink())
    if isinstance(content, Blob):
        return id_of_file(path, content.id) == content.id
    return path.stat().st_size == len(content) and path.read_bytes() == content


def write(path: Path, text: str) -> None:
    """Writes a file in one step: a reader, or the next run, sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(path)
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # or a crash of the machine may leave it empty
    draft.replace(path)


def load(path: Path) -> Any:
    """The JSON in a file; None: there is none, or it is cut off, which is said."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        torn = path.with_name(f"{path.name}.torn")
        path.replace(torn)
        say(f"{path} is cut off, as by a crash of the machine, and is now {torn.name}")
        say(f"what that run did is not known: {commands.make('status')} shows what the checkout is")
        return None


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
