"""The JSON documents of status and check, and output whose reader has gone."""

import json
import os
import re
import subprocess
from typing import Any

from project import ROOT, Project, drift, git, release, write

COMMITS = ("foreign[]", "unknown[]")  # documented with those above the stack


def fields(value: Any, name: str = "") -> set[str]:
    """The fields of a document, as docs/reference.md names them."""
    if isinstance(value, dict) and not name.endswith("reasons"):
        prefix = f"{name}." if name else ""
        found = [fields(one, f"{prefix}{key}") for key, one in value.items()]
        return set().union(*found) | ({name} if name and not name.endswith("[]") else set())
    if isinstance(value, list):
        return set().union({f"{name}[]"}, *(fields(one, f"{name}[]") for one in value))
    return {name}


def documented(command: str) -> set[str]:
    page = (ROOT / "docs" / "reference.md").read_text()
    table = page.partition(f"`{command}`:\n\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(.+?)` \|", table, re.M))


def test_status(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    git(project.checkout, "commit", "-q", "--amend", "--no-edit", "--author=Ada <ada@example.com>")
    git(project.checkout, "commit", "-q", "--allow-empty", "-m", "Gone\n\nXPU-Change: device/gone")
    drift(project, "mine.txt", "mine\n")
    write(project.checkout, {"new.txt": "", "aten/Hooks.cpp": "int edited;\n"})
    record = (
        "branch: main\nchanges:\n  device/aten:\n"
        "    pull_request: https://github.com/o/r/pull/7\n"
        f"    source_id: '{'1' * 40}'\n"
    )
    write(project.folder, {"patches/v1.13.1/submitted.yaml": record})
    document = json.loads(project.ok("status", "--json"))
    runtime, aten, stream = document["changes"]
    assert document["version"] == 1
    assert document["checkout"] == "CHECKOUT"
    assert document["base"] == "v1.13.1"
    assert document["base_commit"] == git(project.checkout, "rev-parse", "main").strip()
    assert runtime["id"] == "device/runtime"
    assert runtime["state"] == "applied"
    assert runtime["built"] is False
    assert runtime["tests"] is None
    assert runtime["pull_request"] is None
    assert aten["commit"] == git(project.checkout, "rev-parse", "HEAD~2").strip()
    assert aten["state"] == "changed by hand"
    assert aten["author"] == "Ada <ada@example.com>"
    assert aten["pull_request"] == {
        "url": "https://github.com/o/r/pull/7",
        "number": 7,
        "outdated": True,
    }
    assert stream["state"] == "not applied"
    assert stream["commit"] is stream["built"] is None
    assert [one["change"] for one in document["unknown"]] == ["device/gone"]
    assert [one["title"] for one in document["above"]] == ["Drift of mine.txt"]
    assert document["edited"] == ["aten/Hooks.cpp"]
    assert document["untracked"] == ["new.txt"]
    assert document["conflict"] is None

    # what is null, or has no item, here
    shown = fields(document) | {
        f"changes[].tests.{name}" for name in ("passed", "failed", "skipped", "reasons", "failures")
    }
    shown |= {"conflict.change", "conflict.worktree"}
    shown = {one for one in shown if not one.startswith(tuple(f"{name}." for name in COMMITS))}
    groups = {one.removesuffix("[]") for one in shown if one in ("changes[]", "problems[]")}
    assert shown - {f"{one}[]" for one in groups} == documented("make status JSON=1")


def test_check(project: Project) -> None:
    release(project)
    for name in ("runtime", "aten"):
        patch = project.folder / f"patches/v1.13.1/device/{name}.patch"
        assert patch.exists()
    project.ok("apply")
    project.ok("export")
    document = json.loads(project.ok("check", "--json", source=False))
    assert document == {
        "version": 1,
        "base": "v1.13.1",
        "valid": True,
        "changes": 3,
        "problems": [],
    }
    project.ok("new", "--change", "stream/more", source=False)
    ended = project.run("check", "--json", source=False)
    assert ended.code == 6
    assert "error: The series is not valid." in ended.err
    document = json.loads(ended.out)
    assert not document["valid"]
    assert document["changes"] is None
    assert document["problems"] == [
        {
            "place": "patches/texts/stream/more.md:1",
            "problem": "stream/more: its text is not written yet",
        },
        {
            "place": "patches/series.yaml:15",
            "problem": "stream/more is empty: amend its commit, make export",
        },
    ]
    assert fields(document) - {"problems[]"} == documented("make check JSON=1")
    # what is wrong with the series file itself
    write(project.folder, {"patches/series.yaml": "stages: []\n"})
    document = json.loads(project.run("check", "--json", source=False).out)
    assert document["problems"] == [
        {"place": "patches/series.yaml:1", "problem": "the file lacks 'author'"}
    ]


def test_output_that_nobody_reads_is_no_failure(project: Project) -> None:
    project.ok("apply")
    for words in (["status"], ["status", "--json"], ["show"], ["apply", "--stage", "device"]):
        reading, writing = os.pipe()
        os.close(reading)  # as head does when it has its lines
        ended = subprocess.run(
            project.command(*words),
            cwd=project.folder,
            env=project.environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        os.close(writing)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), words
    assert project.log() == ["Add hooks", "Add devices", "base"]


def test_moves(project: Project) -> None:
    project.ok("apply", "--stage", "device")
    project.ok("apply", "--drop", "stream/stream")
    project.ok("undo")
    document = json.loads(project.ok("history", "--json"))
    assert [(one["verb"], one["about"], one["undone"]) for one in document["moves"]] == [
        ("apply", "stream", True),
        ("apply", "device", False),
    ]
    assert document["moves"][0]["after"]["dropped"] == ["stream/stream"]
    # lists that are empty here
    told = fields(document) | {"moves[].files[]", "moves[].before.dropped[]"}
    told -= {"moves[]", "moves[].before", "moves[].after"}
    assert told == documented("make history JSON=1")
