"""Makes a wheel, from the checkout to the file: of a torch, or of the extension of one.

PyTorch's setup.py writes into the tree that it stands in: libraries, headers and generated
files go below torch/, LICENSE is rewritten for a moment. A wheel is therefore made in a work
tree of its own, at the checkout's commit. A file that is the same in the next commit keeps
its time there too, so that the next wheel compiles only what differs.

The extension is for the minor version of torch that it was compiled for: torch promises no
ABI from one to the next. The SYCL runtime comes from its own packages.
"""

import functools
import os
import platform
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import build as building
from xpu_stack.build import cmake, packages, stand_ins
from xpu_stack.build.base_settings import BaseSettings, Package
from xpu_stack.build.cmake import minutes
from xpu_stack.build.configuration import Build, Mode, python_environment
from xpu_stack.build.packages import Torch
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import lock, pages, shell
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import BuildError, UsageError
from xpu_stack.core.system.git import Repository
from xpu_stack.wheel import finish, images
from xpu_stack.wheel.finish import Identity

_PROGRAM = "EXECUTABLE"
_KINDS = ("SHARED_LIBRARY", "MODULE_LIBRARY", _PROGRAM)
_GENERATED = "gen_torch_version"  # torch/version.py, which the wheel's facts are added to
_INSTALLED = ("torch/bin", "torch/include", "torch/lib", "torch/share")


def prepare_tree(work: Workspace, mode: Mode) -> Path:
    checkout = work.repository
    folder = tree_of(work, mode)
    commit = checkout.line("rev-parse", "HEAD")
    if not (folder / ".git").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        checkout.run("worktree", "prune")
        checkout.run("worktree", "add", "--quiet", "--detach", "--", str(folder), commit)
    tree = Repository(folder)
    # a file that was touched, or written as it was, is not written again
    tree.run("update-index", "-q", "--refresh", check=False)
    # --force: a run that was cut off may have left LICENSE rewritten
    tree.run("checkout", "--quiet", "--force", "--detach", commit)
    _link_submodules(checkout.folder, tree)
    stand_ins.place(work, mode, tree)
    return folder


def tree_of(work: Workspace, mode: Mode) -> Path:
    """The tree for the wheels of a checkout; all that is made of it is beside it."""
    return work.layout.for_checkout(work.repository.folder) / f"wheel-{mode.value}" / "src"


def remove_installed(tree: Path) -> None:
    """Takes out what an earlier wheel has installed, which may be more than the next has."""
    Repository(tree).run("clean", "-xdfq", "--", *_INSTALLED)


def _link_submodules(checkout: Path, tree: Repository) -> None:
    """A work tree has the submodules' folders, but empty."""
    asked = tree.ask("config", "--file", ".gitmodules", "--get-regexp", r"\.path$") or ""
    for line in asked.splitlines():
        name = line.split(" ", 1)[1]
        source, target = checkout / name, tree.folder / name
        if source.is_dir() and any(source.iterdir()):
            with suppress(OSError):  # there is none, it is linked already, or it is not empty
                target.rmdir()
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                target.symlink_to(source)


def environment(work: Workspace, identity: Identity) -> dict[str, str]:
    requirements = [*BaseSettings.of(work.base).wheel.requires, *runtime("wheel")]
    return {
        "PYTORCH_BUILD_VERSION": identity.version,
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_EXTRA_INSTALL_REQUIREMENTS": "|".join(requirements),
        # Any text keeps it from fetching submodules, OFF keeps CMake's default.
        "USE_SYSTEM_LIBS": "OFF",
    }


def runtime(verb: str) -> list[str]:
    """The SYCL runtime that a wheel was built with, or a later one.

    A new year's release may break the interface of the libraries.
    """
    if os.environ.get("SYCL_ROOT") and not os.environ.get("SYCL_VERSION"):
        raise UsageError(
            "The release of the SYCL runtime that the wheel needs is not known.",
            why=f"SYCL_ROOT={os.environ['SYCL_ROOT']} does not say what it is called on PyPI",
            next=f"make {verb} SYCL_VERSION={packages.sycl_version()} # or without SYCL_ROOT",
        )
    version = packages.sycl_version()
    year = int(version.split(".")[0])
    return [f"{name}>={version},<{year + 1}" for name in packages.SYCL_PACKAGES]


# -- what is packed ----------------------------------------------------------------

# What setup.py says itself, or CMake finds out.
_NOT_TOLD = ("PYTHON_EXECUTABLE", "CMAKE_EXPORT_COMPILE_COMMANDS")


def _configure_full(work: Workspace, identity: Identity, source: Path) -> dict[str, str]:
    """Configures the tree, from which all is compiled; the environment in which it is built."""
    sycl = building.need(work, Mode.FULL)
    told = building.options_of(work, Mode.FULL, sycl) | {
        "BUILD_TEST": "OFF",
        # setup.py makes the extension modules itself
        "CMAKE_PROJECT_Torch_INCLUDE": str(building.CMAKE_MODULES / "full.cmake"),
    }
    for name in _NOT_TOLD:
        del told[name]
    env = {
        **cmake.environment(work.layout.ccache, source.parent),
        **told,
        **environment(work, identity),
    }
    command = [sys.executable, "setup.py", "build", "--cmake", "--cmake-only"]
    cmake.configure(source, source / "build", told, env, extra=sycl.version, command=command)
    say(f"SYCL runtime: {sycl.version} from {sycl.origin}")
    return env


def install(source: Path, env: dict[str, str]) -> str:
    """Builds all and installs it below torch/ in the tree; in words, what that took."""
    build = source / "build"
    steps = cmake.build(build, ["install"], env, keep_going=True)
    return ", ".join(filter(None, (f"{steps} step(s)", cmake.tally(build))))


def _install_fast(work: Workspace, identity: Identity, source: Path) -> dict[str, str]:
    """Installs the fast build where setup.py expects a full one; its environment."""
    this = building.prepare(work, identity.stage, Mode.FAST)
    building.build(this, work.series.changes(identity.stage), python=True)
    installed = [target.name for target in cmake.targets(this.folder) if target.destination]
    cmake.build(this.folder, installed, this.env)
    shell.run(["cmake", "--install", this.folder, "--prefix", source / "torch"], env=this.env)
    _copy_generated(work.repository, source)
    # setup.py reads from its configuration which packages there are
    (source / "build").mkdir(exist_ok=True)
    shutil.copyfile(this.folder / "CMakeCache.txt", source / "build" / "CMakeCache.txt")
    return {**this.env, **environment(work, identity)}


def _copy_generated(checkout: Repository, source: Path) -> None:
    ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", "torch")
    for name in checkout.run(*ignored).text.split("\0"):
        if name.endswith((".py", ".pyi")):
            copy = source / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkout.folder / name, copy)


# -- the file ----------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """A wheel to be made: its tree is prepared, the checkout is free again."""

    work: Workspace
    identity: Identity
    source: Path  # the tree
    env: dict[str, str]
    started: float


def pack(order: Order, add: Callable[[Path], None] = lambda _: None) -> Path:
    """The wheel of what is installed below torch/. add: as finish.finish takes it."""
    # What setuptools has made before would go into the wheel, also where its source is gone.
    for made in (order.source / "build").glob("*.linux-*"):
        shutil.rmtree(made)
    # "egg_info" among the words keeps setup.py from building what ninja has built.
    words = (sys.executable, "setup.py", "egg_info", "bdist_wheel", "--dist-dir")
    into, what = emptied(order.source.with_name("raw")), "running PyTorch's setup.py"
    raw, told = finish.one_made([*words, into], into, what, order.env, order.source)
    if raw is None:
        errors = [text for text in told if "error" in text.lower()] or told
        raise BuildError(
            "PyTorch's setup.py made no wheel.",
            why=(errors or ["it said nothing"])[-1].strip()[:300],
            next="fix it and run the same command again",
            detail="\n".join(told[-20:]),
        )
    log.info("setup.py: %s", raw.name)
    base = BaseSettings.of(order.work.base)
    compiled_in = base.wheel.compiled_in
    if order.identity.mode is Mode.FULL:
        raw = finish.repair(raw, emptied(order.source.with_name("repaired")), order.env)
        compiled_in += base.full.compiled_in
    into = emptied(order.source.with_name("finished"))
    return finish.finish(raw, order.identity, into, compiled_in, add)


def _add_kernels(order: Order, site: Path) -> None:
    sycl = packages.need_sycl(order.work.layout)
    env = {"PYTHONPATH": str(site), "LD_LIBRARY_PATH": str(sycl.root / "lib")}
    library = site / "torch" / "lib" / "libtorch_xpu.so"
    images.add(images.Package(Path(sys.executable), env, library), sycl, order.work.layout)


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def rehearse(order: Order) -> None:
    """Makes a wheel of stand-ins, and throws it away. What is wrong is a ToolError.

    Otherwise the packing would be tried for the first time when all is compiled, after hours.
    Here each library is an empty one that links to what the real one will link to; all
    else is real. It is done once for each configuration.
    """
    build = order.source / "build"
    configured = (build / "xpu-stack.configured").read_text()
    stamp = build / "xpu-stack.rehearsed"
    if stamp.exists() and stamp.read_text() == configured:
        return
    cmake.build(build, [_GENERATED], order.env)
    every = cmake.targets(build)
    made_here = {target.name for target in every}
    placed = []
    with progress(None, "making stand-ins of the libraries"):
        for target in every:
            if target.artifact is None or target.destination is None or target.kind not in _KINDS:
                continue
            path = target.destination / target.artifact.name
            path.parent.mkdir(parents=True, exist_ok=True)
            shared = [] if target.kind == _PROGRAM else ["-shared", f"-Wl,-soname,{path.name}"]
            compiler = ["cc", "-fPIC", *shared, "-o", str(path), "-x", "c", "-", "-x", "none"]
            links = foreign(target.links, build, made_here)
            empty = b"int main(void) { return 0; }\n"
            shell.run([*compiler, "-Wl,--no-as-needed", *links], input=empty)
            placed.append(path)
    made = pack(order)
    log.info("rehearsed: %s", made.name)
    made.unlink()
    for path in placed:
        path.unlink()
    remove_installed(order.source)
    stamp.write_text(configured)
    say("rehearsed the packaging, with empty libraries")


def foreign(links: Iterable[str], build: Path, made_here: set[str]) -> Iterator[str]:
    """Those of a target's shared libraries that the build does not make itself."""
    for word in links:
        path = Path(word)
        named = word.startswith("-l") and word[2:] not in made_here
        if named or (path.is_absolute() and ".so" in path.name and build not in path.parents):
            yield word


# -- making ----------------------------------------------------------------------------


def prepare(work: Workspace, stage: str, mode: Mode, held: ExitStack) -> Order:
    """Takes what the wheel is made from out of a checkout that is at `stage`.

    held: keeps other runs from this mode's tree until it is closed.
    """
    packages.need_python("wheel")
    started = time.monotonic()
    folder = tree_of(work, mode).parent
    held.enter_context(lock.held(folder / "lock", "wheel", str(folder)))
    this = finish.identity(work, stage, mode)
    source = prepare_tree(work, mode)
    remove_installed(source)
    of_mode = _configure_full if mode is Mode.FULL else _install_fast
    return Order(work, this, source, of_mode(work, this, source), started)


def make(order: Order) -> Path:
    """Builds the wheel; a full build may take hours, and continues where it stopped."""
    full = order.identity.mode is Mode.FULL
    if full:
        rehearse(order)
        compiled = install(order.source, order.env)
    made = pack(order, functools.partial(_add_kernels, order))
    # The same wheel for another C library would make two of one version.
    for same in wheels(order.work).glob(f"{'-'.join(made.name.split('-')[:3])}-*.whl"):
        same.unlink()
    target = kept(order.work, made)
    names = zipfile.ZipFile(target).namelist()
    carried = sum(name.startswith(f"{finish.CARRIED}/") for name in names)
    if full:
        say(compiled)
        say(f"included, because a plain distribution does not have them: {carried} libraries")
    else:
        say("this wheel is for this machine: libtorch_cpu and what it needs are the distribution's")
    size = target.stat().st_size / 1e6
    say(f"{target} ({size:.0f} MB, in {minutes(time.monotonic() - order.started)})")
    return target


def wheels(work: Workspace) -> Path:
    return work.layout.state / "wheels"


def kept(work: Workspace, made: Path) -> Path:
    """A wheel that is finished, where those are that a person installs."""
    wheels(work).mkdir(parents=True, exist_ok=True)
    return made.replace(wheels(work) / made.name)


# -- the extension of an installed torch ---------------------------------------------------

# The same input makes the same bytes on every day: this is the first one that zip knows.
_EPOCH = {"SOURCE_DATE_EPOCH": "315532800"}
_ELSEWHERE = ("libc10.so", "libtorch*.so", *finish.RUNTIME)


def extension_version(work: Workspace) -> str:
    series = finish.series_hash(work, work.series.point(None))
    return f"{Package.of(work.base).version}+g{series[: finish.DIGITS]}"


def extension_name(work: Workspace, torch: Torch) -> str:
    """Of the wheel, but for the systems that it is for: these are known when it is made."""
    name = Package.of(work.base).extension
    return f"{name}-{extension_version(work)}-{torch.tag}-{torch.tag}"


def make_extension(this: Build) -> Path:
    """Packs what is built: sorted, with fixed times and modes."""
    packages.need_python("wheel")
    os.umask(0o022)
    torch, package, version = this.torch, Package.of(this.work.base), extension_version(this.work)
    assert torch is not None
    folder = emptied(this.folder / "wheel")
    site = folder / "site"
    info = building.install_package(this, site, version)
    runs = python_environment(this) | {"PYTHONPATH": str(site)}
    library = site / package.extension / "lib" / "libtorch_xpu.so"
    images.add(images.Package(this.python, runs, library), this.sycl, this.work.layout)
    (info / "licenses").mkdir()
    shutil.copyfile(finish.OWN_LICENCE, info / "licenses" / "LICENSE")
    first, second = map(int, torch.minor.split("."))
    facts = {
        "python": f"{torch.tag[2]}.{torch.tag[3:]}",
        "needed": [f"{package.name}>={torch.minor},<{first}.{second + 1}", *runtime("extension")],
        "extras": {
            name: by_minor[torch.minor].split()
            for name, by_minor in package.extras.items()
            if torch.minor in by_minor
        },
    }
    template = Path(__file__).parent / "templates" / "METADATA"
    text = pages.render(template, version=version, package=package, torch=torch, **facts)
    (info / "METADATA").write_text(text)
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: xpu-stack\nRoot-Is-Purelib: false\n"
        f"Tag: {torch.tag}-{torch.tag}-linux_{platform.machine()}\n"
    )
    with progress(None, "packing the wheel"):
        finish.run_wheel("pack", "--dest-dir", folder, site, env=_EPOCH)
    (packed,) = folder.glob("*.whl")
    # It carries nothing: torch and SYCL are beside it. But its tag then says which
    # systems have a C library that is new enough.
    made = finish.repair(packed, folder / "tagged", this.env | _EPOCH, _ELSEWHERE)
    target = kept(this.work, made)
    say(f"{target} ({target.stat().st_size / 1e6:.1f} MB), for torch {torch.minor}")
    return target
