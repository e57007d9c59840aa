"""Which sources of the series are compiled as one, in the fast mode."""

from collections import Counter

from xpu_stack.build.build import own_units
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.layout import Layout


def test_a_later_stage_leaves_units_as_they_are() -> None:
    series = Series.load(Layout.current(), "v1.13.1")
    before: set[tuple[str, ...]] = set()
    for stage in series.stage_names:
        lines = {tuple(line.split()) for line in own_units(series, stage, ())}
        assert before <= lines
        before = lines
    sizes = Counter(unit for _, unit in before)
    assert 2 < len(before) / len(sizes) < 10
    assert max(sizes.values()) < 20


def test_what_a_change_edits_and_what_is_named_are_alone() -> None:
    series = Series.load(Layout.current(), "v1.13.1")
    added = {file.target for change in series.all_changes() for file in change.files}
    edited = added & {path for change in series.all_changes() for path in change.patched_paths()}
    all_of = dict(line.split() for line in own_units(series, series.stage_names[-1], ()))
    assert edited
    assert edited.isdisjoint(all_of)
    assert not any("/test/" in name for name in all_of)
    one = min(all_of)
    others = dict(line.split() for line in own_units(series, series.stage_names[-1], [one]))
    assert one not in others
