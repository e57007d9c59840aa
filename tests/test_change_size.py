"""Each change of the real series can be read in a sitting, on every base."""

import re
from collections.abc import Iterator

import pytest
from xpu_stack.core.series.base import base_names
from xpu_stack.core.series.series import Change, Series
from xpu_stack.core.system.layout import Layout

LIMIT = 1500  # added lines that are not of tests
TEST = re.compile(r"(^|/)test/|(^|/)test_[^/]*\.py$|_test\.cpp$")


def added(change: Change) -> Iterator[tuple[str, int]]:
    """How many lines are added to each file."""
    for file in change.files:
        yield file.target, len(file.content.splitlines())
    patch = change.patch.read_text() if change.patch else ""
    _, *parts = re.split(r"^diff --git a/.* b/(.*)$", patch, flags=re.MULTILINE)
    for path, hunks in zip(parts[::2], parts[1::2], strict=True):
        yield path, len(re.findall(r"^\+(?!\+\+ b/)", hunks, re.MULTILINE))


@pytest.mark.parametrize("base", base_names(Layout.current()))
def test_no_change_adds_more_than_one_reads_at_once(base: str) -> None:
    changes = Series.load(Layout.current(), base).all_changes()
    sizes = {
        change.id: sum(lines for path, lines in added(change) if not TEST.search(path))
        for change in changes
    }
    assert {id_: size for id_, size in sizes.items() if size > LIMIT} == {}
