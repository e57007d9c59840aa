"""The compilers of a build: through ccache, alone or with other machines.

CCACHE_REMOTE names a compiler cache that machines share, e.g. redis://host.
DISTCC names machines that compile for this one, as a list of hosts for distcc.
"""

import os
import sys
from collections import Counter
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.errors import UsageError

# Of the group that a container is in, in the kernel's two forms; "max": no limit.
_MEMORY_LIMITS = tuple(
    Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes")
)
_CACHE_SIZE = "20G"  # enough for a full build with debug information, or two without


def environment(ccache: Path, below: Path) -> dict[str, str]:
    """The environment of configuring and building what is in a checkout below a folder."""
    storage = os.environ.get("CCACHE_REMOTE")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {
        "PATH": path,
        "CCACHE_DIR": os.environ.get("CCACHE_DIR") or str(ccache),
        "CCACHE_MAXSIZE": os.environ.get("CCACHE_MAXSIZE") or _CACHE_SIZE,
        # One cache serves every checkout: paths below the folder are made relative.
        "CCACHE_BASEDIR": str(below),
        "CCACHE_NOHASHDIR": "true",
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
    if os.environ.get("DISTCC") and not os.environ.get("JOBS"):
        return _remote_jobs()
    return local_jobs()


def local_jobs() -> int:
    """How many programs at once on this machine: JOBS, or what cores and memory allow."""
    given = number("JOBS", commands.make("build", JOBS="2"))
    if given is not None:
        return given
    each = 2 << 30  # bytes: the largest of PyTorch's files take about that
    return max(1, min(len(os.sched_getaffinity(0)), _available_memory() // each))


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


def _remote_jobs() -> int:
    asked = shell.run(["distcc", "-j"], env=_remote_compilers(), check=False)
    if asked.code:
        raise UsageError(
            f"DISTCC={os.environ['DISTCC']} is not a list of hosts.",
            why=(asked.complaint.splitlines() or ["distcc gave no reason"])[-1],
            next=commands.make("build", DISTCC="localhost/2 other/8"),
        )
    return int(asked.text)


def _available_memory() -> int:
    """In bytes, including caches that the kernel can drop, within a container's limit."""
    limits = [path.read_text().strip() for path in _MEMORY_LIMITS if path.exists()]
    return min([_free_memory(), *map(int, filter(str.isdigit, limits))])


def _free_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (free,) = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(free) << 10


# -- what ccache did ---------------------------------------------------------------


def tallied(log: Path) -> dict[str, str]:
    """The environment in which ccache writes into `log`, emptied, what it does."""
    log.unlink(missing_ok=True)
    return {"CCACHE_STATSLOG": str(log)}


def tally(log: Path) -> str:
    """How many objects were compiled, and how many were known; empty: none at all."""
    # ccache writes a counter's name for each time
    words = Counter(log.read_text().splitlines() if log.exists() else [])
    hits = words["direct_cache_hit"] + words["preprocessed_cache_hit"]
    if not hits and not words["cache_miss"]:
        return ""
    far = words["remote_storage_hit"]
    shared = f", {far} of them from CCACHE_REMOTE" if far else ""
    return f"{words['cache_miss']} object(s) compiled, {hits} from ccache{shared}"
