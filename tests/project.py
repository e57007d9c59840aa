"""A small project on the spot: a base to patch, a series, and the tool.

The tool runs as people run it, as a process of its own, on real git. The
project is a copy of scripts/ with a series of three changes in two stages; the
base is a few files. Identities and dates are fixed, so that ids are stable.
"""

import compileall
import functools
import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TEXT = """{title}

Motivation
----------
Because of {title}.

Design
------
As it is.

Additional Context
------------------
None.
"""

SERIES = """\
author: xpu-stack <xpu-stack@invalid>
stages:
  - name: device
    summary: devices
    changes:
      - name: runtime
        files: [c10_xpu/device]
      - name: aten
        files: [aten_xpu/device]
  - name: stream
    summary: streams
    changes:
      - name: stream
        files: [c10_xpu/stream]
"""

BASE = """\
name: v1.13.1
version: 1.13.1
source_package: {{name: pytorch, tarball: base.tar.xz, sha256: "{sha256}"}}
git: {{url: "{url}", tag: v1.13.1}}
apt: []
cmake: {{}}
full:
  apt: []
  cmake: {{}}
wheel: {{requires: []}}
prebuilt: {{apt: [], soversion: "1.13", targets: []}}
"""

CMAKE = "".join(f"# line {number}\n" for number in range(1, 41))
CONTEXT = "int context;\n" + "".join(f"int member_{number};\n" for number in range(1, 21))


def git(folder: Path, *words: str, check: bool = True) -> str:
    """The real git, with a fixed identity and date and no configuration of the machine.

    A collection of garbage in the background would outlive the test that removes its folder.
    """
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A Person",
        "GIT_AUTHOR_EMAIL": "person@invalid",
        "GIT_COMMITTER_NAME": "A Person",
        "GIT_COMMITTER_EMAIL": "person@invalid",
        "GIT_AUTHOR_DATE": "@1600000000 +0000",
        "GIT_COMMITTER_DATE": "@1600000000 +0000",
    }
    done = subprocess.run(
        ["git", "-c", "commit.gpgSign=false", "-c", "gc.auto=0", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(f"git {words}: {done.stderr}")
    return done.stdout


def cpu_seconds(call: Callable[[], object]) -> float:
    """What the programs that `call` runs take of the processors; waiting is not in it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def drift(project: "Project", name: str, content: str | bytes) -> None:
    """A commit of the fork's own in the checkout."""
    path = project.checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(project.checkout, "add", "-A")
    git(project.checkout, "commit", "-qm", f"Drift of {name}")


def release(project: "Project") -> None:
    """The checkout's files as the release, found as if it had been downloaded."""
    git(project.checkout, "add", ".")
    git(project.checkout, "commit", "-qm", "more", check=False)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name in git(project.checkout, "ls-files").split():
            archive.add(project.checkout / name, f"pytorch/{name}")
    downloads = project.folder / ".xpu/downloads"
    downloads.mkdir(parents=True)
    (downloads / "base.tar.xz").write_bytes(buffer.getvalue())
    text = BASE.format(sha256=sha256(buffer.getvalue()).hexdigest(), url="nowhere")
    write(project.folder, {"patches/v1.13.1/base.yaml": text})


@functools.cache
def _compile() -> None:
    """Compiles the tool's modules for all copies of it: each run would do it anew."""
    compileall.compile_dir(ROOT / "scripts", quiet=2)


@dataclass
class Ended:
    """How a run of the tool ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> str:
        """The three lines of an error, without the log's place."""
        kept = [line for line in self.err.splitlines() if not line.startswith("  log:")]
        return "\n".join(line.rstrip() for line in kept)


@dataclass
class Project:
    """The project and the checkout that it works on."""

    folder: Path
    checkout: Path

    @classmethod
    def make(cls, folder: Path) -> "Project":
        project = cls(folder / "project", folder / "pytorch")
        _compile()
        shutil.copytree(ROOT / "scripts", project.folder / "scripts")
        write(
            project.folder,
            {
                "patches/stack.yaml": (ROOT / "patches/stack.yaml").read_text(),
                "patches/series.yaml": SERIES,
                "patches/v1.13.1/base.yaml": BASE.format(sha256="0" * 64, url=folder / "nowhere"),
                "patches/texts/device/runtime.md": TEXT.format(title="Add devices"),
                "patches/texts/device/aten.md": TEXT.format(title="Add hooks"),
                "patches/texts/stream/stream.md": TEXT.format(title="Add streams"),
                "c10_xpu/device/c10/xpu/Device.cpp": "int device;\n",
                "c10_xpu/device/c10/xpu/CMakeLists.txt": "# xpu\n",
                "aten_xpu/device/aten/Hooks.cpp": "int hooks;\n",
                "c10_xpu/stream/c10/xpu/Stream.cpp": "int stream;\n",
            },
        )
        project.checkout.mkdir()
        write(
            project.checkout,
            {"c10/CMakeLists.txt": CMAKE, "aten/Context.h": CONTEXT, "other.txt": "other\n"},
        )
        git(project.checkout, "init", "-q", "-b", "main")
        git(project.checkout, "add", ".")
        git(project.checkout, "commit", "-qm", "base")
        project.patch(
            "device/runtime", {"c10/CMakeLists.txt": ("# line 20\n", "# line 20\n# xpu\n")}
        )
        project.patch(
            "device/aten", {"aten/Context.h": ("int member_5;", "int member_5; int xpu;")}
        )
        # of a file that an earlier change of the series has brought
        project.write_patch(
            "stream/stream",
            "diff --git a/c10/xpu/Device.cpp b/c10/xpu/Device.cpp\n"
            "--- a/c10/xpu/Device.cpp\n+++ b/c10/xpu/Device.cpp\n"
            "@@ -1 +1,2 @@\n int device;\n+int streams;\n",
        )
        return project

    def patch(self, change: str, edits: dict[str, tuple[str, str]]) -> None:
        """Writes a change's patch from edits of the base's files."""
        for name, (old, new) in edits.items():
            path = self.checkout / name
            assert old in path.read_text()
            path.write_text(path.read_text().replace(old, new, 1))
        self.write_patch(change, git(self.checkout, "diff", "--full-index"))
        git(self.checkout, "checkout", "-q", ".")

    def write_patch(self, change: str, text: str) -> None:
        write(self.folder, {f"patches/v1.13.1/{change}.patch": text})

    # -- the tool ---------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("XPU_STACK")}
        return {
            **kept,
            "PYTHONPATH": str(self.folder / "scripts"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }

    def make_environment(self) -> dict[str, str]:
        """For `make` and git as a person runs them, without what a make around the tests sets."""
        kept = self.environment()
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "STAGE", "BASE", "MODE", "PYTORCH_SRC"):
            kept.pop(name, None)
        for role in ("AUTHOR", "COMMITTER"):
            kept |= {f"GIT_{role}_NAME": "A Person", f"GIT_{role}_EMAIL": "person@invalid"}
        return kept

    def command(self, *words: str, source: bool = True) -> list[str]:
        given = ["--pytorch-src", str(self.checkout)] if source else []
        return [sys.executable, "-m", "xpu_stack", words[0], *given, *words[1:]]

    def run(self, *words: str, source: bool = True, env: dict[str, str] | None = None) -> Ended:
        done = subprocess.run(
            self.command(*words, source=source),
            cwd=self.folder,
            env={**self.environment(), **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        text = (done.stdout, done.stderr)
        out, err = (self._without_paths(one) for one in text)
        return Ended(done.returncode, out, err)

    def ok(self, *words: str, source: bool = True, env: dict[str, str] | None = None) -> str:
        ended = self.run(*words, source=source, env=env)
        assert ended.code == 0, ended.err + ended.out
        return ended.out

    def _without_paths(self, text: str) -> str:
        for path, name in ((self.checkout, "CHECKOUT"), (self.folder, "PROJECT")):
            text = text.replace(str(path), name)
        return text

    # -- the checkout -------------------------------------------------------------

    def log(self) -> list[str]:
        return git(self.checkout, "log", "--format=%s").splitlines()

    def snapshot(self) -> dict[str, object]:
        """All that a run must keep: HEAD, every ref but the tool's own, the files."""
        files = {
            path.relative_to(self.checkout).as_posix(): path.read_bytes()
            for path in sorted(self.checkout.rglob("*"))
            if path.is_file() and ".git" not in path.relative_to(self.checkout).parts
        }
        return {
            "head": git(self.checkout, "symbolic-ref", "HEAD", check=False),
            "commit": git(self.checkout, "rev-parse", "HEAD"),
            "refs": git(self.checkout, "for-each-ref", "refs/heads"),
            "status": git(self.checkout, "status", "--porcelain"),
            "files": files,
        }
