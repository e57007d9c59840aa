"""A configured PyTorch tree, to compare with another one: what includes what, what is in classes.

Includes are read as text: one counts wherever it stands, and for every file whose path
ends as it says, so that the answer can be too large and never too small. The layouts of
classes are read from the debug information of a file that includes the headers. The bodies
of functions are the compiler's own dump: a comment or a line break is no difference.
"""

import hashlib
import json
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from xpu_stack.core.system import files, shell
from xpu_stack.core.system.errors import BuildError

_BUILT = "build:"
# Where PyTorch generates code: in a build, and beside its sources.
_GENERATED = (
    f"{_BUILT}aten/src/ATen",
    f"{_BUILT}caffe2/core",
    f"{_BUILT}c10/macros",
    "torch/csrc/autograd/generated",
    "torch/csrc/lazy/generated",
)
_GENERATED_CODE = (".h", ".hpp", ".inl", ".tcc", ".cpp", ".cc", ".c")


@dataclass(frozen=True)
class Tree:
    """A checkout and a build of it. A file is named by its path in the checkout,
    or by `build:` and its path in the build."""

    source: Path
    build: Path
    command: str  # that compiles a file of the Python bindings

    def at(self, name: str) -> Path:
        if name.startswith(_BUILT):
            return self.build / name.removeprefix(_BUILT)
        return self.source / name

    def name_of(self, file: Path) -> str:
        if file.is_relative_to(self.source):
            return file.relative_to(self.source).as_posix()
        return f"{_BUILT}{file.relative_to(self.build).as_posix()}"

    def text(self, file: Path) -> str:
        """The content of a file, without the path of this tree."""
        text = file.read_text(errors="backslashreplace")
        return text.replace(str(self.build), "<build>").replace(str(self.source), "<source>")

    def generated(self) -> Iterator[str]:
        for folder in map(self.at, _GENERATED):
            for file in sorted(folder.rglob("*")):
                if file.name.endswith(_GENERATED_CODE) and "CMakeFiles" not in file.parts:
                    yield self.name_of(file)

    @property
    def macros(self) -> set[str]:
        words = shlex.split(self.command)
        return {re.split(r"[=(]", word[2:])[0] for word in words if word.startswith("-D")}


def is_header(name: str) -> bool:
    return name.endswith((".h", ".hpp", ".inl", ".tcc"))


# -- #include lines ------------------------------------------------------------------


_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_CODE = (".h", ".hpp", ".cuh", ".inl", ".inc", ".def", ".cpp", ".cc", ".c", ".tcc")
_ELSEWHERE = {".git", "CMakeFiles", "third_party", "site", "docs"}


class Includes:
    """The files of a tree, and who includes them."""

    def __init__(self, tree: Tree) -> None:
        self.files = []
        # what is generated beside the sources is among these
        generated = [tree.at(name) for name in _GENERATED if name.startswith(_BUILT)]
        for root in (tree.source, *generated):
            for folder, inner, names in os.walk(root):
                inner[:] = [name for name in inner if name not in _ELSEWHERE]
                self.files += [Path(folder, name) for name in names if name.endswith(_CODE)]
        by_name: defaultdict[str, list[Path]] = defaultdict(list)
        for file in self.files:
            by_name[file.name].append(file)
        self._includers: defaultdict[Path, set[Path]] = defaultdict(set)
        for file in self.files:
            for name in set(_INCLUDE.findall(file.read_bytes())):
                wanted = os.path.normpath(os.fsdecode(name)).replace("../", "")
                for found in by_name[wanted.rpartition("/")[2]]:
                    if f"/{found.as_posix()}".endswith(f"/{wanted}"):
                        self._includers[found].add(file)

    def reached(self, header: Path) -> set[Path]:
        """All files that include `header`, directly or through others."""
        found = {header}
        todo = [header]
        while todo:
            fresh = self._includers[todo.pop()] - found
            found |= fresh
            todo += fresh
        return found - {header}


# -- classes and functions -----------------------------------------------------------


Layouts = dict[str, tuple[str, ...]]  # of each class its facts

_CLASSES = {"DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type"}
_ENUM = "DW_TAG_enumeration_type"
_FUNCTION = re.compile(
    r"^;; Function (.*) \([^()]*\)\n;; enabled by -tree-original\n", re.MULTILINE
)
# Numbers that the compiler gives out as it goes.
_NUMBERED = re.compile(r"\bD\.\d+\b|\b_anon_\d+\b|<T[0-9a-f]+>")


def examine(headers: list[Path], tree: Tree, scratch: Path) -> tuple[Layouts, dict[str, str]]:
    """Of each class in `headers` its facts, and of each function a digest of its body.

    They are those of a file that includes all, compiled as the tree's command does. What
    came of it is kept in `scratch`: to read debug information takes much longer than to
    see that the preprocessor makes the same of the headers.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    source, unit, dump = scratch / "unit.cpp", scratch / "unit.o", scratch / "unit.original"
    linked, kept = scratch / "unit.linked", scratch / "unit.json"
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    words = [
        *_without_files(shlex.split(tree.command)),
        *("-w", "-O0", "-g", "-gno-split-dwarf"),
        # Every class in full, also one that is not used or whose virtual
        # functions are compiled elsewhere.
        *("-fno-eliminate-unused-debug-types", "-femit-class-debug-always"),
        f"-fdump-tree-original={dump}",
        str(source),
    ]
    # -dD: macros too, those of the compiler's version among them
    text = _compile([*words, "-E", "-P", "-dD"], tree)
    given = [Path(__file__).read_text(), *words, text]
    key = hashlib.sha256("\0".join(given).encode()).hexdigest()
    known = files.load(kept)
    if known and known["key"] == key:
        return {name: tuple(facts) for name, facts in known["classes"].items()}, known["functions"]
    _compile([*words, "-c", "-o", str(unit)], tree)
    # The linker applies relocations in an instant.
    link = (*("-nostdlib", "-no-pie"), "-Wl,--unresolved-symbols=ignore-all,-e,0")
    _compile([words[0], *link, str(unit), "-o", str(linked)], tree)
    classes: Layouts = {}
    with linked.open("rb") as file:
        for one in ELFFile(file).get_dwarf_info().iter_CUs():
            for name, die in _defined(one.get_top_DIE(), ""):
                classes.setdefault(name, tuple(_facts(die)))
    _, *parts = _FUNCTION.split(tree.text(dump))
    functions: dict[str, str] = defaultdict(str)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        # Overloads that print alike are kept together, in order.
        functions[name] += _NUMBERED.sub("#", body)
    digests = {name: hashlib.sha256(body.encode()).hexdigest() for name, body in functions.items()}
    files.write(kept, json.dumps({"key": key, "classes": classes, "functions": digests}))
    return classes, digests


def _compile(words: list[str], tree: Tree) -> str:
    done = shell.run(words, cwd=tree.build, check=False)
    if done.code:
        raise BuildError(
            "The headers that the series edits cannot be compiled by themselves.",
            why=next((one for one in done.complaint.splitlines() if "error" in one), "see below"),
            next="fix the header: it must include what it uses",
            detail=done.complaint,
        )
    return done.text


def changed_classes(old: Layouts, new: Layouts) -> Iterator[str]:
    for name, before in old.items():
        after = new.get(name)
        if after is None:
            if "<" not in name:  # an instance of a template is there where it is used
                yield f"{name}: no longer exists"
        elif after != before:
            gone = [fact for fact in before if fact not in after]
            come = [fact for fact in after if fact not in before]
            yield f"{name}: was {_few(gone)}, is {_few(come)}"


def _few(facts: list[str]) -> str:
    shown = "; ".join(facts[:3]) or "in a different order"
    return f"({shown}{'; ...' if len(facts) > 3 else ''})"


def _without_files(words: list[str]) -> list[str]:
    words = words[next(n for n, word in enumerate(words) if not word.endswith("ccache")) :]
    for flag in ("-o", "-c"):
        at = words.index(flag)
        del words[at : at + 2]
    return words


def _defined(parent: DIE, scope: str) -> Iterator[tuple[str, DIE]]:
    """Each class and enumeration that is defined in `parent`, by its full name."""
    for die in parent.iter_children():
        name = _value(die, "DW_AT_name")
        if die.tag == "DW_TAG_namespace":
            yield from _defined(die, f"{scope}{name or '(anonymous)'}::")
        elif die.tag in _CLASSES | {_ENUM} and name and "DW_AT_declaration" not in die.attributes:
            yield scope + name, die
            if die.tag in _CLASSES:
                yield from _defined(die, f"{scope}{name}::")


def _facts(die: DIE) -> Iterator[str]:
    """What code that uses a class was compiled to believe of it."""
    yield f"size {_value(die, 'DW_AT_byte_size')}"
    for child in die.iter_children():
        name = _value(child, "DW_AT_name", "(unnamed)")
        if child.tag == "DW_TAG_inheritance":
            virtual = "virtual " if "DW_AT_virtuality" in child.attributes else ""
            yield f"{virtual}base {_type(child)} at {_place(child)}"
        elif child.tag == "DW_TAG_member" and _place(child) is not None:
            yield f"member {name}: {_type(child)} at {_place(child)}"
        elif child.tag == "DW_TAG_enumerator":
            yield f"enumerator {name} = {_value(child, 'DW_AT_const_value')}"
        elif child.tag == "DW_TAG_subprogram" and _value(child, "DW_AT_virtuality"):
            linkage = _value(child, "DW_AT_linkage_name", name)
            slot = _value(child, "DW_AT_vtable_elem_location", "none")
            yield f"virtual {linkage} in slot {slot}"


def _place(die: DIE) -> object:
    for name in ("DW_AT_data_bit_offset", "DW_AT_data_member_location"):
        if name in die.attributes:
            kind = "bit " if "bit" in name else ""
            size = f" of {_value(die, 'DW_AT_bit_size')} bits" if kind else ""
            return f"{kind}{die.attributes[name].value}{size}"
    # A union's members have no place of their own; a static member has none at all.
    parent = die.get_parent()
    in_union = parent is not None and parent.tag == "DW_TAG_union_type"
    return "0" if in_union and "DW_AT_external" not in die.attributes else None


def _type(die: DIE) -> str:
    """The type of a member, through every alias; of an unnamed one, what is in it."""
    if "DW_AT_type" not in die.attributes:
        return "void"
    target = die.get_DIE_from_attribute("DW_AT_type")
    if target.tag == "DW_TAG_typedef":
        return _type(target)
    if target.tag in _CLASSES | {_ENUM} and "DW_AT_name" not in target.attributes:
        return "{" + ", ".join(_facts(target)) + "}"
    if "DW_AT_name" in target.attributes:
        size = _value(target, "DW_AT_byte_size")
        return f"{_value(target, 'DW_AT_name')}" + (f" of {size} bytes" if size else "")
    ranges = (one for one in target.iter_children() if one.tag == "DW_TAG_subrange_type")
    lengths = [str(_value(one, "DW_AT_upper_bound")) for one in ranges]
    kind = str(target.tag).removeprefix("DW_TAG_").removesuffix("_type")
    inner = _type(target) if kind != "subroutine" else "function"
    return f"{kind}{lengths or ''} {inner}"


def _value(die: DIE, name: str, missing: object = 0) -> Any:
    attribute = die.attributes.get(name)
    value = attribute.value if attribute else missing
    return value.decode() if isinstance(value, bytes) else value
