"""Beside strangers: no secret in a log, no option in a name, and nothing that hides."""

import stat

import pytest
from project import Project, git

ADDRESS = "https://person:s3cret-token@127.0.0.1:9/pytorch.git"


def said(project: Project) -> str:
    """All that the logs hold."""
    return "".join(path.read_text() for path in (project.folder / ".xpu/logs").iterdir())


def test_a_token_in_an_address_is_told_to_no_one(project: Project) -> None:
    ended = project.run("apply", source=False, env={"PYTORCH_GIT": ADDRESS})
    assert ended.code == 4
    assert "s3cret-token" not in ended.out + ended.err + said(project)
    assert "https://***@127.0.0.1:9/pytorch.git" in said(project)


def test_a_token_in_the_address_of_a_remote(project: Project) -> None:
    git(project.checkout, "remote", "add", "origin", ADDRESS)
    project.run("rebase", "--onto", ADDRESS)
    project.run("apply", "--base", ADDRESS)
    assert "s3cret-token" not in said(project)


def test_logs_are_for_their_person_alone(project: Project) -> None:
    folder = project.folder / ".xpu/logs"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    project.ok("status")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "words",
    [
        ("apply",),
        ("rebase", "--onto={}"),
        ("review", "--since={}"),
        ("bisect", "--run=true", "--good={}"),
        ("submit", "--fork={}"),
        ("apply", "--branch={}"),
    ],
)
def test_a_name_is_no_option(project: Project, words: tuple[str, ...]) -> None:
    ran = project.folder / "ran"
    for name in (f"--upload-pack=touch {ran};", f"--output={ran}", f"--exec=touch {ran}"):
        given = [word.format(name) for word in words]
        source = given != ["apply"]
        ended = project.run(*given, source=source, env={"PYTORCH_GIT": name})
        assert not ran.exists(), given
        assert ended.code not in (0, 1), ended.err


def test_what_cannot_be_seen_is_shown(project: Project) -> None:
    ended = project.run("show", "--change", "device/\u202ekcab\x1b]0;title\x07")
    assert "\u202e" not in ended.err
    assert "\x1b]" not in ended.err
    assert "[U+202E]kcab[U+001B]" in ended.err
