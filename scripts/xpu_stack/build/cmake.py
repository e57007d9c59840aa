"""Configures a checkout with PyTorch's own CMake, and reads what it made."""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import Bar, log, progress
from xpu_stack.core.system.errors import BuildError

_QUERY = Path(".cmake/api/v1/query/codemodel-v2")
_REPLIES = Path(".cmake/api/v1/reply")


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
    source: Path,
    build: Path,
    options: dict[str, str],
    env: dict[str, str],
    extra: str,
    command: list[str] | None = None,
) -> bool:
    """Configures, unless the input is the same as last time. Returns whether it did.

    extra: further input that the configuration depends on. command: what calls
    CMake, run in `source`, where it is not called from here.
    """
    words = [f"-D{key}={value}" for key, value in sorted(options.items())]
    stamp = build / "xpu-stack.configured"
    key = hashlib.sha256("\0".join([str(source), *words, extra, sys.version]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == key and (build / "build.ninja").exists():
        return False
    (build / _QUERY).parent.mkdir(parents=True, exist_ok=True)
    (build / _QUERY).touch()
    stamp.unlink(missing_ok=True)
    # An option that is no longer given would live on in the cache.
    (build / "CMakeCache.txt").unlink(missing_ok=True)
    errors = _Errors()
    with progress(None, "configuring") as bar:
        errors.bar = bar
        own = ["cmake", "-S", str(source), "-B", str(build), "-GNinja", *words]
        code = shell.follow(command or own, errors.line, cwd=source if command else None, env=env)
    if code:
        raise BuildError(
            "PyTorch's CMake could not configure the checkout.",
            why=errors.first,
            next=commands.make("doctor"),
            detail="\n".join(errors.lines),
        )
    stamp.write_text(key)
    return True


class _Errors:
    """Follows CMake's output: its first error in full."""

    bar: Bar

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._inside = False

    def line(self, text: str) -> None:
        if text.startswith("-- "):
            self.bar.step(text[3:60])
        if text.startswith("CMake Error"):
            self._inside = not self.lines
        elif self._inside and text and not text.startswith(" "):
            self._inside = False
        if self._inside:
            self.lines.append(text)

    @property
    def first(self) -> str:
        told = [line.strip() for line in self.lines[1:] if line.strip()]
        return told[0] if told else "it gave no reason; see the log"


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


def command_of(build: Path, source: Path) -> str:
    commands = json.loads((build / "compile_commands.json").read_text())
    return next(str(one["command"]) for one in commands if Path(one["file"]) == source)
