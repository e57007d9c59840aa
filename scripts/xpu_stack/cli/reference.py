"""`make help`, and docs/reference.md: the targets of the Makefile and their variables.

What a target does is the help of the verb that it calls, and what a variable
means is the help of that verb's option. A target that calls no verb, or a verb
in a special way, has its text in the Makefile, after `##`.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from xpu_stack.cli import error_list
from xpu_stack.cli.options import cli
from xpu_stack.core.system.errors import ExitCode

# What has no option: words that are handed on, and the environment.
_HANDED_ON = {"ARGS": "What Python or pytest is given: a program's path, or options."}
ENVIRONMENT = {
    "JOBS": "How many compilers run at once. Default: by processors and free memory.",
    "TEST_TIMEOUT": "Seconds after which a test program is ended and counted as failed. "
    "Default: 120.",
    "CCACHE_DIR": "The compiler cache. Default: a folder below XPU_STACK_HOME.",
    "CCACHE_MAXSIZE": "How large the compiler cache may grow. Default: 20G.",
    "CCACHE_REMOTE": "A compiler cache that machines share, e.g. redis://host.",
    "DISTCC": "Machines that compile for this one, e.g. 'localhost/2 other/8'.",
    "SYCL_ROOT": "A oneAPI installation to use in place of the SYCL runtime from PyPI.",
    "SYCL_VERSION": "Another release of the SYCL runtime from PyPI than the pinned one.",
    "PYTORCH_GIT": "Where PyTorch is cloned from when there is no source package.",
    "XPU_STACK_HOME": "The folder for all that is downloaded, built or installed. Default: .xpu.",
    "PYTHON": "The Python that starts the tool, 3.10 or later. Default: that of its own "
    "environment if it is there, else python3.",
}

_MARK = "<!-- written by make reference -->"
_TARGET = re.compile(r"^([a-z][a-z -]*):(?: *##(.*))?$")
_RECIPE = re.compile(r"\$\(tool\) ([a-z][a-z-]*|\$@)")
_DEFINED = re.compile(r"^([a-z]+) = (.*)$", re.M)


@dataclass(frozen=True)
class Target:
    """A target of the Makefile."""

    name: str
    text: str
    variables: dict[str, str]  # what each means here
    verb: str | None


def targets(makefile: Path) -> list[Target]:
    """The Makefile's targets, in its order."""
    content = makefile.read_text().replace("\\\n", "")
    shared = dict(_DEFINED.findall(content))
    found: list[Target] = []
    names: list[str] = []
    text = ""
    for line in content.splitlines():
        header = _TARGET.match(line)
        if header:
            names, text = header[1].split(), (header[2] or "").strip()
            recipe = ""
        elif names and line.startswith("\t"):
            recipe += line
        elif names:
            found += [_target(name, text, recipe, shared) for name in names]
            names = []
    return found + [_target(name, text, recipe, shared) for name in names]


def _target(name: str, text: str, recipe: str, shared: dict[str, str]) -> Target:
    for short, long in shared.items():
        recipe = recipe.replace(f"$({short})", long)
    used = dict.fromkeys(re.findall(r"\$\((?:call option,--[a-z-]+,)?([A-Z_]+)\)", recipe))
    called = _RECIPE.search(recipe)
    verb = called[1].replace("$@", name) if called else None
    known = {**_HANDED_ON, **(options(verb) if verb else {})}
    variables = {variable: known[variable] for variable in used if variable in known}
    return Target(name, text or _told(verb), variables, verb)


def _told(verb: str | None) -> str:
    if verb is None:
        return ""
    text = (cli.commands[verb].help or "").split("\n\n")[0]
    return " ".join(text.replace("WORDS", "ARGS").split())


def options(verb: str) -> dict[str, str]:
    """The options of a verb as Make's variables, and what each means."""
    found = {}
    for one in cli.commands[verb].params:
        if isinstance(one, click.Option) and not one.hidden:
            variable = max(one.opts, key=len).lstrip("-").replace("-", "_").upper()
            found[variable] = _meaning(variable, one)
    return found


def _meaning(variable: str, one: click.Option) -> str:
    text = one.help or ""
    if one.is_flag:
        return f"{variable}=1: {text[0].lower()}{text[1:]}"
    return f"{text} Default: {one.default}." if one.show_default else text


def _meanings(listed: list[Target]) -> Iterator[tuple[str, str, list[str]]]:
    """Each variable, what it means, and the targets for which it means something else."""
    for variable in dict.fromkeys(name for one in listed for name in one.variables):
        told: dict[str, list[str]] = {}
        for one in listed:
            if variable in one.variables:
                told.setdefault(one.variables[variable], []).append(one.name)
        usual = max(told, key=lambda text: len(told[text]))
        for text, names in told.items():
            yield variable, text, [] if text == usual else names


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page(makefile: Path) -> str:
    """docs/reference.md."""
    listed = targets(makefile)
    rows = [
        "# Reference",
        "",
        "`make reference` writes this page from the declarations of the verbs.",
        "",
        "## Targets",
        "",
        "| target | what it does | variables |",
        "|---|---|---|",
        *(f"| `make {one.name}` | {one.text} | {_listed(one.variables)} |" for one in listed),
        "",
        "## Variables",
        "",
        "| variable | means |",
        "|---|---|",
    ]
    for variable, text, names in _meanings(listed):
        where = f"({_listed(names)}) " if names else ""
        rows.append(f"| `{variable}` | {where}{text.replace('<', '&lt;')} |")
    rows += ["", "Variables of the environment, which `make` hands on, too:", ""]
    rows += ["| variable | means |", "|---|---|"]
    rows += [f"| `{variable}` | {text} |" for variable, text in ENVIRONMENT.items()]
    rows += [
        "",
        "## Exit codes",
        "",
        "`make` itself ends with 2, whatever failed. The command line behind it,",
        "`python3 scripts/bootstrap.py <verb>`, ends with:",
        "",
        "| code | means |",
        "|---|---|",
        *(f"| {code.value} | {code.meaning} |" for code in ExitCode),
    ]
    return "\n".join(rows) + "\n"


def pages(repository: Path) -> dict[Path, str]:
    """The generated pages, and the generated part of one, as they should be."""
    troubles = repository / "docs" / "troubleshooting.md"
    written, mark, _ = troubles.read_text().partition(_MARK)
    table = error_list.table(error_list.collect(repository / "scripts"))
    return {
        repository / "docs" / "reference.md": page(repository / "Makefile"),
        troubles: f"{written}{mark}\n\n{table}",
    }


def write(repository: Path) -> list[Path]:
    """Writes what differs; the files written."""
    wanted = pages(repository)
    differing = [path for path in wanted if not path.exists() or path.read_text() != wanted[path]]
    for path in differing:
        path.write_text(wanted[path])
    return differing


def overview(makefile: Path, width: int) -> str:
    """What `make help` prints."""
    listed = targets(makefile)
    lines = ["Usage: make <target> [VARIABLE=value ...]", "", "Targets:"]
    for one in listed:
        lines += _hanging(one.name, one.text, width)
        lines += _hanging("", " ".join(one.variables), width)
    lines += ["", "Variables:"]
    for variable, text, names in _meanings(listed):
        lines += _hanging(variable, f"({', '.join(names)}) {text}" if names else text, width)
    lines += ["", "Variables of the environment:"]
    for variable, text in ENVIRONMENT.items():
        lines += _hanging(variable, text, width)
    return "\n".join([*lines, "", "docs/reference.md has the same, and the exit codes."])


def _hanging(name: str, text: str, width: int) -> list[str]:
    if not text:
        return [f"  {name}"] if name else []
    indent = " " * 18
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=f"  {name:<15} ",
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
