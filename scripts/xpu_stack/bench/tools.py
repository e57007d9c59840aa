"""`make bench-tools`: how long the tool takes, beside git and other patch tools.

Everything is measured on clones of the base in a temporary folder, each round in
turns, start-up included. The table has the medians of the rounds.
"""

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.layout import Layout

ROUNDS = 5
FILES = 4870  # that a rebase changes
LARGE = 500  # MB of a file in a change
_BEGIN = f"<!-- written by {commands.make('bench-tools', PUBLISH='1')} -->"
_END = "<!-- end -->"
_PERSON = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "bench"), ("EMAIL", "bench@invalid"))
}

Run = Callable[[], "Used"]


@dataclass(frozen=True)
class Used:
    """What a command took. seconds: by the clock; cpu: of the processors; peak: MB."""

    seconds: float
    cpu: float
    peak: float


@dataclass(frozen=True)
class Task:
    """Something that is measured. bound: in seconds, or in git's times, or in MB."""

    name: str
    runs: Mapping[str, Run]  # by tool
    bound: float
    unit: str = "s"
    once: bool = False
    used: dict[str, Used] = field(default_factory=dict)  # the medians, by tool

    @property
    def value(self) -> float:
        own = self.used["here"]
        if self.unit == "MB":
            return own.peak
        return own.seconds / (self.used["git"].seconds if self.unit == "git" else 1)

    @property
    def row(self) -> list[str]:
        unit = {"s": " s", "MB": " MB", "git": " times git"}[self.unit]
        form = "{0.peak:.0f} MB" if self.unit == "MB" else "{0.seconds:.2f} ({0.cpu:.2f})"
        shown = {tool: form.format(used) for tool, used in self.used.items()}
        cells = [shown.get(tool, "—") for tool in ("here", "git", "stg", "quilt")]
        verdict = "met" if self.value <= self.bound else f"**{self.value:.2g}{unit}**"
        return [self.name, *cells, f"{self.bound:g}{unit}", verdict]


def bench(layout: Layout, base: str, *, publish: bool) -> bool:
    """Measures, prints the table and writes it into docs/; whether all bounds are met."""
    if not (layout.checkout(base) / ".git").exists():
        raise UsageError(
            "The tool's own checkout is not there.",
            why="what is measured are clones of it",
            next=commands.make("apply"),
        )
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix="xpu-stack-bench-") as folder:
        tasks = _Bench(layout, base, Path(folder)).run()
    loads.append(os.getloadavg()[0])
    page = _page(tasks, loads)
    say(page)
    if publish:
        path = layout.repository / "docs" / "comparison.md"
        before, _, rest = path.read_text().partition(_BEGIN)
        path.write_text(f"{before}{_BEGIN}\n\n{page}\n\n{_END}{rest.partition(_END)[2]}")
    return all(one.value <= one.bound for one in tasks)


def _page(tasks: Sequence[Task], loads: Sequence[float]) -> str:
    head = ["task", "here", "git", "StGit", "quilt", "bound", "verdict"]
    rows = [head, ["---"] * len(head), *(one.row for one in tasks)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    git = shell.run(["git", "--version"]).text.strip()
    return (
        f"Seconds by the clock, and in brackets of the processors: medians of {ROUNDS} rounds in "
        f"one run; StGit and\nquilt in the first of them. "
        f"{os.cpu_count()} processors ({platform.machine()}), {git};\n"
        f"load {loads[0]:.1f} before, {loads[1]:.1f} after.\n\n{table}"
    )


class _Bench:
    def __init__(self, layout: Layout, base: str, folder: Path) -> None:
        self.base, self.folder = base, folder
        self.project, self.home = layout.repository, folder / "home"
        self.patches = folder / "patches"
        self.env = {
            **os.environ,
            **_PERSON,
            "XPU_STACK_HOME": str(self.home),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "QUILT_PATCHES": str(self.patches),
            "QUILT_PC": str(folder / "quilt" / ".pc"),
        }
        self.home.mkdir()
        (self.home / "env").symlink_to(layout.python)
        self.ours = self._clone(layout.checkout(base), self.home / f"pytorch-{base}")
        self.git = self._clone(self.ours, folder / "git")
        self.stg = self._clone(self.ours, folder / "stg")
        self.quilt = self._clone(self.ours, folder / "quilt")
        self.series = Series.load(layout, base)
        self.memo = self.ours / ".git/xpu-stack/memo.json"

    def _clone(self, source: Path, into: Path) -> Path:
        self._git(self.folder, "clone", "--quiet", "--branch=base", str(source), str(into))
        self._git(into, "remote", "remove", "origin")
        return into

    # -- commands ---------------------------------------------------------------

    def _used(self, *words: str | Path, cwd: Path, fails: bool = False) -> Used:
        with tempfile.TemporaryFile() as said:
            start = time.monotonic()
            process = subprocess.Popen(
                list(map(str, words)),
                cwd=cwd,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - start
            if bool(process.returncode) != fails:
                said.seek(0)
                told = said.read().decode(errors="replace").strip()
                raise ToolError(
                    f"'{' '.join(map(str, words[:4]))} ...' did not do what is measured.",
                    why=f"exit {process.returncode}: {(told.splitlines() or [''])[-1]}",
                    next=commands.make("check"),
                )
        # of the largest process among it and its children
        return Used(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

    def _tool(self, *words: str, fails: bool = False, project: Path | None = None) -> Used:
        project = project or self.project
        script = project / "scripts" / "bootstrap.py"
        return self._used(sys.executable, script, *words, cwd=project, fails=fails)

    def _git(self, folder: Path, *words: str | Path, fails: bool = False) -> Used:
        return self._used("git", "-c", "gc.auto=0", *words, cwd=folder, fails=fails)

    def _sh(self, folder: Path, script: str, fails: bool = False) -> Used:
        return self._used("sh", "-c", script, cwd=folder, fails=fails)

    # -- what is measured ---------------------------------------------------------

    def run(self) -> list[Task]:
        self._tool("apply")
        self._git(self.ours, "format-patch", "--quiet", "-o", self.patches, "base..xpu-stack")
        self.mails = sorted(self.patches.glob("*.patch"))
        (self.patches / "series").write_text("".join(f"{one.name}\n" for one in self.mails))
        (self.patches / "mbox").write_bytes(b"".join(one.read_bytes() for one in self.mails))
        self._fork("drifted", self._many())
        self._fork("conflicting", self._in_conflict())
        tasks = self._tasks()
        with progress(None, "measuring") as bar:
            for task in tasks:
                bar.step(task.name)
                self._measure(task)
        return tasks

    def _measure(self, task: Task) -> None:
        rounds: dict[str, list[Used]] = {tool: [] for tool in task.runs}
        for number in range(1 if task.once else ROUNDS):
            for tool, run in task.runs.items():
                ours = tool in ("here", "git")
                if ours or (number == 0 and shutil.which(tool)):
                    rounds[tool].append(run())
        for tool, used in rounds.items():
            if used:
                task.used[tool] = Used(
                    statistics.median(one.seconds for one in used),
                    statistics.median(one.cpu for one in used),
                    max(one.peak for one in used),
                )

    def _tasks(self) -> list[Task]:
        status = lambda: self._git(self.git, "status", "--porcelain")  # noqa: E731
        return [
            Task(
                "apply the series, base to last",
                {
                    "here": self._apply_all,
                    "git": self._am,
                    "stg": self._stg_import,
                    "quilt": self._push_all,
                },
                2,
                "git",
            ),
            Task("apply, nothing to do", {"here": lambda: self._tool("apply"), "git": status}, 0.3),
            Task(
                "status",
                {
                    "here": lambda: self._tool("status"),
                    "git": status,
                    "stg": lambda: self._used("stg", "series", cwd=self.stg),
                    "quilt": lambda: self._used("quilt", "applied", cwd=self.quilt),
                },
                0.3,
            ),
            Task("check", {"here": lambda: self._tool("check")}, 0.7),
            Task(
                "export, nothing changed",
                {
                    "here": lambda: self._tool("export"),
                    "git": lambda: self._git(
                        self.git, "format-patch", "-q", "-o", self.folder / "out", "base.."
                    ),
                    "stg": lambda: self._used(
                        "stg", "export", "-d", self.folder / "stg-out", cwd=self.stg
                    ),
                },
                0.7,
            ),
            Task(
                "--help",
                {"here": lambda: self._tool("--help"), "git": lambda: self._git(self.git, "-h")},
                0.2,
            ),
            Task(
                f"rebase over {FILES} files",
                {
                    "here": lambda: self._rebase("drifted"),
                    "git": lambda: self._switch("drifted"),
                    "stg": lambda: self._stg_rebase("drifted"),
                    "quilt": lambda: self._quilt_onto("drifted"),
                },
                3,
                "git",
            ),
            Task(
                "conflict report",
                {
                    "here": lambda: self._rebase_in_conflict("conflicting"),
                    "git": lambda: self._am_3("conflicting"),
                    "stg": lambda: self._stg_rebase("conflicting", fails=True),
                    "quilt": lambda: self._quilt_onto("conflicting", fails=True),
                },
                2,
            ),
            Task(
                f"{LARGE} MB file in a change, memory",
                {"here": self._with_large, "git": self._add_large},
                100,
                "MB",
                once=True,
            ),
        ]

    def _apply_all(self) -> Used:
        self._tool("apply", "--stage", "base")
        self.memo.unlink(missing_ok=True)
        return self._tool("apply")

    def _am(self) -> Used:
        self._git(self.git, "checkout", "--quiet", "--force", "--detach", "base")
        return self._git(self.git, "am", "--quiet", *self.mails)

    def _stg_import(self) -> Used:
        self._sh(self.stg, f"git checkout -fqB work{time.monotonic_ns()} base && stg init")
        return self._sh(self.stg, f"stg import -M '{self.patches}/mbox'")

    def _push_all(self) -> Used:
        self._sh(self.quilt, "quilt applied >/dev/null 2>&1 && quilt pop -qaf; true")
        return self._used("quilt", "push", "-qa", cwd=self.quilt)

    # -- forks ----------------------------------------------------------------------

    def _fork(self, name: str, edits: Mapping[str, bytes]) -> None:
        """A branch of each clone with a commit that makes files so."""
        self._git(self.git, "switch", "--quiet", "-c", name, "base")
        for path, content in edits.items():
            (self.git / path).write_bytes(content)
        self._git(self.git, "commit", "--quiet", "--all", "-m", name)
        self._git(self.git, "switch", "--quiet", "--detach", "base")
        for other in (self.ours, self.stg, self.quilt):
            self._git(other, "fetch", "--quiet", self.git, f"{name}:{name}")

    def _many(self) -> dict[str, bytes]:
        """Files that the series leaves alone, each with a line more."""
        touched = {path for change in self.series.all_changes() for path in change.touched_paths()}
        listed = shell.run(["git", "ls-files", "-s", "-z"], cwd=self.git).text.split("\0")
        regular = [line.split("\t")[1] for line in listed if line.startswith("1006")]
        chosen = [path for path in regular if path not in touched][:FILES]
        return {path: (self.git / path).read_bytes() + b"\n" for path in chosen}

    def _in_conflict(self) -> dict[str, bytes]:
        """The lines that the first patch of the series edits, edited."""
        change = next(one for one in self.series.all_changes() if one.patch)
        edits = {}
        for path in change.patched_paths()[:3]:
            words = ["git", "diff", "-U0", "base", "xpu-stack", "--", path]
            told = shell.run(words, cwd=self.ours).text
            lines = (self.git / path).read_bytes().split(b"\n")
            for head in [line for line in told.splitlines() if line.startswith("@@ -")]:
                at = int(head.split(" ")[1].lstrip("-").split(",")[0])
                lines[max(at - 1, 0)] += b" # ours"
            edits[path] = b"\n".join(lines)
        return edits

    def _rebase(self, onto: str) -> Used:
        clone = self._fresh(self.ours, onto)
        self._tool("apply", "--pytorch-src", str(clone))
        (clone / ".git/xpu-stack/memo.json").unlink()
        return self._tool("rebase", "--onto", onto, "--pytorch-src", str(clone))

    def _switch(self, to: str) -> Used:
        clone = self._fresh(self.git, to)
        self._git(clone, "status")  # so that it need not read files as young as the index again
        return self._git(clone, "switch", "--quiet", "--detach", to)

    def _fresh(self, source: Path, branch: str) -> Path:
        """A clone for one round: ext4 is slow to create files just after many were deleted."""
        clone = self._clone(source, Path(tempfile.mkdtemp(dir=self.folder)) / "clone")
        self._git(clone, "fetch", "--quiet", str(source), f"{branch}:{branch}")
        return clone

    def _rebase_in_conflict(self, onto: str) -> Used:
        self._ours_to_base()
        self.memo.unlink(missing_ok=True)
        return self._tool("rebase", "--onto", onto, fails=True)

    def _ours_to_base(self) -> None:
        if (self.ours / ".git/xpu-stack/conflict.json").exists():
            self._tool("abort")
        self._tool("rebase", "--onto", "base")

    def _am_3(self, onto: str) -> Used:
        self._git_to(onto)
        return self._git(self.git, "am", "--quiet", "-3", *self.mails, fails=True)

    def _git_to(self, commit: str) -> None:
        self._sh(self.git, f"git am -q --abort 2>/dev/null; git checkout -qf --detach {commit}")

    def _stg_rebase(self, onto: str, fails: bool = False) -> Used:
        self._sh(self.stg, "git reset -q --hard")
        self._stg_import()
        return self._used("stg", "rebase", onto, cwd=self.stg, fails=fails)

    def _quilt_onto(self, onto: str, fails: bool = False) -> Used:
        self._sh(self.quilt, "rm -rf .pc && git checkout -qf base && git clean -qfd")
        self._used("quilt", "push", "-qa", cwd=self.quilt)
        script = f"quilt pop -qa && git checkout -q {onto} && quilt push -qa"
        return self._sh(self.quilt, script, fails=fails)

    # -- memory -----------------------------------------------------------------------

    def _with_large(self) -> Used:
        project = self.folder / "project"
        skipped = shutil.ignore_patterns(".git", ".xpu", "__pycache__", ".*_cache")
        shutil.copytree(self.project, project, ignore=skipped, symlinks=True)
        self._ours_to_base()
        last = [file for change in self.series.all_changes() for file in change.files][-1]
        _fill(project / last.kept_at)
        runs = [self._tool(verb, project=project) for verb in ("apply", "status", "export")]
        return max(runs, key=lambda used: used.peak)

    def _add_large(self) -> Used:
        self._git_to("base")
        _fill(self.git / "large")
        return self._git(self.git, "add", "large")


def _fill(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(LARGE):
            file.write(os.urandom(1 << 20))
