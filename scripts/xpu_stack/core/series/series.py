"""The series: its stages, their changes, and the files of each change.

`patches/series.yaml` is read here and nowhere else. What can be derived is
derived: a change's text and patch have their places by name, its new files
are the files below the payload folders it claims. A base may have patches and
payload files of its own in place of these, see Note [What a base shares] (base.py).
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from xpu_stack.core.series import authors
from xpu_stack.core.series.base import Differences, base_names
from xpu_stack.core.series.change import NAME, Change, ChangeText, PayloadFile, Stage, closest
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import SeriesError, UsageError
from xpu_stack.core.system.layout import CONTROL, Layout, settings
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

    def author_of(self, change: Change) -> str:
        return change.author or self.author

    @classmethod
    def load(cls, layout: Layout, base: str) -> "Series":
        """Reads and checks the series; errors point at file and line."""
        return _Reader(layout, base).read()


def _author(node: Node) -> str:
    if problem := authors.problem(node.text()):
        raise node.error(f"'author' {problem}" if problem.startswith("must") else problem)
    return node.text()


def _check_link(path: Path, top: Path) -> None:
    """Refuses a link by which a file outside the series could be read."""
    name, target = path.relative_to(top), path.readlink()
    if len(name.parts) < 3:
        raise SeriesError(str(name), "is a link; it must be a folder")
    inside = posixpath.normpath(PurePosixPath(*name.parts[2:-1]) / target)
    if f"{inside}/".startswith(("/", "../")):
        raise SeriesError(str(name), f"is a link that points outside of the tree: {target}")


class _Reader:
    def __init__(self, layout: Layout, base: str) -> None:
        self.layout = layout
        self.base = base
        self.differences = Differences.load(layout, base)
        self.shown = self._name_of(layout.series_file)
        shared = self._find_payload(layout.repository)
        variants = {one: self._find_payload(layout.variants(one)) for one in base_names(layout)}
        own = variants.pop(base, {})
        self.payload = {
            name: replace(file, target=self.differences.moved.get(name, file.target))
            for name, file in shared.items()
            if self.differences.takes(name)
        } | own
        # what only other bases have
        self.elsewhere = set().union(shared, *variants.values()) - self.payload.keys()
        self.names = {f"the stage '{NO_STAGE}'"}  # and those of changes
        self.claims: dict[str, tuple[str, Node]] = {}  # -> change, where
        self.files: dict[str, list[PayloadFile]] = {}  # of each change; known when all claims are
        self.places: set[Path] = set()  # of patches and texts

    def read(self) -> Series:
        node = Node.load(self.layout.series_file, self.shown)
        node.fields({"author", "stages"})
        author, stages = _author(node["author"]), tuple(map(self._stage, node["stages"].items()))
        if not stages:
            raise node["stages"].error("there must be a stage")
        owners = self._owners()
        for file in sorted(self.payload.values(), key=lambda one: one.target):
            self.files[owners[file.kept_at]].append(file)
        self._check_nothing_left()
        elsewhere = {name: owners[name] for name in self.elsewhere}
        without = self.differences.without_changes | self._of_other_bases(stages, elsewhere)
        return Series(stages, author, self.base, without, elsewhere)

    def _of_other_bases(self, stages: Iterable[Stage], elsewhere: Mapping[str, str]) -> set[str]:
        """The changes that are empty here and not elsewhere; one that is everywhere is new."""
        empty = {one.id for stage in stages for one in stage.changes if not one.is_begun}
        left = empty.intersection(elsewhere.values())
        if self.differences.of_package:  # which takes no patches of the base that it is like
            like = self.differences.like
            left |= {one for one in empty if self.layout.patch(like, one).exists()}
        return left

    def _stage(self, node: Node) -> Stage:
        node.fields({"name", "summary", "changes"})
        name = self._checked_name(node["name"])
        if not (items := node["changes"].items()):
            raise node["changes"].error(f"the stage '{name}' has no change")
        changes = [self._change(one, name, n, len(items)) for n, one in enumerate(items, start=1)]
        self._refuse_second(node["name"], f"the stage '{name}'")
        return Stage(name, node["summary"].text(), tuple(changes))

    def _change(self, node: Node, stage: str, number: int, of: int) -> Change:
        node.fields({"name"}, {"author", "files"})
        name = self._checked_name(node["name"])
        id_ = f"{stage}/{name}"
        self._refuse_second(node["name"], f"the change '{id_}'")
        if "files" in node:
            self._claim(node, id_, stage)
        text = self.layout.patches / "texts" / f"{id_}.md"
        bases = filter(None, (self.base, self.differences.patches_of))
        own, *others = (self.layout.patch(one, id_) for one in bases)
        self.places |= {text, own}
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
            files=self.files.setdefault(id_, []),
            patch=patch if patch and patch.stat().st_size else None,
            place=node.place,
            author=_author(node["author"]) if "author" in node else None,
        )

    def _checked_name(self, node: Node) -> str:
        name = node.text()
        if not NAME.match(name):
            raise node.error(f"'{name}' is no name: small letters, digits, '-' and '_'")
        return name

    def _refuse_second(self, node: Node, shown: str) -> None:
        if shown in self.names:
            raise node.error(f"{shown} is there already")
        self.names.add(shown)

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
        found = {name: closest(name, self.claims) for name in [*self.payload, *self.elsewhere]}
        claimed = set(found.values())
        for claim, (_, item) in self.claims.items():
            if claim not in claimed:
                raise item.error(f"'{claim}' has no file")
        for name, claim in found.items():
            if not claim:
                raise SeriesError(name, f"no change in {self.shown} claims this file")
        return {name: self.claims[claim][0] for name, claim in found.items()}

    def _check_nothing_left(self) -> None:
        targets: dict[str, str] = {}
        for file in self.payload.values():
            if file.target in targets:
                problem = f"'{file.target}' is written in {targets[file.target]} too"
                raise SeriesError(file.kept_at, problem)
            if {"..", ".git", ""} & set(file.target.split("/")):
                raise SeriesError(file.kept_at, f"is moved to '{file.target}': no such place")
            targets[file.target] = file.kept_at
        patches = (self.layout.patches / self.base).glob("*/*.patch")
        for path in sorted([*patches, *(self.layout.patches / "texts").glob("*/*")]):
            if path not in self.places:
                raise SeriesError(self._name_of(path), f"belongs to no change in {self.shown}")

    def _find_payload(self, top: Path) -> dict[str, PayloadFile]:
        """The payload files below `top`, which has the payload folders."""
        folders, found = [top / name for name in settings().payload], {}
        # a link is listed, but not followed
        inside = (path for one in folders if not one.is_symlink() for path in one.rglob("*"))
        for path in [*folders, *sorted(inside)]:
            name = path.relative_to(top).as_posix()
            inner = "/".join(path.relative_to(top).parts[2:])
            if _NOT_PAYLOAD.search(inner):
                continue
            if CONTROL.search(name):
                raise SeriesError(ascii(name), "has a control character, or is not UTF-8")
            if path.is_symlink():
                _check_link(path, top)
            if inner and (path.is_symlink() or not path.is_dir()):
                found[name] = PayloadFile(path, name, inner)
        return found

    def _name_of(self, path: Path) -> str:
        return path.relative_to(self.layout.repository).as_posix()
