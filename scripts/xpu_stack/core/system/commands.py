"""Commands as they are shown to a person: quoted, and for what this run works on.

An error's way out is pasted into a shell. So its paths and names are quoted here,
and a `make` command has the checkout and the base that this run was given, and the
project's folder where this one is another.
"""

import re
import shlex
from collections.abc import Collection
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]

# <...> is for the person to fill in
_TO_FILL_IN = re.compile(r"(--?[\w-]+=)?<[^<>]*>(/<[^<>]*>)?\Z")

_given: dict[str, tuple[str, Collection[str]]] = {}  # variable -> value, verbs that take it


def line(*words: str | Path) -> str:
    """A command, to be pasted into a shell."""
    return " ".join(map(_quoted, map(str, words)))


def git(folder: Path, *words: str | Path) -> str:
    """A git command for the repository in `folder`."""
    return line("git", "-C", folder, *words)


def make(verb: str, **variables: str) -> str:
    """A command of the Makefile; a variable whose value is "" is left out."""
    here = Path.cwd() == REPOSITORY
    return f"make {_verb(verb, variables)}" if here else anywhere(verb, **variables)


def anywhere(verb: str, **variables: str) -> str:
    """A command of the Makefile that works in any folder."""
    return f"make -C {_quoted(str(REPOSITORY))} {_verb(verb, variables)}"


def works_in(variable: str, value: str, verbs: Collection[str]) -> None:
    """From now on commands of these verbs are shown with this variable."""
    _given[variable] = value, verbs


def _verb(verb: str, variables: dict[str, str]) -> str:
    known = {name: value for name, (value, verbs) in _given.items() if verb in verbs}
    shown = {**variables, **known, **variables}
    words = (
        f"{name}={_quoted(value.replace('$', '$$'))}" for name, value in shown.items() if value
    )
    return " ".join([verb, *words])


def _quoted(word: str) -> str:
    return word if _TO_FILL_IN.match(word) else shlex.quote(word)
