"""The series on a later release of PyTorch, which has a runtime of its own."""

import re

import pytest
from project import ROOT, git
from real import Home
from xpu_stack.core.bases import providers
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.layout import Layout

pytestmark = pytest.mark.real

ONTO = "source-package:2.6.0"
# They only add files, which that release lacks.
NEW = {
    "native/native",
    "allocator/blocks",
    "allocator/device-allocator-core",
    "allocator/memory-tools",
    "tensor/record-work",
    "tensor/host-call",
    "tensor/fallback",
    "tensor/tensors",
    "tensor/special-ops",
    "tensor/layouts",
}
NEW_STAGES = ("kernels/", "libraries/")


@pytest.fixture(scope="module")
def drifted(home: Home) -> Home:
    home.ok("apply")
    state = Layout(ROOT, home.folder)
    try:
        providers.resolve(state, Repository(home.checkout), ONTO)
    except ToolError as error:
        if error.code != ExitCode.MISSING:
            raise
        pytest.skip(f"{error.what} {error.why}")
    return home


def changes() -> list[str]:
    series = Series.load(Layout.current(), "v1.13.1")
    return [change.id for change in series.all_changes() if change.id not in series.without]


def test_every_change_is_in_the_report(drifted: Home) -> None:
    before = git(drifted.checkout, "rev-parse", "HEAD")
    out = drifted.ok("rebase", f"ONTO={ONTO}", "DRY_RUN=1")
    rows = {}
    for line in out.splitlines():
        cells = re.split("  +", line)
        if cells[0] in changes():
            rows[cells[0]] = cells[1:]
    assert list(rows) == changes()
    # It has a runtime at the same paths, which is not ours: no other applies in silence.
    new = {change for change, row in rows.items() if row[0] == "applies"}
    assert {change for change in new if not change.startswith(NEW_STAGES)} <= NEW
    rest = {change: row for change, row in rows.items() if change not in new}
    assert {row[0] for row in rest.values()} <= {"there already", "another there", "conflict"}
    assert all(int(row[1]) > 0 for row in rest.values())
    for change in rest:
        assert f"\n{change}: " in out  # the files, each with its hunks
    assert git(drifted.checkout, "rev-parse", "HEAD") == before


def test_the_first_conflict_leaves_the_checkout_as_it_was(drifted: Home) -> None:
    before = git(drifted.checkout, "rev-parse", "HEAD")
    done = drifted.make("rebase", f"ONTO={ONTO}")
    assert f"Change 1 of {len(changes())}, {changes()[0]}, does not fit the base." in done.stderr
    assert "c10/xpu/XPUFunctions.cpp:" in done.stderr
    assert git(drifted.checkout, "rev-parse", "HEAD") == before
    assert git(drifted.checkout, "status", "--porcelain") == ""
    drifted.ok("abort")


def test_there_and_back(drifted: Home) -> None:
    """Nearly every file of the checkout changes, and comes back."""
    before = git(drifted.checkout, "rev-parse", "HEAD")
    drifted.ok("rebase", f"ONTO={ONTO}", f"DROP={','.join(changes())}")
    assert (drifted.checkout / "version.txt").read_text().startswith("2.6.0")
    assert git(drifted.checkout, "status", "--porcelain") == ""
    drifted.ok("undo")
    assert git(drifted.checkout, "rev-parse", "HEAD") == before
    assert git(drifted.checkout, "status", "--porcelain") == ""
