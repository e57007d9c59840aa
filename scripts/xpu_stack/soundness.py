"""Whether the shipped libraries may be mixed with what is compiled from the series.

The distribution's libraries were compiled from the base. Beside them stand
libraries compiled from the patched checkout. That is sound when both believe
the same of every class that they share, and when no source that the shipped
libraries were made of differs. So the base is configured beside the checkout,
and compared with it:

- the sources of the shipped libraries, those that are generated among them;
- the headers that differ and that reach such a source, as includes tell; and
  headers that test a macro which the series defines;
- of these, as the compiler reads them in both trees, each class's layout and
  virtual functions.

An inline function whose body differs is no reason to refuse, but its new body
takes effect only in what is compiled here: those are listed.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xpu_stack import cmake, layouts, stack
from xpu_stack.console import log, progress, say
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.reach import Includes
from xpu_stack.tree import Tree, is_header

if TYPE_CHECKING:  # build.py calls this module
    from xpu_stack.build import Build

_FORM = "1"  # raise it when the same input would be judged otherwise
_UNIT = "torch/csrc/Module.cpp"  # compiled in both trees: the command to go by
_MACRO_TEST = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)$", re.MULTILINE)


@dataclass
class Proof:
    """What was compared, and what came of it."""

    edited: list[str]  # files of the base that differ, generated ones among them
    reaching: dict[str, int]  # header -> sources of the shipped libraries that it reaches
    sources: int  # of the shipped libraries
    classes: int  # compared
    layouts: list[str]  # classes that differ, and how: a reason to refuse
    changed_sources: list[str]  # generated sources that differ: a reason to refuse
    functions: list[str]  # inline functions whose body differs


def prove(this: "Build", baseline: "Callable[[], Build]") -> Proof:
    """Compares the checkout with its base; refuses what must not be mixed.

    baseline: makes the base, configured, with all files that are generated.
    """
    repository = this.work.repository
    base = stack.read(repository).base
    names = repository.run("diff", "--name-only", "--diff-filter=MD", "-z", base).text
    edited = [name for name in names.split("\0") if name]
    command = cmake.command_of(this.folder, repository.folder / _UNIT)
    path = this.results.folder / f"soundness-{_key(this, base, edited, command)}.json"
    if path.exists():
        proof = Proof(**json.loads(path.read_text()))
    else:
        before = baseline()
        with progress(None, "comparing with what the shipped libraries were made of"):
            sources = set(_shipped_sources(before))
            scratch = this.folder / "soundness"
            proof = compare(_tree(before), _tree(this), edited, sources, scratch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(proof), indent=1))
    judge(proof, path)
    return proof


def _key(this: "Build", base: str, edited: list[str], command: str) -> str:
    sum = hashlib.sha256(f"{_FORM}\0{base}\0{command}".encode())
    for name in edited:
        file = this.work.repository.folder / name
        sum.update(f"\0{name}\0".encode() + (file.read_bytes() if file.exists() else b""))
    return sum.hexdigest()[:16]


def compare(old: Tree, new: Tree, edited: list[str], sources: set[Path], scratch: Path) -> Proof:
    """Compares two trees, of which the shipped `sources` were compiled in the old one.

    edited: the files that are known to differ; generated ones are looked for.
    """
    different = sorted([*edited, *(name for name in old.generated() if _differs(old, new, name))])
    includes = Includes([old.source, *old.generated_folders()])
    headers = {*filter(is_header, different), *_macro_dependent(old, new, includes)}
    reached = {name: len(includes.reached(old.at(name)) & sources) for name in headers}
    reaching = {name: count for name, count in sorted(reached.items()) if count}
    before = layouts.examine(list(map(old.at, reaching)), old, scratch / "old")
    there = [file for file in map(new.at, reaching) if file.exists()]
    after = layouts.examine(there, new, scratch / "new")
    return Proof(
        edited=different,
        reaching=reaching,
        sources=len(sources),
        classes=len(before.classes),
        layouts=list(layouts.changed_classes(before, after)),
        changed_sources=[name for name in different if old.at(name) in sources],
        functions=layouts.changed_functions(before, after),
    )


def _tree(this: "Build") -> Tree:
    source = this.work.repository.folder
    return Tree(source, this.folder, cmake.command_of(this.folder, source / _UNIT))


def _shipped_sources(before: "Build") -> Iterator[Path]:
    """What the shipped libraries were compiled from, as fast.cmake has listed it."""
    for target in before.work.base.prebuilt.targets:
        listed = before.folder / f"xpu_stack_{target}_sources.txt"
        yield from map(Path, listed.read_text().splitlines())


def _differs(old: Tree, new: Tree, name: str) -> bool:
    there = new.at(name)
    return not there.exists() or old.text(old.at(name)) != new.text(there)


def _macro_dependent(old: Tree, new: Tree, includes: Includes) -> Iterator[str]:
    """Headers that ask for a macro which only one side's compiler is told to define."""
    macros = old.macros ^ new.macros
    log.info("macros that only one side defines: %s", sorted(macros))
    if not macros:
        return
    word = re.compile(rf"\b({'|'.join(map(re.escape, macros))})\b")
    for file in filter(lambda file: is_header(file.name), includes.files):
        tests = _MACRO_TEST.findall(file.read_text(errors="replace"))
        if any(map(word.search, tests)):
            yield old.name_of(file)


def judge(proof: Proof, path: Path) -> None:
    """Says what was proved, or refuses. path: where the details are."""
    reasons = [f"{name} would differ" for name in proof.changed_sources] + proof.layouts
    if reasons:
        raise ToolError(
            "The series cannot be mixed with the shipped libraries.",
            why=f"they were compiled from other code: {reasons[0]}",
            next="make build MODE=full # compiles everything",
            code=ExitCode.BUILD,
            detail="\n".join(reasons),
        )
    say(
        f"sound to mix: {len(proof.reaching)} edited header(s) reach the shipped libraries' "
        f"{proof.sources} sources; all {proof.classes} classes that they define or use are laid "
        f"out as before: {path}"
    )
    if proof.functions:
        say(f"  new only in what is compiled here: {', '.join(map(_short, proof.functions))}")


def _short(function: str) -> str:
    """A function's name, without its types."""
    return function.split("(")[0].split(" ")[-1]
