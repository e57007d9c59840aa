"""Editing patches/series.yaml and base.yaml: only the lines that change.

Comments, order and quotes of the others stay as a person wrote them. series.yaml is
taken as blocks of lines, one for each change, in the stages that hold them. The comment lines
just above an item belong to it. What is not edited is written back byte for byte.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from xpu_stack.core.series.base import Differences, GitSource
from xpu_stack.core.system import commands, yaml_file
from xpu_stack.core.system.errors import InvalidSeriesError

SUMMARY = "to be written"  # of a new stage; `make check` asks for a better one

_WIDTH = 80
_FILES = re.compile(r"\s*files:")
_AUTHOR = re.compile(r"\s*author:")


@dataclass
class ChangeBlock:
    """The lines of a change."""

    name: str
    lines: list[str]
    files: list[str]

    def claim(self, files: list[str]) -> None:
        """Makes `files:` this list; without one, the line goes."""
        if files == self.files:
            return
        first, last = self._place()
        if any("#" in line for line in self.lines[first:last]) or (self.files and first == last):
            raise InvalidSeriesError(
                f"The files of '{self.name}' are written in a way that cannot be edited.",
                why="patches/series.yaml needs other files there; comments would be lost",
                next=f"write, by hand: files: [{', '.join(files)}]",
            )
        self.lines[first:last] = _listed(f"{_indent(self.lines)}  ", files)
        self.files = files

    def credit(self, author: str | None) -> None:
        """Makes this the author; None: the line goes."""
        self.lines = [line for line in self.lines if not _AUTHOR.match(line)]
        if author is not None:
            name = next(n for n, line in enumerate(self.lines) if "name:" in line)
            line = f"{_indent(self.lines)}  author: {scalar(author)}\n"
            self.lines.insert(name + 1, line)

    def _place(self) -> tuple[int, int]:
        """Where the lines of `files:` are, or are to be."""
        starts = [n for n, line in enumerate(self.lines) if _FILES.match(line)]
        if not starts:
            after = next(n for n, line in enumerate(self.lines) if "name:" in line) + 1
            return after, after
        first = last = starts[0]
        while last + 1 < len(self.lines) and self._goes_on(first, self.lines[last + 1]):
            last += 1
        return first, last + 1

    def _goes_on(self, first: int, line: str) -> bool:
        """Whether a line is of the list that begins at line `first`."""
        inside = _depth(line) - _depth(self.lines[first])
        return bool(line.strip()) and (inside > 0 or (inside == 0 and line.lstrip()[0] in "-]"))


def _renamed(lines: list[str], old: str, new: str) -> list[str]:
    """The lines of an item with another name."""
    key = re.compile(rf"(\bname:\s*)(['\"]?){re.escape(old)}\2(?=[\s,}}#]|$)")
    number = next((n for n, line in enumerate(lines) if key.search(line)), None)
    if number is None:
        raise InvalidSeriesError(
            f"The name of '{old}' is written in a way that cannot be edited.",
            why="patches/series.yaml has no line with name: and that",
            next=f"write, by hand: name: {old}",
        )
    renamed = key.sub(rf"\g<1>{new}", lines[number], count=1)
    return [*lines[:number], renamed, *lines[number + 1 :]]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def scalar(text: str) -> str:
    """A text in YAML, within a list or not, quoted if it must be."""
    try:
        plain = yaml_file.load(f"[{text}]") == yaml_file.load(f"- {text}") == [text]
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)


def _listed(indent: str, files: list[str]) -> list[str]:
    if not files:
        return []
    files = [scalar(file) for file in files]
    short = f"{indent}files: [{', '.join(files)}]\n"
    if len(short) <= _WIDTH:
        return [short]
    return [f"{indent}files:\n", *(f"{indent}  - {file}\n" for file in files)]


@dataclass
class SeriesFile:
    """The file in blocks of lines."""

    path: Path
    head: list[str]
    stages: dict[str, list[str]]  # what comes before their changes
    changes: dict[str, ChangeBlock]  # by id

    @classmethod
    def read(cls, path: Path) -> "SeriesFile":
        """The file must be valid: `Series.load` has said so."""
        return cls.parse(path, path.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, path: Path, text: str) -> "SeriesFile":
        lines = [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(True)]
        stages = yaml_file.load(text)["stages"]
        items: list[tuple[int, Any]] = []
        for line, stage in zip(stages.lines, stages, strict=True):
            items.append((line, stage))
            items += zip(stage["changes"].lines, stage["changes"], strict=True)
        starts = [_with_comments(lines, line) for line, _ in items] + [len(lines)]
        file = cls(path, lines[: starts[0]], {}, {})
        for (_, item), start, end in zip(items, starts, starts[1:], strict=False):
            name = item["name"]
            if "changes" in item:
                file.stages[name] = lines[start:end]
            else:
                files = [str(one) for one in item.get("files", [])]
                id_ = f"{list(file.stages)[-1]}/{name}"
                file.changes[id_] = ChangeBlock(name, lines[start:end], files)
        return file

    @property
    def text(self) -> str:
        lines, stage = list(self.head), ""
        for id_, change in self.changes.items():
            if stage != _stage(id_):
                stage = _stage(id_)
                lines += self.stages[stage]
            lines += change.lines
        return "".join(lines)

    @property
    def ids(self) -> list[str]:
        return list(self.changes)

    def rename(self, old: str, new: str) -> None:
        """Gives a change another name, and its stage too if it was alone in it.

        It has no place in its new stage before the next `arrange`.
        """
        block, stage, then = self.changes.pop(old), _stage(old), _stage(new)
        name = new.partition("/")[2]
        self.changes[new] = ChangeBlock(name, _renamed(block.lines, block.name, name), block.files)
        if then not in self.stages and all(_stage(id_) != stage for id_ in self.changes):
            self.stages[then] = _renamed(self.stages[stage], stage, then)

    def arrange(self, ids: list[str], way: str = "", known: "SeriesFile | None" = None) -> None:
        """Makes `ids` the changes there are, in this order; what is new gets lines.

        way: what a person can do where the order cannot be; known: where the
        lines of changes and stages are that were there earlier.
        """
        earlier = known or self
        heads, blocks = earlier.stages | self.stages, earlier.changes | self.changes
        # how far the items are in
        outer = _indent(next(iter(self.stages.values())))
        inner = _indent(next(iter(self.changes.values())).lines)
        stages, last = dict[str, list[str]](), ""
        for id_ in ids:
            stage, _, name = id_.partition("/")
            if stage != last and stage in stages:
                raise InvalidSeriesError(
                    f"This order splits the stage '{stage}'.",
                    why=f"{id_} comes after a change of '{last}'",
                    next=f"{way or commands.make('status')} # keep the changes of a stage together",
                )
            told = (f"- name: {stage}", f"  summary: {SUMMARY}", "  changes:")
            stages[stage] = heads.get(stage) or [f"{outer}{line}\n" for line in told]
            blocks.setdefault(id_, ChangeBlock(name, [f"{inner}- name: {name}\n"], []))
            last = stage
        self.stages, self.changes = stages, {id_: blocks[id_] for id_ in ids}

    def summarize(self, stage: str, summary: str) -> None:
        """Gives a stage a summary that has none yet."""
        plain = re.fullmatch(r"[A-Za-z][\w ,.()/-]*", summary)
        written = summary if plain else json.dumps(summary, ensure_ascii=False)
        unwritten, summary = f"summary: {SUMMARY}\n", f"summary: {written}\n"
        self.stages[stage] = [line.replace(unwritten, summary) for line in self.stages[stage]]

    def settle(self, owners: dict[str, str]) -> None:
        """Has every payload file claimed by its change. owners: file -> change."""
        blocks = self.changes.items()
        claims = {PurePosixPath(file): id_ for id_, block in blocks for file in block.files}
        for file, id_ in sorted(owners.items()):
            path = PurePosixPath(file)
            if claims.get(_closest(path, claims)) != id_:
                folder = PurePosixPath(*path.parts[:2])
                alone = {other for kept, other in owners.items() if _below(kept, folder)} == {id_}
                claims[folder if alone else path] = id_
        used = {_closest(PurePosixPath(file), claims) for file in owners}
        for id_, block in blocks:
            block.claim([str(one) for one, owner in claims.items() if owner == id_ and one in used])

    def credit(self, id_: str, author: str | None) -> None:
        """Names the author of a change; None: it is the series'."""
        self.changes[id_].credit(author)


def _stage(id_: str) -> str:
    return id_.partition("/")[0]


def _closest(path: PurePosixPath, claims: Mapping[PurePosixPath, str]) -> PurePosixPath:
    return next((one for one in [path, *path.parents] if one in claims), path)


def _below(file: str, folder: PurePosixPath) -> bool:
    return PurePosixPath(file).is_relative_to(folder)


def _indent(lines: list[str]) -> str:
    item = next(line for line in lines if line.lstrip().startswith("- "))
    return " " * _depth(item)


def _with_comments(lines: list[str], item: int) -> int:
    """The first line of an item that begins at line `item`: its comments are above it."""
    while item > 0 and lines[item - 1].lstrip().startswith("#"):
        item -= 1
    return item


# -- base.yaml of a base that is like another one -----------------------------------

_HEAD = "# A base like {like}: what is not said here, and not in this folder, is as it is there.\n"
_Splice = tuple[int, int, str]  # from, to, and what comes there


def base_text(path: Path, name: str, git: GitSource, differences: Differences) -> bytes:
    """patches/<base>/base.yaml with these in it; made anew where there is none."""
    if path.exists():
        old = path.read_text(encoding="utf-8")
    else:
        like = scalar(differences.like)
        old = f"{_HEAD.format(like=differences.like)}name: {scalar(name)}\nlike: {like}\n"
    if git.commit:
        old = _edited(old, "git", {"url": git.url, "commit": git.commit})
    old = _edited(old, "without", dict.fromkeys(sorted(differences.without)))
    return _edited(old, "moved", dict(sorted(differences.moved.items()))).encode()


def _edited(text: str, key: str, wanted: Mapping[str, str | None]) -> str:
    """The file with a mapping, or a list (a mapping to None), under a key; none if it is empty."""
    text += "" if text.endswith("\n") else "\n"
    pairs = {name.value: (name, value) for name, value in yaml.compose(text).value}
    if key not in pairs:
        told = "".join(f"  {_entry(*one)}\n" for one in wanted.items())
        return f"{text}{key}:\n{told}" if wanted else text
    name, there = pairs[key]
    if _said(there) == wanted:
        return text
    if not wanted:
        return text[: name.start_mark.index] + text[_end_of_line(text, there) :]
    splices = [_flow(there, wanted)] if there.flow_style else _splices(text, there, wanted)
    for start, end, what in sorted(splices, reverse=True):
        text = text[:start] + what + text[end:]
    return text


def _entries(node: Any) -> list[tuple[Any, Any]]:
    """Key and value of a mapping's entries; items of a list have no value."""
    return [one if isinstance(one, tuple) else (one, None) for one in node.value]


def _said(node: Any) -> dict[str, str | None]:
    return {key.value: value and value.value for key, value in _entries(node)}


def _splices(text: str, node: Any, wanted: Mapping[str, str | None]) -> Iterator[_Splice]:
    """How a list or a mapping of a line for each entry becomes another one."""
    said = _said(node)
    gone, new = sorted(said.keys() - wanted.keys()), sorted(wanted.keys() - said.keys())
    then = {**{one: one for one in said.keys() & wanted.keys()}, **dict(zip(gone, new))}  # noqa: B905
    for key, value in _entries(node):
        last = value or key
        if key.value not in then:
            start = text.rfind("\n", 0, key.start_mark.index) + 1
            yield start, _end_of_line(text, last), ""
            continue
        to = then[key.value]
        if to != key.value:
            yield key.start_mark.index, key.end_mark.index, scalar(to)
        if value and value.value != wanted[to]:
            yield value.start_mark.index, value.end_mark.index, scalar(str(wanted[to]))
    key, value = _entries(node)[-1]
    indent = " " * node.start_mark.column
    added = "".join(f"{indent}{_entry(one, wanted[one])}\n" for one in new[len(gone) :])
    end = _end_of_line(text, value or key)
    yield end, end, added


def _flow(node: Any, wanted: Mapping[str, str | None]) -> _Splice:
    """The same for one in brackets."""
    told = ", ".join(_entry(*one).removeprefix("- ") for one in wanted.items())
    brackets = "[]" if isinstance(node, yaml.SequenceNode) else "{}"
    start, end = node.start_mark.index, node.end_mark.index
    return start, end, f"{brackets[0]}{told}{brackets[1]}"


def _entry(key: str, value: str | None) -> str:
    return f"- {scalar(key)}" if value is None else f"{scalar(key)}: {scalar(value)}"


def _end_of_line(text: str, node: Any) -> int:
    """Where the line after a value begins. A block ends where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style:
        key, value = _entries(node)[-1]
        node = value or key
    return (text.find("\n", node.end_mark.index) + 1) or len(text)
