"""Who wrote a change: `name <address>`, as git has it.

A change without an author of its own is by the author of the series. Commits are
published only with addresses that mail can reach.
"""

import re

from xpu_stack.core.system.git import Repository

FORM = re.compile(r"([^<>\n]*[^<>\s]) <([^<>\s]+)>")

# git takes these off the ends of a name and an address when it makes a commit
_LOST = " .,:;<>\"\\'"

_REACHABLE = re.compile(r"[^@]+@[\w-]+(\.[\w-]+)+")
_RESERVED = (".example", ".invalid", ".local", ".localdomain", ".localhost", ".test")


def problem(author: str) -> str:
    """Why git would not keep an author as it is; "": it would."""
    found = FORM.fullmatch(author)
    if found is None:
        return "must be 'name <address>'"
    for part in found.groups():
        if part != part.strip(_LOST):
            odd = part[-1] if part[-1] in _LOST else part[0]
            return f"'{part}' begins or ends with '{odd}', which git takes off"
    return "" if author.isprintable() else "has a character that cannot be printed"


def is_reachable(author: str) -> bool:
    """Whether mail can reach the address."""
    found = FORM.fullmatch(author)
    address = found[2].lower() if found else ""
    return bool(_REACHABLE.fullmatch(address)) and not address.endswith(_RESERVED)


def of_git(repository: Repository) -> str | None:
    """The person that git's configuration or environment names; None: it names none."""
    # without a guess from the names of the user and the machine
    told = repository.ask("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")
    return told[: told.rindex(">") + 1] if told else None
