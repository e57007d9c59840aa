"""Editing patches/series.yaml and base.yaml: only the lines that change.

Comments, order and quotes of the others stay as a person wrote them. series.yaml is
taken as blocks of lines, one for each change, in the stages that hold them. The comment lines
just above an item belong to it. What is not edited is written back byte for byte.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from xpu_stack.core.series import authors
from xpu_stack.core.series.base import Differences, GitSource, is_below
from xpu_stack.core.series.change import TITLE_LIMIT, UNWRITTEN, closest, split_id, template
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import InvalidSeriesError, ToolError, UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.yaml_file import Loader

SUMMARY = "to be written"  # of a new stage; `make check` asks for a better one

_WIDTH = 80
_HEAD = "# A base like {like}: what is not said here, and not in this folder, is as it is there.\n"
_Wanted = Mapping[str, str | None]  # of a mapping; a list has its items with None


@dataclass
class SeriesFile:
    """The file in blocks of lines."""

    path: Path
    head: str
    blocks: dict[str, str]  # a stage, up to its changes, then each of them by its id

    @classmethod
    def read(cls, path: Path) -> "SeriesFile":
        """The file must be valid: `Series.load` has said so."""
        return cls.parse(path, path.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, path: Path, text: str) -> "SeriesFile":
        lines = [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(True)]
        starts: dict[str, int] = {}
        for stage in _node(yaml.compose(text, Loader), "stages").value:
            name = _node(stage, "name").value
            starts[name] = _with_comments(lines, stage)
            for change in _node(stage, "changes").value:
                id_ = f"{name}/{_node(change, 'name').value}"
                starts[id_] = _with_comments(lines, change)
        places = pairwise([0, *starts.values(), len(lines)])
        head, *blocks = ("".join(lines[start:end]) for start, end in places)
        return cls(path, head, dict(zip(starts, blocks, strict=True)))

    @property
    def text(self) -> str:
        return "".join([self.head, *self.blocks.values()])

    @property
    def changes(self) -> list[str]:
        return [id_ for id_ in self.blocks if "/" in id_]

    def files(self, change: str) -> list[str]:
        return list(_said(_node(_mapping(self.blocks[change]), "files")))

    def put(self, name: str, key: str, wanted: str | _Wanted) -> None:
        """Writes what a stage or a change has under a key; the key goes where it has nothing."""
        self.blocks[name] = edited(self.blocks[name], key, wanted)

    def rename(self, old: str, new: str) -> None:
        """Gives a change another name, and its stage too if it was alone in it.

        It has no place in its new stage before the next `arrange`.
        """
        (stage, _), (then, name) = old.split("/"), new.split("/")
        self.blocks[new] = edited(self.blocks.pop(old), "name", name)
        if then not in self.blocks and not any(is_below(id_, stage) for id_ in self.changes):
            self.blocks[then] = edited(self.blocks[stage], "name", then)

    def arrange(self, ids: list[str], way: str = "", known: "SeriesFile | None" = None) -> None:
        """Makes `ids` the changes there are, in this order; what is new gets lines.

        way: what a person can do where the order cannot be; known: where the
        lines of changes and stages are that were there earlier.
        """
        blocks = (known or self).blocks | self.blocks
        outer, inner = (
            re.findall(r"^ *(?=- )", self.blocks[one], re.MULTILINE)[0]
            for one in (next(iter(self.blocks)), self.changes[0])
        )
        arranged, last = dict[str, str](), ""
        for id_ in ids:
            stage, _, name = id_.partition("/")
            if stage != last and stage in arranged:
                raise InvalidSeriesError(
                    f"This order splits the stage '{stage}'.",
                    why=f"{id_} comes after a change of '{last}'",
                    next=f"{way or commands.make('status')} # keep the changes of a stage together",
                )
            told = f"- name: {stage}\n  summary: {SUMMARY}\n  changes:\n"
            arranged[stage] = blocks.get(stage) or textwrap.indent(told, outer)
            arranged[id_] = blocks.get(id_) or f"{inner}- name: {name}\n"
            last = stage
        self.blocks = arranged

    def summarize(self, stage: str, summary: str) -> None:
        """Gives a stage a summary that has none yet."""
        if _node(_mapping(self.blocks[stage]), "summary").value == SUMMARY:
            self.put(stage, "summary", summary)

    def settle(self, owners: dict[str, str]) -> None:
        """Has every payload file claimed by its change. owners: file -> change."""
        claims = {str(PurePosixPath(one)): id_ for id_ in self.changes for one in self.files(id_)}
        for file, id_ in sorted(owners.items()):
            if claims.get(closest(file, claims)) != id_:
                folder = "/".join(file.split("/")[:2])
                alone = {other for kept, other in owners.items() if is_below(kept, folder)} == {id_}
                claims[folder if alone else file] = id_
        used = {closest(file, claims) for file in owners}
        for id_ in self.changes:
            own = [one for one, owner in claims.items() if owner == id_ and one in used]
            self.put(id_, "files", dict.fromkeys(own))


# -- a new change, and its stage if that is new ------------------------------------


def with_new(
    layout: Layout, base: str, id_: str, title: str | None, after: str | None
) -> dict[Path, Content]:
    """The files of the series with the change `id_` in it, those that are to be written.

    It gets a place in the series and a text to fill in. When applied it is an empty
    commit, until a person amends it; `make check` says what is missing.
    """
    series = Series.load(layout, base)
    ids = list(series.by_id)
    parts = split_id(id_)
    if parts is None:
        raise _refused(
            f"'{id_}' is not a valid name for a change.",
            "it is <stage>/<change>, both of small letters, digits, '-' and '_'",
        )
    if id_ in ids:
        raise _refused(f"The change '{id_}' already exists.", "a name can be used once")
    if title is not None and not 0 < len(title) <= TITLE_LIMIT:
        raise _refused(
            "The title is too long or empty.", f"it may have up to {TITLE_LIMIT} characters"
        )
    stage, name = parts
    known = stage in series.stage_names
    after = after or (stage if known else series.stage_names[-1])
    place = len(series.changes(after))
    ids.insert(place, id_)
    stages = [one for one, _ in groupby(ids, lambda one: one.partition("/")[0])]
    if len(stages) > len(set(stages)):
        if known:
            raise _refused(
                f"A change of '{stage}' cannot come after '{after}'.",
                "the changes of a stage must follow each other",
            )
        raise _refused(
            f"A new stage cannot come after '{after}'.",
            f"it would split the stage '{ids[place - 1].partition('/')[0]}'",
        )
    file = SeriesFile.read(layout.series_file)
    file.arrange(ids)
    person = authors.of_git(Repository(layout.repository))
    if person and authors.is_reachable(person):
        file.put(id_, "author", person)
    words = template(title or f"{UNWRITTEN} a title, in the imperative")
    written = {layout.patches / "texts" / stage / f"{name}.md": words, file.path: file.text}
    return {path: (0o100644, content.encode()) for path, content in written.items()}


def _refused(what: str, why: str) -> ToolError:
    return UsageError(
        what,
        why=why,
        next=commands.make("new", CHANGE="<stage>/<change>", TITLE="<title>", AFTER="<place>"),
    )


# -- base.yaml of a base that is like another one -----------------------------------


def base_text(path: Path, name: str, git: GitSource, differences: Differences) -> bytes:
    """patches/<base>/base.yaml with these in it; made anew where there is none."""
    like = differences.like
    text = f"{_HEAD.format(like=like)}name: {scalar(name)}\nlike: {scalar(like)}\n"
    text = path.read_text(encoding="utf-8") if path.exists() else text
    if git.commit:
        text = edited(text, "git", {"url": git.url, "commit": git.commit})
    text = edited(text, "without", dict.fromkeys(sorted(differences.without)))
    return edited(text, "moved", dict(sorted(differences.moved.items()))).encode()


def scalar(text: str) -> str:
    """A text in YAML, within a list or not, quoted if it must be."""
    try:
        plain = all(yaml.load(one, Loader) == [text] for one in (f"[{text}]", f"- {text}"))  # noqa: S506
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)


def edited(text: str, key: str, wanted: str | _Wanted) -> str:
    """A mapping, or a list's one, with a text, a list or a mapping under a key; none if empty.

    A new key comes below the first of an item, or at the end of a file.
    """
    text += "" if text.endswith("\n") else "\n"
    top = _mapping(text)
    there, column = _node(top, key), top.start_mark.column
    if _said(there) == (wanted or {}):
        return text
    if top.flow_style:
        pairs = {
            name.value: text[name.start_mark.index : value.end_mark.index]
            for name, value in top.value
        }
        pairs[key] = f"{key}: {_line(wanted)}"
        told = [one for name, one in pairs.items() if wanted or name != key]
        start, end = top.start_mark.index, top.end_mark.index
        return f"{text[:start]}{{{', '.join(told)}}}{text[end:]}"
    if there is None:
        end = _end_of_line(text, top.value[0 if column else -1][1])
        return f"{text[:end]}{' ' * column}{_lines(key, wanted, column)}\n{text[end:]}"
    start = next(name.start_mark.index for name, _ in top.value if name.value == key)
    if not wanted:
        line, end = text.rfind("\n", 0, start) + 1, _end_of_line(text, there)
        if text[line:start].strip():  # "- ", which is the next key's then
            line, end = start, top.value[1][0].start_mark.index
        return text[:line] + text[end:]
    if isinstance(wanted, str) or there.flow_style:
        return text[:start] + _lines(key, wanted, column or 1) + text[there.end_mark.index :]
    for start, end, what in sorted(_splices(text, there, wanted), reverse=True):
        text = text[:start] + what + text[end:]
    return text


def _splices(text: str, node: Any, wanted: _Wanted) -> Iterator[tuple[int, int, str]]:
    """How a list or a mapping of a line for each entry becomes another: from, to, what is there."""
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
    end, indent = _end_of_line(text, node), " " * node.start_mark.column
    added = "".join(f"{indent}{_entry(one, wanted[one])}\n" for one in new[len(gone) :])
    yield end, end, added


def _lines(key: str, wanted: str | _Wanted, column: int) -> str:
    """A key and what is under it: in a line if it is a text, or short and in an item."""
    line = f"{key}: {_line(wanted)}"
    if isinstance(wanted, str) or (column and column + len(line) < _WIDTH):
        return line
    return f"\n{' ' * column}  ".join([f"{key}:", *map(_entry, wanted, wanted.values())])


def _line(wanted: str | _Wanted) -> str:
    if isinstance(wanted, str):
        return scalar(wanted)
    told = ", ".join(_entry(*one).removeprefix("- ") for one in wanted.items())
    return f"[{told}]" if None in wanted.values() else f"{{{told}}}"


def _entry(key: str, value: str | None) -> str:
    return f"- {scalar(key)}" if value is None else f"{scalar(key)}: {scalar(value)}"


def _mapping(text: str) -> Any:
    """The node of a mapping, or of the one in a list."""
    top = yaml.compose(text, Loader)
    return top.value[0] if isinstance(top, yaml.SequenceNode) else top


def _node(mapping: Any, key: str) -> Any:
    """The value of a key; None: it is not there."""
    return next((value for name, value in mapping.value if name.value == key), None)


def _entries(node: Any) -> list[tuple[Any, Any]]:
    """Key and value of a mapping's entries; items of a list have no value."""
    return [one if isinstance(one, tuple) else (one, None) for one in node.value]


def _said(node: Any) -> Any:
    """What there is in the form of what is wanted."""
    if isinstance(node, yaml.CollectionNode):
        return {key.value: value and value.value for key, value in _entries(node)}
    return node.value if node else {}


def _end_of_line(text: str, node: Any) -> int:
    """Where the line after a value begins. A block ends where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style:
        key, value = _entries(node)[-1]
        node = value or key
    return (text.find("\n", node.end_mark.index) + 1) or len(text)


def _with_comments(lines: list[str], item: Any) -> int:
    """The first line of an item: its comments are above it."""
    first: int = item.start_mark.line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return first
