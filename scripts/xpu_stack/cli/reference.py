"""`make help`, and docs/reference.md: the targets of the Makefile and their variables.

What a target does is the help of the verb that it calls, and what a variable
means is the help of that verb's option. A target that calls no verb has its text
in the Makefile, after `##`.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from xpu_stack.cli import error_list
from xpu_stack.cli.options import cli, options_of, variable_of
from xpu_stack.core.system.errors import ExitCode

# What has no option: words that are handed on, and the environment.
_HANDED_ON = {"ARGS": "What pytest is given."}
ENVIRONMENT = {
    "JOBS": "How many compilers run at once. Default: by processors and free memory.",
    "TEST_SEED": "Which tests of PyTorch's operators a run of the tests takes; each run prints it.",
    "TEST_TIMEOUT": "Seconds after which a test program is ended and counted as failed. "
    "Default: 120.",
    "CCACHE_DIR": "The compiler cache. Default: a folder below XPU_STACK_HOME.",
    "CCACHE_MAXSIZE": "How large the compiler cache may grow. Default: 20G.",
    "CCACHE_REMOTE": "A compiler cache that machines share, e.g. redis://host.",
    "DISTCC": "Machines that compile for this one, e.g. 'localhost/2 other/8'.",
    "SYCL_ROOT": "A oneAPI installation to use in place of the SYCL runtime from PyPI.",
    "SYCL_VERSION": "Another release of the SYCL runtime from PyPI than the pinned one.",
    "TORCH": "For a base that is an installed PyTorch: the Python environment that it is in, or "
    "its Python. Default: an environment that the tool makes.",
    "PYTORCH_GIT": "Where PyTorch is cloned from when there is no source package.",
    "NO_COLOR": "Any value: tables without colours.",
    "XPU_STACK_HOME": "The folder for all that is downloaded, built or installed. Default: .xpu.",
    "PYTHON": "The Python that starts the tool, 3.10 or later. Default: that of its own "
    "environment if it is there, else python3.",
}

_MARK = "<!-- written by make reference -->"
_VERBS = re.compile(r"^verbs := ((?:.*\\\n)*.*)$", re.M)
_OWN_TARGET = re.compile(r"^([a-z-]+):.*?## (.+)$", re.M)


@dataclass(frozen=True)
class Target:
    """A target of the Makefile."""

    name: str
    text: str
    variables: dict[str, str]  # what each means here


def targets(makefile: Path) -> list[Target]:
    """The verbs, then what else the Makefile has, in its order."""
    text = makefile.read_text()
    listed = _VERBS.search(text)
    verbs = listed[1].replace("\\\n", "").split() if listed else []
    found = []
    for name in verbs:
        told = (cli.commands[name].help or "").split("\n\n")[0]
        variables = {variable_of(one): _meaning(one) for one in options_of(name)}
        found.append(Target(name, " ".join(told.split()), variables))
    for name, told in _OWN_TARGET.findall(text):
        found.append(Target(name, told, _HANDED_ON if name == "self-test" else {}))
    return found


def _meaning(one: click.Option) -> str:
    text = one.help or ""
    if one.is_flag:
        return f"{variable_of(one)}=1: {text[0].lower()}{text[1:]}"
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


def page(makefile: Path) -> str:
    """docs/reference.md, which the template has but for what is declared elsewhere."""
    from jinja2 import Environment, FileSystemLoader

    templates = Environment(  # noqa: S701 (it is no HTML)
        loader=FileSystemLoader(Path(__file__).parent / "templates"), trim_blocks=True
    )
    templates.filters["listed"] = lambda names: ", ".join(f"`{name}`" for name in names)
    listed = targets(makefile)
    return templates.get_template("reference.md").render(
        targets=listed, variables=_meanings(listed), environment=ENVIRONMENT, codes=list(ExitCode)
    )


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
