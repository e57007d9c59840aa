"""Checks that the distribution's libraries are ABI-compatible with what is compiled here.

These were compiled from the base. That is safe if no source of theirs has changed, and if
both agree on the layout of every class that they share. So the base is configured beside
the checkout, and the two are compared:

- the sources of the distribution's libraries, including generated ones, but for those of the
  bindings that are compiled here: what they export is found before the shipped symbols;
- each class in the headers that differ, or that test a macro which the series defines,
  and that such a source includes, directly or not: its layout and its virtual functions,
  as the compiler sees them in both trees.

Inline functions may differ, and are listed: their new bodies take effect only in what is
compiled here.
"""

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from xpu_stack.build import cmake, trees
from xpu_stack.build.base_settings import BaseSettings
from xpu_stack.build.configuration import Build
from xpu_stack.build.trees import Includes, Tree, is_header
from xpu_stack.core.move import stack
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import BuildError

_FORM = "3"  # raise it when the same input would be judged otherwise
_BINDINGS = "torch_python"
_UNIT = "torch/csrc/Module.cpp"  # compiled in both trees: the command to go by
_MACRO_TEST = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)$", re.MULTILINE)


@dataclass
class Proof:
    edited: list[str]  # files of the base that differ, generated ones among them
    reaching: dict[str, list[str]]  # header -> the shipped objects that it reaches
    objects: dict[str, int]  # shipped library -> of how many objects it was made
    classes: int  # compared
    layouts: list[str]  # classes that differ, and how: a reason to refuse
    changed_sources: list[str]  # generated sources that differ: a reason to refuse
    functions: list[str]  # inline functions whose body differs


def prove(this: Build, baseline: Callable[[], Build]) -> Proof:
    """Compares the checkout with its base; refuses what must not be mixed.

    baseline: makes the base, configured, with all files that are generated.
    """
    repository = this.work.repository
    base = stack.read(repository).base
    edits = ("diff", "--full-index", "--no-ext-diff", "--no-textconv", "--diff-filter=MD")
    edited = repository.run(*edits, "--name-only", "-z", base).text.split("\0")[:-1]
    given = [_FORM, base, _tree(this).command, repository.run(*edits, base).text]
    key = hashlib.sha256("\0".join(given).encode()).hexdigest()[:16]
    path = this.results.folder / f"soundness-{key}.json"
    if path.exists():
        proof = Proof(**json.loads(path.read_text()))
    else:
        before = baseline()
        with progress(None, "comparing with what the shipped libraries were made of"):
            tree, old = _tree(this), _tree(before)
            # Compiled here, in place of the shipped object; what the series removes as well.
            ours = {old.at(tree.name_of(file)) for file in _compiled(this)} | _compiled(before)
            sources: dict[Path, str] = {}  # as fast.cmake has listed them
            for target in BaseSettings.of(this.work.base).prebuilt.targets:
                listed = before.folder / f"xpu_stack_{target}_sources.txt"
                names = [name for name in listed.read_text().splitlines() if not is_header(name)]
                shipped = {*map(Path, names)} - (ours if target == _BINDINGS else set())
                sources |= dict.fromkeys(shipped, target)
            scratch = this.folder / "soundness"
            proof = compare(old, tree, edited, sources, scratch)
        files.write(path, json.dumps(dataclasses.asdict(proof), indent=1))
    judge(proof, path)
    return proof


def compare(
    old: Tree, new: Tree, edited: list[str], sources: Mapping[Path, str], scratch: Path
) -> Proof:
    """Compares two trees, of which the shipped `sources` were compiled in the old one.

    edited: the files that are known to differ; generated ones are looked for.
    sources: each with the library that has its object.
    """
    generated = [
        name
        for name in old.generated()
        if not new.at(name).exists() or old.text(old.at(name)) != new.text(new.at(name))
    ]
    different = sorted([*edited, *generated])
    includes = Includes(old)
    headers = {*filter(is_header, different), *_macro_dependent(old, new, includes)}
    objects = {file: f"{library}: {old.name_of(file)}" for file, library in sources.items()}
    reached = {name: includes.reached(old.at(name)) & objects.keys() for name in sorted(headers)}
    reaching = {
        name: sorted(map(objects.__getitem__, files)) for name, files in reached.items() if files
    }
    before, bodies = trees.examine(list(map(old.at, reaching)), old, scratch / "old")
    there = [file for file in map(new.at, reaching) if file.exists()]
    after, now = trees.examine(there, new, scratch / "new")
    return Proof(
        edited=different,
        reaching=reaching,
        objects=dict(Counter(sources.values())),
        classes=len(before),
        layouts=list(trees.changed_classes(before, after)),
        changed_sources=[name for name in different if old.at(name) in sources],
        functions=sorted(name for name, body in bodies.items() if now.get(name, body) != body),
    )


def _compiled(this: Build) -> set[Path]:
    return set(cmake.compile_commands(this.folder))


def _tree(this: Build) -> Tree:
    source = this.work.repository.folder
    command, *_ = cmake.compile_commands(this.folder)[source / _UNIT]
    return Tree(source, this.folder, command)


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
    """Says what was proved, or refuses. path: where the details are.

    Of the objects that the headers of the series reach, the names are for the log.
    """
    for header, names in proof.reaching.items():
        log.info("%s reaches %d shipped objects: %s", header, len(names), ", ".join(names))
    reached = Counter(name.split(":")[0] for name in set(chain(*proof.reaching.values())))
    shares = ", ".join(f"{reached[name]} of {all} in {name}" for name, all in proof.objects.items())
    headers = ", ".join(proof.reaching) or "none"
    say(f"by #include lines, shipped objects are reached from: {headers} ({shares})")
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
        functions = ", ".join(one.split("(")[0].split(" ")[-1] for one in proof.functions)
        say(f"  new only in what is compiled here: {functions}")
