"""Who wrote a change: kept with the series, given to its commit, and sent."""

import json
from pathlib import Path

import pytest
from project import SERIES, Project, git, write
from test_export import changed, kept
from upstream import Upstream
from workspace import workspace
from xpu_stack.core.series import authors
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.git import Repository
from xpu_stack.report import mail

ADA = "Ada Größe <ada@example.com>"
SIGNED = f"Signed-off-by: {ADA}"
ATEN = "      - name: aten\n"
SENDER = {"GIT_COMMITTER_NAME": "Sam", "GIT_COMMITTER_EMAIL": "sam@example.com"}


@pytest.fixture
def applied(project: Project) -> Project:
    project.ok("apply")
    project.ok("export")
    return project


def series(project: Project) -> str:
    return (project.folder / "patches/series.yaml").read_text()


def people(project: Project, count: int = 3) -> list[str]:
    told = git(project.checkout, "log", f"-{count}", "--format=%an <%ae>, %cn <%ce>", "xpu-stack")
    return told.splitlines()


# -- in the series and in the commits ---------------------------------------------


def test_a_change_by_another_author(applied: Project) -> None:
    ours = "xpu-stack <xpu-stack@invalid>"
    assert people(applied) == [f"{ours}, {ours}"] * 3
    write(
        applied.folder,
        {"patches/series.yaml": SERIES.replace(ATEN, f"{ATEN}        author: {ADA}\n")},
    )
    assert "older" in applied.ok("status")
    applied.ok("apply")
    # who applies it, and when, is in no commit
    assert people(applied) == [f"{ours}, {ours}", f"{ADA}, {ours}", f"{ours}, {ours}"]
    tip = git(applied.checkout, "rev-parse", "HEAD")
    applied.ok("apply", "--stage", "base")
    (applied.checkout / ".git/xpu-stack/memo.json").unlink()
    git(applied.checkout, "config", "i18n.commitEncoding", "ISO-8859-1")
    git(applied.checkout, "config", "i18n.logOutputEncoding", "ISO-8859-1")
    applied.ok("apply", env=SENDER)
    assert "older" not in applied.ok("status")
    assert git(applied.checkout, "rev-parse", "HEAD") == tip
    assert applied.ok("export").endswith("0 file(s) of the series differ from before\n")


def test_a_commit_amended_with_an_author_and_a_signature(applied: Project) -> None:
    before = kept(applied)
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit", f"--author={ADA}")
    assert "changed by hand" in applied.ok("status")
    assert "was changed by hand" in applied.run("apply", "--stage", "device").err
    message = git(applied.checkout, "log", "-1", "--format=%B").strip()
    git(applied.checkout, "commit", "-q", "--amend", "-m", f"{message}\n{SIGNED}")
    applied.ok("export")
    assert changed(applied, before) == {
        "patches/series.yaml",
        "patches/texts/stream/stream.md",
    }
    assert series(applied) == SERIES.replace(
        "      - name: stream\n", f"      - name: stream\n        author: {ADA}\n"
    )
    text = (applied.folder / "patches/texts/stream/stream.md").read_text()
    assert text.endswith(f"\nNone.\n\n{SIGNED}\n")
    assert people(applied, 1) == [f"{ADA}, xpu-stack <xpu-stack@invalid>"]
    assert git(applied.checkout, "log", "-1", "--format=%(trailers:key=Signed-off-by)").strip() == (
        SIGNED
    )
    told = applied.ok("status")
    assert "by hand" not in told
    assert "older" not in told
    # the series' own author again
    git(
        applied.checkout,
        "commit",
        "-q",
        "--amend",
        "--no-edit",
        "--author=xpu-stack <xpu-stack@invalid>",
    )
    applied.ok("export")
    assert series(applied) == SERIES


def test_an_author_that_no_mail_reaches_is_not_kept(applied: Project) -> None:
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit", "--author=Ada <ada@laptop>")
    told = applied.ok("export")
    assert "stream/stream: its author Ada <ada@laptop> is not kept" in told
    assert series(applied) == SERIES


def test_a_new_change_is_by_the_person_who_begins_it(project: Project) -> None:
    project.ok("new", "--change", "stream/more", source=False, env=SENDER)
    assert series(project) == (
        f"{SERIES}      - name: more\n        author: Sam <sam@example.com>\n"
    )
    invalid = {**SENDER, "GIT_COMMITTER_EMAIL": "sam@invalid"}
    project.ok("new", "--change", "stream/another", source=False, env=invalid)
    assert series(project).endswith("example.com>\n      - name: another\n")


@pytest.mark.parametrize("name", ["Ada", "Ada L. O'Brien: the first", "@ada", "Ада", '"A" #1'])
def test_any_name_can_be_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / "series.yaml"
    path.write_text(SERIES)
    for author in (f"{name} <a@example.com>", ADA):
        file = SeriesFile.read(path)
        file.put("device/aten", "author", author)
        path.write_text(file.text)
        text = path.read_text()
    assert text == SERIES.replace(ATEN, f"{ATEN}        author: {ADA}\n")


@pytest.mark.parametrize(
    ("author", "reachable"),
    [
        (ADA, True),
        ("A. B. <1+ab@users.noreply.github.com>", True),
        ("A <a@example.invalid>", False),
        ("A <a@localhost>", False),
        ("root <root@box.(none)>", False),
        ("A <a.b>", False),
        ("A", False),
    ],
)
def test_what_mail_reaches(author: str, reachable: bool) -> None:
    assert authors.is_reachable(author) is reachable


# -- sent ---------------------------------------------------------------------------


def sent(project: Project, out: Path) -> list[str]:
    """By whom each mail is."""
    with workspace(project) as work:
        texts = [path.read_text() for path in mail.write(work, out)]
    return [line for text in texts for line in text.splitlines() if "From: " in line]


def test_the_sender_is_the_author_where_the_series_names_none(
    applied: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(applied.checkout, "commit", "-q", "--amend", "--no-edit", f"--author={ADA}")
    applied.ok("export")
    for key, value in SENDER.items():
        monkeypatch.setenv(key, value)
    sam = "From: Sam <sam@example.com>"
    ada = "From: =?UTF-8?q?Ada=20Gr=C3=B6=C3=9Fe?= <ada@example.com>"
    assert sent(applied, tmp_path / "mail") == [sam, sam, sam, ada]
    # the author of a series that mail reaches stays
    default = "The Team <team@example.com>"
    text = series(applied).replace("xpu-stack <xpu-stack@invalid>", default)
    write(applied.folder, {"patches/series.yaml": text})
    applied.ok("apply")
    team = f"From: {default}"
    assert sent(applied, tmp_path / "mail") == [sam, team, team, ada]


def test_what_no_mail_reaches_is_not_sent(
    applied: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> ToolError:
        with pytest.raises(ToolError) as caught:
            sent(applied, tmp_path / "mail")
        return caught.value

    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for key in SENDER:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.delenv("EMAIL", raising=False)
    assert authors.of_git(Repository(applied.checkout)) is None
    assert refused().what == "Commits cannot be sent in your name."
    assert refused().why == "git's configuration has no user.name or no user.email"
    assert refused().next.startswith("git config --global user.name")
    assert refused().code == ExitCode.MISSING
    git(applied.checkout, "config", "user.name", "Sam")
    git(applied.checkout, "config", "user.email", "sam@invalid")
    assert "names Sam <sam@invalid>, an address that cannot receive mail" in refused().why

    git(applied.checkout, "config", "user.email", "sam@example.com")
    write(
        applied.folder,
        {"patches/series.yaml": SERIES.replace(ATEN, f"{ATEN}        author: Ada <ada@laptop>\n")},
    )
    applied.ok("apply")
    assert refused().what == "The author of device/aten has an address that cannot receive mail."
    write(applied.folder, {"patches/series.yaml": SERIES})
    text = applied.folder / "patches/texts/device/aten.md"
    text.write_text(f"{text.read_text()}\nSigned-off-by: Ada <ada@laptop>\n")
    applied.ok("apply")
    assert "'Signed-off-by: Ada <ada@laptop>'" in refused().why
    assert not (tmp_path / "mail").exists()


def test_pull_requests_are_in_a_persons_name(applied: Project, tmp_path: Path) -> None:
    message = git(applied.checkout, "log", "-1", "--format=%B").strip()
    words = ("--amend", "-q", f"--author={ADA}", "-m", f"{message}\n{SIGNED}")
    git(applied.checkout, "commit", *words)
    applied.ok("export")
    upstream = Upstream.make(applied, tmp_path)
    git(applied.checkout, "config", "user.email", "person@invalid")
    with pytest.raises(ToolError, match="cannot be sent in your name"):
        upstream.submit()
    assert upstream.open() == {}
    git(applied.checkout, "config", "user.email", "person@example.com")
    upstream.submit()
    person = "A Person <person@example.com>"
    told = git(upstream.bare, "log", "-3", "--format=%an <%ae>, %cn <%ce>", "gh/person/3/orig")
    assert told.splitlines() == [f"{ADA}, {person}", f"{person}, {person}", f"{person}, {person}"]
    everyone = git(upstream.bare, "log", "--all", "--not", "main", "--format=%ae %ce").split()
    assert set(everyone) == {"ada@example.com", "person@example.com"}
    assert SIGNED in upstream.pull_request(502).body
    # the commits in the checkout are still those that every machine makes
    assert people(applied, 1) == [f"{ADA}, xpu-stack <xpu-stack@invalid>"]


@pytest.mark.parametrize(
    "author",
    ["A. Person Jr. <a@example.com>", "'A' <a@example.com>", "A <a@example.com.>", "A\x07 <a@b.c>"],
)
def test_an_author_that_git_would_not_keep_is_refused(applied: Project, author: str) -> None:
    assert authors.problem(author)
    path = applied.folder / "patches/series.yaml"
    text = SERIES.replace("author: xpu-stack <xpu-stack@invalid>", f"author: {json.dumps(author)}")
    path.write_text(text)
    for verb in ("check", "apply"):
        ended = applied.run(verb, source=False)
        assert ended.code == 6, ended.err
        assert "why: patches/series.yaml:1: " in ended.err


def test_what_git_keeps_of_an_author_is_accepted() -> None:
    for author in ("A. B. Person <a@example.com>", "D'Arcy <a@b.c>", "Ä <a.b@c-d.example>"):
        assert authors.problem(author) == ""
