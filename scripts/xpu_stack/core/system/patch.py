"""Patches as git writes them: the paths in them, and what they make of files as they say.

A patch names by its id the file that it was made for, and the file that it gives.
Where the file here is that one, there is nothing to search: its lines are put in
where they belong, and the id of what comes of it proves that it is right. Whatever
else there is to a patch is for `git apply`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.objects import ZERO, BlobId, File, Objects, TreeId

_PLAIN = re.compile(
    rb"diff --git a/(?P<path>[^\n]+) b/(?P=path)\n"
    rb"(?:deleted file mode (?P<gone>[0-7]{6})\n)?"
    rb"index (?P<old>[0-9a-f]{40,64})\.\.(?P<new>[0-9a-f]{40,64})(?(gone)| (?P<mode>[0-7]{6}))\n"
    rb"--- a/(?P=path)\t?\n\+\+\+ (?(gone)/dev/null|b/(?P=path)\t?)\n(?=@@ )"
)
_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_INDEX = re.compile(rb"^index ([0-9a-f]+)\.\.[0-9a-f]+(?: [0-7]+)?$", re.MULTILINE)
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True)
class FileEdit:
    """What a patch does to a file that stays where it is, or that it deletes."""

    path: str
    old: str  # ids of the contents
    new: str
    mode: int
    deletes: bool
    hunks: bytes

    def of(self, content: bytes) -> bytes:
        """What becomes of the content that it was made for; anything of another."""
        olds, news, at, last = _LINE.findall(content), list[bytes](), 0, b""
        for line in _LINE.findall(self.hunks):
            hunk, kind = _HUNK.match(line), line[:1]
            if hunk:
                start = int(hunk[1]) - (hunk[2] != b"0")
                news += olds[at:start]
                at = start
            elif kind == b"\\" and last[:1] in b" +" and news:
                news[-1] = news[-1].removesuffix(b"\n")  # so the file ends
            if kind in b" +":
                news.append(line[1:])
            at += kind in b" -"
            last = line
        return b"".join(news + olds[at:])


def edits(patch: bytes) -> list[FileEdit] | None:
    """The edits of a patch that has nothing else in it."""
    found = []
    for section in _SECTION.split(patch):
        head = _PLAIN.match(section)
        if head is None and section:
            return None
        if head is not None:
            path = head["path"].decode("utf-8", "surrogateescape")
            ids = head["old"].decode(), head["new"].decode()
            mode = int(head["gone"] or head["mode"], 8)
            found.append(FileEdit(path, *ids, mode, bool(head["gone"]), section[head.end() :]))
    return found


def originals(patch: bytes) -> dict[str, str]:
    """The files that a patch edits, and the ids of the contents that it was made for.

    A patch that was written by hand need not tell them; ids may be short.
    """
    found = {}
    for section in _SECTION.split(patch):
        name = section.partition(b"\n")[0]  # two names of the same length
        index = _INDEX.search(section)
        if index is not None and index[1].strip(b"0"):
            path = _unquoted(name[len(name) // 2 + 6 :].decode("utf-8", "surrogateescape"))
            found[path.partition("/")[2]] = index[1].decode()
    return found


def _unquoted(name: str) -> str:
    """A name that git has put in quotes, as C does."""
    if not name.startswith('"'):
        return name
    content = name.strip('"').encode("utf-8", "surrogateescape").decode("unicode_escape")
    return content.encode("latin-1").decode("utf-8", "surrogateescape")


def edited(objects: Objects, tree: str, patch: bytes) -> dict[str, File] | None:
    """The files as a patch says; None where they are not those that it was made for."""
    found: dict[str, File] = {}
    for edit in edits(patch) or ():
        there = objects.files(tree, edit.path).get(edit.path)
        if edit.path in found or there != (edit.mode, edit.old):
            return None
        content = objects.content(edit.old, "blob")
        after = None if content is None else edit.of(content)
        if after == b"" and edit.deletes:
            found[edit.path] = File(0, BlobId(ZERO))
        elif after is not None and not edit.deletes and objects.store_bytes(after) == edit.new:
            found[edit.path] = File(edit.mode, BlobId(edit.new))
        else:
            return None
    return found or None


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
    content, objects = patch.read_bytes(), repository.objects
    found = edited(objects, repository.tree_of(commit), content)
    if found is not None and not found.keys() & files.keys():
        return repository.with_files(commit, {**files, **found}), ""
    tree = repository.with_files(commit, files)
    for path, old in originals(content).items() if exact else ():
        there = objects.files(tree, path).get(path)
        if there is None or not there.blob.startswith(old):
            return None, f"{path} is not the file that the patch was made for\n"
    with repository.index(tree) as index:
        # white space is judged by `make check`, not here
        words = ("apply", "--cached", "--whitespace=nowarn", str(patch))
        result = index.run(*words, check=False)
        return (None, result.complaint) if result.code else (index.write(), "")
