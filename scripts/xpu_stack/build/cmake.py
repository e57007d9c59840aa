"""CMake and ninja: they are run, their progress is shown, and their first error in full.

The compilers are called through ccache. CCACHE_REMOTE names a compiler cache that machines
share, e.g. redis://host, DISTCC machines that compile for this one, as a list of hosts.
"""

import hashlib
import json
import os
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import log, progress, warn
from xpu_stack.core.system.errors import BuildError, UsageError

COMMON_OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
    "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
}
_Given = dict[str, str]
_QUERY = Path(".cmake/api/v1/query/codemodel-v2")
_REPLIES = Path(".cmake/api/v1/reply")
# The first one in full: what follows it is indented.
_CMAKE_ERROR = re.compile(r"^(CMake Error.*)((?:\n(?: .*)?$)*)", re.MULTILINE)


@dataclass(frozen=True)
class Target:
    """A CMake target, as CMake's file API describes it."""

    name: str
    kind: str  # EXECUTABLE, SHARED_LIBRARY, ...
    sources: frozenset[str]  # relative to the checkout where they are in it
    artifact: Path | None
    destination: Path | None  # the folder that `cmake --install` puts it into
    links: tuple[str, ...] = ()  # what the linker is given, libraries and flags


def configure(
    source: Path, build: Path, options: _Given, env: _Given, extra: str, command: Sequence[str] = ()
) -> None:
    """Configures, unless the input is the same as last time.

    extra: further input that the configuration depends on. command: what calls
    CMake, where it is not called from here.
    """
    words = [f"-D{key}={value}" for key, value in sorted(options.items())]
    stamp = build / "xpu-stack.configured"
    key = hashlib.sha256("\0".join([str(source), *words, extra, sys.version]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == key and (build / "build.ninja").exists():
        return
    (build / _QUERY).parent.mkdir(parents=True, exist_ok=True)
    (build / _QUERY).touch()
    stamp.unlink(missing_ok=True)
    # An option that is no longer given would live on in the cache.
    (build / "CMakeCache.txt").unlink(missing_ok=True)
    with progress(None, "configuring") as bar:

        def line(text: str) -> None:
            if text.startswith("-- "):
                bar.step(text[3:60])

        own = ["cmake", "-S", str(source), "-B", str(build), "-GNinja", *words]
        code, said = shell.follow(command or own, line, cwd=source, env=env)
    if code:
        error = _CMAKE_ERROR.search("\n".join(said))
        told = error[2].split("\n") if error else []
        raise BuildError(
            "PyTorch's CMake could not configure the checkout.",
            why=next(filter(None, map(str.strip, told)), "it gave no reason; see the log"),
            next=commands.make("doctor"),
            detail=error[0] if error else "",
        )
    stamp.write_text(key)


def targets(build: Path) -> list[Target]:
    replies = build / _REPLIES
    index = max(replies.glob("index-*.json"), key=lambda path: path.name)
    objects = json.loads(index.read_text())["objects"]
    (model,) = [one for one in objects if one["kind"] == "codemodel"]
    codemodel = json.loads((replies / model["jsonFile"]).read_text())
    found = []
    for reference in codemodel["configurations"][0]["targets"]:
        data = json.loads((replies / reference["jsonFile"]).read_text())
        artifacts = data.get("artifacts", [])
        fragments = data.get("link", {}).get("commandFragments", [])
        found.append(
            Target(
                data["name"],
                data["type"],
                frozenset(source["path"] for source in data.get("sources", [])),
                build / artifacts[0]["path"] if artifacts else None,
                Path(install["prefix"]["path"], install["destinations"][0]["path"])
                if (install := data.get("install"))
                else None,
                tuple(one["fragment"] for one in fragments if one["role"] == "libraries"),
            )
        )
    log.debug("%d targets in %s", len(found), build)
    return found


def units(build: Path) -> Iterator[tuple[Path, str, list[Path]]]:
    """Each file that is compiled, how, and the sources in it: itself, or those of a unit."""
    for one in json.loads((build / "compile_commands.json").read_text()):
        path = Path(one["file"])
        in_unit = _INCLUDED.findall(path.read_text()) if path.parent.name == "Unity" else [path]
        yield path, one["command"], list(map(Path, in_unit))


def compile_commands(build: Path) -> dict[Path, list[str]]:
    """How each source is compiled; one of a unit, as the unit is."""
    found: dict[Path, list[str]] = {}
    for path, command, sources in units(build):
        for source in sources:
            found.setdefault(source, []).append(command.replace(str(path), str(source)))
    return found


# -- ninja ---------------------------------------------------------------------------


_WINDOW = 30 * 60.0  # seconds: what is looked back on
_SAID_EVERY = 5 * 60.0  # seconds


class Pace:
    """Estimates from the steps of the last half hour.

    Earlier steps say little: a build that continues takes its first steps from the
    cache, and PyTorch's largest files come one after the other.
    """

    def __init__(self, now: float) -> None:
        self._seen: deque[tuple[float, int]] = deque([(now, 0)])
        self._said, self.done = now, 0

    def at(self, now: float, done: int) -> None:
        self.done = done
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()

    def left(self, total: int) -> float | None:
        """Seconds until `total` steps are done; None: nothing to go by."""
        (then, before), (now, done) = self._seen[0], self._seen[-1]
        return (now - then) / (done - before) * (total - done) if done > before else None

    def to_say(self, total: int) -> str | None:
        """A line for a log, where there is no bar to look at; None: not yet again."""
        (now, done), left = self._seen[-1], self.left(total)
        if left is None or now - self._said < _SAID_EVERY:
            return None
        self._said = now
        return f"{done} of {total} steps, about {minutes(left)} left"


def minutes(seconds: float) -> str:
    """A time as a person says it."""
    whole = round(seconds / 60)
    if whole < 1:
        return "less than a minute"
    return f"{whole} min" if whole < 60 else f"{whole // 60} h {whole % 60:02} min"


_LOOK = "Re-checking globbed directories..."  # each time, and no work
_AGAIN = "fix it and run the same command again: it continues where it stopped"
_UNIT = (
    "fix it, or name the source under 'alone' in the base's base.yaml where only others "
    "of its unit are in its way; then the same command again"
)
_INCLUDED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")


def build(
    folder: Path, targets: list[str], env: dict[str, str], *, keep_going: bool = False
) -> int:
    """Builds `targets`; how many steps it took. A failure is a ToolError.

    keep_going: after a failure, still build everything that does not depend on it.
    """
    command = ["ninja", "-C", str(folder), f"-j{jobs()}", f"-k{0 if keep_going else 1}"]
    with progress(None, "building", may_be_nothing=True) as bar:
        pace = Pace(time.monotonic())

        def line(text: str) -> None:
            status = _STATUS.match(text)
            if status is None or text.endswith(_LOOK):
                return
            pace.at(time.monotonic(), int(status[1]))
            total, left = int(status[2]), pace.left(int(status[2]))
            words = status[3].split(" ")
            step = f"{words[0]} {words[-1].rpartition('/')[2]}"[:60]
            what = f"{step}, {minutes(left)} left" if left else step
            bar.at(what, completed=pace.done, total=total)
            if (told := pace.to_say(total)) and not sys.stderr.isatty():  # where there is no bar
                warn(told)

        statistics = folder / _STATISTICS
        statistics.unlink(missing_ok=True)
        env = {**env, "NINJA_STATUS": "[%f/%t] ", "CCACHE_STATSLOG": str(statistics)}
        code, said = shell.follow([*command, *targets], line, env=env)
    if code:
        # ninja's first two lines are the step's outputs and its command
        failed = [*dropwhile(lambda line: not line.startswith("FAILED: "), said)]
        failed = [*takewhile(lambda line: not _STATUS.match(line), failed)]
        error = [line for line in failed if not line.startswith("FAILED: ")][1:]
        first = next((line for line in error if "error" in line.lower()), "see the log")
        raise BuildError(
            "The build failed.",
            why=first.strip()[:300],
            # several sources that CMake compiles as one
            next=_UNIT if "/Unity/" in "".join(failed[:1]) else _AGAIN,
            detail="\n".join(error),
        )
    return pace.done


def clean(folder: Path, targets: list[str]) -> None:
    shell.run(["ninja", "-C", folder, "-t", "clean", *targets])


def included(folder: Path, outputs: list[str]) -> dict[str, list[str]]:
    """What the compiler read for each of these objects, its source among it.

    An object that is not there, or older than what it was made from, is left out.
    """
    found: dict[str, list[str]] = {}
    names: list[str] = []
    listed = shell.run(["ninja", "-C", folder, "-t", "deps", *outputs], check=False).text
    for line in listed.splitlines():
        if line.startswith("    "):
            names.append(line.strip())
        elif line.endswith("(VALID)"):
            names = found.setdefault(line.partition(": #deps ")[0], [])
        else:
            names = []  # of no use
    return found


# -- the compilers -------------------------------------------------------------------

# Of the group that a container is in, in the kernel's two forms; "max": no limit.
_MEMORY_LIMITS = tuple(
    Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes")
)
_MEMORY = Path("/proc/meminfo")
_STATISTICS = "ccache.log"  # in a build: what ccache did
_CACHE_SIZE = "20G"  # enough for a full build with debug information, or two without


def environment(ccache: Path, below: Path) -> dict[str, str]:
    """The environment of configuring and building what is in a checkout below a folder."""
    storage = os.environ.get("CCACHE_REMOTE")
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "CCACHE_DIR": os.environ.get("CCACHE_DIR") or str(ccache),
        "CCACHE_MAXSIZE": os.environ.get("CCACHE_MAXSIZE") or _CACHE_SIZE,
        # One cache serves every checkout: paths below the folder are made relative.
        "CCACHE_BASEDIR": str(below),
        "CCACHE_NOHASHDIR": "true",
        # What it wants of those who compile headers first, see headers.cmake.
        "CCACHE_SLOPPINESS": "pch_defines,time_macros",
        # PyTorch's code generators write sets in the order of their hashes.
        "PYTHONHASHSEED": "0",
        **({"CCACHE_REMOTE_STORAGE": storage} if storage else {}),
        **_remote_compilers(),
    }


def _remote_compilers() -> dict[str, str]:
    hosts = os.environ.get("DISTCC")
    if not hosts:
        return {}
    packages.need_apt(["distcc"])
    return {"CCACHE_PREFIX": "distcc", "DISTCC_HOSTS": hosts}


def jobs() -> int:
    """How many compilers at once: JOBS, what DISTCC allows, or cores and memory."""
    if os.environ.get("JOBS") or not os.environ.get("DISTCC"):
        return local_jobs()
    asked = shell.run(["distcc", "-j"], env=_remote_compilers(), check=False)
    if asked.code:
        raise UsageError(
            f"DISTCC={os.environ['DISTCC']} is not a list of hosts.",
            why=(asked.complaint.splitlines() or ["distcc gave no reason"])[-1],
            next=commands.make("build", DISTCC="localhost/2 other/8"),
        )
    return int(asked.text)


def local_jobs() -> int:
    """How many programs at once on this machine: JOBS, or what cores and memory allow."""
    each = 2 << 30  # bytes: the largest of PyTorch's files take about that
    allowed = max(1, min(len(os.sched_getaffinity(0)), available_memory() // each))
    return number("JOBS", commands.make("build", JOBS="2")) or allowed


def number(variable: str, example: str) -> int | None:
    """The value of an environment variable that must be a number of 1 or more."""
    given = os.environ.get(variable)
    if not given:
        return None
    if not given.isdigit() or int(given) < 1:
        raise UsageError(
            f"{variable}={given} is not a number.",
            why="it must be a whole number of 1 or more",
            next=example,
        )
    return int(given)


def available_memory() -> int:
    """In bytes, including caches that the kernel can drop, within a container's limit."""
    lines = _MEMORY.read_text().splitlines()
    (free,) = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    limits = [path.read_text().strip() for path in _MEMORY_LIMITS if path.exists()]
    return min([int(free) << 10, *map(int, filter(str.isdigit, limits))])


def tally(build: Path) -> str:
    """How many objects were compiled last, and how many were known; empty: none at all."""
    counted = build / _STATISTICS
    # ccache writes a counter's name for each time
    words = Counter(counted.read_text().splitlines() if counted.exists() else [])
    hits = words["direct_cache_hit"] + words["preprocessed_cache_hit"]
    if not hits and not words["cache_miss"]:
        return ""
    far = words["remote_storage_hit"]
    shared = f", {far} of them from CCACHE_REMOTE" if far else ""
    return f"{words['cache_miss']} object(s) compiled, {hits} from ccache{shared}"
