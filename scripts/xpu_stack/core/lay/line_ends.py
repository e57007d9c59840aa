"""Files that a fork keeps with CRLF line ends.

Byte by byte every line of such a file differs from the release's, and no patch or
merge finds its place. So the change is laid on the file with LF, and what comes of
it is put back. A file of mixed line ends is taken as it is.
"""

from dataclasses import dataclass

from xpu_stack.core.system.git import Repository, TreeId


@dataclass(frozen=True)
class PlainTree:
    """A tree with some files, those of CRLF, in LF."""

    repository: Repository
    tree: TreeId
    files: tuple[str, ...]

    @classmethod
    def of(cls, repository: Repository, tree: str, paths: list[str]) -> "PlainTree":
        entries = []
        for path, entry in repository.files(tree, paths).items():
            content = repository.blob_at(tree, path) or b""
            plain = content.replace(b"\r\n", b"\n")
            if plain != content == plain.replace(b"\n", b"\r\n"):
                entries.append((path, entry.mode, repository.store_bytes(plain)))
        files = tuple(path for path, _, _ in entries)
        return cls(repository, repository.with_files(tree, entries), files)

    def described(self) -> str:
        """A line for each of the files; it is why a merge has no lines in common."""
        return "".join(f"{path} has CRLF line ends in the base\n" for path in self.files)

    def restored(self, tree: TreeId) -> TreeId:
        """What came of the plain tree, with CRLF again."""
        entries = []
        for path, entry in self.repository.files(tree, list(self.files)).items():
            content = self.repository.blob_at(tree, path) or b""
            blob = self.repository.store_bytes(content.replace(b"\n", b"\r\n"))
            entries.append((path, entry.mode, blob))
        return self.repository.with_files(tree, entries)
