"""`make help`, and docs/reference.md: the targets of the Makefile and their variables.

What a target does is the help of the verb that it calls, and what a variable
means is the help of that verb's option. A target that calls no verb has its text
in the Makefile, after `##`.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator
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

# Each field of a document; [] is each item of a list, and what may be null says so.
DOCUMENTS = {
    "make status JSON=1": {
        "version": "1. Fields may be added; it is raised if one goes or means something else.",
        "checkout": "The checkout's folder.",
        "base": "The release, as in `BASE`.",
        "base_commit": "The commit that the stack stands on.",
        "provider": "Where the checkout comes from, in words.",
        "mode": "The mode that `built` and `tests` are about, as in `MODE`.",
        "changes[].id": "`<stage>/<change>`. All changes of the series are listed, in order.",
        "changes[].title": "The first line of its text.",
        "changes[].author": "`name <address>`",
        "changes[].state": "`applied`, `not applied`, `skipped`, `taken out`, `changed by hand` "
        "(its commit was amended), or `older` (the series was edited since).",
        "changes[].commit": "Its commit, or null.",
        "changes[].built": "Whether it was built; null if it is not applied.",
        "changes[].tests": "null if they have not run.",
        "changes[].tests.passed": "How many passed, over all configurations.",
        "changes[].tests.failed": "How many failed.",
        "changes[].tests.skipped": "How many were skipped.",
        "changes[].tests.reasons": "Why some were skipped, with how often.",
        "changes[].tests.failures": "The names of those that failed.",
        "changes[].pull_request": "null if it was not submitted.",
        "changes[].pull_request.url": "Its address.",
        "changes[].pull_request.number": "Its number.",
        "changes[].pull_request.outdated": "Whether it shows other files than are applied.",
        "above[]": "Your own commits above the stack.",
        "foreign[]": "Commits in the stack that are of no change.",
        "unknown[]": "Commits of changes that the series does not have.",
        "above[].commit": "The commit; so in `foreign[]` and `unknown[]`.",
        "above[].title": "The first line of its message; so in `foreign[]` and `unknown[]`.",
        "above[].change": "null; in `unknown[]` the change that its trailer names.",
        "edited[]": "Tracked files with edits that are not exported.",
        "untracked[]": "Files that git does not track.",
        "conflict": "null if none waits.",
        "conflict.change": "The change in conflict.",
        "conflict.worktree": "The folder in which it is resolved.",
    },
    "make check JSON=1": {
        "version": "1, as above.",
        "base": "The release, as in `BASE`.",
        "valid": "Whether the series is valid. If not, the exit code is 6.",
        "changes": "How many changes it has; null if it is not valid.",
        "problems[].place": "A file, with the line where that is known.",
        "problems[].problem": "What is wrong there.",
    },
    "make history JSON=1": {
        "version": "1, as above.",
        "moves[].time": "When, in UTC; null where git has let the entry expire.",
        "moves[].verb": "What was done.",
        "moves[].about": "To what: a stage, a change.",
        "moves[].undone": "Whether redo would do it again; if not, undo reverts it.",
        "moves[].before.head": "The branch that HEAD was on; empty for none.",
        "moves[].before.commit": "The commit that HEAD was at.",
        "moves[].before.tip": "The stack's branch; null where there was none.",
        "moves[].before.dropped[]": "Changes that were skipped, as with `DROP=`.",
        "moves[].after.head": "The same afterwards.",
        "moves[].after.commit": "The same afterwards.",
        "moves[].after.tip": "The same afterwards.",
        "moves[].after.dropped[]": "The same afterwards.",
        "moves[].files[]": "Files of the series that were written.",
    },
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
    rows += ["", "## JSON", "", "Standard output has the document and nothing else."]
    for command, fields in DOCUMENTS.items():
        rows += ["", f"`{command}`:", "", "| field | means |", "|---|---|"]
        rows += [f"| `{field}` | {text} |" for field, text in fields.items()]
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
