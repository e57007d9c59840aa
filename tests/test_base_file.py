"""A base.yaml changes in the lines that an edit is about, and nowhere else."""

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xpu_stack.core.series.base import Differences, GitSource
from xpu_stack.core.series.series_file import base_text

OLD = """\
# by hand
"name": 'v2'   # a name
like:   v1

version: "2.0"
git:
  # where it is
  commit: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
  url: a  # once
without:   # these
    # first
    - 'c/device'   # why

    - "d/e"
    # last
    - x/y/z
moved:
  # moved
  "a: b" : c   # there
  d: "e"
apt: [one,   two]  # programs
"""
GIT = GitSource("a", commit="a" * 40)
SAID = Differences("v1", frozenset({"c/device", "d/e", "x/y/z"}), {"a: b": "c", "d": "e"})

_NAME = st.text("ab/: #'\"-é", min_size=1, max_size=8).filter(lambda one: one.strip() == one)
_NAMES = st.one_of(st.sampled_from(["c/device", "d/e", "x/y/z", "a: b", "d"]), _NAME)


def write(folder: Path, text: str) -> Path:
    path = folder / "base.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_so_already_stays(tmp_path: Path) -> None:
    path = write(tmp_path, OLD)
    assert base_text(path, "v2", GIT, SAID).decode() == OLD


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.frozensets(_NAMES, max_size=5), st.dictionaries(_NAMES, _NAME, max_size=4), st.booleans())
def test_only_the_lines_concerned_change(
    tmp_path: Path, without: frozenset[str], moved: dict[str, str], elsewhere: bool
) -> None:
    path = write(tmp_path, OLD)
    git = GitSource("b" if elsewhere else "a", commit="a" * 40)
    text = base_text(path, "v2", git, Differences("v1", without, moved)).decode()
    data = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    assert data["git"] == {"url": git.url, "commit": git.commit}
    assert frozenset(data.get("without", [])) == without
    assert data.get("moved", {}) == moved
    assert {key: data[key] for key in ("name", "like", "version", "apt")} == {
        "name": "v2",
        "like": "v1",
        "version": "2.0",
        "apt": ["one", "two"],
    }
    # a line that is about nothing that has changed is as it was
    kept = text.splitlines()
    about = {"    - 'c/device'   # why": "c/device", '    - "d/e"': "d/e", "    - x/y/z": "x/y/z"}
    for line in OLD.splitlines():
        if line in about:
            assert (line in kept) == (about[line] in without)
        elif line.startswith(("    #", "without")):
            assert (line in kept) == bool(without)
        elif line.startswith(('  "a', "  d")):
            key = "a: b" if "a" in line else "d"
            assert line in kept or moved.get(key) != SAID.moved[key]
        elif line.startswith(("  # moved", "moved")):
            assert (line in kept) == bool(moved)
        elif line.startswith("  url"):
            assert f"  url: {git.url}  # once" in kept
        else:
            assert line in kept, line
    # and once more changes nothing
    path.write_text(text, encoding="utf-8")
    assert base_text(path, "v2", git, Differences("v1", without, moved)).decode() == text


@pytest.mark.parametrize("end", ["\n", ""])
def test_lists_in_brackets_and_keys_that_come_and_go(tmp_path: Path, end: str) -> None:
    path = write(tmp_path, f"name: v2\nlike: v1\nwithout: [a, 'b']  # why{end}")
    then = base_text(path, "v2", GIT, Differences("v1", frozenset("ac"), {"d": "e"}))
    assert then.decode() == (
        f"name: v2\nlike: v1\nwithout: [a, c]  # why\ngit:\n  url: a\n  commit: {'a' * 40}\n"
        "moved:\n  d: e\n"
    )
    path.write_bytes(then)
    then = base_text(path, "v2", GIT, Differences("v1"))
    assert then.decode() == f"name: v2\nlike: v1\ngit:\n  url: a\n  commit: {'a' * 40}\n"


def test_a_renamed_entry_stays_in_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, OLD)
    without = SAID.without - {"c/device"} | {"c/tensor"}
    then = base_text(path, "v2", GIT, Differences("v1", without, SAID.moved)).decode()
    assert then == OLD.replace("'c/device'", "c/tensor")
