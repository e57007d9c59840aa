#!/usr/bin/env python3
"""Makes the tool's own environment, once, and runs the tool in it.

Needs nothing but a Python of 3.10 or later. Usage: as `xpu_stack`, e.g.
`python3 scripts/bootstrap.py apply --stage device`; with --dev first, as that
environment's Python with the requirements of the checks, e.g.
`python3 scripts/bootstrap.py --dev -m pytest`. Exit codes: 4 when the
environment cannot be made, else those of what is run.
"""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

SCRIPTS = Path(__file__).resolve().parent
MISSING = 4


def stop(what: str, why: str, next: str) -> NoReturn:
    print(f"error: {what}\n  why: {why}\n  next: {next}", file=sys.stderr)
    sys.exit(MISSING)


def run(what: str, command: list[str], log: Path) -> bool:
    print(f"{what} ...", file=sys.stderr, flush=True)
    with log.open("ab") as file:
        return subprocess.call(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file) == 0


def make(environment: Path, log: Path) -> None:
    import shutil

    if importlib.util.find_spec("ensurepip") is None:  # Debian keeps it in a package of its own
        package = f"python3.{sys.version_info.minor}-venv"
        command = f"apt-get update && apt-get install -y --no-install-recommends {package}"
        if not shutil.which("apt-get") or os.geteuid() != 0:
            stop(
                "The Python environment cannot be made.",
                f"{sys.executable} has no ensurepip",
                f"sudo sh -c '{command}'",
            )
        if not run(f"installing {package}", ["sh", "-c", command], log):
            stop("The Python environment cannot be made.", f"apt-get failed, see {log}", command)
    shutil.rmtree(environment, ignore_errors=True)
    # not the one of the environment itself, which has just gone
    python = getattr(sys, "_base_executable", sys.executable)
    if not run("making the Python environment", [python, "-m", "venv", str(environment)], log):
        stop("The Python environment cannot be made.", f"venv failed, see {log}", f"less {log}")


def pins(requirements: Path) -> bytes:
    """The file's content and that of the files that it names."""
    content = requirements.read_bytes()
    named = [line.split()[1] for line in content.decode().splitlines() if line.startswith("-r ")]
    return content + b"".join(pins(requirements.with_name(name)) for name in named)


def ensure(state: Path, name: str) -> bool:
    """Has requirements/<name>.txt in the environment, as a stamp says; whether it did before."""
    environment = state / "env"
    requirements = SCRIPTS / "requirements" / f"{name}.txt"
    stamp = environment / f"xpu-stack.{requirements.name}"
    wanted = hashlib.sha256(pins(requirements) + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    state.mkdir(parents=True, exist_ok=True)
    (state / "logs").mkdir(mode=0o700, exist_ok=True)
    log = state / "logs" / "bootstrap.log"
    # Two first commands at once: the second waits, and finds all done.
    with (state / "bootstrap.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return False
        if name == "tool":
            make(environment, log)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", "--no-input"]
        pip += ["--require-hashes", "--requirement", str(requirements)]
        if not run(f"installing the requirements of {name}", pip, log):
            stop(
                "The tool's requirements cannot be installed.",
                f"pip failed, see {log}",
                f"less {log}",
            )
        stamp.write_text(wanted)
    return False


def main() -> None:
    if sys.version_info < (3, 10):  # noqa: UP036 (it says so before it fails)
        version = sys.version.split()[0]
        stop("Python is too old.", f"{version} is older than 3.10", "make PYTHON=python3.11 apply")
    state = Path(os.environ.get("XPU_STACK_HOME") or SCRIPTS.parent / ".xpu").absolute()
    ready = ensure(state, "tool")
    python = str(state / "env" / "bin" / "python")
    os.environ["PYTHONPATH"] = str(SCRIPTS)
    # -P keeps the current folder, which may be PyTorch's, out of the path.
    command = [python, *(["-P"] if sys.version_info >= (3, 11) else [])]
    if sys.argv[1:2] == ["--dev"]:
        ensure(state, "dev")
        os.execv(python, [*command, *sys.argv[2:]])
    if ready and Path(sys.prefix) == state / "env":
        import xpu_stack.__main__  # noqa: F401 (this is its Python: no need for another)
    else:
        os.execv(python, [*command, "-m", "xpu_stack", *sys.argv[1:]])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
