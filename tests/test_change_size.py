"""The real series is small: its changes, on every base, and the runtime's stages."""

import re
from collections.abc import Iterator

import pytest
from xpu_stack.core.series.base import base_names
from xpu_stack.core.series.change import Change
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.layout import Layout

LIMIT = 1500  # added lines that are not of tests
STAGES = {"device": 780, "stream": 925, "allocator": 2110, "guard": 350}  # C++ of c10
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


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_stays_as_small_as_a_reviewer_takes_it(stage: str) -> None:
    files = [
        file
        for file in (Layout.current().repository / "c10_xpu" / stage).rglob("*")
        if file.suffix in {".h", ".cpp"} and not TEST.search(file.as_posix())
    ]
    lines = sum(len(file.read_text().splitlines()) for file in files)
    assert files
    assert lines <= STAGES[stage]
