"""Patches as git writes them, applied to a tree.

A patch names by its id each file that it was made for. Where the files here are those,
there is nothing to search.
"""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from xpu_stack.core.system.git import File, Repository, TreeId
from xpu_stack.core.system.objects import ABSENT, GITLINK, Blob
from xpu_stack.core.system.transaction import put

_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_INDEX = re.compile(rb"^index ([0-9a-f]+)\.\.[0-9a-f]+(?: [0-7]+)?$", re.MULTILINE)


def originals(patch: bytes) -> dict[str, str]:
    """The files that a patch is about, and the ids of the contents that it was made for.

    A new file has the id "", and so has one of a patch that was written by hand, which
    need not tell it; ids may be short.
    """
    found = {}
    for section in _SECTION.split(patch)[1:]:
        name = section.partition(b"\n")[0]  # two names of the same length
        index = _INDEX.search(section)
        path = _unquoted(name[len(name) // 2 + 6 :].decode("utf-8", "surrogateescape"))
        old = index[1].decode() if index else ""
        found[path.partition("/")[2]] = old if old.strip("0") else ""
    return found


def _unquoted(name: str) -> str:
    """A name that git has put in quotes, as C does."""
    if not name.startswith('"'):
        return name
    content = name.strip('"').encode("utf-8", "surrogateescape").decode("unicode_escape")
    return content.encode("latin-1").decode("utf-8", "surrogateescape")


def applied(
    repository: Repository,
    commit: str,
    patch: Path,
    *,
    files: Mapping[str, File] = MappingProxyType({}),
    exact: bool = False,
) -> tuple[TreeId | None, str]:
    """A tree with files set as in `with_files` and a patch applied; or None, and why not.

    exact: where its files are those that it was made for, and nowhere else.
    """
    tree, olds = repository.with_files(commit, files), originals(patch.read_bytes())
    before: dict[str, File] = {}
    for path, old in olds.items():
        there = repository.around(tree, path)
        if exact and not there.get(path, ABSENT).blob.startswith(old):
            return None, f"{path} is not the file that the patch was made for\n"
        before |= {name: file for name, file in there.items() if file.mode != GITLINK}
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        folder = Path(name)
        for path, file in before.items():
            put(folder / path, file.mode, Blob(repository, file.blob), for_good=False)
        # white space is judged by `make check`, not here
        words = ("apply", "--whitespace=nowarn", str(patch.absolute()))
        env = {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
        result = repository.run(*words, cwd=folder, env=env, check=False)
        if result.code:
            return None, result.complaint
        now = {path: folder / path for path in {**before, **olds}}
        after = repository.store(
            {path: file for path, file in now.items() if file.is_file() or file.is_symlink()}
        )
    gone = dict.fromkeys(before.keys() - after.keys(), ABSENT)
    return repository.with_files(tree, {**after, **gone}), ""
