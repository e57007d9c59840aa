"""The stack as mail: what is written, and that git makes the same stack of it."""

from pathlib import Path

import pytest
from project import Project, git, write
from workspace import workspace
from xpu_stack.core.system.errors import ToolError
from xpu_stack.report import mail


@pytest.fixture(autouse=True)
def sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Sam")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "sam@example.com")


def mails(project: Project, out: Path) -> list[Path]:
    with workspace(project) as work:
        return mail.write(work, out)


def trees(checkout: Path, tip: str = "HEAD") -> list[str]:
    return git(checkout, "log", "-3", "--format=%T", tip).split()


def test_one_mail_per_change_and_a_cover_letter(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    written = mails(project, tmp_path / "mail")
    assert [path.name for path in written] == [
        "0000-cover-letter.patch",
        "0001-Add-devices.patch",
        "0002-Add-hooks.patch",
        "0003-Add-streams.patch",
    ]
    cover = written[0].read_text()
    base = git(project.checkout, "rev-parse", "HEAD~3^{tree}").strip()
    assert "Subject: [PATCH 0/3] XPU for PyTorch v1.13.1: device to stream\n" in cover
    assert "From: Sam <sam@example.com>\n" in cover
    assert f"\n{base}, with\n" in cover
    assert "device: devices\n  1. Add devices\n  2. Add hooks\nstream: streams\n" in cover
    assert "***" not in cover


def test_git_am_makes_the_same_trees_and_messages(project: Project, tmp_path: Path) -> None:
    write(
        project.folder,
        {
            "c10_xpu/device/c10/xpu/dos.txt": "one\r\ntwo\r\n",
            "c10_xpu/device/c10/xpu/no_end.txt": "no newline",
            "c10_xpu/device/c10/xpu/from.txt": "From here\n>From there\n-- \n",
        },
    )
    (project.folder / "c10_xpu/device/c10/xpu/latin.txt").write_bytes(b"caf\xe9\n")
    (project.folder / "c10_xpu/device/c10/xpu/icon.png").write_bytes(bytes(range(256)))
    script = project.folder / "c10_xpu/device/c10/xpu/run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    series = project.folder / "patches/series.yaml"
    series.write_text(series.read_text().replace("<xpu-stack@invalid>", "<team@example.com>"))
    text = project.folder / "patches/texts/device/runtime.md"
    text.write_text(text.read_text().replace("As it is.", "Größe: 3 → 4.\n\n    diff of code"))
    project.ok("apply")
    made = mails(project, tmp_path / "mail")
    assert "\n    git am --keep-cr --empty=drop *.patch\n" in made[0].read_text()
    git(project.checkout, "switch", "-q", "-c", "received", "HEAD~3")
    git(project.checkout, "am", "-q", "--keep-cr", "--empty=drop", *map(str, made))
    assert trees(project.checkout) == trees(project.checkout, "xpu-stack")
    messages = [
        git(project.checkout, "log", "-3", "--format=%an %ae %aI %B", tip)
        for tip in ("received", "xpu-stack")
    ]
    assert messages[0] == messages[1]


def test_the_same_bytes_whatever_the_configuration(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    before = [path.read_bytes() for path in mails(project, tmp_path / "mail")]
    for key, value in {
        "diff.noprefix": "true",
        "diff.context": "9",
        "diff.suppressBlankEmpty": "true",
        "diff.algorithm": "minimal",
        "format.signOff": "true",
        "format.signature": "me",
        "format.thread": "deep",
        "format.attach": "true",
        "format.to": "list@invalid",
        "format.headers": "X-Mine: yes",
        "format.subjectPrefix": "RFC",
        "format.from": "true",
        "format.numbered": "false",
        "format.notes": "true",
        "format.filenameMaxLength": "12",
        "branch.xpu-stack.description": "mine",
        "user.name": "Another Person",
        "i18n.logOutputEncoding": "ISO-8859-1",
    }.items():
        git(project.checkout, "config", key, value)
    again = [path.read_bytes() for path in mails(project, tmp_path / "mail")]
    assert again == before


def test_a_folder_of_someone_else_is_kept(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    write(tmp_path, {"mail/notes.txt": "mine"})
    with pytest.raises(ToolError, match="is not replaced"):
        mails(project, tmp_path / "mail")
    assert [path.name for path in (tmp_path / "mail").iterdir()] == ["notes.txt"]


def test_fewer_mails_replace_more(project: Project, tmp_path: Path) -> None:
    project.ok("apply")
    assert len(mails(project, tmp_path / "mail")) == 4
    project.ok("apply", "--stage", "device")
    assert len(mails(project, tmp_path / "mail")) == 3


def test_refuses_what_is_not_the_series(project: Project, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as refused:
        mails(project, tmp_path / "mail")
    assert refused.value.next == "make apply"
    project.ok("apply")
    git(project.checkout, "commit", "-q", "--allow-empty", "-m", "fixup! Add streams")
    with pytest.raises(ToolError, match="are of no change"):
        mails(project, tmp_path / "mail")
