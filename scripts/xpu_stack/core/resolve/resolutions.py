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

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve.merging import REGULAR, Merge, marked
from xpu_stack.core.system import commands, transaction
from xpu_stack.core.system import patch as patches
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import File, Repository, TreeId
from xpu_stack.core.system.objects import ABSENT
from xpu_stack.core.system.yaml_file import Node

_ABOUT = "resolution.yaml"
_STAGES = "stages"
_ALSO = "also.patch"


@dataclass(frozen=True)
class Resolution:
    """The resolution of a conflict. mode: of the file, where `stages` is of what met there."""

    id: str
    change: str
    file: str
    folder: Path
    mode: str = "100644"

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


class Hunks(NamedTuple):
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
            found.append(node.into(Resolution, id=about.parent.name, folder=about.parent))
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
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        stored = self.repository.store({str(one.relative_to(self.folder)): one for one in paths})
        return "".join(f"{file.blob} {name}\n" for name, file in stored.items())

    def replay(self, merge: Merge) -> tuple[Merge, tuple[Resolution, ...]]:
        """The merge with the resolutions that are known, and these."""
        repository, known = self.repository, {one.id: one for one in self.all()}
        if not known or not merge.stages:
            return merge, ()
        settled: dict[str, File] = {}
        used, hunks = [], hunks_of(repository, merge)
        before, store = repository.files(merge.tree, hunks), repository.store_bytes
        for path in merge.stages:
            file, one = None, known.get(self._id_of_stages(merge, path))
            if one:  # to just these versions: before others
                postimage, file = one.folder / "postimage", ABSENT
                if postimage.exists():
                    file = File(int(one.mode, 8), store(postimage.read_bytes()))
            elif path in hunks and (one := known.get(hunks[path].id)):
                content = self._of_hunks(one, hunks[path])
                file = None if content is None else File(before[path].mode, store(content))
            if one and file:
                settled[path] = file
                used.append(one)
        tree = repository.with_files(merge.tree, settled)
        for one in used:
            if (one.folder / _ALSO).exists():
                edited, _ = patches.applied(repository, tree, one.folder / _ALSO)
                if edited is None:  # what it edits has changed: ask again
                    return merge, ()
                tree = edited
        left = {path: merge.stages[path] for path in merge.stages if path not in settled}
        return replace(merge, tree=tree, stages=left), tuple(used)

    def _of_hunks(self, one: Resolution, hunks: Hunks) -> bytes | None:
        variants = _variants(one.folder)
        for preimage, postimage in variants.values():
            if preimage.read_bytes() == hunks.preimage:
                return postimage.read_bytes()
        with tempfile.NamedTemporaryFile(prefix="stack-") as image:
            image.write(hunks.preimage)
            image.flush()
            for _, pair in sorted(variants.items(), reverse=True):
                words = ("merge-file", "--stdout", "--quiet", image.name, *map(str, pair))
                merged = self.repository.run(*words, check=False)
                if not merged.code and not marked(merged.output):
                    return merged.output
        return None

    def record(
        self, change: str, merge: Merge, hunks: Mapping[str, Hunks], resolved: TreeId
    ) -> dict[Path, Content]:
        """What is to be written so that this merge is resolved so from now on.

        hunks: the merge's, from hunks_of.
        """
        repository, paths = self.repository, list(merge.stages)
        now, before = (repository.files(tree, paths) for tree in (resolved, merge.tree))
        written: dict[Path, Content] = {}
        for path, stages in merge.stages.items():
            found, file, about = hunks.get(path), now.get(path), {"change": change, "file": path}
            content = repository.blob_at(resolved, path)
            folder = of_stages = self.folder / self._id_of_stages(merge, path)
            same_mode = file and path in before and file.mode == before[path].mode
            if found and same_mode and self.folder / found.id / _ABOUT not in written:
                folder = self.folder / found.id
                variants = _variants(folder)
                same = (n for n in variants if variants[n][0].read_bytes() == found.preimage)
                number = next(same, max(variants, default=-1) + 1)
                suffix = f".{number}" if number else ""
                written[folder / f"preimage{suffix}"] = 0o100644, found.preimage
                written[folder / f"postimage{suffix}"] = 0o100644, content or b""
                # a resolution of just these versions would come before it
                written |= dict.fromkeys(of_stages.glob("*"))
            else:
                written[folder / _STAGES] = 0o100644, _listed(path, stages)
                written[folder / "postimage"] = None if content is None else (0o100644, content)
                about |= {"mode": f"{file.mode:o}"} if file else {}
            text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in about.items())
            written[folder / _ABOUT] = 0o100644, text.encode()
        if written:
            differing = repository.diff(merge.tree, resolved)
            others = [one.path for one in differing if one.path not in merge.stages]
            also = repository.patch(merge.tree, resolved, others) if others else b""
            written[next(iter(written)).parent / _ALSO] = (0o100644, also) if also else None
        return written

    def _id_of_stages(self, merge: Merge, path: str) -> str:
        return self.repository.store_bytes(_listed(path, merge.stages[path]))


def of(work: Workspace) -> Resolutions:
    """Those of the base that a checkout is on."""
    return Resolutions(work.repository, work.layout.resolutions(work.base.name))


def _listed(path: str, stages: Mapping[int, File]) -> bytes:
    lines = [
        f"{file.mode:06o} {file.blob} {stage}\t{path}\n" for stage, file in sorted(stages.items())
    ]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _variants(folder: Path) -> dict[int, tuple[Path, Path]]:
    found = {}
    for preimage in folder.glob("preimage*"):
        suffix = preimage.name.removeprefix("preimage")
        number, postimage = suffix.removeprefix("."), folder / f"postimage{suffix}"
        if postimage.exists() and (number.isdigit() or not suffix):
            found[int(number or 0)] = (preimage, postimage)
    return found


def hunks_of(repository: Repository, merge: Merge) -> dict[str, Hunks]:
    """The lines in conflict, by file, as `git rerere` finds them in a repository of their own."""
    files = {}
    for path, stages in merge.stages.items():
        content = repository.blob_at(merge.tree, path) or b""
        if all(n in stages and stages[n].mode in REGULAR for n in (2, 3)) and marked(content):
            files[path] = content
    if not files:
        return {}
    with tempfile.TemporaryDirectory(prefix="stack-") as folder:
        scratch = Repository(Path(folder))
        scratch.run("init", "--quiet", "--template=")
        listed = b"".join(_listed(path, merge.stages[path]) for path in files)
        scratch.run("update-index", "-z", "--index-info", input=listed.replace(b"\n", b"\0"))
        for path, content in files.items():
            transaction.put(scratch.folder / path, 0o100644, content, for_good=False)
        scratch.run("-c", "rerere.enabled=true", "rerere")
        state, found = scratch.git_dir / "MERGE_RR", {}
        told = state.read_text("utf-8", "surrogateescape") if state.exists() else ""
        for record in filter(None, told.split("\0")):
            name, path = record.split("\t", 1)
            id_, dot, variant = name.partition(".")
            preimage = scratch.git_dir / "rr-cache" / id_ / f"preimage{dot}{variant}"
            found[path] = Hunks(id_, preimage.read_bytes())
        return found


def emptied(repository: Repository, conflicts: Mapping[str, Hunks], resolved: TreeId) -> list[str]:
    """The conflicts with lines on both sides of which the resolution has none: file and line."""
    import difflib  # here, since every verb loads this module

    found = []
    for path, hunks in conflicts.items():
        content = repository.blob_at(resolved, path)
        if content is None:
            found.append(path)
            continue
        old, new = hunks.preimage.splitlines(), content.splitlines()
        edits = difflib.SequenceMatcher(None, old, new).get_opcodes()
        gone = [
            range(start + 1, end + 1)
            for kind, start, end, first, last in edits
            if kind != "equal" and not b"".join(new[first:last]).strip()
        ]
        found += [
            f"{path}:{first}"
            for first, middle, last in marked(hunks.preimage)
            if first + 1 < middle < last - 1 and any(first in one and last in one for one in gone)
        ]
    return found
