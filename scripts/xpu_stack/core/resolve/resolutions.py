"""How conflicts were resolved: kept with the series, as git's rerere keeps them.

Note [Resolutions]
~~~~~~~~~~~~~~~~~~
patches/<base>/resolutions/<id>/ has the resolution of a conflict in one file, in the
format of .git/rr-cache. `preimage` is the file with its conflict markers,
`postimage` the file as a person resolved it, and <id> is git's hash of the
lines in conflict. Where the same lines conflict again, in whatever else has
become of the file and of the base, git merges what leads from preimage to
postimage into it. preimage.1, postimage.1 and so on are git's variants: the
same lines in other surroundings.

rerere leaves out conflicts that are not of lines: a file that the base has
deleted, a binary file. For these `stages` lists the versions that met, and <id>
is its hash; without a postimage the file is removed. `also.patch` has the edits
that were made in files without a conflict. resolution.yaml names the change and
the file, for people.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve.merging import REGULAR, Merge
from xpu_stack.core.system import commands
from xpu_stack.core.system import patch as patches
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.git import File, Repository, TreeId
from xpu_stack.core.system.yaml_file import Node

_ABOUT = "resolution.yaml"
_STAGES = "stages"
_ALSO = "also.patch"
_MARKER = b"<<<<<<< "
Kept = tuple[int, bytes] | None  # mode and content of a file; None: there is none
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)


@dataclass(frozen=True)
class Resolution:
    """The resolution of a conflict."""

    id: str
    change: str
    file: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.id[:12]}  {self.change}  {self.file}"

    def shown(self, repository: Repository) -> str:
        """What it makes of the conflict, as diffs."""
        words = ("diff", "--no-index", "--no-color", "--no-ext-diff", "--no-prefix")
        told = [
            repository.run(*words, *map(str, files), check=False).text
            for files in _variants(self.folder).values()
        ]
        if (self.folder / _STAGES).exists():
            resolved = self.folder / "postimage"
            became = "is as in postimage" if resolved.exists() else "is removed"
            told.append(f"{(self.folder / _STAGES).read_text()}{self.file} {became}\n")
        if (self.folder / _ALSO).exists():
            told.append((self.folder / _ALSO).read_text())
        return "\n".join(told).rstrip()


@dataclass(frozen=True)
class Replayed:
    """A merge with the known resolutions in it."""

    tree: TreeId
    left: tuple[str, ...]  # the files that are still in conflict
    used: tuple[Resolution, ...]


@dataclass(frozen=True)
class Hunks:
    """The lines in conflict of a file: git's id of them, and the file as rerere keeps it."""

    id: str
    preimage: bytes


@dataclass(frozen=True)
class Resolutions:
    """The resolutions of a series on one base."""

    repository: Repository
    folder: Path

    def all(self) -> list[Resolution]:
        found = []
        for about in sorted(self.folder.glob(f"*/{_ABOUT}")):
            node = Node.load(about, about.relative_to(self.folder.parents[2]).as_posix())
            node.fields({"change", "file"}, {"mode"})
            name = about.parent.name
            found.append(Resolution(name, node["change"].text(), node["file"].text(), about.parent))
        return found

    def one(self, id: str) -> Resolution:
        """That whose id begins so."""
        found = [one for one in self.all() if one.id.startswith(id)]
        if len(found) != 1:
            raise UsageError(
                f"There {'is no resolution' if not found else 'are several resolutions'} '{id}'.",
                why="an id, or the beginning of one, must name one resolution",
                next=commands.make("resolutions"),
            )
        return found[0]

    def digest(self) -> str:
        sum = hashlib.sha256()
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            sum.update(f"{path.relative_to(self.folder)}\0".encode())
            sum.update(hashlib.sha256(path.read_bytes()).digest())
        return sum.hexdigest()

    # -- replaying them --------------------------------------------------------

    def replay(self, merge: Merge) -> Replayed:
        """The merge with the resolutions that are known."""
        repository = self.repository
        known = {one.id: one for one in self.all()}
        if not known or not merge.stages:
            return Replayed(merge.tree, tuple(merge.stages), ())
        hunks = hunks_of(repository, merge)
        settled: dict[str, File] = {}
        used = []
        for path, stages in merge.stages.items():
            for id_, resolved in self._resolutions(merge, path, stages, hunks.get(path)):
                if id_ in known:
                    mode, content = resolved or (0, b"")
                    settled[path] = File(mode, repository.store_bytes(content))
                    used.append(known[id_])
                    break
        tree = repository.with_files(merge.tree, settled)
        for one in used:
            also = one.folder / _ALSO
            if also.exists():
                edited, _ = patches.applied(repository, tree, also)
                if edited is None:  # what it edits has changed: ask again
                    return Replayed(merge.tree, tuple(merge.stages), ())
                tree = edited
        return Replayed(tree, tuple(one for one in merge.stages if one not in settled), tuple(used))

    def _resolutions(
        self, merge: Merge, path: str, stages: Mapping[int, File], hunks: Hunks | None
    ) -> Iterator[tuple[str, Kept]]:
        """The resolutions of a file, each with its id; that to just these versions comes first."""
        id_ = self._id_of_stages(path, stages)
        folder = self.folder / id_
        if (folder / _STAGES).exists():
            yield id_, _kept(folder)
        if hunks is not None:
            content = self._of_hunks(hunks)
            if content is not None:
                yield hunks.id, (self.repository.files(merge.tree, [path])[path].mode, content)

    def _of_hunks(self, hunks: Hunks) -> bytes | None:
        variants = _variants(self.folder / hunks.id)
        for preimage, postimage in variants.values():
            if preimage.read_bytes() == hunks.preimage:
                return postimage.read_bytes()
        for number in sorted(variants, reverse=True):
            content = _merged(self.repository, hunks.preimage, *variants[number])
            if content is not None:
                return content
        return None

    # -- keeping them --------------------------------------------------------------

    def record(
        self, change: str, merge: Merge, hunks: Mapping[str, Hunks], resolved: TreeId
    ) -> dict[Path, Kept]:
        """What is to be written so that this merge is resolved so from now on.

        hunks: the merge's, from hunks_of.
        """
        repository = self.repository
        now = repository.files(resolved, list(merge.stages))
        modes = repository.files(merge.tree, list(merge.stages))
        written: dict[Path, Kept] = {}
        first: Path | None = None
        for path, stages in merge.stages.items():
            found, told = hunks.get(path), now.get(path)
            same_mode = told is not None and path in modes and told.mode == modes[path].mode
            folder = self.folder / (found.id if found else "")
            content = repository.blob_at(resolved, path)
            if found is None or not same_mode or folder / _ABOUT in written:
                folder = self.folder / self._id_of_stages(path, stages)
                files = {
                    folder / _STAGES: (0o100644, _listed(path, stages)),
                    folder / "postimage": None if content is None else (0o100644, content),
                }
            else:
                assert content is not None
                files = _with_variant(folder, found, content)
                # a resolution of just these versions would come before it
                older = self.folder / self._id_of_stages(path, stages)
                files |= dict.fromkeys(older.glob("*"))
            about = {"change": change, "file": path}
            if told is not None and folder / _STAGES in files:
                about["mode"] = f"{told.mode:o}"
            text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in about.items())
            written |= {**files, folder / _ABOUT: (0o100644, text.encode())}
            first = first or folder
        if first is not None:
            also = self._also(merge, resolved)
            written[first / _ALSO] = (0o100644, also) if also else None
        return written

    def _also(self, merge: Merge, resolved: TreeId) -> bytes:
        differing = self.repository.diff(merge.tree, resolved)
        others = [entry.path for entry in differing if entry.path not in merge.stages]
        return self.repository.patch(merge.tree, resolved, others) if others else b""

    def _id_of_stages(self, path: str, stages: Mapping[int, File]) -> str:
        words = ("hash-object", "--stdin")
        return self.repository.run(*words, input=_listed(path, stages)).text.strip()

    def without(self, one: Resolution) -> dict[Path, Kept]:
        """What is to be written so that it is forgotten."""
        return dict.fromkeys(sorted(one.folder.glob("*")))


def of(work: Workspace) -> Resolutions:
    """Those of the base that a checkout is on."""
    return Resolutions(work.repository, work.layout.resolutions(work.base.name))


def _listed(path: str, stages: Mapping[int, File]) -> bytes:
    lines = [
        f"{file.mode:06o} {file.blob} {stage}\t{path}\n" for stage, file in sorted(stages.items())
    ]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _kept(folder: Path) -> Kept:
    postimage = folder / "postimage"
    if not postimage.exists():
        return None
    about = Node.load(folder / _ABOUT, _ABOUT)
    mode = about["mode"].text() if "mode" in about else "100644"
    return int(mode, 8), postimage.read_bytes()


def _variants(folder: Path) -> dict[int, tuple[Path, Path]]:
    found = {}
    for preimage in folder.glob("preimage*"):
        suffix = preimage.name.removeprefix("preimage")
        number, postimage = suffix.removeprefix("."), folder / f"postimage{suffix}"
        if postimage.exists() and (number.isdigit() or not suffix):
            found[int(number or 0)] = (preimage, postimage)
    return found


def _with_variant(folder: Path, hunks: Hunks, content: bytes) -> dict[Path, Kept]:
    variants = _variants(folder)
    number = next(
        (n for n, (preimage, _) in variants.items() if preimage.read_bytes() == hunks.preimage),
        max(variants, default=-1) + 1,
    )
    suffix = f".{number}" if number else ""
    return {
        folder / f"preimage{suffix}": (0o100644, hunks.preimage),
        folder / f"postimage{suffix}": (0o100644, content),
    }


def _merged(repository: Repository, this: bytes, preimage: Path, postimage: Path) -> bytes | None:
    """What rerere makes of a file: the way from preimage to postimage, merged into it."""
    with tempfile.TemporaryDirectory(prefix="stack-") as folder:
        image = Path(folder) / "thisimage"
        image.write_bytes(this)
        words = ("merge-file", "--stdout", "--quiet", str(image), str(preimage), str(postimage))
        result = repository.run(*words, check=False)
    return None if result.code or is_marked(result.output) else result.output


def is_marked(content: bytes) -> bool:
    """Whether there is a conflict marker in it; rerere's have no label."""
    return any(line.startswith(_MARKER) or line == _MARKER[:-1] for line in content.splitlines())


def hunks_of(repository: Repository, merge: Merge) -> dict[str, Hunks]:
    """The lines in conflict, by file, as `git rerere` finds them in a repository of their own."""
    marked = {}
    for path, stages in merge.stages.items():
        content = repository.blob_at(merge.tree, path)
        both = all(stages[n].mode in REGULAR if n in stages else False for n in (2, 3))
        if both and content is not None and is_marked(content):
            marked[path] = content
    if not marked:
        return {}
    with tempfile.TemporaryDirectory(prefix="stack-") as folder:
        return _rerere(Repository(Path(folder)), merge, marked)


def _rerere(scratch: Repository, merge: Merge, marked: Mapping[str, bytes]) -> dict[str, Hunks]:
    scratch.run("init", "--quiet", "--template=")
    listed = b"".join(_listed(path, merge.stages[path]) for path in marked)
    scratch.run("update-index", "-z", "--index-info", input=listed.replace(b"\n", b"\0"))
    for path, content in marked.items():
        file = scratch.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    scratch.run("-c", "rerere.enabled=true", "rerere")
    state = scratch.git_dir / "MERGE_RR"
    found = {}
    for record in state.read_text("utf-8", "surrogateescape").split("\0") if state.exists() else ():
        if record:
            name, path = record.split("\t", 1)
            id_, dot, variant = name.partition(".")
            preimage = scratch.git_dir / "rr-cache" / id_ / f"preimage{dot}{variant}"
            found[path] = Hunks(id_, preimage.read_bytes())
    return found


def emptied(repository: Repository, conflicts: Mapping[str, Hunks], resolved: TreeId) -> list[str]:
    """The conflicts for which the resolution has nothing of either side: file and line there."""
    found = []
    for path, hunks in conflicts.items():
        content = repository.blob_at(resolved, path)
        if content is None:
            found.append(path)
            continue
        gone = _gone(repository, hunks.preimage, content)
        found += [
            f"{path}:{first}"
            for first, last in _both_sided(hunks.preimage)
            if any(start <= first and last <= end for start, end in gone)
        ]
    return found


def _both_sided(preimage: bytes) -> Iterator[tuple[int, int]]:
    """First and last line of the conflicts in which both sides have lines."""
    start = middle = 0
    for number, line in enumerate(preimage.splitlines(), start=1):
        mark = line.rstrip()
        if mark == b"<<<<<<<":
            start = number
        elif mark == b"=======":
            middle = number
        elif mark == b">>>>>>>" and start + 1 < middle < number - 1:
            yield start, number


def _gone(repository: Repository, old: bytes, new: bytes) -> list[tuple[int, int]]:
    """First and last line of the parts of `old` in whose place `new` has no words."""
    with tempfile.TemporaryDirectory(prefix="stack-") as folder:
        files = Path(folder) / "old", Path(folder) / "new"
        for file, content in zip(files, (old, new), strict=True):
            file.write_bytes(content)
        words = ("diff", "--no-index", "--text", "--no-color", "--no-ext-diff", "--unified=0")
        told = repository.run(*words, *map(str, files), check=False).text
    heads = list(_HUNK.finditer(told))
    ends = [head.start() for head in heads[1:]] + [len(told)]
    found = []
    for head, end in zip(heads, ends, strict=True):
        lines = told[head.end() : end].split("\n")[1:]
        if not any(line.startswith("+") and line[1:].strip() for line in lines):
            start, count = int(head[1]), int(head[2] or 1)
            found.append((start, start + count - 1))
    return found
