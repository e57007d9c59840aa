"""The whole series on the real base, as pull requests, and edited there."""

import shutil
from collections.abc import Iterator

import pytest
from project import ROOT, Project, git
from upstream import Upstream
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.layout import Layout, settings

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """A copy of the project, with its own checkout of the release."""
    folder = tmp_path_factory.mktemp("real")
    project = Project(folder / "project", folder / "project/.xpu/pytorch-v1.13.1")
    for name in ("scripts", "patches", *settings().payload):
        if (ROOT / name).exists():
            shutil.copytree(
                ROOT / name,
                project.folder / name,
                ignore=shutil.ignore_patterns("__pycache__", "submitted.yaml"),
            )
    state = Layout.current().state
    if (state / "downloads").is_dir():
        shutil.copytree(state / "downloads", project.folder / ".xpu/downloads")
    project.ok("apply", source=False)
    yield Upstream.make(project, folder, base="base")
    shutil.rmtree(folder)


def shown(upstream: Upstream) -> dict[str, str]:
    """Title -> diff, of every open pull request."""
    return {title: upstream.diff(number) for number, title in upstream.open().items()}


def in_checkout(upstream: Upstream) -> dict[str, str]:
    checkout = upstream.project.checkout
    commits = git(checkout, "rev-list", "--reverse", "base..HEAD").split()
    return {
        git(checkout, "show", "-s", "--format=%s", commit).strip(): git(
            checkout, "diff", "--no-color", "--full-index", f"{commit}^", commit
        )
        for commit in commits
    }


@pytest.mark.slow
def test_the_whole_series_twice_and_with_an_edit(upstream: Upstream) -> None:
    series = Series.load(Layout.current(), "v1.13.1")
    changes = [one.id for one in series.all_changes() if one.id not in series.without]
    first = series.stages[0].name
    before = upstream.project.snapshot()

    # the first stage, as a person would begin; then all of it
    assert set(upstream.states(first, dry=False).values()) == {"new"}
    assert len(upstream.open()) == len(series.stages[0].changes)
    upstream.submit()
    assert len(upstream.open()) == len(changes)
    assert shown(upstream) == in_checkout(upstream)
    assert upstream.project.snapshot() == before
    assert set(upstream.states().values()) == {"unchanged"}

    # an edit of the first change: all above it move, and show the same as before
    file = series.stages[0].changes[0].files[0]
    path = upstream.project.checkout / file.target
    path.write_text(path.read_text() + "\n")
    upstream.project.ok("export")
    states = upstream.states(dry=False)
    assert list(states) == changes
    assert set(states.values()) == {"updated"}
    assert len(upstream.open()) == len(changes)
    assert upstream.closed() == []
    assert shown(upstream) == in_checkout(upstream)
