"""Checks that the distribution's libraries are ABI-compatible with what is compiled here.

The distribution's libraries were compiled from the base. They are used together
with libraries compiled from the patched checkout. That is safe if both agree on
the layout of every class that they share, and if no source of the distribution's
libraries has changed. So the base is configured beside the checkout, and the two
are compared:

- the sources of the distribution's libraries, including generated ones;
- the headers that differ and that such a source includes, directly or not, and
  headers that test a macro which the series defines;
- each class in these headers: its layout and its virtual functions, as the
  compiler sees them in both trees.

Inline functions with different bodies are allowed. Their new bodies take effect
only in what is compiled here, so these functions are listed.
"""

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import class_layouts, cmake
from xpu_stack.build.base_settings import BaseSettings
from xpu_stack.build.configuration import Build
from xpu_stack.build.configured_tree import Tree, is_header
from xpu_stack.build.includes import Includes
from xpu_stack.core.move import stack
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import BuildError

_FORM = "2"  # raise it when the same input would be judged otherwise
_UNIT = "torch/csrc/Module.cpp"  # compiled in both trees: the command to go by
_MACRO_TEST = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)$", re.MULTILINE)


@dataclass
class Proof:
    """What was compared, and what came of it."""

    edited: list[str]  # files of the base that differ, generated ones among them
    reaching: dict[str, list[str]]  # header -> the shipped objects that it reaches
    objects: dict[str, int]  # shipped library -> of how many objects it was made
    classes: int  # compared
    layouts: list[str]  # classes that differ, and how: a reason to refuse
    changed_sources: list[str]  # generated sources that differ: a reason to refuse
    functions: list[str]  # inline functions whose body differs

    @property
    def reached(self) -> list[str]:
        """The shipped objects that any of the headers reaches, as `library: source`."""
        return sorted({name for names in self.reaching.values() for name in names})


def prove(this: Build, baseline: Callable[[], Build]) -> Proof:
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
            sources = dict(_shipped_sources(before))
            scratch = this.folder / "soundness"
            proof = compare(_tree(before), _tree(this), edited, sources, scratch)
        files.write(path, json.dumps(dataclasses.asdict(proof), indent=1))
    judge(proof, path)
    return proof


def _key(this: Build, base: str, edited: list[str], command: str) -> str:
    sum = hashlib.sha256(f"{_FORM}\0{base}\0{command}".encode())
    for name in edited:
        file = this.work.repository.folder / name
        sum.update(f"\0{name}\0".encode() + (file.read_bytes() if file.exists() else b""))
    return sum.hexdigest()[:16]


def compare(
    old: Tree, new: Tree, edited: list[str], sources: Mapping[Path, str], scratch: Path
) -> Proof:
    """Compares two trees, of which the shipped `sources` were compiled in the old one.

    edited: the files that are known to differ; generated ones are looked for.
    sources: each with the library that has its object.
    """
    different = sorted([*edited, *(name for name in old.generated() if _differs(old, new, name))])
    includes = Includes([old.source, *old.generated_folders()])
    headers = {*filter(is_header, different), *_macro_dependent(old, new, includes)}
    objects = {file: f"{library}: {old.name_of(file)}" for file, library in sources.items()}
    reached = {name: includes.reached(old.at(name)) & objects.keys() for name in sorted(headers)}
    reaching = {
        name: sorted(map(objects.__getitem__, files)) for name, files in reached.items() if files
    }
    before = class_layouts.examine(list(map(old.at, reaching)), old, scratch / "old")
    there = [file for file in map(new.at, reaching) if file.exists()]
    after = class_layouts.examine(there, new, scratch / "new")
    return Proof(
        edited=different,
        reaching=reaching,
        objects=dict(Counter(sources.values())),
        classes=len(before.classes),
        layouts=list(class_layouts.changed_classes(before, after)),
        changed_sources=[name for name in different if old.at(name) in sources],
        functions=class_layouts.changed_functions(before, after),
    )


def _tree(this: Build) -> Tree:
    source = this.work.repository.folder
    return Tree(source, this.folder, cmake.command_of(this.folder, source / _UNIT))


def _shipped_sources(before: Build) -> Iterator[tuple[Path, str]]:
    """What the shipped libraries were compiled from, as fast.cmake has listed it."""
    for target in BaseSettings.of(before.work.base).prebuilt.targets:
        listed = before.folder / f"xpu_stack_{target}_sources.txt"
        names = listed.read_text().splitlines()
        yield from ((Path(name), target) for name in names if not is_header(name))


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
    _say_reach(proof)
    reasons = [f"{name} would differ" for name in proof.changed_sources] + proof.layouts
    if reasons:
        raise BuildError(
            "The series cannot be built against the distribution's libraries.",
            why=f"they were compiled from different code: {reasons[0]}",
            next=f"{commands.make('build', MODE='full')} # compiles everything",
            detail="\n".join(reasons),
        )
    say(
        f"ABI-compatible: all {proof.classes} classes that these headers define or use are laid "
        f"out as before: {path}"
    )
    if proof.functions:
        names = ", ".join(one.split("(")[0].split(" ")[-1] for one in proof.functions)
        say(f"  new only in what is compiled here: {names}")


def _say_reach(proof: Proof) -> None:
    """Which headers of the series reach which objects; their names are for the log."""
    for header, names in proof.reaching.items():
        log.info("%s reaches %d shipped objects: %s", header, len(names), ", ".join(names))
    reached = Counter(name.split(":")[0] for name in proof.reached)
    shares = ", ".join(f"{reached[name]} of {all} in {name}" for name, all in proof.objects.items())
    headers = ", ".join(proof.reaching) or "none"
    say(f"by #include lines, shipped objects are reached from: {headers} ({shares})")
