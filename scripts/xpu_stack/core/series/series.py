"""The series: its stages, their changes, and the files of each change.

`patches/series.yaml` is read here and nowhere else. What can be derived is
derived: a change's text and patch have their places by name, its new files
are the files below the payload folders it claims. A base may have patches and
payload files of its own in place of these, see Note [What a base shares] (base.py).
"""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from xpu_stack.core.series import authors
from xpu_stack.core.series.base import Differences, base_names
from xpu_stack.core.series.change import NAME, Change, ChangeText, PayloadFile, Stage
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import SeriesError, UsageError
from xpu_stack.core.system.git import Identity
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings
from xpu_stack.core.system.yaml_file import Node

NO_STAGE = "base"  # STAGE=base: the base alone, nothing applied

_NOT_PAYLOAD = re.compile(r"(^|/)(__pycache__|\.[^/]+|[^/]+~|[^/]+\.pyc)(/|$)")


@dataclass(frozen=True)
class Series:
    """All stages, in order."""

    stages: tuple[Stage, ...]
    author: str  # of the changes that name none
    base: str
    without: frozenset[str]  # the changes that are not for this base
    elsewhere: Mapping[str, str]  # payload files that other bases have -> their changes

    @property
    def stage_names(self) -> list[str]:
        return [stage.name for stage in self.stages]

    def up_to(self, stage: str) -> tuple[Stage, ...]:
        """The stages up to and including `stage`."""
        if stage == NO_STAGE:
            return ()
        if stage not in self.stage_names:
            raise UsageError(
                f"There is no stage '{stage}'.",
                why=f"the stages there are: {', '.join(self.stage_names)}",
                next=commands.make("apply", STAGE=self.stage_names[-1]),
            )
        return self.stages[: self.stage_names.index(stage) + 1]

    def changes(self, point: str) -> list[Change]:
        """The changes up to and including a stage, or a change: <stage>/<change>."""
        stage, _, name = point.partition("/")
        changes = [change for one in self.up_to(stage) for change in one.changes]
        if not name:
            return changes
        for number, change in enumerate(changes, start=1):
            if change.id == point:
                return changes[:number]
        own = [change.id for change in changes if change.stage == stage]
        raise UsageError(
            f"There is no change '{point}'.",
            why=f"the changes of its stage are: {', '.join(own) or 'none'}",
            next=commands.make("status"),
        )

    def point(self, stage: str | None) -> str:
        """The stage or change that is asked for, refused if there is none; else the last stage."""
        chosen = stage or self.stage_names[-1]
        self.changes(chosen)
        return chosen

    def points(self, last: str, *, each: bool = False) -> list[str]:
        """Where tests run on the way to `last`: at the end of stages, or at each change."""
        if each:
            return [change.id for change in self.changes(last)]
        stage = last.partition("/")[0]
        return [one.name for one in self.up_to(stage)[:-1]] + [last]

    @cached_property
    def by_id(self) -> dict[str, Change]:
        """All changes by their names, in order."""
        return {one.id: one for stage in self.stages for one in stage.changes}

    def all_changes(self) -> Iterator[Change]:
        return iter(self.by_id.values())

    @property
    def owners(self) -> dict[str, str]:
        """Payload file -> its change, of all bases."""
        own = {file.kept_at: one.id for one in self.all_changes() for file in one.files}
        return {**self.elsewhere, **own}

    def identity(self, when: int) -> Identity:
        return Identity.of(self.author, when)

    def author_of(self, change: Change) -> str:
        return change.author or self.author

    @classmethod
    def load(cls, layout: Layout, base: str) -> "Series":
        """Reads and checks the series; errors point at file and line."""
        return _Reader(layout, base).read()


def _with_files(stage: Stage, owned: dict[str, list[PayloadFile]]) -> Stage:
    changes = [
        replace(change, files=tuple(sorted(owned.get(change.id, []), key=lambda one: one.target)))
        for change in stage.changes
    ]
    return replace(stage, changes=tuple(changes))


def _author(node: Node) -> str:
    problem = authors.problem(node.text())
    if problem:
        raise node.error(f"'author' {problem}" if problem.startswith("must") else problem)
    return node.text()


def _check_link(name: PurePosixPath, inner: PurePosixPath, target: str) -> None:
    """Refuses a link by which a file outside the series could be read."""
    if len(name.parts) < 3:
        raise SeriesError(str(name), "is a link; it must be a folder")
    if f"{posixpath.normpath(inner.parent / target)}/".startswith(("/", "../")):
        raise SeriesError(str(name), f"is a link that points outside of the tree: {target}")


def _in_payload_folders(top: Path) -> Iterator[str]:
    """Files and folders below `top`; one that is a link is listed, but not followed."""
    for payload in settings().payload:
        yield payload
        if (top / payload).is_symlink():
            continue
        for folder, folders, files in os.walk(top / payload):
            below = folder[len(str(top)) + 1 :]
            yield from (f"{below}/{name}" for name in folders + files)


_Payload = dict[str, PayloadFile]


class _Reader:
    def __init__(self, layout: Layout, base: str) -> None:
        self.layout = layout
        self.base = base
        self.differences = Differences.load(layout, base)
        self.shown = self._name_of(layout.series_file)
        self.payload, self.elsewhere = self._payload_of_base()
        self.claims: dict[str, tuple[str, Node]] = {}  # -> change, where
        self.patches: set[Path] = set()
        self.texts: set[Path] = set()

    def read(self) -> Series:
        node = Node.load(self.layout.series_file, self.shown)
        node.fields({"author", "stages"})
        author = _author(node["author"])
        stages: list[Stage] = []
        for item in node["stages"].items():
            stage = self._stage(item)
            if stage.name in [other.name for other in stages] or stage.name == NO_STAGE:
                raise item["name"].error(f"the stage '{stage.name}' is there already")
            stages.append(stage)
        if not stages:
            raise node["stages"].error("there must be a stage")
        owners = self._owners()
        owned: dict[str, list[PayloadFile]] = {}
        for name, file in self.payload.items():
            owned.setdefault(owners[name], []).append(file)
        self._check_nothing_left()
        elsewhere = {name: owners[name] for name in self.elsewhere}
        whole = tuple(_with_files(stage, owned) for stage in stages)
        return Series(
            whole,
            author,
            self.base,
            self.differences.without_changes | self._of_other_bases(whole, elsewhere),
            elsewhere,
        )

    def _of_other_bases(
        self, stages: tuple[Stage, ...], elsewhere: Mapping[str, str]
    ) -> frozenset[str]:
        """The changes that are empty here and not elsewhere; one that is everywhere is new."""
        empty = {one.id for stage in stages for one in stage.changes if not one.is_begun}
        left = empty.intersection(elsewhere.values())
        if self.differences.of_package:  # which takes no patches of the base that it is like
            like = self.differences.like
            left |= {one for one in empty if self.layout.patch(like, one).exists()}
        return frozenset(left)

    def _stage(self, node: Node) -> Stage:
        node.fields({"name", "summary", "changes"})
        name = self._checked_name(node["name"])
        items = node["changes"].items()
        if not items:
            raise node["changes"].error(f"the stage '{name}' has no change")
        changes: list[Change] = []
        for number, item in enumerate(items, start=1):
            change = self._change(item, name, number, len(items))
            if change.name in [other.name for other in changes]:
                raise item["name"].error(f"the change '{change.id}' is there already")
            changes.append(change)
        return Stage(name, node["summary"].text(), tuple(changes))

    def _change(self, node: Node, stage: str, number: int, of: int) -> Change:
        node.fields({"name"}, {"author", "files"})
        name = self._checked_name(node["name"])
        text = self.layout.patches / "texts" / stage / f"{name}.md"
        self.texts.add(text)
        if "files" in node:
            self._claim(node, f"{stage}/{name}", stage)
        bases = filter(None, (self.base, self.differences.patches_of))
        own, *others = (self.layout.patch(one, f"{stage}/{name}") for one in bases)
        self.patches.add(own)
        for path in (text, own, *others):
            if path.is_symlink():
                raise SeriesError(self._name_of(path), "is a link; it must be a file")
        patch = next((path for path in (own, *others) if path.exists()), None)
        return Change(
            stage=stage,
            name=name,
            number=number,
            of=of,
            text=ChangeText.read(text, self._name_of(text)),
            files=(),  # known when all claims are
            patch=patch if patch and patch.stat().st_size else None,
            place=node.place,
            author=_author(node["author"]) if "author" in node else None,
        )

    def _claim(self, node: Node, change: str, stage: str) -> None:
        for item in node["files"].items():
            path = PurePosixPath(item.text())
            prefix = str(path)
            if path.parts[0] not in settings().payload or path.parts[1:2] != (stage,):
                folders = ", ".join(f"{folder}/{stage}" for folder in settings().payload)
                raise item.error(f"'{prefix}' is not below {folders}")
            if prefix in self.claims:
                raise item.error(f"'{prefix}' belongs to '{self.claims[prefix][0]}' already")
            self.claims[prefix] = (change, item)

    def _owners(self) -> dict[str, str]:
        """Payload file -> its change: of the claims on a file, the closest one counts."""
        closest = {name: self._claim_on(name) for name in [*self.payload, *self.elsewhere]}
        claimed = set(closest.values())
        for claim, (_, item) in self.claims.items():
            if claim not in claimed:
                raise item.error(f"'{claim}' has no file")
        for name, found in closest.items():
            if not found:
                raise SeriesError(name, f"no change in {self.shown} claims this file")
        return {name: self.claims[found][0] for name, found in closest.items()}

    def _claim_on(self, name: str) -> str:
        while name and name not in self.claims:
            name = name.rpartition("/")[0]
        return name

    def _check_nothing_left(self) -> None:
        targets: dict[str, str] = {}
        for file in self.payload.values():
            if file.target in targets:
                raise SeriesError(
                    file.kept_at, f"'{file.target}' is written in {targets[file.target]} too"
                )
            if {"..", ".git", ""} & set(file.target.split("/")):
                raise SeriesError(file.kept_at, f"is moved to '{file.target}': no such place")
            targets[file.target] = file.kept_at
        for folder, pattern, known in (
            (self.layout.base_folder(self.base), "*/*.patch", self.patches),
            (self.layout.patches / "texts", "*/*", self.texts),
        ):
            for path in sorted(folder.glob(pattern)):
                if path not in known:
                    raise SeriesError(self._name_of(path), f"belongs to no change in {self.shown}")

    def _payload_of_base(self) -> tuple[_Payload, set[str]]:
        """The payload files of the base, and the names of those that only other bases have."""
        shared = self._find_payload(self.layout.repository)
        variants = {
            base: self._find_payload(self.layout.variants(base)) for base in base_names(self.layout)
        }
        own = variants.pop(self.base, {})
        there = {
            name: replace(file, target=self.differences.moved.get(name, file.target))
            for name, file in shared.items()
            if self.differences.takes(name)
        } | own
        return there, set().union(shared, *variants.values()) - set(there)

    def _find_payload(self, top: Path) -> _Payload:
        """The payload files below `top`, which has the payload folders."""
        found = {}
        for name in sorted(_in_payload_folders(top)):
            inner = name.split("/", 2)[2] if name.count("/") > 1 else ""
            if _NOT_PAYLOAD.search(inner):
                continue
            path = top / name
            if path.is_symlink():
                _check_link(PurePosixPath(name), PurePosixPath(inner), str(path.readlink()))
            elif not inner or path.is_dir():
                continue
            found[name] = PayloadFile(path, name, inner)
        return found

    def _checked_name(self, node: Node) -> str:
        name = node.text()
        if not NAME.match(name):
            raise node.error(f"'{name}' is no name: small letters, digits, '-' and '_'")
        return name

    def _name_of(self, path: Path) -> str:
        return path.relative_to(self.layout.repository).as_posix()
