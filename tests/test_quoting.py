"""`make python`: any text reaches Python as it was typed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT
from xpu_stack.build import interpreter
from xpu_stack.cli import cli, running
from xpu_stack.core.system.errors import ToolError

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
    path.write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    return path


def typed(echo: Path, **variables: str) -> list[str]:
    """What the tool is given by `make python`."""
    make = shutil.which("make")
    assert make is not None
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
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
    words: list[str] = json.loads(done.stdout)
    return words


def given(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> tuple[str, ...]:
    """What Python is given when these are the words of the command line."""
    found: list[tuple[str, ...]] = []

    def python(_: object, given: tuple[str, ...]) -> int:
        found.append(given)
        return 0

    def run(*rest: object) -> None:
        rest[-1](None)  # type: ignore[operator]

    monkeypatch.setattr(interpreter, "python", python)
    monkeypatch.setattr(running, "_run", run)
    cli(words, standalone_mode=False)
    (one,) = found
    return one


@pytest.mark.parametrize("text", TEXTS)
def test_a_program_as_text(echo: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    words = typed(echo, CODE=text)
    assert given(monkeypatch, words) == ("-c", text)


def test_a_file_and_arguments(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = typed(echo, FILE="it's $a script.py", ARGS="-k 'a b' \"it's\" '$HOME' \\$x")
    assert given(monkeypatch, words) == (
        "it's $a script.py",
        "-k",
        "a b",
        "it's",
        "$HOME",
        "$x",
    )
    # as it was before there were FILE= and CODE=
    words = typed(echo, ARGS='-c "import torch; print(torch.xpu.device_count())"', STAGE="stream")
    assert words[:3] == ["python", "--stage", "stream"]
    assert given(monkeypatch, words) == ("-c", "import torch; print(torch.xpu.device_count())")
    assert given(monkeypatch, typed(echo)) == ()


def test_the_command_line_itself(monkeypatch: pytest.MonkeyPatch) -> None:
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
