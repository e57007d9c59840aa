"""Who wrote a change: `name <address>`, as git has it.

A change without an author of its own is by the author of the series. Commits are
published only with addresses that mail can reach.
"""

import re

from xpu_stack.core.system.git import Repository

FORM = re.compile(r"([^<>\n]*[^<>\s]) <([^<>\s]+)>")

_REACHABLE = re.compile(r"[^@]+@[\w-]+(\.[\w-]+)+")
_RESERVED = (".example", ".invalid", ".local", ".localdomain", ".localhost", ".test")


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
