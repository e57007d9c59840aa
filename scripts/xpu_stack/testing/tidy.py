"""clang-format and clang-tidy on the C++ that the series brings.

Both with the checkout's own configuration, on the new files only: what PyTorch
had before is PyTorch's to tidy.
"""

import functools
import hashlib
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from xpu_stack.build import cmake, packages
from xpu_stack.build.build import SOURCES
from xpu_stack.build.configuration import Build
from xpu_stack.core.series.change import Change
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import TestError

_TOOLS = Path(sys.executable).parent
_HEADERS = (".h", ".hpp")
_WIDTH = 300  # of a finding that is shown; the log has the rest
_PRECOMPILED = re.compile(r" -Winvalid-pch -include \S+")  # GCC's, which clang cannot read
_FINDING = re.compile(r":\d+:\d+: (error|warning): ")
# An empty map is an error to any clang-tidy that PyPI has; the parent
# configuration is the same file again; one option is no more.
_UNREADABLE = re.compile(
    r"^CheckOptions:\s*\n(?=\.\.\.|\Z)|^(InheritParentConfig|AnalyzeTemporaryDtors):.*\n",
    re.MULTILINE,
)
# Of headers that are the system's clang-tidy skips the code, which takes about half of its time.
_PYTORCHS = ("c10/", "ATen/", "torch/", "caffe2/")
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
    with progress(None, "formatting"):
        words = (_TOOLS / "clang-format", "--dry-run", "--Werror")
        formatted = shell.run([*words, *sources, *headers], check=False)
    _judge("clang-format", [formatted.complaint] if formatted.code else [])
    _judge("clang-tidy", _tidy(this, sources, headers))
    return len(sources) + len(headers)


def _tidy(this: Build, sources: list[Path], headers: list[Path]) -> list[str]:
    """What clang-tidy says of those that are new to it; headers are seen with sources."""
    configuration = this.folder / "clang-tidy.yaml"
    checks = (this.work.repository.folder / ".clang-tidy").read_text()
    configuration.write_text(_UNREADABLE.sub("", checks))
    known = cmake.compile_commands(this.folder)
    database = this.folder / "tidy" / "compile_commands.json"
    compiled_so = (this.folder / database.name).read_text()
    files.write(database, _PRECOMPILED.sub("", compiled_so))
    command = [str(_TOOLS / "clang-tidy"), "--quiet", "-p", str(database.parent)]
    compiler = [*_COMPILER, *(f"--system-header-prefix={one}" for one in _PYTORCHS)]
    command += [f"--config-file={configuration}", *(f"--extra-arg={one}" for one in compiler)]
    listed = Path(__file__).with_name("clang-tidy.txt").read_text().splitlines()
    command.append(f"--checks={','.join(one for one in listed if not one.startswith('#'))}")
    release = metadata.version("clang-tidy")
    settings = f"{release}\n{command}\n{configuration.read_text()}"
    counted = "|".join(re.escape(str(path)) for path in [*headers, *sources])
    command.append(f"--header-filter=^({counted})$")
    own = (path.relative_to(this.work.repository.folder).as_posix() for path in headers)
    own = (name.removeprefix("aten/src/") for name in own)  # as it is included
    command += [f"--extra-arg=--no-system-header-prefix={name}" for name in own]
    compiled = [path for path in sources if path in known]
    for path in sorted(set(sources) - set(compiled)):
        say(f"not compiled here, not tidied: {path.name}")
    marks = marks_of(this.folder, compiled, settings, headers)
    new = {path for path in compiled if path not in marks or not marks[path].exists()}
    if len(new) < len(compiled):
        say(f"{len(compiled) - len(new)} sources were tidy before and have not changed")
    # A unit as a whole: most of the time is for the headers, which its sources share.
    work: list[tuple[Path, list[Path]]] = []
    for file, _, within in cmake.units(this.folder):
        if not new.isdisjoint(within):
            work.append((file, within))
            new.difference_update(within)

    def complaint(one: tuple[Path, list[Path]]) -> str:
        file, within = one
        result = shell.run([*command, file], check=False)
        bar.step(f"tidying {file.name}")
        if result.code:
            return result.text.strip() or result.complaint
        for path in marks.keys() & set(within):
            files.write(marks[path], "")
        return ""

    with progress(len(work), "tidying") as bar, ThreadPoolExecutor(cmake.jobs()) as pool:
        return list(filter(None, pool.map(complaint, work)))


def marks_of(
    build: Path, sources: list[Path], settings: str, headers: list[Path]
) -> dict[Path, Path]:
    """For each source that was compiled an empty file, which is there if it is known to be tidy.

    clang-tidy takes seconds for a file, with SYCL's and PyTorch's headers. So a tidy file
    is known by the content of all that decides on it: itself and what the build's compiler
    says that it includes, how it is compiled, and `settings`: the release of clang-tidy,
    whose own headers come with it, its configuration and options.
    headers: those in which findings count.
    """
    digest = functools.cache(lambda path: hashlib.sha256(path.read_bytes()).hexdigest())
    counted = set(headers)
    compiled = cmake.compile_commands(build)
    included = cmake.included(build, [_object(one) for name in sources for one in compiled[name]])
    marks = {}
    for source in sources:
        words = [settings]
        for command in compiled[source]:
            read = sorted(build / name for name in included.get(_object(command), ()))
            words += [command, *(f"{path} {path in counted} {digest(path)}" for path in read)]
        if all(_object(command) in included for command in compiled[source]):
            key = hashlib.sha256("\n".join(words).encode()).hexdigest()
            marks[source] = build / "tidy" / key
    return marks


def _object(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("-o") + 1]


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
