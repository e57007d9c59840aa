"""Commands as they are shown to a person: quoted, and for what this run works on.

An error's way out is pasted into a shell. So its paths and names are quoted
here, and `as_typed` completes each `make` command before it is shown: with the
checkout and the base that this run was given, and with the project's folder
where this one is another.
"""

import re
import shlex
from collections.abc import Collection
from pathlib import Path

from xpu_stack.core.system.settings import REPOSITORY

# <...> is for the person to fill in
_TO_FILL_IN = re.compile(r"(--?[\w-]+=)?<[^<>]*>\Z")
_VALUE = r"""(?:<[^>]*>|'[^']*'|"[^"]*"|\\.|[^\s;&|()<>'"\\,.]|[,.](?=\S))*"""
_COMMAND = re.compile(rf"\bmake ((?:-C {_VALUE} )?)([a-z-]+)((?: [A-Z_]+={_VALUE})*)")

_given: dict[str, tuple[str, Collection[str]]] = {}  # variable -> value, verbs that take it


def line(*words: str | Path) -> str:
    """A command, to be pasted into a shell."""
    return " ".join(map(_quoted, map(str, words)))


def git(folder: Path, *words: str | Path) -> str:
    """A git command for the repository in `folder`."""
    return line("git", "-C", folder, *words)


def make(verb: str, **variables: str) -> str:
    """A command of the Makefile; a variable without a value is left out."""
    given = {name: value for name, value in variables.items() if value}
    return " ".join([f"make {verb}", *(_set(name, value) for name, value in given.items())])


def elsewhere(command: str) -> str:
    """A `make` command that works in any folder."""
    return command.replace("make ", f"make -C {_quoted(str(REPOSITORY))} ", 1)


def works_in(variable: str, value: str, verbs: Collection[str]) -> None:
    """From now on commands of these verbs are shown with this variable."""
    _given[variable] = value, verbs


def as_typed(text: str) -> str:
    """A text whose `make` commands do what they say from here."""

    def command(found: re.Match[str]) -> str:
        folder, verb, variables = found.groups()
        for name, (value, verbs) in _given.items():
            if verb in verbs and f" {name}=" not in variables:
                variables += f" {_set(name, value)}"
        shown = f"make {folder}{verb}{variables}"
        return shown if folder or Path.cwd() == REPOSITORY else elsewhere(shown)

    return _COMMAND.sub(command, text)


def _set(name: str, value: str) -> str:
    return f"{name}={_quoted(value.replace('$', '$$'))}"  # make would take it for a variable


def _quoted(word: str) -> str:
    return word if _TO_FILL_IN.match(word) else shlex.quote(word)
