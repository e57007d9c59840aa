"""Verbs for the series itself: export, check."""

from xpu_stack import applying, checking, console
from xpu_stack import export as exporting
from xpu_stack.cli.options import EPILOG, base_option, checkout_options, cli
from xpu_stack.layout import Layout
from xpu_stack.series import Series


@cli.command(epilog=EPILOG)
@checkout_options
def export(base: str, pytorch_src: str | None) -> None:
    """Writes edits and amended commits of the checkout back into the series."""
    layout = Layout.current()
    with applying.opened(layout, base, pytorch_src, "export") as work:
        written = exporting.export(work)
        for path in written:
            console.say(f"wrote {path.relative_to(layout.repository)}")
        # The commits are now the series' own again.
        fresh = applying.Workspace(layout, work.base, Series.load(layout, base), work.checkout)
        applying.adopt(fresh)
        console.say(f"{len(written)} file(s) of the series differ from before")


@cli.command(epilog=EPILOG)
@base_option
def check(base: str) -> None:
    """Validates the whole series; touches no checkout."""
    with applying.opened(Layout.current(), base, None, "check") as work:
        release = work.repository.commit_id("refs/heads/base")
        assert release is not None
        console.say(f"{checking.check(work, release)} change(s) are in order")
