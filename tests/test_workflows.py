"""The workflow files type what a person types: targets and scripts that there are."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).parents[1]
WORKFLOWS = sorted((REPOSITORY / "ci" / "workflows").glob("*.yml"))


def commands(path: Path) -> list[str]:
    jobs = YAML(typ="safe").load(path.read_text())["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_and_script_is_there(path: Path) -> None:
    page = (REPOSITORY / "docs/reference.md").read_text()
    targets = set(re.findall(r"^\| `make ([a-z-]+)`", page, re.M))
    variables = set(re.findall(r"^\| `(\w+)`", page, re.M))
    ours = 0
    for words in map(shlex.split, commands(path)):
        if words[0] == "make":
            ours += 1
            assert words[1] in targets, words
            assert {word.split("=")[0] for word in words[2:]} <= variables, words
        elif words[0].startswith("ci/"):
            ours += 1
            assert os.access(REPOSITORY / words[0], os.X_OK), words
    assert ours


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_is_a_shell_command(path: Path) -> None:
    for command in commands(path):
        subprocess.run(["sh", "-n", "-c", command], check=True)


def test_there_are_workflows() -> None:
    assert [path.name for path in WORKFLOWS] == ["wheel.yml"]
