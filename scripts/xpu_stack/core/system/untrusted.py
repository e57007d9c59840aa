"""Texts as they may be shown: without passwords, and with no character that hides another."""

import re

_CREDENTIALS = re.compile(r"(https?://)[^/\s'\"]+@")
_COLOUR = re.compile(r"(\x1b\[[\d;]*m)")
# Control characters but tabs and ends of lines, and those that change the direction of a
# text or have no width.
_HIDDEN = re.compile(
    r"(?!\r\n)[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def redacted(text: str) -> str:
    """A text whose addresses have no name and password."""
    return _CREDENTIALS.sub(r"\1***@", text)


def visible(text: str) -> str:
    """A text with [U+202E] and the like in place of characters that cannot be seen."""
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def on_terminal(text: str) -> str:
    """The same, with the colours of a terminal left as they are."""
    pieces = _COLOUR.split(text)
    return "".join(piece if n % 2 else visible(piece) for n, piece in enumerate(pieces))
