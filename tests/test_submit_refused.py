"""What `make submit` refuses, each with the reason, before anything is sent."""

import asyncio
import re
from pathlib import Path

import pytest
from project import Project, git, write
from upstream import USER, Upstream
from workspace import workspace
from xpu_stack import submit
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.git import Repository
from xpu_stack.report.pull_requests import Journal


@pytest.fixture
def upstream(project: Project, tmp_path: Path) -> Upstream:
    made = Upstream.make(project, tmp_path)
    project.ok("apply")
    return made


@pytest.fixture
def submitted(upstream: Upstream) -> Upstream:
    upstream.submit()
    return upstream


def refused(upstream: Upstream, stage: str | None = None) -> ToolError:
    """The error, of a dry run and of a real one alike; nothing was sent by either."""
    before = (upstream.refs(), upstream.open(), upstream.closed(), upstream.record())
    upstream.endpoint.calls.clear()
    errors = []
    for dry in (True, False):
        with pytest.raises(ToolError) as caught:
            upstream.submit(stage, dry=dry)
        errors.append(caught.value)
    assert (upstream.refs(), upstream.open(), upstream.closed(), upstream.record()) == before
    assert {method for method, _ in upstream.endpoint.calls} <= {"get"}
    assert errors[0].what == errors[1].what
    assert errors[0].why
    assert errors[0].next
    return errors[0]


def amend(project: Project, message: str) -> None:
    git(project.checkout, "commit", "-q", "--amend", "-m", message)


def message(project: Project, commit: str = "HEAD") -> str:
    return git(project.checkout, "show", "-s", "--format=%B", commit)


# -- the checkout -------------------------------------------------------------


def test_a_change_that_is_not_committed(upstream: Upstream) -> None:
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int mine;\n"})
    assert refused(upstream).what == "The checkout has changes that are not committed."


def test_a_commit_of_someone_else(upstream: Upstream) -> None:
    write(upstream.project.checkout, {"other.txt": "mine\n"})
    git(upstream.project.checkout, "commit", "-qam", "Mine")
    assert refused(upstream).what == "1 commit(s) on the stack are of no change."


def test_a_commit_amended_by_hand(upstream: Upstream) -> None:
    amend(upstream.project, message(upstream.project).replace("None.", "Some."))
    error = refused(upstream)
    assert error.what == "The commit of stream/stream was changed by hand."
    assert error.next.startswith("make export")
    upstream.project.ok("export")
    upstream.submit()
    assert "Some." in upstream.pull_request(502).body


def test_a_series_that_was_edited_since(upstream: Upstream) -> None:
    write(upstream.project.folder, {"aten_xpu/device/aten/Hooks.cpp": "int other;\n"})
    error = refused(upstream)
    assert error.what == "The checkout is at another version of the series."
    assert error.next.startswith("make apply")


def test_commits_reordered_by_hand(upstream: Upstream) -> None:
    checkout = upstream.project.checkout
    runtime, aten, stream = git(checkout, "rev-list", "--reverse", "origin/main..").split()
    git(checkout, "reset", "-q", "--hard", "origin/main")
    for commit in (aten, runtime, stream):
        git(checkout, "cherry-pick", commit)
    error = refused(upstream)
    assert error.what == "The commits are not in the order of the series."
    assert error.why == "the checkout has device/aten device/runtime stream/stream"
    upstream.project.ok("export")  # the way out that is named
    upstream.submit()
    assert list(upstream.open().values()) == ["Add hooks", "Add devices", "Add streams"]


def test_no_stack(upstream: Upstream) -> None:
    upstream.project.ok("apply", "--stage", "base")
    assert refused(upstream).what == "There is nothing to submit."


def test_a_stage_that_is_not_applied(upstream: Upstream) -> None:
    upstream.project.ok("apply", "--stage", "device")
    error = refused(upstream, "stream")
    assert error.what == "The checkout stops before 'stream'."
    assert error.why == "it is at device/aten"
    assert error.next == "make apply STAGE=stream"


@pytest.mark.parametrize("depth", ["HEAD", "HEAD~1", "HEAD~2"])
def test_damaged_trailers(upstream: Upstream, depth: str) -> None:
    checkout = upstream.project.checkout
    above = git(checkout, "rev-list", "--reverse", f"{depth}..HEAD").split()
    git(checkout, "reset", "-q", "--hard", depth)
    amend(upstream.project, re.sub(r"XPU-Stage: .*\n", "", message(upstream.project)))
    for commit in above:
        git(checkout, "cherry-pick", commit)
    error = refused(upstream)
    assert error.what.endswith("are damaged.")
    assert error.why.endswith("and has XPU-Change, XPU-Digest")


def test_a_source_id_in_two_commits(upstream: Upstream) -> None:
    checkout = upstream.project.checkout
    line = f"ghstack-source-id: {'a' * 40}\n"
    stream = git(checkout, "rev-parse", "HEAD").strip()
    git(checkout, "reset", "-q", "--hard", "HEAD~1")
    amend(upstream.project, message(upstream.project).rstrip() + f"\n{line}")
    git(checkout, "cherry-pick", stream)
    amend(upstream.project, message(upstream.project).rstrip() + f"\n{line}")
    error = refused(upstream)
    assert error.what == "The commit of stream/stream has the same ghstack line twice."
    upstream.project.ok("apply")  # the way out that is named
    upstream.submit()
    assert len(upstream.open()) == 3


def test_two_pull_requests_in_one_commit(upstream: Upstream) -> None:
    lines = "".join(
        f"Pull-Request: https://github.com/pytorch/pytorch/pull/{number}\n" for number in (1, 2)
    )
    amend(upstream.project, message(upstream.project).rstrip() + f"\n{lines}")
    assert refused(upstream).why.endswith("stands beside another of its kind")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "As in Pull-Request: https://github.com/pytorch/pytorch/pull/7, done again.",
            "names a pull request",
        ),
        ("The mark [ghstack-poisoned] is ghstack's.", "has ghstack's own mark"),
        ("Stack of layers:\n* c10\n* aten\n", "has a list after a line 'Stack...:'"),
    ],
)
def test_a_text_that_ghstack_would_misread(upstream: Upstream, words: str, problem: str) -> None:
    text = upstream.project.folder / "patches/texts/stream/stream.md"
    text.write_text(text.read_text().replace("As it is.\n", f"{words}\n"))
    upstream.project.ok("apply")
    error = refused(upstream)
    assert error.code == ExitCode.SERIES
    assert error.why.startswith(f"patches/texts/stream/stream.md: {problem}")


# -- the remote ---------------------------------------------------------------


def test_no_remote(upstream: Upstream) -> None:
    git(upstream.project.checkout, "remote", "remove", "origin")
    assert refused(upstream).what == "The checkout has no remote 'origin'."


def test_a_remote_that_is_not_there(upstream: Upstream) -> None:
    gone = upstream.bare.with_name("gone.git")
    upstream.bare.rename(gone)
    with pytest.raises(ToolError) as caught:
        upstream.submit()
    assert caught.value.what == "The remote 'origin' cannot be read."
    assert caught.value.code == ExitCode.MISSING


def test_a_remote_that_takes_no_push(upstream: Upstream) -> None:
    elsewhere = upstream.bare.with_name("nowhere.git")
    git(upstream.project.checkout, "remote", "set-url", "--push", "origin", str(elsewhere))
    # ghstack asks the push address whose repository it is
    error = refused(upstream)
    assert error.what in (
        "GitHub gave no usable answer.",
        "'origin' does not let you push.",
    )


def test_a_fork(upstream: Upstream) -> None:
    for repository in upstream.endpoint.state.repositories.values():
        repository.isFork = True
    assert refused(upstream).what == "pytorch/pytorch is a fork."


def test_a_base_that_the_remote_does_not_have(upstream: Upstream) -> None:
    project = upstream.project
    project.ok("apply", "--stage", "base")
    write(project.checkout, {"other.txt": "ours\n"})
    git(project.checkout, "commit", "-qam", "A commit of our own")
    project.ok("apply")
    error = refused(upstream)
    assert re.match(r"The stack's base \w+ is not in 'main' of 'origin'\.", error.what)


def test_a_branch_that_was_never_fetched(upstream: Upstream) -> None:
    git(upstream.project.checkout, "update-ref", "-d", "refs/remotes/origin/main")
    error = refused(upstream)
    assert error.next == f"git -C {upstream.project.checkout} fetch origin main"


# -- the pull requests ----------------------------------------------------------


def test_a_pull_request_that_was_closed(submitted: Upstream) -> None:
    submitted.close(501)
    error = refused(submitted)
    assert error.what == "The pull request of device/aten is closed."
    assert "DROP=device/aten" in error.next


def test_a_pull_request_that_was_not_opened_by_ghstack(submitted: Upstream) -> None:
    submitted.pull_request(501).headRefName = "feature"
    assert refused(submitted).what == (
        "The pull request of device/aten is not one that can be updated."
    )


def test_a_pull_request_of_the_direct_style(submitted: Upstream) -> None:
    submitted.pull_request(501).baseRefName = "gh/person/1/head"
    assert "from gh/person/2/head to gh/person/1/head" in refused(submitted).why


def test_pull_requests_mixed_up_in_the_record(submitted: Upstream) -> None:
    path = submitted.project.folder / "patches/v1.13.1/submitted.yaml"
    text = path.read_text().replace("/500", "/x").replace("/501", "/500").replace("/x", "/501")
    path.write_text(text)
    assert refused(submitted).what == "device/runtime and device/aten are mixed up."


def test_a_pull_request_twice_in_the_record(submitted: Upstream) -> None:
    path = submitted.project.folder / "patches/v1.13.1/submitted.yaml"
    path.write_text(path.read_text().replace("/501", "/500"))
    error = refused(submitted)
    assert error.why == (
        "patches/v1.13.1/submitted.yaml:8: #500 is that of 'device/runtime' already"
    )


def test_a_branch_that_is_gone(submitted: Upstream) -> None:
    git(submitted.bare, "update-ref", "-d", "refs/heads/gh/person/2/head")
    assert refused(submitted).what == "The branch of device/aten is gone."


def test_a_submission_from_elsewhere(submitted: Upstream) -> None:
    """Another person submitted, and the record of it was not pulled."""
    project = submitted.project
    path = project.folder / "patches/v1.13.1/submitted.yaml"
    before, hooks = path.read_text(), project.folder / "aten_xpu/device/aten/Hooks.cpp"
    hooks.write_text("int theirs;\n")
    project.ok("apply")
    submitted.submit()
    theirs = path.read_text()
    path.write_text(before)
    hooks.write_text("int mine;\n")
    project.ok("apply")
    error = refused(submitted)
    assert error.what == "device/aten was submitted from elsewhere."
    path.write_text(theirs)  # pulled, and their edit seen
    submitted.submit()
    assert "int mine;" in submitted.diff(501)


def test_two_pull_requests_of_one_change(submitted: Upstream) -> None:
    """The record was lost, and someone has opened the stack again by hand."""
    project = submitted.project
    (project.folder / "patches/v1.13.1/submitted.yaml").unlink()
    git(submitted.bare, "branch", "gh/person/9/head", "gh/person/2/head")
    git(submitted.bare, "branch", "gh/person/9/base", "gh/person/2/base")
    one = submitted.pull_request(501)
    asyncio.run(
        submitted.endpoint.apost(
            "repos/pytorch/pytorch/pulls",
            title=one.title,
            body=one.body,
            head="gh/person/9/head",
            base="gh/person/9/base",
        )
    )
    error = refused(submitted)
    assert error.what == "device/aten has 2 open pull requests, and none in the record."
    submitted.close(503)
    submitted.submit()
    assert sorted(submitted.open()) == [500, 501, 502]


def test_another_branch_than_before(submitted: Upstream) -> None:
    with workspace(submitted.project) as work, pytest.raises(ToolError) as caught:
        submit.submit(work, submit.Request(branch="other"), submitted.account())
    assert caught.value.what == "The stack was submitted for 'main'."


# -- ghstack's configuration, as the command line meets it ------------------------


def test_no_configuration(upstream: Upstream, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    ended = upstream.project.run(
        "submit", env={"GHSTACKRC_PATH": str(missing), "PATH": "/usr/bin:/bin"}
    )
    assert ended.code == 4
    assert "ghstack is not configured." in ended.err
    assert "lacks github_oauth, github_url, github_username in [ghstack]" in ended.err
    assert not missing.exists()
    # with all else that is in the way
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int mine;\n"})
    git(upstream.project.checkout, "config", "user.email", "person@nowhere.invalid")
    ended = upstream.project.run(
        "submit",
        *("--dry-run", "--fork", "yours"),
        env={"GHSTACKRC_PATH": str(missing), "PATH": "/usr/bin:/bin"},
    )
    assert ended.code == 4
    assert "error: ghstack is not configured." in ended.err
    assert "also: The checkout has changes that are not committed." in ended.err
    assert "also: The checkout has no remote 'yours'." in ended.err
    assert "also: Commits cannot be sent in your name." in ended.err


def test_no_connection(upstream: Upstream, tmp_path: Path) -> None:
    config = tmp_path / "ghstackrc"
    config.write_text(
        "[ghstack]\ngithub_url = github.com\ngithub_oauth = secret-token\n"
        f"github_username = {USER}\nproxy = http://127.0.0.1:9\n"
    )
    write(upstream.project.checkout, {"aten/Hooks.cpp": "int mine;\n"})
    ended = upstream.project.run("submit", "--dry-run", env={"GHSTACKRC_PATH": str(config)})
    assert "error: The checkout has changes that are not committed." in ended.err
    assert "also: GitHub gave no usable answer." in ended.err
    git(upstream.project.checkout, "checkout", "-q", ".")
    ended = upstream.project.run("submit", "--dry-run", env={"GHSTACKRC_PATH": str(config)})
    assert ended.code == 4
    assert "error: GitHub gave no usable answer." in ended.err
    (log,) = (upstream.project.folder / ".xpu/logs").glob("submit.log")
    assert "secret-token" not in log.read_text() + ended.out + ended.err


def test_the_journal_ends_with_the_submission(submitted: Upstream) -> None:
    assert Journal(Repository(submitted.project.checkout)).trees() == {}
