"""What else of the series goes with its changes when it is reshaped.

The patches and variants of bases that are like another one, see Note [What a base
shares] (base.py), resolutions, and pull requests.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from xpu_stack.core.bases.export_base import Source
from xpu_stack.core.edit.plan import Given
from xpu_stack.core.edit.shape import Shape
from xpu_stack.core.lay import applying
from xpu_stack.core.move.rewrite import Rewrite
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.base import Base, base_names, is_below
from xpu_stack.core.series.change import PayloadFile
from xpu_stack.core.series.series import Series
from xpu_stack.core.series.series_file import base_text
from xpu_stack.core.system import files, transaction
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings


@dataclass(frozen=True)
class OwnFiles:
    """The patches, variants and base.yaml of a base that is like another one."""

    layout: Layout
    base: Base

    @classmethod
    def of_all(cls, layout: Layout) -> Iterator["OwnFiles"]:
        for name in base_names(layout):
            base = Base.load(layout, name)
            if base.differences.like:
                yield cls(layout, base)

    def patch(self, change: str) -> Path:
        return self.layout.patch(self.base.name, change)

    @cached_property
    def _owners(self) -> dict[str, str]:
        """Payload file -> its change."""
        return Series.load(self.layout, self.base.differences.like).owners

    @cached_property
    def _variants(self) -> dict[str, Path]:
        """Payload file -> where the base has its own."""
        top = self.layout.variants(self.base.name)
        return {kept_at: top / kept_at for kept_at in self._owners if (top / kept_at).is_file()}

    def has_of(self, change: str) -> bool:
        """Whether it has a patch or a variant of a change."""
        return self.patch(change).exists() or any(
            self._owners[kept_at] == change for kept_at in self._variants
        )

    def carried(self, names: Mapping[str, str], folded: frozenset[str]) -> list[Source]:
        """Its files when changes have other names. names: old -> new; "": the change goes.

        folded: those of them that become a part of another change.
        """
        found = []
        for old, new in names.items():
            patch = self.patch(old)
            if patch.exists():
                found.append(Source(patch, None))
                if new and old not in folded:
                    found.append(Source(self.patch(new), patch.read_bytes()))
        for kept_at, path in self._variants.items():
            change = self._owners[kept_at]
            if change in names:
                found.append(Source(path, None, kept_at=kept_at))
                there, file = self._place(kept_at, names), PayloadFile(path, "", "")
                if there:
                    path = self.layout.variants(self.base.name) / there
                    found.append(Source(path, file.content, file.mode, names[change], there))
        return [*found, self._base_file(names)]

    def split_off(self, change: str, chosen: Callable[[str], bool], name: str) -> list[Source]:
        """What a new change takes of a change: files that other bases lack, and all that move."""
        found = []
        for kept_at, path in self._variants.items():
            home, _, target = kept_at.split("/", 2)
            there = f"{home}/{name.partition('/')[0]}/{target}"
            shared = os.path.lexists(self.layout.repository / kept_at)
            mine = self._owners[kept_at] == change and chosen(target)
            if mine and not (shared and there == kept_at):
                file, new = PayloadFile(path, "", ""), self.layout.variants(self.base.name) / there
                found.append(Source(path, None, kept_at=kept_at))
                found.append(Source(new, file.content, file.mode, name, there))
        return found

    def restored(self, drop: Rewrite, change: str) -> dict[Path, Source]:
        """The files that a drop of the change took, and that are as it left them."""
        found, top = {}, self.layout.variants(self.base.name)
        for path, content in drop.before.items():
            if path.is_relative_to(top.parent) and content and files.is_as(path, drop.after[path]):
                found[path] = Source(path, content[1], content[0])
                if path.is_relative_to(top):
                    kept_at = path.relative_to(top).as_posix()
                    found[path] = replace(found[path], change=change, kept_at=kept_at)
        return found

    def _place(self, kept_at: str, names: Mapping[str, str]) -> str:
        """Where a payload file is kept then; "": nowhere."""
        change = names.get(self._owners.get(kept_at, ""))
        if change is None:
            return kept_at
        home, _, target = kept_at.split("/", 2)
        return f"{home}/{change.partition('/')[0]}/{target}" if change else ""

    def _left_out(self, one: str, names: Mapping[str, str]) -> set[str]:
        """Where a change, a file or a folder that is not for the base is then."""
        if one in self.base.differences.without_changes:
            return {names.get(one, one)}
        home, _, *rest = one.split("/", 2)
        then = {self._place(file, names): file for file in self._owners}
        places = {place for place, file in then.items() if is_below(file, one)}
        found = set()
        for place in places - {""}:
            folder = "/".join([home, place.split("/")[1], *rest])
            inside = [file for other, file in then.items() if is_below(other, folder)]
            whole = all(self._is_left_out(file) for file in inside)
            found.add(folder if whole else place)
        return found if places else {one}

    def _is_left_out(self, file: str) -> bool:
        return any(is_below(file, one) for one in self.base.differences.without)

    def _base_file(self, names: Mapping[str, str]) -> Source:
        old = self.base.differences
        without = set[str]().union(*(self._left_out(one, names) for one in old.without))
        moved = {self._place(one, names): to for one, to in old.moved.items()}
        moved.pop("", None)
        new = replace(old, without=frozenset(without - {""}), moved=moved)
        path = self.base.folders[0] / "base.yaml"
        return Source(path, base_text(path, self.base.name, self.base.git, new))


def of_bases(work: Workspace, shape: Shape, drop: Rewrite | None) -> dict[Path, Source]:
    """The files of bases that are like another one. drop: what took a change that is back."""
    found = split_off(work, shape.given)
    for own in OwnFiles.of_all(work.layout):
        found |= {one.path: one for one in own.carried(shape.names, shape.gone)}
        if drop is not None:
            found |= own.restored(drop, shape.given.request.change)
    return found


def split_off(work: Workspace, given: Given) -> dict[Path, Source]:
    """The files that the base described in full lacks, and that a new change takes."""
    if given.request.verb != "split":
        return {}
    change, name = given.request.change, given.option("NAME")
    return {
        one.path: one
        for own in OwnFiles.of_all(work.layout)
        for one in own.split_off(change, given.chosen, name)
    }


def refitted(
    work: Workspace, own: OwnFiles, shape: Shape, contents: Mapping[Path, Content]
) -> dict[Path, Content]:
    """The files of such a base that are to be others; none if it is neither here nor needed."""
    there, commit = applying.of_base(work, own.base.name), own.base.git.commit
    request = shape.given.request
    changes = {request.change, shape.names.get(request.change, "")} - {""}
    torn = request.verb in ("fold", "split", "edit") and any(own.has_of(one) for one in changes)
    known = own.base.package or (commit and work.repository.commit_id(commit))
    here = known or (work.layout.checkout(own.base.name) / ".git").exists()
    if not here and not torn:
        return {}
    with trial(there, Rewrite({}, contents)) as tried:
        return Shape(there, shape.given, None).refitted(tried)


def keyed_by_change(work: Workspace, shape: Shape, drop: Rewrite | None) -> dict[Path, Content]:
    """Resolutions and pull requests go with a change that has another name."""
    taken = drop.before if drop else {}
    contents = {path: taken[path] for path in taken if "resolutions" in path.parts}
    for path in work.layout.patches.glob("*/resolutions/*/resolution.yaml"):
        contents |= _resolution(path, shape.names)
    for path in work.layout.patches.glob("*/submitted.yaml"):
        text = path.read_text(encoding="utf-8")
        for old, new in shape.renamed.items():
            text = re.sub(
                rf"^( +['\"]?){re.escape(old)}(?=['\"]?:)", rf"\g<1>{new}", text, flags=re.M
            )
        contents[path] = (0o100644, text.encode())
    return contents


def _resolution(path: Path, names: Mapping[str, str]) -> dict[Path, Content]:
    text = path.read_text(encoding="utf-8")
    for old, new in names.items():
        if re.search(rf"^change: ['\"]?{re.escape(old)}['\"]?$", text, re.M):
            if not new:
                return dict.fromkeys(path.parent.iterdir())
            return {path: (0o100644, text.replace(old, new, 1).encode())}
    return {}


@contextmanager
def trial(work: Workspace, edit: Rewrite) -> Iterator[Workspace]:
    """The edited series in a folder of its own; what is wrong with it is found there."""
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        folder, top = Path(name), work.layout.repository
        for part in ("patches", *settings().payload):
            if (top / part).exists():
                shutil.copytree(top / part, folder / part, symlinks=True)
        for path, content in edit.after.items():
            copy = folder / path.relative_to(top)
            copy.unlink(missing_ok=True)
            if content is not None:
                transaction.put(copy, *content)
        layout = Layout(folder, work.layout.state)
        base = Base.load(layout, work.base.name)
        yield replace(work, layout=layout, base=base, series=Series.load(layout, base.name))
