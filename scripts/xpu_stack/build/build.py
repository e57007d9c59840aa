"""Building a stage: PyTorch's own CMake and ninja on the patched checkout.

For an installed PyTorch it is the payload's own CMake, and the Python package has the payload
alone. Of a source tree it is links into the checkout and the build, so that an edit of a .py
file takes effect at once.
"""

import hashlib
import math
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from xpu_stack.build import abi_check, cmake, packages, stand_ins
from xpu_stack.build.base_settings import BaseSettings, Package
from xpu_stack.build.configuration import Build, Mode, Sanitizer, folder_of, python_environment
from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.change import Change
from xpu_stack.core.series.series import NO_STAGE, Series
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import MissingError, UsageError
from xpu_stack.core.system.git import Repository

CMAKE_MODULES = Path(__file__).parent / "cmake_modules"
_LIBRARIES = Path("/usr/lib")
SOURCES = (".c", ".cc", ".cpp")
# What of PyTorch's tree the Python package is made from: a change that touches
# none of it is built and tested without the package.
_PYTHON = ("torch/", "tools/autograd/", "tools/pyi/", "test/test_")
_OF_UNIT = 12  # sources, about
# What PyTorch generates: headers and sources of ATen, autograd and the bindings.
_GENERATED = ("ATEN_CPU_FILES_GEN_TARGET", "generate-torch-sources")
_BINDINGS = ("torch_python", "torch_xpu_python")
_ORDERED = "xpu-stack.generated"  # in a build: PYTHONHASHSEED was as now from its begin
_STAMP = "xpu-stack.python"  # in a build: what Python runs on
_LIBRARY_KINDS = ("SHARED_LIBRARY", "MODULE_LIBRARY")
# What of torch/ and torchgen/ is not of the package.
_NOT_PACKAGE = {"csrc", "lib", "bin", "include", "share", "__pycache__"}
_NOT_FILES = (".cmake", ".in", ".so", "CMakeLists.txt")
_PYTHON_TARGETS = (
    "torch_python",
    "torch_global_deps",
    "torch_shm_manager",
    "xpu_stack_C",
    "xpu_stack_C_flatbuffer",
)


def prepare(
    work: Workspace, stage: str, mode: Mode, sanitizer: Sanitizer = Sanitizer.NONE
) -> Build:
    """Installs what the build needs and configures the checkout for `stage`."""
    sycl = need(work, mode)
    checkout = work.repository.folder
    folder = folder_of(work, mode, sanitizer)
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / _ORDERED).touch()
    lock = folder.with_name("lock")  # by which `make clean` knows of a run
    if not lock.is_symlink():
        lock.symlink_to(work.repository.own_folder / lock.name)
    work.layout.ccache.mkdir(parents=True, exist_ok=True)
    state, torch = work.layout.state, None
    if work.base.package:
        torch = packages.need_torch(work.layout, work.base)
    else:
        stand_ins.place(work, mode, work.repository)
    # a checkout of the tool's own, the baseline too, has its build beside it
    below = state if checkout.is_relative_to(state) else checkout.parent
    env = cmake.environment(work.layout.ccache, below) | {
        # The source package's version.txt names the release before.
        "PYTORCH_BUILD_VERSION": work.base.version + ("" if stage == NO_STAGE else "+xpu"),
        "PYTORCH_BUILD_NUMBER": "1",
    }
    if torch:
        options = {
            **cmake.COMMON_OPTIONS,
            "BUILD_TESTS": "ON",
            "CMAKE_CXX_FLAGS_RELEASE": "-O2 -DNDEBUG",  # as PyTorch's own libraries
            "Python3_EXECUTABLE": str(torch.python),
            "SYCL_ROOT": str(sycl.root),
            "CMAKE_PROJECT_torch_xpu_runtime_INCLUDE": _injected("units.cmake"),
        }
    else:
        options = options_of(work, mode, sycl)
    if mode is Mode.FAST and not torch:
        options |= _fast_options(work, stage, folder)
    if sanitizer.flags:
        for variable in ("CXX", "EXE_LINKER", "SHARED_LINKER"):
            options[f"CMAKE_{variable}_FLAGS"] = sanitizer.flags
        # PyTorch's own -O2 comes after the flags above, and before these.
        options["CMAKE_CXX_FLAGS_RELEASE"] = f"{sanitizer.level} -DNDEBUG"
    extra = sycl.version
    if torch:  # its CMake looks at which files there are
        new = (file.target for change in work.series.changes(stage) for file in change.files)
        extra += "\n".join([torch.version, *sorted(new)])
    cmake.configure(checkout, folder, options, env, extra)
    return Build(work, mode, sanitizer, folder, sycl, env, torch)


def need(work: Workspace, mode: Mode) -> packages.Sycl:
    wanted = BaseSettings.of(work.base)
    packages.need_apt(wanted.apt)
    if work.base.package and mode is not Mode.FAST:
        raise UsageError(
            f"There is no MODE={mode.value} for the base {work.base.name}.",
            why="its torch is installed, and all that is new is compiled",
            next=commands.make("build", BASE=work.base.name),
        )
    if mode is Mode.FULL:
        packages.need_apt(wanted.full.apt)
    elif not work.base.package:
        packages.need_apt(wanted.prebuilt.apt, instead=commands.make("build", MODE="full"))
    return packages.need_sycl(work.layout)


def build(this: Build, changes: list[Change], *, python: bool | None = None) -> int:
    """Builds every target that a file of `changes` is compiled into; the steps taken.

    python: the Python package too; by default where `changes` touch it, without
    a sanitizer: that is for the C++ tests.
    """
    targets = _targets(this)
    if python is None:
        touched = chain.from_iterable(change.touched_paths() for change in changes)
        needed = any(path.startswith(_PYTHON) for path in touched)
        python = needed and this.sanitizer is Sanitizer.NONE
    wanted = targets_of(targets, changes)
    if this.sanitizer is not Sanitizer.NONE:
        wanted = [one for one in wanted if not one.name.startswith(_BINDINGS)]
    if python and this.torch:
        wanted += [one for one in targets if one.kind in _LIBRARY_KINDS]
    elif python:
        wanted += [one for one in targets if one.name in _PYTHON_TARGETS]
    if python and changes and this.mode is Mode.FAST and not this.torch:
        abi_check.prove(_generated(this), lambda: baseline_of(this))
    names = sorted({target.name for target in wanted})
    steps = cmake.build(this.folder, names, this.env)
    if told := cmake.tally(this.folder):
        say(told)
    if python and this.torch:
        install_package(this, this.site)
    elif python:
        link_package(this.work.repository.folder, this.folder)
    _say_origins(this, wanted)
    tree = this.work.repository.tree_of("HEAD")
    record = this.results.get(tree)
    if not record.built:
        record.built = True
        this.results.put(tree, record)
    return steps


def build_program(this: Build, name: str) -> bool:
    """Builds one test program, and what it links; False: there is none of that name."""
    if name not in [target.name for target in _targets(this)]:
        return False
    cmake.build(this.folder, [name], this.env)
    return True


def targets_of(targets: list[cmake.Target], changes: list[Change]) -> list[cmake.Target]:
    files = {file.target for change in changes for file in change.files}
    files = {file for file in files if file.endswith(SOURCES)}
    return [target for target in targets if target.sources & files]


def baseline_of(this: Build) -> Build:
    """The base without the series, as the distribution built it, in a checkout of its own."""
    work = this.work
    base = stack.read(work.repository).base
    folder = work.layout.state / "baseline" / base[:12]
    if not folder.exists():
        with progress(None, "checking out the base for comparison"), files.folder(folder) as draft:
            words = ("clone", "--quiet", "--shared", "--no-checkout", "--")
            shell.run(["git", *words, work.repository.folder, draft])
            Repository(draft).run("checkout", "--quiet", "--detach", base)
    there = replace(work, repository=Repository(folder), own=True)
    return _generated(prepare(there, NO_STAGE, this.mode))


def _generated(this: Build) -> Build:
    """The same, once all that PyTorch generates is there, each time byte for byte the same."""
    stamp = this.folder / _ORDERED
    if not stamp.exists():  # what is there may have been generated in another order
        cmake.clean(this.folder, [*_GENERATED, "gen_torch_version"])
    cmake.build(this.folder, list(_GENERATED), this.env)
    stamp.touch()
    return this


def _targets(this: Build) -> list[cmake.Target]:
    """Those of the build; ninja configures it again if CMake's own input has changed."""
    cmake.build(this.folder, ["build.ninja"], this.env)
    return cmake.targets(this.folder)


def options_of(work: Workspace, mode: Mode, sycl: packages.Sycl) -> dict[str, str]:
    """The options for PyTorch's CMake, without those of the fast mode."""
    base, python = BaseSettings.of(work.base), work.layout.python / "bin" / "python"
    included = ("python.cmake", "full.cmake") if mode is Mode.FULL else ("python.cmake",)
    return {
        **base.cmake,
        **cmake.COMMON_OPTIONS,
        "CMAKE_C_COMPILER_LAUNCHER": "ccache",
        "PYTHON_EXECUTABLE": str(python),
        "SYCL_ROOT": str(sycl.root),
        **(base.full.cmake if mode is Mode.FULL else {}),
        "CMAKE_PROJECT_Torch_INCLUDE": _injected(*included),
    }


def _fast_options(work: Workspace, stage: str, folder: Path) -> dict[str, str]:
    """Takes what the series does not change from the distribution."""
    prebuilt = BaseSettings.of(work.base).prebuilt
    changes = work.series.changes(stage)
    new = {file.target for change in changes for file in change.files}
    edited = {path for change in changes for path in change.patched_paths()} - new
    added = [name for name in new if name.endswith(SOURCES)]
    touched = {path for change in work.series.all_changes() for path in change.patched_paths()}
    here = ("diff", "--name-only", "-z", "--diff-filter=MD", stack.read(work.repository).base)
    touched.update(prebuilt.hidden, work.repository.run(*here).text.split("\0")[:-1])
    return {
        "CMAKE_PROJECT_Torch_INCLUDE": _injected("python.cmake", "fast.cmake"),
        "PYTHON_EXECUTABLE": str(_python_of(work, folder)),
        # Its install step would write into the checkout.
        "BUILD_FUNCTORCH": "OFF",
        "XPU_STACK_PREBUILT_DIR": str(_prebuilt_folder(work)),
        "XPU_STACK_PREBUILT_VERSION": prebuilt.soversion,
        "XPU_STACK_PREBUILT_TARGETS": ";".join(prebuilt.targets),
        "XPU_STACK_SOURCES": str(_listed(folder / "series-sources.txt", added)),
        "XPU_STACK_EDITED": str(_listed(folder / "series-edited.txt", edited)),
        "XPU_STACK_TOUCHED": str(_listed(folder / "series-touched.txt", touched)),
        "XPU_STACK_OWN_UNITS": str(
            _listed(folder / "series-units.txt", own_units(work.series, stage, prebuilt.alone))
        ),
    }


def _python_of(work: Workspace, folder: Path) -> Path:
    """The Python that CMake calls: with dry_run.py before dry runs of torchgen."""
    python, program = folder / "python", Path(__file__).with_name("dry_run.py")
    text = f"""#!/bin/sh
case "$*" in "-m torchgen.gen "*" --dry-run") set -- {shlex.quote(str(program))} "$@" ;; esac
exec {shlex.quote(str(work.layout.python / "bin" / "python"))} "$@"
"""
    if not python.exists() or python.read_text() != text:
        files.write(python, text)
        python.chmod(0o755)
    return python


def own_units(series: Series, point: str, alone: Iterable[str]) -> Iterator[str]:
    """For each source that the series adds, its name and that of the unit that it is compiled in.

    A unit has sources of one stage, by a hash of their names: neither the next stage nor a
    new source changes many of them. What another change edits is compiled alone.
    """
    others = {path for change in series.all_changes() for path in change.patched_paths()}
    others.update(alone)
    for stage in series.up_to(point.partition("/")[0]):
        names = {file.target for change in stage.changes for file in change.files} - others
        names = {one for one in names if one.endswith(SOURCES) and "/test/" not in one}
        units = math.ceil(len(names) / _OF_UNIT)
        for name in names:
            digest = hashlib.sha256(name.encode()).digest()
            yield f"{name} {stage.name}_{digest[0] % units}"


def _injected(*names: str) -> str:
    return ";".join(str(CMAKE_MODULES / name) for name in names)


def _listed(path: Path, names: Iterable[str]) -> Path:
    """Writes a list, a name per line; one that is the same keeps its time."""
    text = "".join(f"{name}\n" for name in sorted(names))
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def _prebuilt_folder(work: Workspace) -> Path:
    prebuilt = BaseSettings.of(work.base).prebuilt
    name = f"lib{prebuilt.targets[0]}.so.{prebuilt.soversion}"
    found = sorted([*_LIBRARIES.glob(name), *_LIBRARIES.glob(f"*/{name}")])
    if not found:
        raise MissingError(
            f"The distribution's PyTorch {work.base.version} is not installed.",
            why=f"there is no {name} below {_LIBRARIES}",
            next=f"{commands.make('build', MODE='full')} # compiles everything",
        )
    return found[0].parent


def _say_origins(this: Build, wanted: list[cmake.Target]) -> None:
    libraries = sorted({target.name for target in wanted if target.kind == "SHARED_LIBRARY"})
    say(f"compiled here: {', '.join(libraries)}")
    if this.torch:
        say(f"from {this.torch.python}: torch {this.torch.version}")
    elif this.mode is Mode.FAST:
        prebuilt = BaseSettings.of(this.work.base).prebuilt
        names = ", ".join(f"lib{name}.so.{prebuilt.soversion}" for name in prebuilt.targets)
        say(f"from the distribution ({_prebuilt_folder(this.work)}): {names}")
    say(f"SYCL runtime: {this.sycl.version} from {this.sycl.origin}")


# -- the Python package, and Python run on it -----------------------------------------


def link_package(checkout: Path, build: Path) -> None:
    """Makes the package of links, to what the build has generated in the checkout, too."""
    site = build / "site"
    shutil.rmtree(site, ignore_errors=True)
    links = {
        f"{package}/{path.name}": path
        for package in ("torch", "torchgen")
        for path in (checkout / package).glob("*")
        if path.name not in _NOT_PACKAGE and not path.name.endswith(_NOT_FILES)
    }
    links |= {f"torch/{path.name}": path for path in (build / "extensions").glob("*.so")}
    links |= {f"torch/lib/{path.name}": path for path in (build / "lib").glob("lib*.so")}
    links["torch/bin/torch_shm_manager"] = build / "bin" / "torch_shm_manager"
    for name, target in links.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).symlink_to(target)


def install_package(this: Build, site: Path, version: str = "") -> Path:
    """Puts the package into an empty folder to import from; its metadata's folder.

    The metadata has what makes torch find it; a wheel adds the rest.
    """
    package = Package.of(this.work.base)
    shutil.rmtree(site, ignore_errors=True)
    shell.run(["cmake", "--install", this.folder, "--prefix", site], env=this.env)
    info = site / f"{package.extension}-{version or package.version}.dist-info"
    info.mkdir(parents=True)
    name = f"Name: {package.extension}\nVersion: {version or package.version}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{name}")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
            for group, points in package.entry_points.items()
        )
    )
    return info


def prepared(work: Workspace, stage: str, mode: Mode) -> Build:
    """The stage, applied if it is not, and built with edits and with the Python package."""
    if stack.read(work.repository).stage != stage:
        applying.say_result(work, stage, applying.apply(work, stage))
    this = prepare(work, stage, mode)
    stamp = this.folder / _STAMP
    stamp.unlink(missing_ok=True)
    build(this, work.series.changes(stage), python=True)
    stamp.write_text(_state(work))
    return this


def standing(work: Workspace, stage: str, mode: Mode) -> Build | None:
    """What `prepared` has made, if nothing has changed since. Nothing is written."""
    sycl = packages.installed_sycl(work.layout)
    if sycl is None or stack.read(work.repository).stage != stage:
        return None
    torch = packages.found_torch(work.layout, work.base)
    this = Build(work, mode, Sanitizer.NONE, folder_of(work, mode), sycl, {}, torch)
    stamp = this.folder / _STAMP
    return this if stamp.exists() and stamp.read_text() == _state(work) else None


def _state(work: Workspace) -> str:
    """What the checkout holds: its commit, and which files differ from that since when."""
    lines = [work.repository.line("rev-parse", "HEAD")]
    for name in chain(*work.repository.uncommitted()):
        path = work.repository.folder / name
        lines.append(f"{name} {path.lstat().st_mtime_ns if os.path.lexists(path) else 'gone'}")
    return "\n".join(lines)


def run_python(this: Build, words: tuple[str, ...]) -> int:
    """Runs the build's Python; its exit code, or 128 and the signal's number."""
    return shell.hand_over([this.python, *words], env=python_environment(this))


def run_shell(this: Build) -> int:
    return shell.hand_over([os.environ.get("SHELL") or "/bin/sh"], env=python_environment(this))
