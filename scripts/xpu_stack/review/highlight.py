"""Source text as HTML: syntax by Pygments, with the words that differ marked.

The colours are in review.css: no style that Pygments brings can be read on the
backgrounds of a diff, light and dark.
"""

import re
from contextlib import suppress
from html import escape
from itertools import pairwise
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from xpu_stack.review.diff import Span

# More than this is shown without colours: lexing would take seconds.
_LARGEST = 500_000
# The text must stay as it is, so that line numbers agree with the diff's.
_AS_IT_IS: dict[str, Any] = {"stripnl": False, "ensurenl": False}

Piece = tuple[str, str]  # a CSS class, or "", and text


def lines(path: str, source: str) -> list[list[Piece]]:
    """The lines of a file, each cut into pieces of one kind."""
    result: list[list[Piece]] = [[]]
    for kind, text in _lexer(path, source).get_tokens(source):
        css = STANDARD_TYPES.get(kind, "")
        for number, part in enumerate(text.split("\n")):
            if number:
                result.append([])
            if part:
                result[-1].append((css, part))
    return result


def _lexer(path: str, source: str) -> Lexer:
    if len(source) <= _LARGEST:
        # A template is what it becomes, and PyTorch's .h files are C++.
        name = re.sub(r"\.h$", ".hpp", path.removesuffix(".in"))
        with suppress(ClassNotFound):
            return get_lexer_for_filename(name, **_AS_IT_IS)
    return TextLexer(**_AS_IT_IS)


def html(pieces: list[Piece], words: tuple[Span, ...], mark: str) -> str:
    """One line as HTML; `mark` is the element around the words that differ."""
    out, at = [], 0
    edges = sorted({edge for span in words for edge in span})
    for css, text in pieces:
        end = at + len(text)
        cuts = [at, *(edge for edge in edges if at < edge < end), end]
        for start, stop in pairwise(cuts):
            part = escape(text[start - at : stop - at])
            if css:
                part = f'<span class="{css}">{part}</span>'
            if any(first <= start and stop <= last for first, last in words):
                part = f"<{mark}>{part}</{mark}>"
            out.append(part)
        at = end
    return "".join(out)
