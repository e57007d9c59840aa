"""Making a wheel: its tree, its identity, its libraries, what it says of itself."""

import hashlib
import io
import os
import platform
import runpy
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, git, write
from workspace import workspace
from xpu_stack.build import cmake, packages, stand_ins
from xpu_stack.build.base_settings import Headers
from xpu_stack.build.configuration import Mode
from xpu_stack.core.lay import applying
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.layout import Layout
from xpu_stack.wheel import finish, making
from xpu_stack.wheel.finish import Identity

THIS = Identity("1.13.1", "b" * 40, "a source package", "stream", "c" * 64, Mode.FULL)


# -- the tree ----------------------------------------------------------------------


def test_the_tree_is_at_the_checkouts_commit_and_the_checkout_stays_clean(
    project: Project,
) -> None:
    with workspace(project) as work:
        applying.apply(work, "stream")
        source = making.prepare_tree(work, Mode.FAST)
        head = work.repository.commit_id("HEAD")
    assert git(source, "rev-parse", "HEAD").strip() == head
    assert (source / "c10/xpu/Stream.cpp").read_text() == "int stream;\n"
    assert git(project.checkout, "status", "--porcelain") == ""


def test_what_does_not_change_keeps_its_time(project: Project) -> None:
    with workspace(project) as work:
        applying.apply(work, "device")
        source = making.prepare_tree(work, Mode.FAST)
        os.utime(source / "other.txt", (1, 1))
        write(source, {"build/object.o": "compiled\n", "LICENSE": "rewritten\n"})
        applying.apply(work, "stream")
        assert making.prepare_tree(work, Mode.FAST) == source
    assert (source / "other.txt").stat().st_mtime == 1
    assert (source / "build/object.o").exists()
    assert (source / "c10/xpu/Stream.cpp").exists()


def test_a_file_that_a_run_had_rewritten_is_as_it_was(project: Project) -> None:
    with workspace(project) as work:
        source = making.prepare_tree(work, Mode.FAST)
        write(source, {"other.txt": "rewritten for a moment\n"})
        making.prepare_tree(work, Mode.FAST)
    assert (source / "other.txt").read_text() == "other\n"


def test_what_an_earlier_wheel_installed_is_taken_out(project: Project) -> None:
    with workspace(project) as work:
        source = making.prepare_tree(work, Mode.FAST)
        write(source, {"torch/lib/libtorch_xpu.so": "", "torch/version.py": ""})
        making.remove_installed(source)
    assert not (source / "torch/lib/libtorch_xpu.so").exists()
    assert (source / "torch/version.py").exists()


def test_submodules_are_those_of_the_checkout(project: Project, tmp_path: Path) -> None:
    part = tmp_path / "part"
    write(part, {"part.h": "// part\n"})
    git(part, "init", "-q")
    git(part, "add", ".")
    git(part, "commit", "-qm", "part")
    allowed = ("-c", "protocol.file.allow=always")
    git(project.checkout, *allowed, "submodule", "add", "-q", str(part), "third_party/part")
    git(project.checkout, "commit", "-qm", "with a submodule")
    with workspace(project) as work:
        for _ in range(2):
            source = making.prepare_tree(work, Mode.FAST)
            assert (source / "third_party/part/part.h").read_text() == "// part\n"


# -- the identity ------------------------------------------------------------------


def test_the_version_names_the_series_and_tells_the_fast_build(project: Project) -> None:
    with workspace(project) as work:
        applying.apply(work, "device")
        full = finish.identity(work, "device", Mode.FULL)
        fast = finish.identity(work, "device", Mode.FAST)
    assert full.version == f"1.13.1+xpu.{full.series[:12]}"
    assert fast.version == f"{full.version}.fast"
    assert full.provider == f"a fork, at commit {full.base}"
    assert full.base == git(project.checkout, "rev-parse", "main").strip()


@pytest.mark.parametrize(
    ("name", "same"), [("c10_xpu/device/c10/xpu/Device.cpp", False),
                       ("c10_xpu/stream/c10/xpu/Stream.cpp", True)]
)  # fmt: skip
def test_the_hash_is_that_of_the_changes_up_to_the_stage(
    project: Project, name: str, same: bool
) -> None:
    def series() -> str:
        with workspace(project) as work:
            return finish.identity(work, "device", Mode.FULL).series

    before = series()
    write(project.folder, {name: "int other;\n"})
    assert (series() == before) is same


# -- the libraries -----------------------------------------------------------------


@pytest.fixture
def needed() -> None:
    packages.need_python("wheel")


def compiled(path: Path, source: str, *words: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.with_suffix(".c")
    text.write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, text, *words], check=True)
    text.unlink()
    return path


def loads(library: Path) -> subprocess.CompletedProcess[str]:
    program = f"import ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
    return subprocess.run(
        [sys.executable, "-c", program], env={}, capture_output=True, text=True, check=False
    )


@pytest.mark.usefixtures("needed")
@pytest.mark.parametrize("site", ["env/lib/python3.11/site-packages", "target"])
def test_the_runtime_is_found_where_the_wheel_is_installed(tmp_path: Path, site: str) -> None:
    from xpu_stack.wheel import finish

    made = tmp_path / "made"
    runtime = compiled(made / "libsycl.so.9", "int sycl(void) { return 42; }",
                       "-Wl,-soname,libsycl.so.9")  # fmt: skip
    unpacked = tmp_path / site
    library = compiled(
        unpacked / "torch/lib/libc10_xpu.so",
        "int sycl(void); int answer(void) { return sycl(); }",
        str(runtime), f"-Wl,-rpath,{made}",
    )  # fmt: skip
    other = compiled(unpacked / "torch/lib/libother.so", "int other;", f"-Wl,-rpath,{made}")
    where = tmp_path / ("env/lib" if site.startswith("env") else "target/lib")
    where.mkdir(exist_ok=True)
    runtime.rename(where / runtime.name)
    assert "libsycl.so.9: cannot open" in loads(library).stderr

    assert finish.find_runtime(unpacked) == ["libc10_xpu.so"]
    assert all(way.startswith("$ORIGIN/") for way in finish.ways(library))

    assert loads(library).stdout == "42\n"
    assert finish.ways(other) == []


@pytest.mark.usefixtures("needed")
def test_a_carried_library_is_the_way_to_what_the_runtime_wants(tmp_path: Path) -> None:
    from xpu_stack.wheel import finish

    runtime, site = tmp_path / "env/lib", tmp_path / "env/lib/python3.11/site-packages"
    wanted = "int sin_of(void) { return 42; }"
    math = compiled(runtime / "libsvml.so", wanted, "-Wl,-soname,libsvml.so")
    wanted = "int sin_of(void); int cl(void) { return sin_of(); }"
    name = "libOpenCL.so.1"
    loader = compiled(runtime / name, wanted, f"-Wl,-soname,{name}", str(math))
    wanted = "int cl(void); int answer(void) { return cl(); }"
    carried = compiled(site / "torch.libs/libdnnl-0123abcd.so", wanted, str(loader))

    assert finish.find_runtime(site) == [carried.name]

    assert loads(carried).stdout == "42\n"


@pytest.mark.usefixtures("needed")
def test_a_wheel_carries_what_it_needs_but_for_the_runtime(tmp_path: Path) -> None:
    from xpu_stack.wheel import finish

    runtime = compiled(tmp_path / "libsycl.so.9", "int sycl(void) { return 42; }",
                       "-Wl,-soname,libsycl.so.9")  # fmt: skip
    unpacked = tmp_path / "torch-1.0"
    compiled(
        unpacked / "torch/lib/libc10_xpu.so",
        "int sycl(void); int omp_get_max_threads(void);\n"
        "int answer(void) { return sycl() + 0 * omp_get_max_threads(); }",
        str(runtime), "-lgomp", f"-Wl,-rpath,{tmp_path}",
    )  # fmt: skip
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    write(
        unpacked / "torch-1.0.dist-info",
        {
            "METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n",
            "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n"
            f"Tag: {tag}-{tag}-linux_{platform.machine()}\n",
            "RECORD": "",
        },
    )
    tool = [sys.executable, "-m", "wheel"]
    subprocess.run([*tool, "pack", "--dest-dir", tmp_path, unpacked], check=True)
    (raw,) = tmp_path.glob("*.whl")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    repaired = finish.repair(raw, tmp_path / "repaired", {"PATH": path})

    assert "manylinux" in repaired.name
    subprocess.run([*tool, "unpack", "--dest", tmp_path / "site", repaired], check=True)
    site = tmp_path / "site/torch-1.0"
    assert [finish.own_name(one) for one in (site / "torch.libs").iterdir()] == ["libgomp.so.1.0.0"]
    finish.find_runtime(site)
    (site / "lib").mkdir()  # as with pip's --target
    runtime.rename(site / "lib" / runtime.name)
    assert loads(site / "torch/lib/libc10_xpu.so").stdout == "42\n"


@pytest.mark.usefixtures("needed")
def test_the_metadata_says_what_the_build_was_made_from(tmp_path: Path) -> None:
    from xpu_stack.wheel import finish

    (tmp_path / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nSummary: Tensors\n\nThe text, with an ö.\n",
        encoding="utf-8",
    )
    finish._write_metadata(tmp_path, THIS)
    text = (tmp_path / "METADATA").read_text(encoding="utf-8")
    assert "\nSummary: PyTorch 1.13.1 with an XPU (SYCL) runtime\n" in text
    assert f"* xpu_series: {'c' * 64}, up to the stage stream\n" in text
    assert text.endswith("The text, with an ö.\n")


@pytest.mark.usefixtures("needed")
def test_torch_version_says_it_too(tmp_path: Path) -> None:
    from xpu_stack.wheel import finish

    path = tmp_path / "version.py"
    path.write_text("__all__ = ['__version__']\n__version__ = '1.13.0a0'\n")
    finish._write_version(path, THIS)
    found = runpy.run_path(str(path))
    assert found["__version__"] == THIS.version
    assert {name: found[name] for name in THIS.facts} == THIS.facts
    assert set(THIS.facts) < set(found["__all__"])


# -- the headers -------------------------------------------------------------------


@pytest.fixture
def release(tmp_path: Path) -> tuple[Layout, Callable[[str], Headers]]:
    """A source release that has been downloaded."""
    layout = Layout(tmp_path, tmp_path / "state")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in ("p.h", "L.md"):
            member = tarfile.TarInfo(f"p-1/inner/{name}")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"// p\n"))
    layout.downloads.mkdir(parents=True)
    (layout.downloads / "p-1.tar.gz").write_bytes(buffer.getvalue())
    right = hashlib.sha256(buffer.getvalue()).hexdigest()
    return layout, lambda digest: Headers(
        "p",
        "p-1.tar.gz",
        digest or right,
        "p-1/inner",
        "third_party/p",
        {"p.h": "p.h", "L.md": "LICENSE"},
    )


def test_headers_come_out_of_the_release(
    release: tuple[Layout, Callable[[str], Headers]],
) -> None:
    layout, wanted = release
    found = stand_ins.fetched(layout, wanted(""))
    assert {name: path.read_text() for name, path in found.items()} == {
        "third_party/p/p.h": "// p\n",
        "third_party/p/LICENSE": "// p\n",
    }


def test_another_file_of_that_name_is_refused(
    release: tuple[Layout, Callable[[str], Headers]],
) -> None:
    layout, wanted = release
    with pytest.raises(ToolError, match=r"p-1\.tar\.gz, which has p\.h, is not available"):
        stand_ins.fetched(layout, wanted("0" * 64))
    assert not (layout.downloads / "p-1.tar.gz").exists()


# -- the compilers -----------------------------------------------------------------


def test_jobs_stay_within_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOBS", raising=False)
    monkeypatch.delenv("DISTCC", raising=False)
    monkeypatch.setattr(cmake, "available_memory", lambda: 5 << 30)
    assert cmake.jobs() == min(2, len(os.sched_getaffinity(0)))
    monkeypatch.setattr(cmake, "available_memory", lambda: 1 << 20)
    assert cmake.jobs() == 1
    monkeypatch.setenv("JOBS", "7")
    assert cmake.jobs() == 7


def test_a_containers_limit_counts_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JOBS", raising=False)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(cmake, "_MEMORY_LIMITS", (limit, tmp_path / "another kernel's"))
    monkeypatch.setattr(cmake, "_MEMORY", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {64 << 20} kB\n")
    all_cores = len(os.sched_getaffinity(0))
    assert cmake.local_jobs() == all_cores
    limit.write_text("max\n")
    assert cmake.local_jobs() == all_cores
    limit.write_text(f"{2 << 30}\n")
    assert cmake.local_jobs() == 1


def test_one_variable_each_shares_what_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages, "need_apt", lambda _: None)
    for name in ("CCACHE_REMOTE", "DISTCC"):
        monkeypatch.delenv(name, raising=False)
    alone = cmake.environment(tmp_path, tmp_path / "checkout")
    monkeypatch.setenv("CCACHE_REMOTE", "redis://host")
    monkeypatch.setenv("DISTCC", "one/2 two/8")
    shared = cmake.environment(tmp_path, tmp_path / "checkout")
    assert dict(shared.items() - alone.items()) == {
        "CCACHE_REMOTE_STORAGE": "redis://host",
        "CCACHE_PREFIX": "distcc",
        "DISTCC_HOSTS": "one/2 two/8",
    }


# -- the fast build ----------------------------------------------------------------


def test_what_the_build_generated_into_the_checkout_is_taken_along(
    project: Project, tmp_path: Path
) -> None:
    write(project.checkout, {".gitignore": "torch/version.py\ntorch/lib/*.so*\n"})
    git(project.checkout, "add", ".")
    git(project.checkout, "commit", "-qm", "as PyTorch ignores them")
    write(project.checkout, {"torch/version.py": "xpu = '20260930'\n", "torch/lib/libx.so": ""})
    with workspace(project) as work:
        making._copy_generated(work.repository, tmp_path / "tree")
    copied = [path for path in (tmp_path / "tree").rglob("*") if path.is_file()]
    assert copied == [tmp_path / "tree/torch/version.py"]
    assert copied[0].read_text() == "xpu = '20260930'\n"
