"""`make python`: any text reaches Python as it was typed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT
from xpu_stack.cli import building, cli
from xpu_stack.core.system.errors import ToolError

VARIABLES = ("FILE", "CODE", "ARGS", "STAGE")

TEXTS = [
    'print("it\'s")',
    "print('$HOME', \"$(x)\", '$$')",
    "x = 1\nif x:\n\tprint(x)\n",
    r"print('\n', `a`, {\"a\": 'b'}) # ; & | > %",
    "two  blanks  ",
    "-c",
    "größe = '→'",
    ",)(}{#",
]


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in the tool's place, which prints what it is given."""
    path = tmp_path_factory.mktemp("echo") / "echo.py"
    path.write_text(
        "import json, os, sys\n"
        "print(json.dumps([sys.argv[1:], {name: os.environ.get(name, '') for name in "
        f"{VARIABLES}}}]))\n"
    )
    return path


def typed(echo: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> list[str]:
    """What the tool is given by `make python`: words, and variables of the environment."""
    make = shutil.which("make")
    assert make is not None
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("MAKE") and key not in VARIABLES
    }
    done = subprocess.run(
        [
            make,
            "python",
            f"tool={sys.executable} {echo}",
            *(f"{name}={value}" for name, value in variables.items()),
        ],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    words: list[str]
    words, environment = json.loads(done.stdout)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return words


def given(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> tuple[str, ...]:
    """What Python is given when these are the words of the command line."""
    found: list[tuple[str, ...]] = []

    def python(_: object, given: tuple[str, ...]) -> int:
        found.append(given)
        return 0

    def run(*rest: object) -> None:
        rest[-1](None)  # type: ignore[operator]

    monkeypatch.setattr("xpu_stack.build.build.run_python", python)
    monkeypatch.setattr(building, "_run", run)
    cli(words, standalone_mode=False)
    (one,) = found
    return one


@pytest.mark.parametrize("text", TEXTS)
def test_a_program_as_text(echo: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    words = typed(echo, monkeypatch, CODE=text)
    assert given(monkeypatch, words) == ("-c", text)


def test_a_file_and_arguments(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = typed(
        echo, monkeypatch, FILE="it's $a script.py", ARGS="-k 'a b' \"it's\" '$HOME' \\$x"
    )
    assert given(monkeypatch, words) == (
        "it's $a script.py",
        "-k",
        "a b",
        "it's",
        "$HOME",
        "$x",
    )
    # as it was before there were FILE= and CODE=
    words = typed(
        echo, monkeypatch, ARGS='-c "import torch; print(torch.xpu.device_count())"', STAGE="stream"
    )
    assert os.environ["STAGE"] == "stream"
    assert given(monkeypatch, words) == ("-c", "import torch; print(torch.xpu.device_count())")
    assert given(monkeypatch, typed(echo, monkeypatch)) == ()


def test_the_command_line_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARGS", raising=False)
    assert given(monkeypatch, ["python", "--", *TEXTS]) == tuple(TEXTS)
    assert given(monkeypatch, ["python", "--stage", "x", "--", "--stage", "y"]) == ("--stage", "y")
    for words, problem in (
        (["--file", "a", "--code", "b"], "FILE= and CODE= are both given."),
        (["--args", "it's"], "ARGS= cannot be split into words."),
    ):
        with pytest.raises(ToolError) as refused:
            given(monkeypatch, ["python", *words])
        assert refused.value.what == problem


def test_the_environments_python_runs_it(capfd: pytest.CaptureFixture[str]) -> None:
    """The last step: a program's words are those of the process."""
    from xpu_stack.core.system.shell import hand_over

    code = hand_over([sys.executable, "-c", "import sys; print(sys.argv[1:])", *TEXTS])
    assert code == 0
    assert capfd.readouterr().out == f"{TEXTS}\n"
