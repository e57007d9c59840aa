"""ci/steps: commands in order, and the table of what each took."""

import os
import re
import signal
import subprocess
from pathlib import Path

from project import ROOT


def steps(*commands: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [ROOT / "ci" / "steps", *commands], capture_output=True, text=True, check=False
    )


def table(text: str) -> list[str]:
    """What the table says, without the times."""
    lines = text.partition("seconds    cpu  step\n")[2].splitlines()
    assert all(int(line[:6]) >= 0 and int(line[6:13]) >= 0 for line in lines)
    return [line[15:] for line in lines]


def lane(text: str, name: str) -> list[str]:
    """The table of one of two makes that run at once, or with no name of what is around them."""
    mark = f"[{name}] " if name else ""
    lines = [line for line in text.splitlines() if line.startswith("[") == bool(name)]
    return table("\n".join(one.removeprefix(mark) for one in lines if one.startswith(mark)))


def test_all_pass() -> None:
    done = steps("echo 'the first'", "true")
    assert done.returncode == 0
    assert done.stdout.startswith("the first\n")
    assert table(done.stdout) == ["echo 'the first'", "true", "all"]


def test_the_first_failure_ends_it_and_its_time_is_there() -> None:
    done = steps("true", "exit 7", "echo never")
    assert done.returncode == 7
    assert table(done.stdout) == ["true", "exit 7: FAILED, exit status 7", "all"]


def test_ended_from_outside_it_says_what_is_known() -> None:
    with subprocess.Popen(
        [ROOT / "ci" / "steps", "true", "echo begun; sleep 600", "echo never"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGTERM)
        text, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert table(text) == ["true", "echo begun; sleep 600: was running", "all"]


def test_verify_runs_every_check_and_stops_at_a_failure(tmp_path: Path) -> None:
    """make itself, with a tool in place of ours."""
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\nfor last; do :; done\n[ "$last" != "$FAILING" ]\n')
    tool.chmod(0o755)

    def verify(failing: str, **env: str) -> "subprocess.CompletedProcess[str]":
        env = {"FAILING": failing, "TEST_SEED": "3", "TEST_SLOW": "0.25", **env}
        return subprocess.run(
            ["make", "verify", f"PYTHON={tool}"],
            cwd=ROOT,
            env={**os.environ, **env, "MAKEFLAGS": "", "MAKELEVEL": ""},
            capture_output=True,
            text=True,
            check=False,
        )

    def without_args(rows: list[str]) -> list[str]:  # which tests run on a wheel
        return [re.sub(r' ARGS=".*"', "", row) for row in rows]

    done = verify("nothing")
    assert done.returncode == 0
    both = "make -j2 verify-release verify-package"
    first = ["make check", "make -j2 lint build STAGE=device", both, "all"]
    assert lane(done.stdout, "") == first
    verbs = ["test", "wheel MODE=fast", "test-wheel MODE=fast", "tidy"]
    verbs.append("sanitize STAGE=tensor WITH=address")
    assert without_args(lane(done.stdout, "release")) == [
        *(f"make {verb}" for verb in verbs),
        "all",
    ]
    verbs = [f"{verb} BASE=v2.13" for verb in ("check", "extension", "test", "test-extension")]
    verbs = [*verbs, "self-test"]
    verbs[2] += " LAST=1"
    assert without_args(lane(done.stdout, "package")) == [
        *(f"make {verb}" for verb in verbs),
        "all",
    ]
    for env, last in (({"TEST_SEED": "10"}, "WITH=thread"), ({"TEST_SLOW": "1"}, "WITH=")):
        assert lane(verify("nothing", **env).stdout, "release")[-2].endswith(last)
    done = verify("check")
    assert done.returncode == 2
    assert table(done.stdout) == ["make check: FAILED, exit status 2", "all"]
    done = verify("mypy")
    failed = "make -j2 lint build STAGE=device: FAILED, exit status 2"
    assert table(done.stdout) == ["make check", failed, "all"]
    done = verify("test-wheel")
    assert done.returncode == 2
    assert lane(done.stdout, "")[-2:] == [f"{both}: FAILED, exit status 2", "all"]
    (row,) = without_args(lane(done.stdout, "release")[-2:-1])
    assert row == "make test-wheel MODE=fast: FAILED, exit status 2"
