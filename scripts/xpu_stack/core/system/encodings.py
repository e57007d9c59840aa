"""Texts that a fork keeps in another form: CRLF line ends, UTF-16, a byte-order mark.

Note [Files in another form]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Byte by byte every line of such a file differs from the release's, and no patch
or merge finds its place. But it is the same text. So the files that a change
touches are brought into the release's form, UTF-8 with LF, the change is laid
there, and what comes of it is put back into the fork's form. A form is used
only when it gives the file back to the byte; a file of mixed line ends, say,
has none. An encoding that has ASCII in it, as Latin-1, needs nothing: lines
that no change touches may hold any bytes.
"""

import codecs
from dataclasses import dataclass

from xpu_stack.core.system.git import Repository, TreeId

# Marks at the start of a file, and how the rest is encoded.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass(frozen=True)
class Form:
    """How a file keeps its text."""

    mark: bytes
    encoding: str
    line_end: str

    def plain(self, content: bytes) -> bytes:
        text = content.removeprefix(self.mark).decode(self.encoding, "surrogateescape")
        return text.replace(self.line_end, "\n").encode("utf-8", "surrogateescape")

    def restored(self, plain: bytes) -> bytes:
        text = plain.decode("utf-8", "surrogateescape").replace("\n", self.line_end)
        return self.mark + text.encode(self.encoding, "surrogateescape")

    def __str__(self) -> str:
        words = [self.encoding.upper()] if self.encoding != "utf-8" else []
        words += ["a byte-order mark"] if self.mark else []
        words += ["CRLF line ends"] if self.line_end == "\r\n" else []
        return ", ".join(words)


def form_of(content: bytes) -> Form | None:
    """The form of a file; None for the plain one, and where none gives the file back."""
    mark = next((mark for mark in _MARKS if content.startswith(mark)), b"")
    encoding = _MARKS.get(mark, "utf-8")
    for line_end in ("\r\n", "\n"):
        form = Form(mark, encoding, line_end)
        if not str(form):
            continue
        try:
            plain = form.plain(content)
            if plain != content and form.restored(plain) == content:
                return form
        except UnicodeError:
            continue
    return None


@dataclass(frozen=True)
class PlainTree:
    """A tree with some files in the plain form, and what their form was."""

    repository: Repository
    tree: TreeId
    forms: dict[str, Form]

    @classmethod
    def of(cls, repository: Repository, tree: str, paths: list[str]) -> "PlainTree":
        forms, entries = {}, []
        for path, entry in repository.files(tree, paths).items():
            content = repository.blob_at(tree, path)
            form = form_of(content) if content is not None else None
            if content is not None and form is not None:
                forms[path] = form
                entries.append((path, entry.mode, repository.store_bytes(form.plain(content))))
        return cls(repository, repository.with_files(tree, entries), forms)

    def described(self) -> str:
        """A line for each file in another form; it is why a merge has no lines in common."""
        return "".join(f"{path} has {form} in the base\n" for path, form in self.forms.items())

    def restored(self, tree: TreeId) -> TreeId:
        """What came of the plain tree, with the files in their form again."""
        entries = []
        for path, entry in self.repository.files(tree, list(self.forms)).items():
            content = self.repository.blob_at(tree, path)
            assert content is not None
            blob = self.repository.store_bytes(self.forms[path].restored(content))
            entries.append((path, entry.mode, blob))
        return self.repository.with_files(tree, entries)
