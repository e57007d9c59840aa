"""What the compiler makes of headers: the layout of every class, the body of every function.

Layouts are read from the debug information of one translation unit that
includes the headers: sizes, bases, where each member is and of what type, in
which slot each virtual function is, the values of enumerators. Bodies are the
compiler's own dump, so that a comment or a line break is no difference.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from xpu_stack.build.configured_tree import Tree
from xpu_stack.core.system import shell
from xpu_stack.core.system.errors import BuildError

_CLASSES = {"DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type"}
_ENUM = "DW_TAG_enumeration_type"
_FUNCTION = re.compile(
    r"^;; Function (.*) \([^()]*\)\n;; enabled by -tree-original\n", re.MULTILINE
)
# Numbers that the compiler gives out as it goes.
_NUMBERED = re.compile(r"\bD\.\d+\b|\b_anon_\d+\b|<T[0-9a-f]+>")


@dataclass(frozen=True)
class Headers:
    """What one translation unit says: of each class its facts, of each function its body."""

    classes: dict[str, tuple[str, ...]]
    functions: dict[str, str]


def examine(headers: list[Path], tree: Tree, scratch: Path) -> Headers:
    """Compiles a file that includes `headers`, as the tree's command compiles its own."""
    scratch.mkdir(parents=True, exist_ok=True)
    source, binary, dump = scratch / "unit.cpp", scratch / "unit.o", scratch / "unit.original"
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    words = [
        *_without_files(shlex.split(tree.command)),
        *("-w", "-O0", "-g", "-gno-split-dwarf"),
        # Every class in full, also one that is not used or whose virtual
        # functions are compiled elsewhere.
        *("-fno-eliminate-unused-debug-types", "-femit-class-debug-always"),
        f"-fdump-tree-original={dump}",
        *("-c", str(source), "-o", str(binary)),
    ]
    done = shell.run(words, cwd=tree.build, check=False)
    if done.code:
        raise BuildError(
            "The headers that the series edits cannot be compiled by themselves.",
            why=next(
                (line for line in done.complaint.splitlines() if "error" in line), "see below"
            ),
            next="fix the header: it must include what it uses",
            detail=done.complaint,
        )
    return Headers(_classes(binary), _functions(tree.text(dump)))


def changed_classes(old: Headers, new: Headers) -> Iterator[str]:
    for name, before in old.classes.items():
        after = new.classes.get(name)
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


def changed_functions(old: Headers, new: Headers) -> list[str]:
    return sorted(
        name for name, body in old.functions.items() if new.functions.get(name, body) != body
    )


def _without_files(words: list[str]) -> list[str]:
    """A compiler's command without its launcher, its source and its output."""
    words = words[next(n for n, word in enumerate(words) if not word.endswith("ccache")) :]
    for flag in ("-o", "-c"):
        at = words.index(flag)
        del words[at : at + 2]
    return words


def _functions(dump: str) -> dict[str, str]:
    parts = _FUNCTION.split(dump)
    bodies: dict[str, str] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        # Overloads that print alike are kept together, in order.
        bodies[name] = bodies.get(name, "") + _NUMBERED.sub("#", body)
    return bodies


# -- classes -----------------------------------------------------------------------


def _classes(binary: Path) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    with binary.open("rb") as file:
        for unit in ELFFile(file).get_dwarf_info().iter_CUs():
            for name, die in _defined(unit.get_top_DIE(), ""):
                found.setdefault(name, tuple(_facts(die)))
    return found


def _defined(parent: DIE, scope: str) -> Iterator[tuple[str, DIE]]:
    """Each class and enumeration that is defined in `parent`, by its full name."""
    for die in parent.iter_children():
        name = _text(die, "DW_AT_name")
        if die.tag == "DW_TAG_namespace":
            yield from _defined(die, f"{scope}{name or '(anonymous)'}::")
        elif die.tag in _CLASSES | {_ENUM} and name and "DW_AT_declaration" not in die.attributes:
            yield scope + name, die
            if die.tag in _CLASSES:
                yield from _defined(die, f"{scope}{name}::")


def _facts(die: DIE) -> Iterator[str]:
    """What code that uses a class was compiled to believe of it."""
    yield f"size {_number(die, 'DW_AT_byte_size')}"
    for child in die.iter_children():
        name = _text(child, "DW_AT_name") or "(unnamed)"
        if child.tag == "DW_TAG_inheritance":
            virtual = "virtual " if "DW_AT_virtuality" in child.attributes else ""
            yield f"{virtual}base {_type(child)} at {_place(child)}"
        elif child.tag == "DW_TAG_member" and _place(child) is not None:
            yield f"member {name}: {_type(child)} at {_place(child)}"
        elif child.tag == "DW_TAG_enumerator":
            yield f"enumerator {name} = {_number(child, 'DW_AT_const_value')}"
        elif child.tag == "DW_TAG_subprogram" and _number(child, "DW_AT_virtuality"):
            slot = child.attributes.get("DW_AT_vtable_elem_location")
            linkage = _text(child, "DW_AT_linkage_name") or name
            yield f"virtual {linkage} in slot {slot.value if slot else 'none'}"


def _place(die: DIE) -> object:
    for name in ("DW_AT_data_bit_offset", "DW_AT_data_member_location"):
        if name in die.attributes:
            kind = "bit " if "bit" in name else ""
            size = f" of {_number(die, 'DW_AT_bit_size')} bits" if kind else ""
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
        size = _number(target, "DW_AT_byte_size")
        return f"{_text(target, 'DW_AT_name')}" + (f" of {size} bytes" if size else "")
    lengths = [
        str(_number(child, "DW_AT_upper_bound"))
        for child in target.iter_children()
        if child.tag == "DW_TAG_subrange_type"
    ]
    kind = str(target.tag).removeprefix("DW_TAG_").removesuffix("_type")
    inner = _type(target) if kind != "subroutine" else "function"
    return f"{kind}{lengths or ''} {inner}"


def _text(die: DIE, name: str) -> str | None:
    attribute = die.attributes.get(name)
    return attribute.value.decode() if attribute else None


def _number(die: DIE, name: str) -> int:
    attribute = die.attributes.get(name)
    return int(attribute.value) if attribute else 0
