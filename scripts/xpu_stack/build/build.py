"""Building a stage: PyTorch's own CMake and ninja on the patched checkout.

For an installed PyTorch it is the payload's own CMake.
"""

from collections.abc import Iterable
from pathlib import Path

from xpu_stack.build import (
    abi_check,
    cmake,
    compilers,
    extension,
    installed_torch,
    ninja,
    package_view,
    packages,
    release_headers,
)
from xpu_stack.build.base_settings import BaseSettings, Package, stand_ins
from xpu_stack.build.configuration import Build, Mode, Sanitizer, folder_of
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Checkout, Workspace
from xpu_stack.core.series.change import Change
from xpu_stack.core.series.series import NO_STAGE
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
# What PyTorch generates: headers and sources of ATen, autograd and the bindings.
_GENERATED = ("ATEN_CPU_FILES_GEN_TARGET", "generate-torch-sources")
_BINDINGS = ("torch_python", "torch_xpu_python")
_LIBRARY_KINDS = ("SHARED_LIBRARY", "MODULE_LIBRARY")
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
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name("lock")  # by which `make clean` knows of a run
    if not lock.is_symlink():
        lock.symlink_to(work.repository.own_folder / lock.name)
    work.layout.ccache.mkdir(parents=True, exist_ok=True)
    package = Package.of(work.base)
    torch = installed_torch.need(work.layout, package) if package else None
    if torch is None:
        place_stand_ins(work, mode, work.repository)
    state = work.layout.state
    # a checkout of the tool's own, the baseline too, has its build beside it
    below = state if checkout.is_relative_to(state) else checkout.parent
    env = compilers.environment(work.layout.ccache, below) | {
        # The source package's version.txt names the release before.
        "PYTORCH_BUILD_VERSION": work.base.version + ("" if stage == NO_STAGE else "+xpu"),
        "PYTORCH_BUILD_NUMBER": "1",
    }
    options = extension.options(torch, sycl) if torch else options_of(work, mode, sycl)
    if mode is Mode.FAST and not torch:
        options |= _fast_options(work, stage, folder)
    if sanitizer.flags:
        for variable in ("CXX", "EXE_LINKER", "SHARED_LINKER"):
            options[f"CMAKE_{variable}_FLAGS"] = sanitizer.flags
        # PyTorch's own -O2 comes after the flags above, and before these.
        options["CMAKE_CXX_FLAGS_RELEASE"] = "-O1 -DNDEBUG"
    extra = sycl.version + (extension.input_of(torch, work, stage) if torch else "")
    cmake.configure(checkout, folder, options, env, extra)
    return Build(work, mode, sanitizer, folder, sycl, env, torch)


def need(work: Workspace, mode: Mode) -> packages.Sycl:
    wanted = BaseSettings.of(work.base)
    packages.need_apt(wanted.apt)
    if wanted.package:
        if mode is not Mode.FAST:
            raise UsageError(
                f"There is no MODE={mode.value} for the base {work.base.name}.",
                why="its torch is installed, and all that is new is compiled",
                next=commands.make("build", BASE=work.base.name),
            )
    elif mode is Mode.FAST:
        packages.need_apt(wanted.prebuilt.apt, instead=commands.make("build", MODE="full"))
    else:
        packages.need_apt(wanted.full.apt)
    return packages.need_sycl(work.layout)


def build(this: Build, changes: list[Change], *, python: bool | None = None) -> int:
    """Builds every target that a file of `changes` is compiled into; the steps taken.

    python: the Python package too; by default where `changes` touch it, without
    a sanitizer: that is for the C++ tests.
    """
    _build_cmake(this)
    if python is None:
        python = needs_python(changes) and this.sanitizer is Sanitizer.NONE
    targets = cmake.targets(this.folder)
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
    log = this.folder / "ccache.log"
    env = {**this.env, **compilers.tallied(log)}
    steps = ninja.build(this.folder, names, env, compilers.jobs())
    if told := compilers.tally(log):
        say(told)
    if python and this.torch:
        extension.install(this, this.site)
    elif python:
        package_view.refresh(this.work.repository.folder, this.folder)
    _say_origins(this, wanted)
    tree = this.work.repository.tree_of("HEAD")
    record = this.results.get(tree)
    if not record.built:
        record.built = True
        this.results.put(tree, record)
    return steps


def build_program(this: Build, name: str) -> bool:
    """Builds one test program, and what it links; False: there is none of that name."""
    _build_cmake(this)
    if name not in [target.name for target in cmake.targets(this.folder)]:
        return False
    ninja.build(this.folder, [name], this.env, compilers.jobs())
    return True


def needs_python(changes: list[Change]) -> bool:
    return any(path.startswith(_PYTHON) for change in changes for path in change.touched_paths())


def targets_of(targets: list[cmake.Target], changes: list[Change]) -> list[cmake.Target]:
    files = {file.target for change in changes for file in change.files}
    files = {file for file in files if file.endswith(SOURCES)}
    return [target for target in targets if target.sources & files]


def baseline_of(this: Build) -> Build:
    """The base without the series, configured as `this` is, as the distribution built it.

    It is a separate checkout beside the patched one, and shares its objects.
    """
    work = this.work
    base = stack.read(work.repository).base
    folder = work.layout.state / "baseline" / base[:12]
    if not folder.exists():
        with progress(None, "checking out the base for comparison"), files.folder(folder) as draft:
            words = ("clone", "--quiet", "--shared", "--no-checkout", "--")
            shell.run(["git", *words, work.repository.folder, draft])
            Repository(draft).run("checkout", "--quiet", "--detach", base)
    checkout = Checkout(Repository(folder), "the checkout's own base", own=True)
    there = Workspace(work.layout, work.base, work.series, checkout)
    return _generated(prepare(there, NO_STAGE, this.mode))


def _generated(this: Build) -> Build:
    """The same, once all that PyTorch generates is there, each time byte for byte the same."""
    stamp = this.folder / "xpu-stack.generated"
    if not stamp.exists():  # what is there may have been generated in another order
        ninja.clean(this.folder, [*_GENERATED, "gen_torch_version"])
    ninja.build(this.folder, list(_GENERATED), this.env, compilers.jobs())
    stamp.touch()
    return this


def _build_cmake(this: Build) -> None:
    """Has ninja configure again if CMake's own input has changed."""
    ninja.build(this.folder, ["build.ninja"], this.env, 1)


def options_of(work: Workspace, mode: Mode, sycl: packages.Sycl) -> dict[str, str]:
    """The options for PyTorch's CMake, without those of the fast mode."""
    base, python = BaseSettings.of(work.base), work.layout.python / "bin" / "python"
    full = {
        **base.full.cmake,
        "CMAKE_PROJECT_Torch_INCLUDE": _injected("python.cmake", "full.cmake"),
    }
    return {
        **base.cmake,
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_C_COMPILER_LAUNCHER": "ccache",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "CMAKE_PROJECT_Torch_INCLUDE": _injected("python.cmake"),
        "PYTHON_EXECUTABLE": str(python),
        "SYCL_ROOT": str(sycl.root),
        **(full if mode is Mode.FULL else {}),
    }


def _fast_options(work: Workspace, stage: str, folder: Path) -> dict[str, str]:
    """Takes what the series does not change from the distribution."""
    prebuilt = BaseSettings.of(work.base).prebuilt
    changes = work.series.changes(stage)
    new = {file.target for change in changes for file in change.files}
    edited = {path for change in changes for path in change.patched_paths()} - new
    added = [name for name in new if name.endswith(SOURCES)]
    # What any stage touches is alone at every one: units stay as they are between stages.
    touched = {path for change in work.series.all_changes() for path in change.touched_paths()}
    alone = sorted(touched.union(prebuilt.alone))
    return {
        "CMAKE_PROJECT_Torch_INCLUDE": _injected("python.cmake", "fast.cmake"),
        # Its install step would write into the checkout.
        "BUILD_FUNCTORCH": "OFF",
        "XPU_STACK_PREBUILT_DIR": str(_prebuilt_folder(work)),
        "XPU_STACK_PREBUILT_VERSION": prebuilt.soversion,
        "XPU_STACK_PREBUILT_TARGETS": ";".join(prebuilt.targets),
        "XPU_STACK_SOURCES": str(_listed(folder / "series-sources.txt", added)),
        "XPU_STACK_EDITED": str(_listed(folder / "series-edited.txt", edited)),
        "XPU_STACK_UNITS": ";".join(",".join(folders) for folders in prebuilt.units),
        "XPU_STACK_ALONE": ";".join(name for name in alone if name.endswith(SOURCES)),
    }


def _injected(*names: str) -> str:
    """CMake files of the tool that PyTorch's own CMake reads first."""
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


def place_stand_ins(work: Workspace, mode: Mode, repository: Repository) -> None:
    """Puts stand-ins where a third-party folder is empty, outside every commit."""
    wanted = stand_ins(work.base)
    left_out = BaseSettings.of(work.base).full.headers
    if mode is Mode.FULL and left_out and not _is_real(repository, left_out.first):
        wanted |= release_headers.fetched(work.layout, left_out)
    placed = []
    for name, source in wanted.items():
        target = repository.folder / name
        if _is_real(repository, name):
            continue
        content = source.read_bytes()
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        placed.append(name)
    new = [name for name in placed if name not in _ours(repository)]
    if new:  # hidden from git, so that they never enter a commit
        exclude = repository.git_path("info/exclude")
        exclude.parent.mkdir(parents=True, exist_ok=True)
        with exclude.open("a") as file:
            file.writelines(f"/{name}\n" for name in new)


def _is_real(repository: Repository, name: str) -> bool:
    """Whether a file is there, and is no stand-in.

    The list of stand-ins is that of all worktrees; a submodule is checked out in each or not.
    """
    folders = [repository.folder / folder for folder in Path(name).parents[:-1]]
    in_submodule = any((folder / ".git").exists() for folder in folders)
    there = (repository.folder / name).exists()
    return there and (in_submodule or name not in _ours(repository))


def _ours(repository: Repository) -> set[str]:
    exclude = repository.git_path("info/exclude")
    lines = exclude.read_text().splitlines() if exclude.exists() else []
    return {line.removeprefix("/") for line in lines}


def _say_origins(this: Build, wanted: list[cmake.Target]) -> None:
    """Says which libraries came from where."""
    libraries = sorted({target.name for target in wanted if target.kind == "SHARED_LIBRARY"})
    say(f"compiled here: {', '.join(libraries)}")
    if this.torch:
        say(f"from {this.torch.python}: torch {this.torch.version}")
    elif this.mode is Mode.FAST:
        prebuilt = BaseSettings.of(this.work.base).prebuilt
        names = ", ".join(f"lib{name}.so.{prebuilt.soversion}" for name in prebuilt.targets)
        say(f"from the distribution ({_prebuilt_folder(this.work)}): {names}")
    say(f"SYCL runtime: {this.sycl.version} from {this.sycl.origin}")
