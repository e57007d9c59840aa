#!/usr/bin/env python3
"""Makes the tool's own environment, once, and runs the tool in it.

Needs nothing but a Python of 3.10 or later with venv. Usage: as `xpu_stack`,
e.g. `python3 scripts/bootstrap.py apply --stage device`. Exit codes: 4 when
the environment cannot be made, else the tool's.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
REQUIREMENTS = SCRIPTS / "requirements" / "tool.txt"
MISSING = 4


def stop(what: str, why: str, next: str) -> "NoReturn":  # noqa: F821
    print(f"error: {what}\n  why: {why}\n  next: {next}", file=sys.stderr)
    sys.exit(MISSING)


def run(what: str, command: "list[str]", log: Path) -> bool:
    print(f"{what} ...", file=sys.stderr, flush=True)
    with log.open("ab") as file:
        return subprocess.call(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file) == 0


def install_venv_module(log: Path) -> None:
    """Debian keeps venv in a package of its own."""
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


def make(environment: Path, log: Path) -> None:
    """Makes the environment beside its place and moves it there when it is whole."""
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        install_venv_module(log)
    shutil.rmtree(environment, ignore_errors=True)
    if not run("making the Python environment", [sys.executable, "-m", "venv", str(environment)], log):
        stop("The Python environment cannot be made.", f"venv failed, see {log}", f"less {log}")
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check", "--requirement", str(REQUIREMENTS)]
    if not run("installing the tool's requirements", pip, log):
        shutil.rmtree(environment, ignore_errors=True)
        stop("The tool's requirements cannot be installed.", f"pip failed, see {log}", f"less {log}")


def main() -> None:
    if sys.version_info < (3, 10):
        stop("Python is too old.", f"{sys.version.split()[0]} is older than 3.10", "make PYTHON=python3.11 ...")
    state = Path(os.environ.get("XPU_STACK_HOME") or SCRIPTS.parent / ".xpu").absolute()
    environment = state / "env"
    stamp = environment / "xpu-stack.stamp"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        (state / "logs").mkdir(parents=True, exist_ok=True)
        import fcntl

        # Two first commands at once: the second waits, and finds all done.
        with (state / "bootstrap.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stamp.exists() or stamp.read_text() != wanted:
                make(environment, state / "logs" / "bootstrap.log")
                stamp.write_text(wanted)
    python = str(environment / "bin" / "python")
    os.environ["PYTHONPATH"] = str(SCRIPTS)
    # -P keeps the current folder, which may be PyTorch's, out of the path.
    flags = ["-P"] if sys.version_info >= (3, 11) else []
    if sys.argv[1:2] == ["--python"]:
        os.execv(python, [python, *flags, *sys.argv[2:]])
    os.execv(python, [python, *flags, "-m", "xpu_stack", *sys.argv[1:]])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
