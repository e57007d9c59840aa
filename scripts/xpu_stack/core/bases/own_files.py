"""What bases that are like another one have of their own, when the series is reshaped.

Their patches and variants go with the change, see Note [What a base shares] (base.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from xpu_stack.core.bases.payload import Source
from xpu_stack.core.series import base_file
from xpu_stack.core.series.base import Base, base_names, is_below
from xpu_stack.core.series.change import PayloadFile
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import files
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.layout import Layout


@dataclass(frozen=True)
class OwnFiles:
    """The patches, variants and base.yaml of such a base."""

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

    def restored(
        self, before: Mapping[Path, Content], after: Mapping[Path, Content], change: str
    ) -> dict[Path, Source]:
        """The files that a drop of the change took, and that are as it left them."""
        found, top = {}, self.layout.variants(self.base.name)
        for path, content in before.items():
            if path.is_relative_to(top.parent) and content and files.is_as(path, after[path]):
                is_variant = path.is_relative_to(top)
                kept_at = path.relative_to(top).as_posix() if is_variant else ""
                found[path] = Source(
                    path, content[1], content[0], change if is_variant else "", kept_at
                )
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
        return Source(path, base_file.text(path, self.base.name, self.base.git, new))
