"""clang-format and clang-tidy on the C++ that the series brings.

Both with the checkout's own configuration, on the new files only: what PyTorch
had before is PyTorch's to tidy.
"""

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xpu_stack import compiling, packages, shell
from xpu_stack.build import SOURCES, Build
from xpu_stack.console import progress, say
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.series import Change

_HEADERS = (".h", ".hpp")
_WIDTH = 300  # of a finding that is shown; the log has the rest
_FINDING = re.compile(r":\d+:\d+: (error|warning): ")
# An empty map is an error to any clang-tidy that PyPI has; the parent
# configuration is the same file again.
_UNREADABLE = re.compile(
    r"^CheckOptions:\s*\n(?=\.\.\.|\Z)|^InheritParentConfig:.*\n", re.MULTILINE
)


def check(this: Build, changes: list[Change]) -> int:
    """How many files were checked. Complaints are a ToolError with ExitCode.TESTS."""
    packages.need_python("clang")
    checkout = this.work.repository.folder
    names = [file.target for change in changes for file in change.files]
    sources = [checkout / name for name in names if name.endswith(SOURCES)]
    headers = [checkout / name for name in names if name.endswith(_HEADERS)]
    _judge("clang-format", _in_parallel("formatting", _format, sources + headers))
    configuration = _configuration(this)

    def tidy(path: Path) -> str:
        return _tidy(this, configuration, path)

    _judge("clang-tidy", _in_parallel("tidying", tidy, _compiled(this, sources)))
    return len(sources) + len(headers)


def _tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _format(path: Path) -> str:
    result = shell.run([_tool("clang-format"), "--dry-run", "--Werror", path], check=False)
    return result.complaint if result.code else ""


def _configuration(this: Build) -> Path:
    """The checkout's .clang-tidy, as clang-tidy can read it."""
    text = (this.work.repository.folder / ".clang-tidy").read_text()
    path = this.folder / "clang-tidy.yaml"
    path.write_text(_UNREADABLE.sub("", text))
    return path


def _tidy(this: Build, configuration: Path, path: Path) -> str:
    ours = r"(c10|ATen|csrc)/xpu/|/torch_xpu/"
    command = [_tool("clang-tidy"), "--quiet", "-p", str(this.folder)]
    command += [f"--config-file={configuration}", f"--header-filter={ours}"]
    # The compile commands are g++'s; PyTorch's headers have what was not yet
    # deprecated, and templates of theirs are our warnings.
    silent = ("-Wno-unknown-warning-option", "-Wno-deprecated-builtins")
    command += [*(f"--extra-arg={flag}" for flag in silent), str(path)]
    result = shell.run(command, check=False)
    return result.text.strip() if result.code else ""


def _compiled(this: Build, sources: list[Path]) -> list[Path]:
    """Those that this build compiles; that the others are not is said."""
    database = (this.folder / "compile_commands.json").read_text()
    compiled = [path for path in sources if f'"{path}"' in database]
    for path in sorted(set(sources) - set(compiled)):
        say(f"not compiled here, not tidied: {path.name}")
    return compiled


def _in_parallel(what: str, check: Callable[[Path], str], paths: list[Path]) -> list[str]:
    """What `check` said of each path, where it said something."""
    with progress(len(paths), what) as bar, ThreadPoolExecutor(compiling.jobs()) as pool:
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
    raise ToolError(
        f"{tool} has {len(findings)} finding(s).",
        why=(findings or lines)[0].strip()[:_WIDTH],
        next="mend it in the checkout, then: make export",
        code=ExitCode.TESTS,
        detail="\n".join(line[:_WIDTH] for line in findings or lines),
    )
