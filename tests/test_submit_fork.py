"""`make submit` from a person's fork, as drafts, with reviewers."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from project import Project, git, write
from test_submit import CHANGES, FIRST, numbers, reorder
from upstream import Upstream, lost
from xpu_stack.core.system.errors import ExitCode, ToolError

UNCHANGED = dict.fromkeys(CHANGES, "unchanged")


@pytest.fixture
def upstream(project: Project, tmp_path: Path) -> Upstream:
    made = Upstream.make(project, tmp_path)
    made.add_fork(tmp_path)
    project.ok("apply")
    project.ok("export")
    return made


def check(upstream: Upstream) -> None:
    """Each pull request ends with its change's commit, and says what else it shows."""
    checkout = upstream.project.checkout
    commits = git(checkout, "rev-list", "--reverse", "origin/main..HEAD").split()
    found = numbers(upstream)
    for place, (change, commit) in enumerate(zip(CHANGES, commits, strict=True)):
        one = upstream.pull_request(found[change])
        assert one.headRefName == f"refs/forks/person/pr/v1.13.1/{change}"
        assert one.baseRefName == "main"
        assert git(
            upstream.endpoint.forks["person"], "rev-parse", one.headRefName[18:]
        ).strip() == (commit)
        title, _, body = git(checkout, "show", "-s", "--format=%B", commit).strip().partition("\n")
        assert one.title == title
        assert one.body.endswith(body.strip())
        below = ", ".join(f"#{found[other]}" for other in CHANGES[:place])
        assert one.body.startswith(f"This is on top of {below}, and contains" if below else "Moti")


def test_from_a_fork(upstream: Upstream) -> None:
    before = upstream.project.snapshot()
    refs = upstream.refs()
    assert upstream.states(fork="mine") == dict.fromkeys(CHANGES, "new")
    upstream.submit(fork="mine", draft=True, reviewers=("alice", "bob"))
    assert upstream.open() == FIRST
    assert upstream.endpoint.drafts == set(FIRST)
    assert [upstream.pull_request(one).reviewers for one in FIRST] == [["alice", "bob"]] * 3
    check(upstream)
    # nothing was pushed to the repository itself, and the checkout is as it was
    assert [line for line in upstream.refs().splitlines() if "forks" not in line] == (
        refs.splitlines()
    )
    assert upstream.project.snapshot() == before
    assert upstream.states(fork="mine") == UNCHANGED
    # an edit in the middle, and another text
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.project.ok("export")
    expected = {**dict.fromkeys(CHANGES, "updated"), "device/runtime": "unchanged"}
    assert upstream.states(fork="mine", dry=False) == expected
    assert upstream.open() == FIRST
    check(upstream)
    # such pull requests are not ghstack's
    with pytest.raises(ToolError, match="not one that can be updated") as caught:
        upstream.submit()
    assert "FORK=" in caught.value.next


def test_the_lowest_pull_request_says_nothing_of_those_that_were_below(upstream: Upstream) -> None:
    upstream.submit(fork="mine")
    assert upstream.pull_request(501).body.startswith("This is on top of #500, and contains")
    reorder(upstream.project)
    upstream.submit(fork="mine")
    assert not upstream.pull_request(501).body.startswith("This is on top of")
    assert upstream.pull_request(500).body.startswith("This is on top of #501, and contains")


def test_drafts_and_reviewers_with_ghstack(upstream: Upstream) -> None:
    upstream.submit(draft=True, reviewers=("alice",))
    assert upstream.open() == FIRST
    assert upstream.endpoint.drafts == set(FIRST)
    assert [upstream.pull_request(one).reviewers for one in FIRST] == [["alice"]] * 3
    with pytest.raises(ToolError, match="not one that can be updated") as caught:
        upstream.submit(fork="mine")
    assert "without FORK" in caught.value.next


def lose(upstream: Upstream, path: str, nth: int, *, answered: bool) -> None:
    seen = 0

    async def fault(method: str, where: str, answer: Callable[[], Awaitable[Any]]) -> Any:
        nonlocal seen
        if method == "post" and where.endswith(path):
            seen += 1
            if seen == nth:
                if answered:
                    await answer()
                raise lost()
        return await answer()

    upstream.endpoint.fault = fault


@pytest.mark.parametrize("answered", [False, True])
def test_cut_off_and_edited(upstream: Upstream, answered: bool) -> None:
    lose(upstream, "/pulls", 2, answered=answered)
    with pytest.raises(ToolError, match="The submission was interrupted") as caught:
        upstream.submit(fork="mine")
    assert caught.value.code == ExitCode.MISSING
    assert len(upstream.open()) == 1 + answered
    upstream.endpoint.fault = None
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.project.ok("export")
    upstream.submit(fork="mine")
    assert upstream.open() == FIRST
    check(upstream)


def test_reviewers_that_cannot_be_asked(upstream: Upstream) -> None:
    lose(upstream, "/requested_reviewers", 1, answered=False)
    with pytest.raises(ToolError, match="nobody could not be asked for a review of #500"):
        upstream.submit(fork="mine", reviewers=("nobody",))
    # all else is done
    upstream.endpoint.fault = None
    assert upstream.states(fork="mine") == UNCHANGED


def test_what_is_refused(upstream: Upstream) -> None:
    checkout = upstream.project.checkout
    with pytest.raises(ToolError, match="has no remote 'yours'"):
        upstream.submit(fork="yours")
    with pytest.raises(ToolError, match="pytorch/pytorch is not a fork"):
        upstream.submit(fork="origin")
    # another person's commits on a branch of that name
    git(checkout, "push", "-q", "mine", "main:refs/heads/pr/v1.13.1/device/aten")
    with pytest.raises(ToolError, match="has other commits") as caught:
        upstream.submit(fork="mine")
    assert caught.value.next.endswith("push mine --delete pr/v1.13.1/device/aten")
    assert upstream.open() == {}
    git(checkout, "push", "-q", "mine", "--delete", "pr/v1.13.1/device/aten")
    upstream.submit(fork="mine")
    # pushed to from elsewhere: it is not overwritten
    git(checkout, "push", "-qf", "mine", "main:refs/heads/pr/v1.13.1/device/aten")
    with pytest.raises(ToolError, match="device/aten was submitted from elsewhere"):
        upstream.submit(fork="mine")
    upstream.close(501)
    with pytest.raises(ToolError, match="The pull request of device/aten is closed"):
        upstream.submit(fork="mine")


def test_without_access_the_fork_is_named(upstream: Upstream, tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "github.com" / "pytorch" / "pytorch.git"
    git(upstream.project.checkout, "remote", "set-url", "--push", "origin", str(nowhere))
    with pytest.raises(ToolError, match="'origin' does not let you push") as caught:
        upstream.submit()
    assert caught.value.next.startswith("make submit FORK=")
    upstream.submit("device/runtime", fork="mine")
    assert upstream.open() == {500: "Add devices"}
