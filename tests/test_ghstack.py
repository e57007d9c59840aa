"""The commits of a stack are such that the real ghstack takes them as they are.

ghstack runs against its own fake of GitHub, with real repositories.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import ghstack.test_prelude as prelude
import pytest
from project import CMAKE, CONTEXT, Project, git, write


@pytest.fixture
def submitted(project: Project) -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    """Runs a test body in a clone of the fake's repository, with the stack applied."""

    async def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with prelude.scoped_test(direct=False):
            project.checkout = Path(prelude.get_sh().cwd)
            write(project.checkout, {"c10/CMakeLists.txt": CMAKE, "aten/Context.h": CONTEXT})
            git(project.checkout, "add", ".")
            git(project.checkout, "commit", "-qm", "base")
            branch = git(project.checkout, "symbolic-ref", "--short", "HEAD").strip()
            git(project.checkout, "push", "-q", "origin", f"HEAD:{branch}")
            git(project.checkout, "fetch", "-q", "origin")
            project.ok("apply")
            await body()

    return lambda body: asyncio.run(run(body))


def pull_requests() -> list[tuple[int, str, str]]:
    """Number, title and body of every pull request, oldest first."""
    state = prelude.get_github().state
    found = [(pr.number, pr.title, pr.body) for pr in state.pull_requests.values()]
    return sorted(found)


def test_one_pull_request_for_each_change(submitted: Any) -> None:
    async def body() -> None:
        await prelude.gh_submit("Initial")
        opened = pull_requests()
        assert [title for _, title, _ in opened] == ["Add devices", "Add hooks", "Add streams"]
        for _, title, text in opened:
            assert f"Because of {title}." in text
            assert "Additional Context\n" in text

    submitted(body)


def test_what_ghstack_writes_back_is_still_the_series(submitted: Any, project: Project) -> None:
    async def body() -> None:
        await prelude.gh_submit("Initial")
        assert "Pull-Request: " in git(project.checkout, "log", "-1", "--format=%B")
        assert "changed by hand" not in project.ok("status")
        # and so the stack may be moved, and comes back
        project.ok("apply", "--stage", "device")

    submitted(body)
