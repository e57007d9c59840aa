"""`make help` and the pages that are made from the declarations of the verbs."""

import re

import pytest
from project import ROOT
from xpu_stack.cli import cli, reference
from xpu_stack.cli.options import DEFAULT_BASE
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.errors import ExitCode
from xpu_stack.core.system.layout import Layout

TARGETS = {one.name: one for one in reference.targets(ROOT / "Makefile")}
NOT_OURS = {"SHELL", "PYTHONPATH", "PIP_INDEX_URL", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
SET_BY_THE_TOOL = {"OCL_ICD_FILENAMES", "TEST_BRIEF", "TORCH_XPU_MAPPING"}


def test_the_generated_pages_are_up_to_date() -> None:
    for path, content in reference.pages(ROOT).items():
        assert path.read_text() == content, "make reference"


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_has_a_text(name: str) -> None:
    assert TARGETS[name].text.endswith(".")


def test_each_verb_is_a_target() -> None:
    assert set(cli.commands) <= set(TARGETS)


def test_each_variable_of_the_environment_is_declared() -> None:
    known = set(reference.ENVIRONMENT) | NOT_OURS | SET_BY_THE_TOOL
    for path in (ROOT / "scripts").rglob("*.py"):
        text = path.read_text()
        used = re.findall(r"environ(?:\.get)?[\[(]\"(\w+)\"|number\(\"(\w+)\"", text)
        assert {name for pair in used for name in pair if name} <= known, path


@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_is_whole_on_every_terminal(width: int) -> None:
    lines = reference.overview(ROOT / "Makefile", width).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    for target in TARGETS.values():
        assert target.text in words
    assert "…" not in words


def test_an_error_is_listed_with_its_words() -> None:
    found = {one.what: one for one in reference.collect(ROOT / "scripts")}
    refused = found["The checkout has changes that are not committed."]
    assert refused.next == "git -C <folder> stash"
    assert refused.code is ExitCode.REFUSED
    # words that another function is given, a local name, and those of bootstrap
    assert "The title is too long or empty." in found
    assert "Change <number> of <of>, <id>, does not fit <the base>." in found
    assert found["Python is too old."].code is ExitCode.MISSING


def test_no_error_is_left_out() -> None:
    """As many as are raised: none has words that cannot be told from the source."""
    for path in (ROOT / "scripts" / "xpu_stack").rglob("*.py"):
        if path.name not in ("errors.py", "messages.py") and "raise ToolError(" in path.read_text():
            assert reference.of_file(path), path


def test_the_messages_that_are_explained_are_the_tools_own() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    known = [
        ".+".join(map(re.escape, re.split(r"<[^>]*>|…", one.what)))
        for one in reference.collect(ROOT / "scripts")
    ]
    told = re.findall(r'^\*\*"(.+?)"\*\*', text, re.M)
    assert told
    for message in told:
        assert any(re.fullmatch(one, message) for one in known), message


def test_the_readme_is_short_and_names_targets_that_there_are() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert set(re.findall(r"\bmake ([a-z][a-z-]+)", text)) <= set(TARGETS)
    stages = Series.load(Layout.current(), DEFAULT_BASE).stage_names
    assert re.findall(r"^.{33}(\w+) {3,}\w", text, re.M) == list(stages)
