"""`make submit`: real ghstack, its fake of GitHub, and a real bare repository."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import ghstack.shell
import ghstack.submit
import pytest
from project import TEXT, Project, git, write
from upstream import USER, Upstream, lost
from xpu_stack.core.system.errors import ExitCode, ToolError

CHANGES = ["device/runtime", "device/aten", "stream/stream"]
FIRST = {500: "Add devices", 501: "Add hooks", 502: "Add streams"}


@pytest.fixture
def upstream(project: Project, tmp_path: Path) -> Upstream:
    """With the series applied, its patches in export's own form."""
    made = Upstream.make(project, tmp_path)
    project.ok("apply")
    project.ok("export")
    return made


@pytest.fixture
def submitted(upstream: Upstream) -> Upstream:
    upstream.submit()
    return upstream


def numbers(upstream: Upstream) -> dict[str, int]:
    """Change -> its pull request, as the record has it."""
    found = re.findall(r"^  (\S+):\n    pull_request: \S+/(\d+)$", upstream.record(), re.MULTILINE)
    return {change: int(number) for change, number in found}


def check(upstream: Upstream) -> None:
    """Every pull request of the record is open, and shows its change and no other."""
    assert set(numbers(upstream).values()) <= upstream.open().keys()
    checkout = upstream.project.checkout
    for commit in git(checkout, "rev-list", "origin/main..HEAD").split():
        message = git(checkout, "show", "-s", "--format=%B", commit)
        (change,) = re.findall(r"^XPU-Change: (.+)$", message, re.MULTILINE)
        number = numbers(upstream)[change]
        title, _, body = message.strip().partition("\n")
        one = upstream.pull_request(number)
        assert one.title == title
        assert one.body.strip().endswith(body.strip())
        assert upstream.diff(number) == git(
            checkout, "diff", "--no-color", "--full-index", f"{commit}^", commit
        )
    heads = [one.headRefName for one in upstream.endpoint.state.pull_requests.values()]
    assert len(set(heads)) == len(heads)


def edit(upstream: Upstream, files: dict[str, str]) -> None:
    write(upstream.project.checkout, files)
    upstream.project.ok("export")


# -- what a submission does -----------------------------------------------------


def test_the_first_submission(upstream: Upstream) -> None:
    before = upstream.project.snapshot()
    assert upstream.states() == dict.fromkeys(CHANGES, "new")
    upstream.submit()
    assert upstream.open() == FIRST
    assert numbers(upstream) == dict(zip(CHANGES, FIRST, strict=True))
    check(upstream)
    # the commits are still those that every machine makes
    assert upstream.project.snapshot() == before
    assert upstream.states() == dict.fromkeys(CHANGES, "unchanged")


def test_an_amended_change_in_the_middle(submitted: Upstream) -> None:
    edit(submitted, {"aten/Hooks.cpp": "int better_hooks;\n"})
    # the change above it stands on another tree, and shows the same as before
    expected = {
        "device/runtime": "unchanged",
        "device/aten": "updated",
        "stream/stream": "updated",
    }
    assert submitted.states() == expected
    assert submitted.states(dry=False) == expected
    assert submitted.open() == FIRST
    assert "better_hooks" in submitted.diff(501)
    check(submitted)
    assert submitted.states() == dict.fromkeys(CHANGES, "unchanged")


def test_status_shows_the_pull_requests(submitted: Upstream) -> None:
    def shown() -> dict[str, str]:
        rows = [re.split("  +", line) for line in submitted.project.ok("status").splitlines()]
        return {row[0].partition("/")[2]: row[-1] for row in rows if "/" in row[0] and len(row) > 3}

    assert shown() == {"runtime": "#500", "aten": "#501", "stream": "#502"}
    edit(submitted, {"aten/Hooks.cpp": "int better_hooks;\n"})
    updated = {"aten": "#501, to be updated", "stream": "#502, to be updated"}
    assert shown() == {"runtime": "#500", **updated}


def test_another_text(submitted: Upstream) -> None:
    text = submitted.project.folder / "patches/texts/device/aten.md"
    text.write_text(text.read_text().replace("Add hooks", "Add the hooks", 1))
    submitted.project.ok("apply")
    before = submitted.refs()
    assert submitted.states(dry=False)["device/aten"] == "text updated"
    assert submitted.open() == {**FIRST, 501: "Add the hooks"}
    check(submitted)
    # only the message kept beside the pull request is another
    moved = set(submitted.refs().splitlines()) - set(before.splitlines())
    assert all(line.endswith("/orig") for line in moved)


def reorder(project: Project) -> None:
    """The two lowest changes in the other order."""
    series = project.folder / "patches/series.yaml"
    runtime = "      - name: runtime\n        files: [c10_xpu/device]\n"
    aten = "      - name: aten\n        files: [aten_xpu/device]\n"
    series.write_text(series.read_text().replace(runtime + aten, aten + runtime))
    project.ok("apply")


def test_a_reordered_pair(submitted: Upstream) -> None:
    reorder(submitted.project)
    assert submitted.project.log()[1:3] == ["Add devices", "Add hooks"]
    # the change above stands on the same tree as before; its text does not change either
    assert submitted.states() == {
        "device/aten": "updated",
        "device/runtime": "updated",
        "stream/stream": "unchanged",
    }
    submitted.submit()
    assert submitted.open() == FIRST
    assert submitted.closed() == []
    check(submitted)
    # the order is shown on every page, from the top of the stack
    assert re.findall(r"#(\d+)", submitted.pull_request(500).body) == ["502", "500", "501"]


def test_a_dropped_change(submitted: Upstream) -> None:
    project = submitted.project
    series = project.folder / "patches/series.yaml"
    aten = "      - name: aten\n        files: [aten_xpu/device]\n"
    series.write_text(series.read_text().replace(aten, ""))
    for path in ("patches/texts/device/aten.md", "patches/v1.13.1/device/aten.patch"):
        (project.folder / path).unlink()
    (project.folder / "aten_xpu/device/aten/Hooks.cpp").unlink()
    project.ok("apply")
    expected = {
        "device/runtime": "text updated",  # it is change 1 of 1 now
        "stream/stream": "updated",
        "device/aten": "dropped: close it by hand",
    }
    assert submitted.states() == expected
    assert submitted.states(dry=False) == expected
    assert submitted.open() == FIRST
    check(submitted)
    assert "Add streams" not in submitted.diff(502)
    assert "Hooks" not in submitted.diff(502)
    # closed by hand, it goes from the record with the next submission
    submitted.close(501)
    assert submitted.states(dry=False)["device/aten"] == "dropped, and closed"
    assert numbers(submitted) == {"device/runtime": 500, "stream/stream": 502}


def test_a_new_change_in_the_middle(submitted: Upstream) -> None:
    project = submitted.project
    series = project.folder / "patches/series.yaml"
    aten = "      - name: aten\n        files: [aten_xpu/device]\n"
    new = "      - name: probe\n        files: [torch_xpu_py/device]\n"
    series.write_text(series.read_text().replace(aten, new + aten))
    write(
        project.folder,
        {
            "patches/texts/device/probe.md": TEXT.format(title="Add a probe"),
            "torch_xpu_py/device/torch/probe.py": "probe = 1\n",
        },
    )
    project.ok("apply")
    assert submitted.states(dry=False)["device/probe"] == "new"
    assert submitted.open() == {**FIRST, 503: "Add a probe"}
    check(submitted)
    assert list(numbers(submitted)) == [
        "device/runtime",
        "device/probe",
        "device/aten",
        "stream/stream",
    ]


def test_a_part_of_the_stack(upstream: Upstream) -> None:
    upstream.submit("device/runtime")
    assert upstream.open() == {500: "Add devices"}
    upstream.submit("device")
    assert upstream.open() == {500: "Add devices", 501: "Add hooks"}
    upstream.submit()
    assert upstream.open() == FIRST
    edit(upstream, {"aten/Hooks.cpp": "int better_hooks;\n"})
    above = upstream.pull_request(502)
    before = git(upstream.bare, "rev-parse", above.headRefName)
    assert upstream.states("device", dry=False)["stream/stream"] == "left as it is"
    assert git(upstream.bare, "rev-parse", above.headRefName) == before
    assert numbers(upstream) == dict(zip(CHANGES, FIRST, strict=True))
    upstream.submit()
    check(upstream)


def test_a_dry_run_touches_nothing(submitted: Upstream) -> None:
    edit(submitted, {"aten/Hooks.cpp": "int better_hooks;\n"})
    checkout, record = submitted.project.checkout, submitted.record()
    before = (submitted.refs(), submitted.project.snapshot(), submitted.record())
    local = git(checkout, "for-each-ref"), git(checkout, "count-objects", "-v")
    submitted.endpoint.calls.clear()
    assert submitted.states()["device/aten"] == "updated"
    assert {method for method, _ in submitted.endpoint.calls} == {"get"}
    assert (submitted.refs(), submitted.project.snapshot(), record) == before
    assert (git(checkout, "for-each-ref"), git(checkout, "count-objects", "-v")) == local
    assert not (checkout / ".git/xpu-stack/submitting.json").exists()


def test_a_stack_that_was_submitted_by_hand(upstream: Upstream) -> None:
    """With plain ghstack, in the checkout: its pull requests are taken over."""
    checkout = upstream.project.checkout
    asyncio.run(
        ghstack.submit.main(
            msg=None,
            username=USER,
            github=upstream.endpoint,
            sh=ghstack.shell.Shell(cwd=str(checkout), testing=True),
            repo_owner_opt="pytorch",
            repo_name_opt="pytorch",
            github_url="github.com",
            remote_name="origin",
            direct_opt=False,
        )
    )
    assert "Pull-Request: " in git(checkout, "log", "-1", "--format=%B")
    assert set(upstream.states(dry=False).values()) == {"unchanged"}
    assert upstream.open() == FIRST
    upstream.project.ok("apply")  # the series' own commits again
    check(upstream)
    assert set(upstream.states(dry=False).values()) == {"unchanged"}


def test_from_another_machine(submitted: Upstream, tmp_path: Path) -> None:
    """A fresh clone of the remote, and the series with its record."""
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(submitted.bare), str(other))
    git(other, "config", "user.name", "Another Person")
    git(other, "config", "user.email", "another@example.com")
    submitted.project.checkout = other
    submitted.project.ok("apply")
    edit(submitted, {"aten/Hooks.cpp": "int better_hooks;\n"})
    submitted.submit()
    assert submitted.open() == FIRST
    check(submitted)


# -- what goes wrong on the way ---------------------------------------------------


def cut_off(upstream: Upstream) -> ToolError:
    with pytest.raises(ToolError) as caught:
        upstream.submit()
    assert caught.value.what == "The submission was interrupted."
    assert caught.value.code == ExitCode.MISSING
    return caught.value


def lose(upstream: Upstream, method: str, path: str, nth: int, *, answered: bool) -> None:
    """The connection is lost at the nth such request: before GitHub acts on it, or after."""
    seen = 0

    async def fault(this: str, where: str, answer: Callable[[], Awaitable[Any]]) -> Any:
        nonlocal seen
        if this == method and re.search(path, where):
            seen += 1
            if seen >= nth:  # and it stays away
                if seen == nth and answered:
                    await answer()
                raise lost()
        return await answer()

    upstream.endpoint.fault = fault


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("answered", [False, True])
def test_a_connection_lost_while_pull_requests_are_opened(
    upstream: Upstream, nth: int, answered: bool
) -> None:
    lose(upstream, "post", "/pulls$", nth, answered=answered)
    cut_off(upstream)
    opened = nth if answered else nth - 1
    assert len(upstream.open()) == opened
    assert upstream.record() == ""
    upstream.endpoint.fault = None
    states = upstream.states(dry=False)
    assert list(states.values()).count("new") == 3 - opened
    assert upstream.open() == FIRST
    check(upstream)
    assert upstream.states() == dict.fromkeys(CHANGES, "unchanged")


def test_an_edit_before_the_second_try(upstream: Upstream) -> None:
    lose(upstream, "post", "/pulls$", 2, answered=True)
    cut_off(upstream)
    upstream.endpoint.fault = None
    edit(upstream, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.submit()
    assert upstream.open() == FIRST
    check(upstream)


@pytest.mark.parametrize("answered", [False, True])
def test_a_connection_lost_while_texts_are_written(upstream: Upstream, answered: bool) -> None:
    lose(upstream, "patch", "/pulls/", 2, answered=answered)
    cut_off(upstream)
    upstream.endpoint.fault = None
    edit(upstream, {"aten/Hooks.cpp": "int better_hooks;\n"})
    upstream.submit()
    assert upstream.open() == FIRST
    check(upstream)


def test_a_connection_lost_at_an_update(submitted: Upstream) -> None:
    edit(submitted, {"aten/Hooks.cpp": "int better_hooks;\n"})
    lose(submitted, "patch", "/pulls/", 1, answered=False)
    cut_off(submitted)
    submitted.endpoint.fault = None
    edit(submitted, {"aten/Hooks.cpp": "int best_hooks;\n"})
    submitted.submit()
    assert submitted.open() == FIRST
    check(submitted)


def reject(upstream: Upstream, ref: str) -> Path:
    """The remote takes no push of a ref whose name matches."""
    hook = upstream.bare / "hooks/update"
    hook.write_text(
        f'#!/bin/sh\ncase "$1" in {ref}) echo "policy: $1 is protected" >&2; exit 1;; esac\n'
    )
    hook.chmod(0o755)
    return hook


@pytest.mark.parametrize("kind", ["base", "head", "orig"])
@pytest.mark.parametrize("first", [True, False])
def test_a_rejected_push(upstream: Upstream, kind: str, first: bool) -> None:
    if not first:
        upstream.submit()
        edit(upstream, {"c10/xpu/CMakeLists.txt": "# the xpu\n", "aten/Hooks.cpp": "int h;\n"})
    before = upstream.refs()
    hook = reject(upstream, f"*/2/{kind}")
    error = cut_off(upstream)
    assert error.why == f"remote: policy: refs/heads/gh/person/2/{kind} is protected"
    if not first:
        assert upstream.refs() == before  # all of a push arrives, or nothing
    hook.unlink()
    upstream.submit()
    assert upstream.open() == FIRST
    check(upstream)
