"""clang-format and clang-tidy on the C++ that the series brings.

Both with the checkout's own configuration, on the new files only: what PyTorch
had before is PyTorch's to tidy.
"""

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from xpu_stack.build import compilers, packages
from xpu_stack.build.build import SOURCES
from xpu_stack.build.configuration import Build
from xpu_stack.core.series.change import Change
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import TestError
from xpu_stack.testing.tidy_cache import Tidied

_HEADERS = (".h", ".hpp")
_WIDTH = 300  # of a finding that is shown; the log has the rest
_FINDING = re.compile(r":\d+:\d+: (error|warning): ")
# An empty map is an error to any clang-tidy that PyPI has; the parent
# configuration is the same file again; one option is no more.
_UNREADABLE = re.compile(
    r"^CheckOptions:\s*\n(?=\.\.\.|\Z)|^(InheritParentConfig|AnalyzeTemporaryDtors):.*\n",
    re.MULTILINE,
)
# Checks that are younger than the configuration, whose wildcards turn them on,
# and that go against what it leaves out or how PyTorch is written.
_NOT_MEANT = (
    "bugprone-derived-method-shadowing-base-method",
    "bugprone-easily-swappable-parameters",
    "bugprone-invalid-enum-default-initialization",
    "bugprone-random-generator-seed",
    "bugprone-signed-bitwise",
    "bugprone-throwing-static-initialization",
    "bugprone-unchecked-string-to-number-conversion",
    "cppcoreguidelines-avoid-const-or-ref-data-members",
    "cppcoreguidelines-avoid-do-while",
    "cppcoreguidelines-explicit-constructor",
    "cppcoreguidelines-macro-to-enum",
    "cppcoreguidelines-missing-std-forward",
    "cppcoreguidelines-pro-bounds-avoid-unchecked-container-access",
    "cppcoreguidelines-use-enum-class",
    "modernize-avoid-c-style-cast",
    "modernize-use-scoped-lock",
    "performance-enum-size",
    "performance-no-int-to-ptr",
)
_COMPILER = (
    # The compile commands are g++'s, and theirs is -Werror: after 20 of clang's
    # own warnings about PyTorch's headers the rest of the file would not be read.
    "-Wno-error",
    "-Wno-unknown-warning-option",
    "-Wno-unused-command-line-argument",  # what only GCC has
    "-Wno-deprecated-builtins",  # in c10/util/Optional.h
)


def check(this: Build, changes: list[Change]) -> int:
    """How many files were checked. Complaints are a ToolError with ExitCode.TESTS."""
    packages.need_python("clang")
    checkout = this.work.repository.folder
    names = [file.target for change in changes for file in change.files]
    sources = [checkout / name for name in names if name.endswith(SOURCES)]
    headers = [checkout / name for name in names if name.endswith(_HEADERS)]
    _judge("clang-format", _in_parallel("formatting", _format, sources + headers))
    _judge("clang-tidy", _tidy(this, sources, headers))
    return len(sources) + len(headers)


def _tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _format(path: Path) -> str:
    result = shell.run([_tool("clang-format"), "--dry-run", "--Werror", path], check=False)
    return result.complaint if result.code else ""


def _tidy(this: Build, sources: list[Path], headers: list[Path]) -> list[str]:
    """What clang-tidy says of those that are new to it; headers are seen with sources."""
    configuration = this.folder / "clang-tidy.yaml"
    checks = (this.work.repository.folder / ".clang-tidy").read_text()
    configuration.write_text(_UNREADABLE.sub("", checks))
    command = [_tool("clang-tidy"), "--quiet", "-p", str(this.folder)]
    command += [f"--config-file={configuration}", *(f"--extra-arg={one}" for one in _COMPILER)]
    command.append(f"--checks={','.join(f'-{check}' for check in _NOT_MEANT)}")
    release = metadata.version("clang-tidy")
    settings = f"{release}\n{command}\n{configuration.read_text()}"
    tidied = Tidied(this.folder, settings, headers)
    command.append(f"--header-filter=^({'|'.join(re.escape(str(path)) for path in headers)})$")
    compiled = [path for path in sources if tidied.compiles(path)]
    for path in sorted(set(sources) - set(compiled)):
        say(f"not compiled here, not tidied: {path.name}")
    keys = tidied.keys(compiled)
    new = [path for path in compiled if not tidied.knows(keys.get(path))]
    if len(new) < len(compiled):
        say(f"{len(compiled) - len(new)} sources were tidy before and have not changed")

    def check(path: Path) -> str:
        result = shell.run([*command, path], check=False)
        if result.code:
            return result.text.strip() or result.complaint
        tidied.remember(keys.get(path))
        return ""

    return _in_parallel("tidying", check, new)


def _in_parallel(what: str, check: Callable[[Path], str], paths: list[Path]) -> list[str]:
    """What `check` said of each path, where it said something."""
    with progress(len(paths), what) as bar, ThreadPoolExecutor(compilers.jobs()) as pool:
        said = []
        for path, text in zip(paths, pool.map(check, paths), strict=True):
            bar.step(f"{what} {path.name}")
            said.append(text)
    return [text for text in said if text]


def _judge(tool: str, complaints: list[str]) -> None:
    """Each finding once: a header's comes again with every file that includes it."""
    lines = "\n".join(complaints).splitlines()
    findings = list(dict.fromkeys(line for line in lines if _FINDING.search(line)))
    if not complaints:
        return
    raise TestError(
        f"{tool} has {len(findings)} finding(s).",
        why=(findings or lines)[0].strip()[:_WIDTH],
        next=f"fix it in the checkout, then: {commands.make('export')}",
        detail="\n".join(line[:_WIDTH] for line in findings or lines),
    )
