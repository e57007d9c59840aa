"""`make bench-tools`: how long the tool takes, beside git and other patch tools.

Everything is measured on clones of the base in a temporary folder, each round in
turns, start-up included. The table has the medians of the rounds. tools.yaml has
what is run.
"""

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands, pages, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.yaml_file import Node

_ROUNDS = 5
_DRIFTED = 4870  # files
_BEGIN = "<!-- written by make bench-tools PUBLISH=1 -->"
_TOOLS = {"here": "here", "git": "git", "stg": "StGit", "quilt": "quilt"}  # as the table names them
_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "bench"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "bench@invalid"),
}


class Used(NamedTuple):
    """What a command took. seconds: by the clock; cpu: of the processors; peak: MB."""

    seconds: float
    cpu: float
    peak: float


@dataclass(frozen=True)
class Task:
    """Something that is measured. bound: a number, and seconds, MB or git's times."""

    name: str
    bound: str
    run: dict[str, str]  # by tool
    before: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tasks:
    common: str  # what all scripts begin with
    tasks: tuple[Task, ...]


def _row(task: Task, used: Mapping[str, Used]) -> list[str]:
    limit, _, unit = task.bound.partition(" ")
    memory = unit == "MB"
    form = "{0.peak:.0f} MB" if memory else "{0.seconds:.2f} ({0.cpu:.2f})"
    cells = [form.format(used[tool]) if tool in used else "—" for tool in _TOOLS]
    own = used["here"]
    value = own.peak if memory else own.seconds
    value /= used["git"].seconds if unit == "times git" else 1
    verdict = "met" if value <= float(limit) else f"**{value:.2g} {unit}**"
    return [task.name, *cells, task.bound, verdict]


def bench(layout: Layout, base: str, *, publish: bool) -> bool:
    """Measures, prints the table and writes it into docs/; whether all bounds are met."""
    if not (layout.checkout(base) / ".git").exists():
        raise UsageError(
            "The tool's own checkout is not there.",
            why="what is measured are clones of it",
            next=commands.make("apply"),
        )
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="xpu-stack-bench-") as folder:
        rows = _Bench(layout, base, Path(folder)).run()
    head = ["task", *_TOOLS.values(), "bound", "verdict"]
    table = "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
    git = shell.run(["git", "--version"]).text.strip()
    page = (
        f"Seconds by the clock, and in brackets of the processors: medians of {_ROUNDS} rounds in "
        f"one run; StGit and\nquilt in the first of them. "
        f"{os.cpu_count()} processors ({platform.machine()}), {git};\n"
        f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after.\n\n{table}"
    )
    say(page)
    if publish:
        written = layout.repository / "docs" / "comparison.md"
        pages.put_between(_BEGIN, "<!-- end -->", f"\n{page}\n\n", written)
    return all(row[-1] == "met" for row in rows)


class _Bench:
    def __init__(self, layout: Layout, base: str, folder: Path) -> None:
        place = Path(__file__).with_name("tools.yaml")
        self.tasks = Node.load(place, place.name).into(Tasks)
        self.changes = [*Series.load(layout, base).all_changes()]
        self.folder, home = folder, folder / "home"
        self.clones = {tool: folder / tool for tool in _TOOLS} | {"here": home / f"pytorch-{base}"}
        kept = [file.kept_at for change in self.changes for file in change.files]
        self.env = {
            **os.environ,
            **_SETTINGS,
            **{tool: str(clone) for tool, clone in self.clones.items()},
            "XPU_STACK_HOME": str(home),
            "QUILT_PATCHES": str(folder / "patches"),
            "QUILT_PC": str(folder / "quilt" / ".pc"),
            "python": sys.executable,
            "project": str(layout.repository),
            "root": str(folder),
            "patches": str(folder / "patches"),
            "last": str(kept[-1]) if kept else "",
        }
        home.mkdir()
        (home / "env").symlink_to(layout.python)
        for tool, clone in self.clones.items():
            self._git(folder, "clone", "--quiet", "--branch=base", layout.checkout(base), clone)
            self._git(clone, "remote", "remove", "origin")
            if tool != "here":
                self._git(clone, "config", "gc.auto", "0")

    def _git(self, folder: Path, *words: str | Path) -> str:
        return shell.run(["git", *words], cwd=folder, env=_SETTINGS).text

    def _used(self, tool: str, script: str) -> Used:
        with tempfile.TemporaryFile() as said:
            start = time.monotonic()
            process = subprocess.Popen(
                ["sh", "-c", f"{self.tasks.common}\n{script}"],
                cwd=self.env["project"] if tool == "here" else self.clones[tool],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - start
            if process.returncode:
                said.seek(0)
                told = said.read().decode(errors="replace").strip()
                raise ToolError(
                    f"'{script.strip()}' did not do what is measured.",
                    why=f"exit {process.returncode}: {(told.splitlines() or [''])[-1]}",
                    next=commands.make("check"),
                    detail=told,
                )
        # of the largest process among it and its children
        return Used(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

    def run(self) -> list[list[str]]:
        """Measures all tasks; the rows of the table."""
        patches = self.folder / "patches"
        self._used("here", "tool apply")
        self._git(self.clones["here"], "format-patch", "-q", "-o", patches, "base..xpu-stack")
        mails = sorted(patches.glob("*.patch"))
        (patches / "series").write_text("".join(f"{one.name}\n" for one in mails))
        (patches / "mbox").write_bytes(b"".join(one.read_bytes() for one in mails))
        self._branch("drifted", self._many())
        self._branch("conflicting", self._in_conflict())
        rows = []
        with progress(None, "measuring") as bar:
            for task in self.tasks.tasks:
                bar.step(task.name)
                rows.append(_row(task, self._measure(task)))
        return rows

    def _measure(self, task: Task) -> dict[str, Used]:
        """The medians of the rounds, by tool; memory is measured once."""
        rounds: dict[str, list[Used]] = {}
        for number in range(1 if task.bound.endswith("MB") else _ROUNDS):
            for tool, script in task.run.items():
                if tool in ("here", "git") or (number == 0 and shutil.which(tool)):
                    self.env["fresh"] = f"{self.folder}/{time.monotonic_ns()}"
                    if tool in task.before:
                        self._used(tool, task.before[tool])
                    rounds.setdefault(tool, []).append(self._used(tool, script))
        return {
            tool: Used(*map(statistics.median, zip(*used, strict=True)))
            for tool, used in rounds.items()
        }

    def _branch(self, name: str, edits: Mapping[str, bytes]) -> None:
        git = self.clones["git"]
        self._git(git, "switch", "--quiet", "-c", name, "base")
        for path, content in edits.items():
            (git / path).write_bytes(content)
        self._git(git, "commit", "--quiet", "--all", "-m", name)
        self._git(git, "switch", "--quiet", "--detach", "base")
        for other in self.clones.values():
            if other != git:
                self._git(other, "fetch", "--quiet", git, f"{name}:{name}")

    def _many(self) -> dict[str, bytes]:
        """Files that the series leaves alone, each with a line more."""
        git = self.clones["git"]
        touched = {path for change in self.changes for path in change.touched_paths()}
        listed = self._git(git, "ls-files", "-s", "-z").split("\0")
        regular = [line.split("\t")[1] for line in listed if line.startswith("1006")]
        chosen = [path for path in regular if path not in touched][:_DRIFTED]
        return {path: (git / path).read_bytes() + b"\n" for path in chosen}

    def _in_conflict(self) -> dict[str, bytes]:
        """Files that the first patch of the series edits, with other lines."""
        change = next(one for one in self.changes if one.patch)
        git = self.clones["git"]
        paths = change.patched_paths()[:3]
        return {path: (git / path).read_bytes().replace(b"\n", b" # ours\n") for path in paths}
