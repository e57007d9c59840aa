"""`make submit` beside other people: their pull requests, commits and texts are kept."""

from dataclasses import replace
from pathlib import Path

import pytest
from project import Project, git, write
from test_submit import CHANGES, FIRST, check
from upstream import Upstream
from xpu_stack.core.system.errors import ToolError

TICKED = "- [x] tried on a card"


@pytest.fixture
def upstream(project: Project, tmp_path: Path) -> Upstream:
    made = Upstream.make(project, tmp_path)
    made.add_fork(tmp_path)
    text = project.folder / "patches/texts/device/aten.md"
    text.write_text(text.read_text().replace("As it is.\n", "As it is.\n\n- [ ] tried on a card\n"))
    project.ok("apply")
    project.ok("export")
    return made


@pytest.fixture(params=[None, "mine"])
def fork(request: pytest.FixtureRequest) -> str | None:
    """Without a fork and from one."""
    given: str | None = request.param
    return given


def forget(upstream: Upstream) -> None:
    """As for a person who has not got the record, nor what was about to be submitted."""
    (upstream.project.folder / "patches/v1.13.1/submitted.yaml").unlink()


def edit_text(upstream: Upstream, old: str, new: str) -> None:
    text = upstream.project.folder / "patches/texts/device/aten.md"
    assert old in text.read_text()
    text.write_text(text.read_text().replace(old, new))
    upstream.project.ok("apply")


def branch(upstream: Upstream, number: int) -> tuple[Path, str]:
    """The repository and the branch that a pull request is made from."""
    head = upstream.pull_request(number).headRefName
    if head.startswith("refs/forks/person/"):
        return upstream.endpoint.forks["person"], head.removeprefix("refs/forks/person/")
    return upstream.bare, head


# -- two people -------------------------------------------------------------------


def test_a_second_person_opens_nothing_again(upstream: Upstream) -> None:
    upstream.submit()
    forget(upstream)
    account = upstream.account()
    upstream.account = lambda: replace(account, username="another")  # type: ignore[method-assign]
    assert upstream.states() == dict.fromkeys(CHANGES, "unchanged")
    upstream.submit()
    assert upstream.open() == FIRST
    # with an edit, too: the record is shared by now
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.project.ok("export")
    upstream.submit()
    assert upstream.open() == FIRST
    check(upstream)


def test_a_second_person_with_another_version_is_refused(upstream: Upstream) -> None:
    upstream.submit()
    forget(upstream)
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.project.ok("export")
    refs = upstream.refs()
    with pytest.raises(ToolError, match="device/aten was submitted from elsewhere"):
        upstream.submit()
    assert (upstream.refs(), upstream.open()) == (refs, FIRST)


def test_one_person_has_a_fork_and_the_other_has_not(upstream: Upstream) -> None:
    upstream.submit(fork="mine")
    forget(upstream)
    with pytest.raises(ToolError, match="not one that can be updated"):
        upstream.submit()
    assert upstream.open() == FIRST
    (upstream.project.checkout / ".git/xpu-stack/submitting.json").unlink(missing_ok=True)
    upstream.submit(fork="mine")
    assert upstream.open() == FIRST


# -- commits that a reviewer pushed -------------------------------------------------


def test_a_commit_of_a_reviewer_is_not_reverted(upstream: Upstream, fork: str | None) -> None:
    upstream.submit(fork=fork)
    bare, head = branch(upstream, 501)
    clone = bare.parent / "clone"
    git(bare.parent, "clone", "-q", "--branch", head, str(bare), str(clone))
    write(clone, {"aten/Hooks.cpp": "int reviewed;\n"})
    git(clone, "commit", "-qam", "Apply a suggestion")
    git(clone, "push", "-q")
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.project.ok("export")
    with pytest.raises(ToolError, match="device/aten was submitted from elsewhere") as caught:
        upstream.submit(fork=fork)
    assert "'Apply a suggestion'" in caught.value.detail
    assert f"fetch {fork or 'origin'} {head}" in caught.value.next
    assert git(bare, "show", f"{head}:aten/Hooks.cpp") == "int reviewed;\n"
    # adopted, it is not elsewhere any more
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int reviewed;\n"})
    upstream.project.ok("export")
    upstream.submit(fork=fork)
    assert git(bare, "show", f"{head}:aten/Hooks.cpp") == "int reviewed;\n"
    assert upstream.open() == FIRST


# -- texts that were edited on GitHub -----------------------------------------------


def test_a_text_that_was_edited_on_github_is_kept(upstream: Upstream, fork: str | None) -> None:
    upstream.submit(fork=fork)
    one = upstream.pull_request(501)
    one.title = "Add the hooks"
    one.body = one.body.replace("- [ ] tried on a card", TICKED) + "\n\ncc @reviewer\n"
    upstream.pull_request(500).body += "\n\ncc @another\n"
    assert upstream.states(fork=fork) == dict.fromkeys(CHANGES, "unchanged")
    # the files, the series' own lines and another line of the text are other ones now
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.project.ok("export")
    edit_text(upstream, "Because of", "In view of")
    for _ in range(2):
        upstream.submit(fork=fork)
        assert one.title == "Add the hooks"
        assert TICKED in one.body
        assert "In view of" in one.body
        assert one.body.count("cc @reviewer") == 1
        assert one.body.count("XPU-Digest: ") == 1
        assert upstream.pull_request(500).body.count("cc @another") == 1
        told = "Stack from [ghstack]" if fork is None else "This is on top of #500"
        assert one.body.startswith(told)
    digest = git(upstream.project.checkout, "show", "-s", "--format=%(trailers:key=XPU-Digest)")
    assert digest.strip() in upstream.pull_request(502).body
    assert set(upstream.states(fork=fork).values()) == {"unchanged"}


def test_a_text_that_was_edited_here_too(upstream: Upstream, fork: str | None) -> None:
    upstream.submit(fork=fork)
    one = upstream.pull_request(501)
    body = one.body
    one.body = body.replace("As it is.", "As they see it.")
    edit_text(upstream, "As it is.", "As we see it.")
    with pytest.raises(
        ToolError, match="text of device/aten was edited here and on GitHub"
    ) as told:
        upstream.submit(fork=fork)
    assert "As they see it." in told.value.detail
    edit_text(upstream, "As we see it.", "As they see it.")  # the way out that is named
    upstream.submit(fork=fork)
    assert "As they see it." in one.body
    assert set(upstream.states(fork=fork).values()) == {"unchanged"}


# -- all problems at once -----------------------------------------------------------


def test_all_that_is_in_the_way_is_listed(upstream: Upstream) -> None:
    upstream.submit()
    upstream.close(500)
    upstream.close(502)
    git(upstream.project.checkout, "config", "user.email", "person@nowhere.invalid")
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int mine;\n"})
    with pytest.raises(ToolError) as caught:
        upstream.submit(dry=True)
    told = caught.value.what + caught.value.detail
    assert "changes that are not committed" in told
    assert "cannot be sent in your name" in told
    git(upstream.project.checkout, "config", "user.email", "person@example.com")
    with pytest.raises(ToolError) as caught:
        upstream.submit(dry=True)
    told = caught.value.what + caught.value.detail
    assert "changes that are not committed" in told
    assert "device/runtime is closed" in told
    assert "stream/stream is closed" in told
