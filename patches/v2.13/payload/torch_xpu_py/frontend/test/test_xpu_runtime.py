# Owner(s): ["module: intel"]
"""torch_xpu_runtime beside a stock PyTorch: how it is loaded, and what PyTorch's own
torch.xpu and torch.accelerator do with it."""

import concurrent.futures
import ctypes
import gc
import importlib
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import uuid
from unittest import mock

import torch
import torch_xpu_runtime
from torch._dynamo.device_interface import get_interface_for_device
from torch.testing._internal.common_utils import run_tests, slowTest, TestCase

TIMEOUT = 120  # seconds
COUNT = torch.xpu.device_count()
# What the programs of these tests run on: the devices that are here, or the CPU device.
MAPPING = torch.xpu.mapping() if COUNT else "CPU"
if not COUNT or os.environ.get("TORCH_XPU_HOST_MEMORY") == "0":
    raise unittest.SkipTest("these processes are the same on host memory")
MiB = 1024 * 1024

# What PyTorch's torch.xpu uses of torch._C, and then what others do.
CONTRACT = set(
    """
    _XPUGraph _XPUMemPool _XpuDeviceProperties _XpuEventBase _XpuStreamBase
    _xpu_XPUAllocator _xpu_beginAllocateCurrentThreadToPool _xpu_beginAllocateToPool
    _xpu_canDeviceAccessPeer _xpu_changeCurrentAllocator _xpu_customAllocator
    _xpu_emptyCache _xpu_endAllocateToPool _xpu_exchangeDevice _xpu_getAllocator
    _xpu_getArchFlags _xpu_getCurrentRawStream _xpu_getCurrentStream _xpu_getDevice
    _xpu_getDeviceCount _xpu_getMemoryFraction _xpu_getMemoryInfo
    _xpu_getStreamFromExternal _xpu_graph_pool_handle _xpu_init
    _xpu_isCurrentStreamCapturing _xpu_maybeExchangeDevice _xpu_memorySnapshot
    _xpu_memoryStats _xpu_recordMemoryHistory _xpu_releasePool
    _xpu_resetAccumulatedMemoryStats _xpu_resetPeakMemoryStats _xpu_setDevice
    _xpu_setMemoryFraction _xpu_setStream _xpu_sleep _xpu_synchronize
    _xpu_isInBadFork _StaticXpuLauncher
    _dynamo.guards._empty_strided_xpu _aoti.AOTIModelContainerRunnerXpu
    """.split()
)
covered = set()


def covers(*names):
    """A test is about names of the contract."""
    covered.update(names)
    return lambda test: test


# What every program can use.
PRELUDE = """
import os, sys, warnings

def runtime_is_started():
    with open("/proc/self/maps") as maps:
        return any(name in maps.read() for name in ("libur_adapter", "libintelocl"))

def xpu_names():
    import torch
    return {n: v for n, v in vars(torch._C).items() if n.lower().startswith(("_xpu", "_has_xpu"))}
"""


def run_program(program, **environment):
    """What a program prints, errors and warnings included; it must succeed. A
    variable of the environment that is None is not set."""
    variables = {**os.environ, "TORCH_XPU_MAPPING": MAPPING, **environment}
    result = subprocess.run(
        [sys.executable, "-P", "-c", PRELUDE + textwrap.dedent(program)],
        env={k: v for k, v in variables.items() if v is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )
    if result.returncode:
        raise AssertionError(result.stdout)
    return result.stdout


class TestLoading(TestCase):
    def test_names(self):
        for name in CONTRACT:
            found = torch._C
            for part in name.split("."):
                found = getattr(found, part)
            # PyTorch's dummies for a build without XPU
            self.assertNotEqual(getattr(found, "__module__", ""), "torch._utils", name)
        self.assertTrue(torch._C._has_xpu)

    def test_version(self):
        """It stands for kernels of Intel GPUs."""
        with mock.patch.object(torch.xpu, "get_device_properties") as properties:
            properties.return_value.platform_name = "Intel(R) OpenCL"
            self.assertIsNone(torch.version.xpu)
            properties.return_value.platform_name = (
                "Intel(R) oneAPI Unified Runtime over Level-Zero"
            )
            found = torch.version.xpu if torch.xpu.is_available() else "20260000"
            self.assertRegex(found, r"^20\d{6}$")  # as builds with XPU say it
        with mock.patch.object(torch.xpu, "is_available", return_value=False):
            self.assertIsNone(torch.version.xpu)
        self.assertFalse(hasattr(torch.version, "no_such_name"))

    def test_every_name_has_a_test(self):
        self.assertEqual(CONTRACT - covered, set())
        self.assertEqual(covered - CONTRACT, set())

    def test_import_starts_no_runtime(self):
        printed = run_program(
            """
            import torch
            print(torch.accelerator.current_accelerator(), torch._C._has_xpu)
            torch.manual_seed(1), torch.seed(), torch.Generator(), torch.zeros(3).sum()
            torch.xpu.empty_cache(), torch.xpu.memory_allocated(), torch.xpu.memory_snapshot()
            torch.xpu.is_initialized(), torch.xpu.Event(), torch.xpu.device(0)
            torch.xpu.set_mapping(torch.xpu.mapping()), torch.xpu.get_arch_list()
            print(runtime_is_started(), torch.xpu.is_initialized())
            print(torch.xpu.device_count() > 0, runtime_is_started())
            """
        )
        self.assertEqual(printed, "xpu True\nFalse False\nTrue True\n")

    @slowTest
    def test_loading_costs_little(self):
        # Of the processor, beside PyTorch's own, so that other work on the machine
        # counts little.
        shares = [
            float(
                run_program(
                    """
                    import time
                    times = [time.process_time()]
                    import torch
                    times.append(time.process_time())
                    import torch_xpu_runtime
                    times.append(time.process_time())
                    print((times[2] - times[1]) / (times[1] - times[0]))
                    """,
                    TORCH_DEVICE_BACKEND_AUTOLOAD="0",
                )
            )
            for _ in range(3)
        ]
        self.assertLess(min(shares), 0.03)

    def test_the_package_may_be_imported_first(self):
        printed = run_program(
            """
            import torch_xpu_runtime, torch
            print(torch.accelerator.current_accelerator(), torch_xpu_runtime.mapping())
            """
        )
        self.assertEqual(printed, f"xpu {MAPPING}\n")

    def test_autoload_can_be_switched_off(self):
        printed = run_program(
            """
            import torch
            before = xpu_names()
            print(before["_has_xpu"], torch.xpu.is_available(), hasattr(torch._C, "_xpu_init"))
            print("torch_xpu_runtime" in sys.modules, "libsycl" in open("/proc/self/maps").read())
            """,
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        )
        self.assertEqual(printed, "False False False\nFalse False\n")

    def test_import_of_the_package_loads_it(self):
        printed = run_program(
            """
            import torch, torch_xpu_runtime
            print(torch.accelerator.current_accelerator(), torch.xpu.is_available())
            torch_xpu_runtime.autoload()
            """,
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        )
        self.assertEqual(printed, "xpu True\n")

    def test_the_modules_are_of_one_kind(self):
        # What was loaded before must not be left anywhere in torch.xpu.
        self.assertIs(torch.xpu.Stream, torch.xpu.streams.Stream)
        self.assertIs(torch.xpu.MemPool, torch.xpu.memory.MemPool)
        self.assertIs(torch.xpu.MemPool.__base__, torch._C._XPUMemPool)
        self.assertIs(torch.xpu.XPUGraph.__base__, torch._C._XPUGraph)
        self.assertIs(sys.modules["torch.xpu.memory"], torch.xpu.memory)
        self.assertIs(sys.modules["torch.xpu.random"], torch.xpu.random)
        self.assertIs(torch.get_device_module("xpu"), torch.xpu)


class TestRefusal(TestCase):
    """PyTorch stays as it was, and says why."""

    def refused(self, make, **environment):
        return run_program(
            f"""
            import torch
            {make}
            before = xpu_names()
            import torch_xpu_runtime
            print(xpu_names() == before, torch.zeros(2).sum().item())
            torch_xpu_runtime.autoload()
            """,
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
            **environment,
        )

    def check(self, printed, *texts):
        self.assertIn("True 0.0", printed)
        self.assertEqual(printed.count("was not loaded"), 1, printed)
        for text in (*texts, "TORCH_DEVICE_BACKEND_AUTOLOAD=0"):
            self.assertIn(text, printed)

    def test_cuda(self):
        self.check(
            self.refused("torch.version.cuda = '13.0'"),
            "has CUDA built in",
            "pip install torch==",
            "+cpu --extra-index-url https://download.pytorch.org/whl/cpu`",
        )

    def test_no_torch(self):
        printed = run_program(
            """
            sys.modules["torch"] = None  # as if it were not installed
            try:
                import torch_xpu_runtime
            except ImportError as error:
                print(error)
            """
        )
        self.assertRegex(
            printed, r"^torch_xpu_runtime needs PyTorch: `pip install torch==\S+\+cpu --extra"
        )

    def test_rocm(self):
        self.check(self.refused("torch.version.hip = '6.4'"), "has ROCm built in", "+cpu")

    def test_another_version(self):
        self.check(
            self.refused("torch.__version__ = '2.99.1+cpu'"),
            "and this is 2.99.1+cpu",
            "pip install torch==",
        )

    def test_xpu_is_there_already(self):
        self.check(self.refused("torch._C._has_xpu = True"), "has XPU already", "+cpu")

    def test_too_late_for_dynamo(self):
        self.check(
            self.refused("import torch._dynamo.device_interface"), "right after torch"
        )

    def test_too_late_for_the_accelerator(self):
        self.check(
            self.refused("print(torch.accelerator.current_accelerator())"),
            "None\n",
            "right after torch",
        )

    def test_another_accelerator(self):
        self.check(
            self.refused(
                "torch.accelerator.current_accelerator = lambda: torch.device('hpu')"
            ),
            "the accelerator 'hpu' from another package",
        )

    def test_a_library_is_missing(self):
        with tempfile.TemporaryDirectory() as other:
            package = copy_package(other)
            replace(
                next(package.glob("_C.*")),
                b"",
                "_C.py",
                b"raise ImportError('libsycl.so.9: cannot open shared object file')",
            )
            printed = run_program(
                "import torch; print(not torch._C._has_xpu, torch.zeros(2).sum().item())",
                PYTHONPATH=first_in_path(other),
            )
        self.check(printed, "libsycl.so.9", "pip install intel-sycl-rt")


def copy_package(folder):
    """Puts the package into a folder to import from, file by file as links."""
    package = pathlib.Path(folder, "torch_xpu_runtime")
    shutil.copytree(
        pathlib.Path(torch_xpu_runtime.__file__).parent,
        package,
        copy_function=os.symlink,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    info = pathlib.Path(folder, "torch_xpu_runtime-0.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Name: torch_xpu_runtime\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[torch.backends]\nxpu = torch_xpu_runtime:autoload\n"
    )
    return package


def replace(file, content, name=None, text=None):
    """Gives a file of the copy other content; with a name, puts another in its place."""
    file.unlink()
    if name is not None:
        (file.parent / name).write_bytes(text)
    elif content is not None:
        file.write_bytes(content)


def first_in_path(folder):
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


class TestDamage(TestCase):
    """Whatever is wrong with a file of the package: import torch works."""

    HOW = {"missing": None, "empty": b"", "garbage": b"\x7f(not of any kind"}
    # torch loads without these: what PyTorch imports itself, what is imported when
    # something is compiled, what a C++ compiler reads, and kernels, which are compiled
    # if they are damaged.
    APART = ("__init__.py", "__main__.py", "_inductor", "xpu_cmake_macros.h", "kernels", "kernels.py")

    def outcomes(self, root):
        """For each folder of `root`, what loading from there comes to."""
        return run_program(
            f"""
            import torch

            def state():
                modules = {{n: m for n, m in sys.modules.items() if n.startswith("torch.xpu")}}
                others = [torch._C, torch._C._aoti, torch._C._dynamo.guards, torch.version]
                names = [dict(vars(m)) for m in (*dict(sorted(modules.items())).values(), *others)]
                return sys.meta_path[:], modules, names

            def outcome(folder):
                sys.path.insert(0, folder)
                before = state()
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    torch._import_device_backends()
                mapped = "libtorch_xpu" in open("/proc/self/maps").read()
                loaded = torch._C._has_xpu
                count = sum("torch_xpu_runtime was not loaded" in str(w.message) for w in said)
                return (f"loaded={{loaded}} mapped={{mapped}} as_before={{state() == before}} "
                        f"warnings={{count}} of {{len(said)}}")

            for name in sorted(os.listdir({str(root)!r})):
                if not os.fork():  # what is imported is imported for good
                    print(name, outcome(os.path.join({str(root)!r}, name)), flush=True)
                    os._exit(0)
                os.wait()
            """,
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        )

    def test_every_file(self):
        expected = ["0 loaded=True mapped=True as_before=False warnings=0 of 0"]
        with tempfile.TemporaryDirectory() as root:
            whole = copy_package(pathlib.Path(root, "0"))
            files = [file.relative_to(whole) for file in whole.rglob("*.*")]
            files = [file for file in files if not {*file.parts} & {*self.APART}]
            self.assertGreater(len(files), 5)
            for file in files:
                for how, content in self.HOW.items():
                    name = f"{how}-{str(file).replace(os.sep, '-')}"
                    replace(copy_package(pathlib.Path(root, name)) / file, content)
                    expected.append(f"{name} loaded=False mapped=False as_before=True warnings=1 of 1")
            printed = self.outcomes(root)
        self.assertEqual(sorted(printed.splitlines()), sorted(expected))

    @unittest.skipIf(
        not hasattr(torch.xpu, "fallback_statistics"), "this stage has no such module"
    )
    def test_an_error_half_way_is_taken_back(self):
        with tempfile.TemporaryDirectory() as root:
            package = copy_package(pathlib.Path(root, "it"))
            replace(package / "_comm.py", b"def register(): raise ValueError('half-way')")
            printed = self.outcomes(root)
        self.assertEqual(
            printed, "it loaded=False mapped=True as_before=True warnings=1 of 1\n"
        )

    @unittest.skipIf(
        not hasattr(torch.xpu, "fallback_statistics"), "this stage has no such module"
    )
    @slowTest
    def test_what_inductor_imports(self):
        for how, content in self.HOW.items():
            with tempfile.TemporaryDirectory() as other:
                replace(copy_package(other) / "_inductor" / "host.py", content)
                printed = run_program(
                    "import torch, torch._inductor.compile_fx; print(torch._C._has_xpu)",
                    PYTHONPATH=first_in_path(other),
                )
            self.assertIn("True", printed)
            expected = how != "empty"
            self.assertEqual("torch.compile does not know XPU" in printed, expected, how)


class TestSyclRuntime(TestCase):
    """The SYCL runtime is that of the environment, wherever a library of its name lies."""

    def loaded(self, site, sycl):
        """The libsycl of a program that imports the package from a folder, whose metadata
        says that the SYCL runtime was installed there."""
        soname = importlib.import_module("torch_xpu_runtime._built_for").SYCL_LIBRARY
        library = torch_xpu_runtime._mapping._library_beside_sycl(soname)
        sycl.mkdir(parents=True, exist_ok=True)
        for file in pathlib.Path(library).parent.glob("lib*"):
            (sycl / file.name).symlink_to(file)
        copy_package(site)
        info = site / "intel_sycl_rt-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: intel-sycl-rt\nVersion: 0\n")
        for folder in list(site.parents)[:5]:
            for name in (soname, f"lib/{soname}"):
                planted = folder / name
                if not planted.exists() and os.access(folder, os.W_OK) and folder.name != "tmp":
                    planted.parent.mkdir(exist_ok=True)
                    planted.write_text("planted")
        printed = run_program(
            """
            import torch
            print({line.split()[-1] for line in open("/proc/self/maps") if "libsycl.so" in line})
            """,
            PYTHONPATH=first_in_path(site),
            LD_LIBRARY_PATH=None,
        )
        return printed, f"{ {os.path.realpath(library)} }\n"

    def test_in_an_environment(self):
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        with tempfile.TemporaryDirectory() as root:
            lib = pathlib.Path(root, "a", "b", "lib")
            self.assertEqual(*self.loaded(lib / version / "site-packages", lib))

    def test_in_a_flat_folder(self):
        with tempfile.TemporaryDirectory() as root:
            site = pathlib.Path(root, "a", "b", "c", "d", "e")
            self.assertEqual(*self.loaded(site, site / "lib"))


@unittest.skipIf(COUNT == 0, "there is no device")
class XpuTestCase(TestCase):
    def setUp(self):
        super().setUp()
        torch.xpu.set_device(0)
        self.addCleanup(torch.xpu.set_device, 0)


class TestDevices(XpuTestCase):
    @covers("_xpu_getDevice", "_xpu_getDeviceCount", "_xpu_setDevice", "_xpu_init")
    def test_current_device(self):
        self.assertTrue(torch.xpu.is_available())
        self.assertTrue(torch.xpu.is_initialized())
        self.assertEqual(torch._C._xpu_getDeviceCount(), COUNT)
        self.assertEqual(torch.accelerator.device_count(), COUNT)
        for index in range(COUNT):
            torch.xpu.set_device(index)
            self.assertEqual(torch.xpu.current_device(), index)
            self.assertEqual(torch.accelerator.current_device_index(), index)
        with self.assertRaisesRegex(RuntimeError, f"must be from 0 to {COUNT - 1}"):
            torch.xpu.set_device(COUNT)
        with self.assertRaisesRegex(RuntimeError, "out of range"):
            torch.xpu.set_device(256)

    @covers("_xpu_exchangeDevice", "_xpu_maybeExchangeDevice")
    def test_guards(self):
        last = COUNT - 1
        with torch.xpu.device(last):
            self.assertEqual(torch.xpu.current_device(), last)
            with torch.xpu.device(None):
                self.assertEqual(torch.xpu.current_device(), last)
        self.assertEqual(torch.xpu.current_device(), 0)
        self.assertEqual(torch.xpu._exchange_device(last), 0)
        self.assertEqual(torch.xpu._maybe_exchange_device(-1), -1)
        with torch.accelerator.device_index(0):
            self.assertEqual(torch.xpu.current_device(), 0)
        self.assertEqual(torch.xpu.current_device(), last)

    @covers("_XpuDeviceProperties")
    def test_properties(self):
        properties = torch.xpu.get_device_properties(0)
        self.assertIsInstance(properties, torch._C._XpuDeviceProperties)
        stub = pathlib.Path(torch.__file__).parent / "_C" / "__init__.pyi"
        body = stub.read_text().split("class _XpuDeviceProperties:")[1].split("class ")[0]
        types = dict(line.split(":") for line in body.split("\n") if ":" in line)
        self.assertEqual(len(types), 28)
        for name, type_name in types.items():
            value = getattr(properties, name.strip())
            expected = {"str": str, "_int": int, "_bool": bool, "list[_int]": list}
            if type_name.strip() in expected:
                self.assertIs(type(value), expected[type_name.strip()], name)
        self.assertEqual(torch.xpu.get_device_name(0), properties.name)
        self.assertGreater(properties.total_memory, 0)
        self.assertIsInstance(properties.uuid, uuid.UUID)
        self.assertEqual(properties.last_level_cache_size, properties.global_mem_cache_size)
        if properties.type == "cpu":
            self.assertFalse(properties.is_integrated_gpu)
            self.assertFalse(properties.has_subgroup_matrix_multiply_accumulate)
            self.assertGreater(properties.architecture, 0)  # x86_64
        again = torch.xpu.get_device_properties(0)
        self.assertEqual(again.uuid, properties.uuid)
        self.assertEqual(torch.xpu.get_device_capability(0)["name"], properties.name)
        self.assertIs(torch.xpu.is_bf16_supported(), True)
        self.assertIs(torch.xpu.is_bf16_supported(False), properties.has_bfloat16_conversions)
        self.assertIsInstance(torch.xpu.is_tf32_supported(), bool)
        with self.assertRaisesRegex(RuntimeError, "out of range"):
            torch.xpu.get_device_properties(COUNT)

    @covers("_xpu_canDeviceAccessPeer", "_xpu_getArchFlags")
    def test_peers_and_architectures(self):
        for peer in range(COUNT):
            self.assertIsInstance(torch.xpu.can_device_access_peer(0, peer), bool)
        self.assertTrue(torch.xpu.can_device_access_peer(0, 0))
        with self.assertRaisesRegex(RuntimeError, "out of range"):
            torch.xpu.can_device_access_peer(0, COUNT)
        self.assertEqual(torch.xpu.get_arch_list(), [])
        self.assertEqual(torch.xpu.get_gencode_flags(), "")

    @covers("_xpu_isInBadFork")
    def test_fork(self):
        printed = run_program(
            """
            import torch
            def child():
                sys.stdout.flush()
                if os.fork():
                    return os.wait()
                try:
                    print(torch.xpu._is_in_bad_fork(), torch.xpu.is_initialized(), flush=True)
                    print(torch.xpu.Stream(), flush=True)
                except RuntimeError as error:
                    print(error, flush=True)
                os._exit(0)
            child()
            torch.xpu.init()
            child()
            print(torch.xpu.current_stream().query())
            """
        )
        self.assertRegex(
            printed,
            r"False False\ntorch.xpu.Stream\(device=xpu:0 .*\)\n"
            r"True False\nCannot re-initialize XPU in forked subprocess.*'spawn'.*\nTrue\n",
        )

    def test_no_device(self):
        printed = run_program(
            """
            import torch
            print(torch.xpu.device_count(), torch.xpu.is_available(), torch.accelerator.is_available())
            for _ in range(2):
                try:
                    torch.xpu.init()
                except RuntimeError as error:
                    print("error", str(error).split(".")[0])
            """,
            TORCH_XPU_MAPPING="CPU",
            OCL_ICD_FILENAMES="/nowhere/libintelocl.so",
            OCL_ICD_VENDORS="/nowhere",
        )
        self.assertIn("0 False False\n", printed)
        self.assertEqual(printed.count("error"), 2, printed)

    def test_set_mapping(self):
        kind = torch.xpu.get_device_properties(0).type if COUNT else "cpu"
        other = "CPU" if MAPPING == "GPU" else "GPU"
        printed = run_program(
            f"""
            import torch
            torch.xpu.set_mapping("{MAPPING}")
            print(torch.xpu.mapping(), torch.xpu.get_device_properties().type)
            try:
                torch.xpu.set_mapping("{other}")
            except RuntimeError as error:
                print("before the first use" in str(error))
            """,
            TORCH_XPU_MAPPING=None,
        )
        self.assertEqual(printed, f"{MAPPING} {kind}\nTrue\n")

    def test_interface_of_dynamo(self):
        interface = get_interface_for_device("xpu")
        self.assertIs(interface, get_interface_for_device(torch.device("xpu", COUNT - 1)))
        if torch.__version__ < (2, 15):  # later it takes no names with an index
            self.assertIs(interface, get_interface_for_device(f"xpu:{COUNT - 1}"))
        self.assertIs(interface, get_interface_for_device(torch.device("xpu")))
        self.assertIs(interface.Stream, torch.xpu.Stream)
        self.assertIs(interface.Event, torch.xpu.Event)
        self.assertEqual(interface.device_count(), COUNT)
        self.assertEqual(interface.get_raw_stream(0), torch.xpu.current_stream(0).sycl_queue)
        with self.assertRaises(NotImplementedError):
            get_interface_for_device("none")


class TestStreams(XpuTestCase):
    @covers("_XpuStreamBase")
    def test_stream(self):
        stream = torch.xpu.Stream(COUNT - 1, priority=-1)
        self.assertIsInstance(stream, torch.Stream)
        self.assertEqual(stream.device, torch.device("xpu", COUNT - 1))
        self.assertEqual(stream.device_type, torch.xpu.current_stream().device_type)
        self.assertLessEqual(stream.priority, torch.xpu.Stream.priority_range()[0])
        stream.synchronize()
        self.assertTrue(stream.query())
        self.assertNotEqual(stream, torch.xpu.Stream(COUNT - 1))
        named = (stream.stream_id, stream.device_index, stream.device_type)
        same = torch.xpu.Stream(
            stream_id=named[0], device_index=named[1], device_type=named[2]
        )
        self.assertEqual(same, stream)
        self.assertEqual(hash(same), hash(stream))
        other = torch.Stream(stream_id=named[0], device_index=named[1], device_type=named[2])
        self.assertEqual((other.stream_id, other.device_index, other.device_type), named)
        stream.wait_stream(torch.xpu.Stream(0))
        del stream, same, other
        gc.collect()

    @covers("_xpu_getCurrentStream", "_xpu_setStream", "_xpu_getCurrentRawStream")
    def test_current_stream(self):
        before = torch.xpu.current_stream()
        stream = torch.xpu.Stream()
        with torch.xpu.stream(stream):
            self.assertEqual(torch.xpu.current_stream(), stream)
            self.assertEqual(torch.accelerator.current_stream().stream_id, stream.stream_id)
            self.assertEqual(torch._C._xpu_getCurrentRawStream(0), stream.sycl_queue)
        self.assertEqual(torch.xpu.current_stream(), before)
        with stream:
            self.assertEqual(torch.xpu.current_stream(), stream)
        generic = torch.Stream("xpu")
        with generic:
            self.assertEqual(torch.xpu.current_stream().stream_id, generic.stream_id)
        self.assertEqual(torch.xpu.current_stream(), before)
        torch.accelerator.set_stream(stream)
        self.assertEqual(torch.xpu.current_stream(), stream)
        torch.xpu.set_stream(before)

    def test_a_stream_of_another_device(self):
        if COUNT < 2:
            self.skipTest("there is one device")
        stream = torch.xpu.Stream(1)
        with torch.xpu.stream(stream):
            self.assertEqual(torch.xpu.current_device(), 1)
        self.assertEqual(torch.xpu.current_device(), 0)
        with stream:
            self.assertEqual(torch.xpu.current_device(), 1)
        self.assertEqual(torch.xpu.current_device(), 0)

    def test_streams_of_a_device_that_does_not_exist(self):
        known = torch.xpu.current_stream()
        beyond = torch.Stream(
            stream_id=0, device_index=COUNT, device_type=known.device_type
        )
        for ask in (
            torch.accelerator.current_stream,
            torch.xpu.current_stream,
            torch.xpu.Stream,
            lambda index: torch.Stream(torch.device("xpu", index)),
            lambda _: torch.accelerator.set_stream(beyond),
            lambda _: torch.Event("xpu").record(beyond),
            lambda _: beyond.query(),
            lambda _: beyond.synchronize(),
            lambda _: beyond.native_handle,
        ):
            with self.assertRaisesRegex(
                RuntimeError, f"XPU device index {COUNT} is out of range"
            ):
                ask(COUNT)
        self.assertEqual(torch.xpu.current_stream(), known)

    @covers("_xpu_getStreamFromExternal")
    def test_external_stream(self):
        queue = torch.xpu.Stream()
        stream = torch.xpu.get_stream_from_external(queue.sycl_queue, 0)
        self.assertEqual(stream.sycl_queue, queue.sycl_queue)
        with torch.xpu.stream(stream):
            self.assertEqual(torch.xpu.current_stream(), stream)
        stream.synchronize()

    @covers("_xpu_synchronize")
    def test_synchronize(self):
        event = torch.xpu.Stream(COUNT - 1).record_event()
        torch.xpu.synchronize(COUNT - 1)
        self.assertTrue(event.query())
        torch.accelerator.synchronize()
        with self.assertRaisesRegex(RuntimeError, "out of range"):
            torch.xpu.synchronize(COUNT)

    @covers("_xpu_sleep")
    def test_sleep(self):
        stream = torch.xpu.Stream(COUNT - 1)
        began = time.perf_counter()
        with torch.xpu.stream(stream):
            torch._C._xpu_sleep(100_000_000)
        stream.synchronize()
        self.assertGreaterEqual(time.perf_counter() - began, 0.01)  # at 10 GHz


class TestEvents(XpuTestCase):
    @covers("_XpuEventBase")
    def test_event(self):
        event = torch.xpu.Event()
        self.assertIsInstance(event, torch.Event)
        self.assertEqual((event.device, event.sycl_event, event.query()), (None, 0, True))
        event.synchronize()
        stream = torch.xpu.Stream()
        event.wait(stream)
        event.record(stream)
        event.synchronize()
        self.assertTrue(event.query())
        self.assertEqual(event.device, torch.device("xpu:0"))
        self.assertNotEqual(event.sycl_event, 0)
        for other in (torch.xpu.current_stream(), torch.Stream("xpu")):
            event.record(other)
            event.wait(other)
        with self.assertRaisesRegex(TypeError, "expected a torch.xpu.Stream, but got int"):
            super(torch.xpu.Event, event).record(3)
        with self.assertRaisesRegex(TypeError, "expected a torch.xpu.Event, but got int"):
            event.elapsed_time(3)
        if COUNT > 1:
            with self.assertRaisesRegex(RuntimeError, "xpu:1"):
                event.record(torch.xpu.Stream(1))

    def test_elapsed_time(self):
        stream = torch.xpu.Stream()
        for kind in (torch.xpu.Event, lambda **kwargs: torch.Event("xpu", **kwargs)):
            first, second = kind(enable_timing=True), kind(enable_timing=True)
            with self.assertRaisesRegex(ValueError, "must be recorded"):
                first.elapsed_time(second)
            first.record(stream)
            second.record(stream)
            second.synchronize()
            self.assertGreaterEqual(first.elapsed_time(second), 0)
            self.assertLess(first.elapsed_time(second), 1e4)
            untimed = kind()
            untimed.record(stream)
            stream.synchronize()
            with self.assertRaisesRegex(ValueError, "enable_timing=True"):
                first.elapsed_time(untimed)

    def test_generic_event(self):
        stream = torch.Stream("xpu")
        event = stream.record_event()
        self.assertEqual(event.device.type, "xpu")
        torch.Stream("xpu").wait_event(event)
        event.synchronize()
        self.assertTrue(event.query())


def storage(size, device="xpu"):
    return torch.UntypedStorage(size, device=device)


class MemoryTestCase(XpuTestCase):
    """Tests before may have left tensors in the process: what counts is what changes."""

    def setUp(self):
        super().setUp()
        gc.collect()
        torch.xpu.synchronize()
        torch.xpu.empty_cache()
        self.reserved = torch.xpu.memory_reserved()


class TestMemory(MemoryTestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch.xpu.memory._record_memory_history, None)

    @covers(
        "_xpu_memoryStats",
        "_xpu_emptyCache",
        "_xpu_resetPeakMemoryStats",
        "_xpu_resetAccumulatedMemoryStats",
    )
    def test_statistics(self):
        torch.xpu.reset_peak_memory_stats()
        torch.xpu.reset_accumulated_memory_stats()
        before = torch.xpu.memory_allocated()
        held = storage(4 * MiB)
        self.assertEqual(torch.xpu.memory_allocated(), before + 4 * MiB)
        self.assertEqual(torch.accelerator.memory_allocated(), before + 4 * MiB)
        self.assertGreaterEqual(torch.xpu.memory_reserved(), before + 4 * MiB)
        del held
        self.assertEqual(torch.xpu.memory_allocated(), before)
        self.assertEqual(torch.xpu.max_memory_allocated(), before + 4 * MiB)
        stats = torch.xpu.memory_stats()
        self.assertEqual(stats["allocated_bytes.all.freed"], 4 * MiB)
        self.assertGreaterEqual(stats["reserved_bytes.all.current"], before + 4 * MiB)
        torch.xpu.empty_cache()
        self.assertEqual(torch.xpu.memory_reserved(), self.reserved)
        torch.accelerator.empty_cache()
        torch.xpu.reset_peak_memory_stats()
        self.assertEqual(torch.accelerator.max_memory_allocated(), before)
        self.assertEqual(torch.accelerator.memory_stats()["num_ooms"], stats["num_ooms"])

    @covers("_xpu_getMemoryInfo")
    def test_memory_info(self):
        properties = torch.xpu.get_device_properties()
        free, total = torch.xpu.mem_get_info()
        self.assertEqual(total, properties.total_memory)
        self.assertTrue(0 < free <= total)
        if properties.type == "cpu":
            with open("/proc/meminfo") as file:
                (available,) = (int(line.split()[1]) for line in file if "MemAvailable" in line)
            # Other processes take and give memory in between; a container has less.
            self.assertLess(free, 1024 * available + total // 4)

    @covers("_xpu_getMemoryFraction", "_xpu_setMemoryFraction")
    def test_memory_fraction(self):
        self.assertEqual(torch.xpu.get_per_process_memory_fraction(), 1.0)
        self.addCleanup(torch.xpu.set_per_process_memory_fraction, 1.0)
        torch.xpu.set_per_process_memory_fraction(0.0)
        self.assertEqual(torch.xpu.get_per_process_memory_fraction(), 0.0)
        with self.assertRaisesRegex(torch.OutOfMemoryError, "4.00 MiB"):
            storage(4 * MiB)
        torch.xpu.set_per_process_memory_fraction(0.5, 0)
        self.assertEqual(torch.xpu.get_per_process_memory_fraction(0), 0.5)
        with self.assertRaisesRegex(RuntimeError, "must be from 0 to 1"):
            torch.xpu.set_per_process_memory_fraction(1.5)

    @covers("_xpu_memorySnapshot", "_xpu_recordMemoryHistory")
    def test_history(self):
        torch.xpu.memory._record_memory_history(clear_history=True)
        size = 64 * MiB  # too large for a segment that is there
        held = storage(size)
        (block,) = [
            block
            for segment in torch.xpu.memory_snapshot()
            for block in segment["blocks"]
            if block["address"] == held.data_ptr()
        ]
        self.assertEqual((block["requested_size"], block["state"]), (size, "active_allocated"))
        self.assertIn("storage", [frame["name"] for frame in block["frames"]])
        del held
        (trace,) = [t for t in torch.xpu.memory._snapshot()["device_traces"] if t]
        actions = [entry["action"] for entry in trace]
        self.assertEqual(
            actions, ["segment_alloc", "alloc", "free_requested", "free_completed"]
        )
        # Recording continues, without the skipped actions.
        torch.xpu.memory._record_memory_history(skip_actions=["alloc", "segment_map"])
        storage(size)
        (trace,) = [t for t in torch.xpu.memory._snapshot()["device_traces"] if t]
        self.assertEqual(
            [entry["action"] for entry in trace],
            [*actions, "free_requested", "free_completed"],
        )
        torch.xpu.memory._record_memory_history(max_entries=1, clear_history=True)
        storage(size)
        (trace,) = [t for t in torch.xpu.memory._snapshot()["device_traces"] if t]
        self.assertEqual([entry["action"] for entry in trace], ["free_completed"])
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "snapshot.pickle")
            torch.xpu.memory._dump_snapshot(file)
            with open(file, "rb") as dumped:
                self.assertIn("segments", pickle.load(dumped))
        with self.assertRaisesRegex(ValueError, "skip_actions has 'fly'"):
            torch.xpu.memory._record_memory_history(skip_actions=["fly"])
        self.assertEqual(torch.xpu.memory_snapshot((1, 2)), [])
        self.assertIsInstance(torch.xpu.memory_snapshot((0, 0)), list)

    @covers(
        "_xpu_XPUAllocator",
        "_xpu_customAllocator",
        "_xpu_changeCurrentAllocator",
        "_xpu_getAllocator",
    )
    def test_pluggable_allocator(self):
        self.assertIsInstance(torch._C._xpu_getAllocator(), torch._C._xpu_XPUAllocator)
        printed = run_program(
            """
            import torch
            other = torch.xpu.XPUPluggableAllocator("libc.so.6", "malloc", "free")
            torch.xpu.change_current_allocator(other)
            print(torch.xpu.memory._get_current_allocator().allocator() is other.allocator())
            held = torch.UntypedStorage(600, device="xpu")
            print(held.device, held.data_ptr() != 0)
            del held
            try:
                torch.xpu.change_current_allocator(other)
            except RuntimeError as error:
                print("before the first use" in str(error))
            """
        )
        self.assertEqual(printed, "True\nxpu:0 True\nTrue\n")
        with self.assertRaisesRegex(RuntimeError, "null function"):
            torch._C._xpu_customAllocator(0, 0)


class TestAllocatorSettings(TestCase):
    """PyTorch's settings for all accelerators, and those of XPU alone."""

    def printed(self, program, common=None, own=None):
        return run_program(
            """
            import torch
            warnings.simplefilter("always")

            def change(settings):
                try:
                    torch._C._accelerator_setAllocatorSettings(settings)
                except (RuntimeError, ValueError) as error:
                    print(type(error).__name__, str(error))

            def limit():
                torch.xpu.init()
                return torch.xpu.memory_stats()["max_split_size"] // (1 << 20)
            """
            + program,
            PYTORCH_ALLOC_CONF=common,
            PYTORCH_CUDA_ALLOC_CONF=None,
            PYTORCH_XPU_ALLOC_CONF=own,
        )

    SHOW_LIMIT = """
            print("limit", limit())
            """

    def test_common_settings(self):
        printed = self.printed(self.SHOW_LIMIT, "max_split_size_mb:100")
        self.assertEqual(printed, "limit 100\n")

    def test_settings_of_xpu_come_first(self):
        settings = "max_split_size_mb:100,expandable_segments:True"
        printed = self.printed(self.SHOW_LIMIT, settings, "max_split_size_mb:50")
        self.assertEqual(printed, "limit 50\n")

    def test_what_has_no_effect_is_said(self):
        settings = (
            "expandable_segments:True, max_split_size_mb:100,"
            "roundup_power2_divisions:[256:1,>:4],pinned_use_background_threads:False"
        )
        printed = self.printed(self.SHOW_LIMIT, settings)
        for option in ("expandable_segments:True", "roundup_power2_divisions:[256:1,>:4]"):
            self.assertIn(f"'{option}' has no effect on XPU, which has max_split", printed)
        self.assertNotIn("pinned", printed)
        self.assertIn("limit 100\n", printed)

    def test_wrong_settings(self):
        show = """
            try:
                limit()
            except (RuntimeError, ValueError) as error:
                print(type(error).__name__, error)
            """
        self.assertIn("ValueError Unrecognized key 'fly'", self.printed(show, "fly:1"))
        self.assertIn("max_split_size_mb too small", self.printed(show, "max_split_size_mb:3"))

    def test_changes(self):
        printed = self.printed(
            """
            change("fly:1")
            change("max_split_size_mb:200")
            print("limit", limit())
            change("max_split_size_mb:200,expandable_segments:False")
            change("max_split_size_mb:300")
            print("limit", limit())
            """
        )
        wrong, first, late, second = printed.splitlines()
        self.assertIn("ValueError Unrecognized key 'fly'", wrong)
        self.assertEqual((first, second), ("limit 200", "limit 200"))
        self.assertIn("'max_split_size_mb:300' come too late", late)


def in_thread(function):
    """What a function returns in another thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result()


class TestMemPools(MemoryTestCase):
    def blocks(self, pool):
        """The addresses of what is allocated from a pool."""
        return [
            block["address"]
            for segment in pool.snapshot()
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]

    @covers(
        "_XPUMemPool",
        "_xpu_beginAllocateCurrentThreadToPool",
        "_xpu_endAllocateToPool",
        "_xpu_releasePool",
    )
    def test_use_mem_pool(self):
        pool = torch.xpu.MemPool()
        self.assertEqual((pool.use_count(), pool.allocator), (1, None))
        before = storage(600)
        with torch.xpu.use_mem_pool(pool):
            self.assertEqual(pool.use_count(), 2)
            held = storage(600)
            from_thread = in_thread(lambda: storage(600))
        after = storage(600)
        self.assertEqual(pool.use_count(), 1)
        self.assertEqual(self.blocks(pool), [held.data_ptr()])
        (segment,) = pool.snapshot()
        self.assertEqual(segment["segment_pool_id"], pool.id)
        others = {s["segment_pool_id"] for s in torch.xpu.memory_snapshot()} - {pool.id}
        self.assertEqual(others, {(0, 0)})
        del before, after, from_thread
        with self.assertRaisesRegex(NotImplementedError, "splits its segments"):
            torch._C._XPUMemPool(None, True, False, True)  # no_split, since PyTorch 2.15

    def test_pools_in_pools(self):
        outer, inner = torch.xpu.MemPool(), torch.xpu.MemPool()
        self.assertNotEqual(outer.id, inner.id)
        with torch.xpu.use_mem_pool(outer):
            with torch.xpu.use_mem_pool(inner):
                first = storage(600)
            second = storage(600)
            with self.assertRaisesRegex(RuntimeError, "is being allocated to already"):
                with torch.xpu.use_mem_pool(outer):
                    self.fail("it was entered twice")
        self.assertEqual(self.blocks(inner), [first.data_ptr()])
        self.assertEqual(self.blocks(outer), [second.data_ptr()])
        self.assertEqual(outer.use_count(), 1)

    def test_memory_stays_as_long_as_the_pool(self):
        pool = torch.xpu.MemPool()
        with torch.xpu.use_mem_pool(pool):
            storage(4 * MiB)
            held = storage(600)
        torch.xpu.empty_cache()
        self.assertEqual(torch.xpu.memory_reserved(), self.reserved + 6 * MiB)
        name = pool.id
        del pool
        self.assertEqual(torch.xpu.memory_reserved(), self.reserved + 2 * MiB)
        self.assertEqual(len(torch.xpu.memory_snapshot(name)), 1)
        del held
        torch.xpu.empty_cache()
        self.assertEqual(torch.xpu.memory_snapshot(name), [])

    @covers("_xpu_beginAllocateToPool", "_xpu_graph_pool_handle")
    def test_all_threads(self):
        name = torch.xpu.graph_pool_handle()
        torch._C._xpu_beginAllocateToPool(0, name)
        held = in_thread(lambda: storage(600))
        torch._C._xpu_endAllocateToPool(0, name)
        torch._C._xpu_releasePool(0, name)
        (segment,) = torch.xpu.memory_snapshot(name)
        self.assertEqual(segment["address"], held.data_ptr())
        for end in (torch._C._xpu_endAllocateToPool, torch._C._xpu_releasePool):
            with self.assertRaisesRegex(RuntimeError, "is not in use"):
                end(0, name)
        with self.assertRaises(RuntimeError):
            torch._C._xpu_beginAllocateToPool(COUNT, name)

    def test_use_on_oom(self):
        self.addCleanup(torch.xpu.set_per_process_memory_fraction, 1.0)
        for use_on_oom in (False, True):
            pool = torch.xpu.MemPool(use_on_oom=use_on_oom)
            with torch.xpu.use_mem_pool(pool):
                storage(4 * MiB)
            torch.xpu.set_per_process_memory_fraction(0.0)
            if use_on_oom:
                held = storage(4 * MiB)
                self.assertEqual(self.blocks(pool), [held.data_ptr()])
                del held
            else:
                with self.assertRaises(torch.OutOfMemoryError):
                    storage(4 * MiB)
            torch.xpu.set_per_process_memory_fraction(1.0)

    def test_pool_with_an_allocator(self):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        alive = {}

        @ctypes.CFUNCTYPE(
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
        )
        def allocate(size, device, queue):
            address = libc.malloc(ctypes.c_size_t(size))
            alive[address] = (size, device)
            return address

        @ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
        )
        def free(address, size, device, queue):
            assert alive.pop(address) == (size, device)
            libc.free(ctypes.c_void_p(address))

        own = torch._C._xpu_customAllocator(
            *(ctypes.cast(f, ctypes.c_void_p).value for f in (allocate, free))
        )
        pool = torch.xpu.MemPool(own)
        self.assertIs(pool.allocator, own)
        with torch.xpu.use_mem_pool(pool):
            held = [storage(600), storage(600)]
        outside = storage(600)
        self.assertEqual(list(alive.values()), [(2 * MiB, 0)])
        self.assertIn(held[0].data_ptr(), alive)
        del pool
        self.assertEqual(len(alive), 1)
        del held
        torch.xpu.empty_cache()
        self.assertEqual(alive, {})
        del outside
        # The allocator of all memory means none of its own.
        everyones = torch.xpu.memory._get_current_allocator().allocator()
        pool = torch.xpu.MemPool(everyones)
        with torch.xpu.use_mem_pool(pool):
            held = storage(600)
        self.assertEqual(self.blocks(pool), [held.data_ptr()])

    def test_another_device(self):
        if COUNT < 2:
            self.skipTest("needs two devices")
        pool = torch.xpu.MemPool()
        with torch.xpu.use_mem_pool(pool, "xpu:1"):
            there = torch.UntypedStorage(600, device="xpu:1")
            storage(600)
        (segment,) = pool.snapshot()
        self.assertEqual((segment["device"], segment["address"]), (1, there.data_ptr()))

    def test_history_names_the_pool(self):
        self.addCleanup(torch.xpu.memory._record_memory_history, None)
        torch.xpu.memory._record_memory_history(clear_history=True)
        pool = torch.xpu.MemPool()
        with torch.xpu.use_mem_pool(pool):
            storage(600)
        trace = torch.xpu.memory._snapshot()["device_traces"][0]
        self.assertEqual({entry["segment_pool_id"] for entry in trace}, {pool.id})

    def test_pools_at_exit_and_in_a_fork(self):
        printed = run_program(
            """
            import torch
            pool = torch.xpu.MemPool()
            with torch.xpu.use_mem_pool(pool):
                held = torch.UntypedStorage(600, device="xpu")
            child = os.fork()
            if not child:
                del pool, held
                print("child", flush=True)
                os._exit(0)
            print(os.waitpid(child, 0)[1])
            """,
            PYTHONWARNINGS="ignore::DeprecationWarning",  # Python 3.12, of fork
        )
        self.assertEqual(printed, "child\n0\n")


@unittest.skipIf(
    not hasattr(torch.xpu, "fallback_statistics"), "this stage has no tensors"
)
class TestLocks(TestCase):
    """A thread that holds Python's GIL waits for the allocator, while another one
    allocates, of which Python is told."""

    PROGRAM = """
        import ctypes, faulthandler, threading
        import torch
        import torch.xpu._gpu_trace

        pool = torch.xpu.MemPool()
        tensor = torch.empty(600, device="xpu")
        held = torch.UntypedStorage(600, device="xpu")
        inside, done = threading.Event(), threading.Event()

        def on_a_new_stream(before):
            with torch.xpu.stream(torch.xpu.Stream()):
                before()
                torch.empty(600, device="xpu")

        def from_a_pool(before):
            with torch.xpu.use_mem_pool(pool):
                before()
                torch.empty(600, device="xpu")

        doors = [
            pool.use_count,
            lambda: torch.from_dlpack(tensor),
            lambda: held.resize_(held.nbytes() + 64 * 1024 * 1024),
        ]
        sys.setswitchinterval(1000)  # only a thread that waits gives the GIL away

        def try_all(other, before=lambda: None):
            for allocate in (on_a_new_stream, from_a_pool):
                for door in doors:
                    inside.clear(), done.clear()
                    faulthandler.dump_traceback_later(60, exit=True)
                    thread = threading.Thread(target=other, args=(door,))
                    thread.start()
                    allocate(before)
                    thread.join()
            print("ended")
    """

    def test_history(self):
        printed = run_program(
            textwrap.dedent(self.PROGRAM)
            + textwrap.dedent(
                """
                def other(door):
                    # Gets the GIL when the main thread allocates, and sleeps with it
                    # until that one needs it.
                    inside.wait()
                    ctypes.PyDLL(None).usleep(300_000)
                    door()

                torch.xpu.memory._record_memory_history(stacks="python")
                try_all(other, before=inside.set)
                """
            )
        )
        self.assertEqual(printed, "ended\n")

    def test_trace_hooks(self):
        printed = run_program(
            textwrap.dedent(self.PROGRAM)
            + textwrap.dedent(
                """
                def hook(address):
                    if threading.current_thread() is threading.main_thread():
                        inside.set()
                        done.wait()

                def other(door):
                    inside.wait()
                    door()
                    done.set()

                torch._C._activate_gpu_trace()
                torch.xpu._gpu_trace.register_callback_for_memory_allocation(hook)
                try_all(other)
                """
            )
        )
        self.assertEqual(printed, "ended\n")


class TestGraphs(XpuTestCase):
    @covers("_XPUGraph", "_xpu_isCurrentStreamCapturing")
    def test_capture(self):
        graph = torch.xpu.XPUGraph()
        self.assertIs(torch.xpu.is_current_stream_capturing(), False)
        if torch.xpu.get_device_properties().type == "cpu":
            with self.assertRaisesRegex(NotImplementedError, "xpu:0 .*without a graph"):
                graph.capture_begin()
            return
        with torch.xpu.stream(torch.xpu.Stream()):
            graph.capture_begin(pool=torch.xpu.graph_pool_handle())
            self.assertIs(torch.xpu.is_current_stream_capturing(), True)
            held = storage(600)
            graph.capture_end()
            (segment,) = torch.xpu.memory_snapshot(graph.pool())
            self.assertEqual(segment["address"], held.data_ptr())
            graph.replay()
            torch.xpu.synchronize()
        graph.reset()

    def test_misuse(self):
        graph = torch.xpu.XPUGraph(keep_graph=True)
        for use in (graph.replay, graph.pool, graph.instantiate, graph.raw_xpu_graph):
            with self.assertRaisesRegex(RuntimeError, "after (its|a) capture"):
                use()
        with self.assertRaisesRegex(RuntimeError, "does not record"):
            graph.capture_end()
        graph.register_generator_state(torch.Generator(device="xpu"))
        with self.assertRaisesRegex(RuntimeError, "Expected a 'xpu' device"):
            graph.register_generator_state(torch.Generator())
        graph.reset()  # nothing to forget

    def test_no_capture_before_the_first_use(self):
        printed = run_program(
            """
            import torch
            print(torch.xpu.is_current_stream_capturing(), torch.xpu.is_initialized())
            print(runtime_is_started())
            """
        )
        self.assertEqual(printed, "False False\nFalse\n")


class TestRandom(XpuTestCase):
    def test_default_generators(self):
        self.assertEqual(len(torch.xpu.default_generators), COUNT)
        for index, generator in enumerate(torch.xpu.default_generators):
            self.assertEqual(generator.device, torch.device("xpu", index))
        torch.manual_seed(7)
        self.assertEqual({g.initial_seed() for g in torch.xpu.default_generators}, {7})
        torch.xpu.manual_seed(8)
        self.assertEqual(torch.xpu.initial_seed(), 8)
        state = torch.xpu.get_rng_state()
        self.assertEqual(state.shape, (16,))
        torch.xpu.seed()
        torch.xpu.set_rng_state(state)
        self.assertEqual(torch.xpu.initial_seed(), 8)
        torch.xpu.manual_seed_all(9)
        self.assertEqual(torch.xpu.get_rng_state_all(), [torch.xpu.get_rng_state(0)] * COUNT)
        torch.xpu._set_rng_state_offset(8)
        self.assertEqual(torch.xpu._get_rng_state_offset(), 8)

    def test_seed_before_the_first_use(self):
        printed = run_program(
            """
            import torch
            torch.manual_seed(11)
            torch.xpu.manual_seed(12)
            print(torch.xpu.is_initialized(), torch.xpu.initial_seed(), torch.initial_seed())
            """
        )
        self.assertEqual(printed, "False 12 11\n")

    def test_generator(self):
        generator = torch.Generator(device="xpu")
        self.assertEqual(generator.device, torch.device("xpu:0"))
        generator.manual_seed(5)
        copy = generator.clone_state()
        generator.seed()
        self.assertEqual(copy.initial_seed(), 5)
        generator.set_state(copy.get_state())
        self.assertEqual(generator.initial_seed(), 5)

    def test_fork_rng(self):
        torch.manual_seed(3)
        with torch.random.fork_rng(devices=range(COUNT), device_type="xpu"):
            torch.manual_seed(4)
        self.assertEqual(torch.xpu.initial_seed(), 3)


class TestUnsupported(XpuTestCase):
    """What the runtime has nothing for says why."""

    @covers("_StaticXpuLauncher", "_aoti.AOTIModelContainerRunnerXpu")
    def test_inductor(self):
        with self.assertRaisesRegex(NotImplementedError, "no static launcher"):
            torch._C._StaticXpuLauncher._load_kernel("a", "b")
        # With tensors it needs a file, or host memory.
        with self.assertRaisesRegex(RuntimeError, "for CPU|a.so|not host memory"):
            torch._C._aoti.AOTIModelContainerRunnerXpu("a.so", 1, "xpu")

    @covers("_dynamo.guards._empty_strided_xpu")
    def test_empty_strided(self):
        allocate = torch._C._dynamo.guards._empty_strided_xpu
        if torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty_strided", "XPU"):
            made = allocate((2, 3), (3, 1), torch.float16)
            self.assertEqual((made.device.type, made.stride()), ("xpu", (3, 1)))
        else:
            with self.assertRaisesRegex(NotImplementedError, "aten::empty_strided"):
                allocate((2, 3), (3, 1), torch.float16)

    def test_telemetry(self):
        try:
            import pyzes  # noqa: F401
        except ImportError:
            for name in ("temperature", "power_draw", "clock_rate", "utilization"):
                with self.assertRaisesRegex(ImportError, "pip install pyzes"):
                    getattr(torch.xpu, name)()
        else:
            self.skipTest("sysman's answers depend on the device")


if __name__ == "__main__":
    run_tests()
