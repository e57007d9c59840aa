"""The pages on which a stack is read: HTML for a browser, Markdown to paste.

May import: core, build, bench, show.
"""

from xpu_stack.review.site import build

__all__ = ["build"]
