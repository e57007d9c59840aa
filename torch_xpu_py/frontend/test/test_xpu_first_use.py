# Owner(s): ["module: intel"]
"""The first use of torch.xpu: when it happens, what it does, how it fails.

It happens once in a process, so each test runs programs of its own. They use the
CPU mapping, which works on every machine.
"""

import os
import re
import subprocess
import sys
import textwrap
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

TIMEOUT = 120  # seconds, for what would hang if threads waited for each other

# What every program can use.
PRELUDE = """
import os, sys, threading, warnings
import torch
from torch import xpu

def runtime_is_started():
    with open("/proc/self/maps") as maps:
        return any(name in maps.read() for name in ("libur_adapter", "libintelocl"))

def error_of(action, *args):
    try:
        action(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"

def in_child(action):
    "Runs the action in a forked child; whether it returned."
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0
"""


MAPPING = os.environ.get("TORCH_XPU_MAPPING", "CPU")


@unittest.skipIf(MAPPING != "CPU", "its programs choose a mapping themselves")
class XpuFirstUseTestCase(TestCase):
    def run_program(self, program, devices=1, **environment):
        """What a program prints, errors and warnings included; it must succeed.

        A variable of the environment that is None is not set.
        """
        variables = {
            **os.environ,
            "TORCH_XPU_MAPPING": "CPU",
            "TORCH_XPU_VIRTUAL_DEVICES": str(devices),
            **environment,
        }
        result = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
            env={k: v for k, v in variables.items() if v is not None},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout


class TestImport(XpuFirstUseTestCase):
    def test_import_starts_no_runtime(self):
        printed = self.run_program(
            """
            print(runtime_is_started())
            torch.manual_seed(1)
            torch.seed()
            xpu.empty_cache(), xpu.memory_allocated(), xpu.memory_snapshot()
            xpu.mapping(), xpu.set_mapping("CPU"), xpu.is_initialized()
            xpu.Event(), xpu.device(0), xpu.set_rng_state(torch.zeros(16).byte())
            torch.Generator(), torch.device("xpu", 3), torch.zeros(3).sum()
            print(runtime_is_started(), xpu.is_initialized())
            print(xpu.device_count(), runtime_is_started(), xpu.is_initialized())
            xpu.init()
            print(xpu.is_initialized())
            """
        )
        self.assertExpectedInline(
            printed,
            """\
False
False False
1 True False
True
""",
        )

    def test_every_use_initializes(self):
        printed = self.run_program(
            """
            uses = [
                xpu.init, xpu.current_device, lambda: xpu.set_device(0),
                xpu.get_device_name, xpu.get_device_properties, xpu.synchronize,
                xpu.Stream, xpu.current_stream, lambda: xpu.Event().record(),
                xpu.memory_summary, xpu.default_stream, xpu.get_rng_state,
                xpu.initial_seed, lambda: torch.Generator(device="xpu"),
                lambda: torch.UntypedStorage(1, device="xpu"),
                lambda: xpu.device(0).__enter__(),
                lambda: torch._C._xpu_getCurrentRawStream(0),
            ]
            def child(use):
                use()
                assert xpu.is_initialized(), use
            print(len(uses), [in_child(lambda: child(use)) for use in uses].count(True))
            print(runtime_is_started())
            """
        )
        self.assertExpectedInline(printed, """17 17\nFalse\n""")

    def test_the_line_of_the_readme(self):
        printed = self.run_program(
            """
            print(torch.xpu.get_device_properties(0))
            s = torch.xpu.Stream()
            e = torch.xpu.Event(enable_timing=True)
            e.record(s)
            e.synchronize()
            print(torch.xpu.memory_summary())
            """
        )
        self.assertIn("_XpuDeviceProperties(name=", printed)
        self.assertIn("PyTorch XPU memory summary, device ID 0", printed)


class TestMapping(XpuFirstUseTestCase):
    def test_set_mapping_before_the_first_use(self):
        printed = self.run_program(
            """
            print(xpu.mapping())
            xpu.set_mapping("CPU")
            print(xpu.mapping(), xpu.device_count(), xpu.get_device_properties().type)
            """,
            TORCH_XPU_MAPPING="GPU",
        )
        self.assertExpectedInline(printed, """GPU\nCPU 1 cpu\n""")

    def test_a_wrong_mapping_is_an_error_and_can_be_mended(self):
        printed = self.run_program(
            """
            print(error_of(xpu.is_available))
            print(error_of(xpu.init))
            print(xpu.is_initialized())
            xpu.set_mapping("CPU")
            print(xpu.current_device(), xpu.is_initialized())
            """,
            TORCH_XPU_MAPPING="cpu",
        )
        self.assertExpectedInline(
            printed,
            """\
RuntimeError: Unknown XPU mapping 'cpu' (from TORCH_XPU_MAPPING): it must be one of GPU, CPU, AUTO, EXPLICIT
RuntimeError: Unknown XPU mapping 'cpu' (from TORCH_XPU_MAPPING): it must be one of GPU, CPU, AUTO, EXPLICIT
False
0 True
""",  # noqa: B950
        )


@unittest.skipIf(
    torch.xpu._mapping._library_beside_sycl("libintelocl.so") is None,
    "there is no libintelocl.so beside libsycl.so",
)
class TestFindingTheCpuDevice(XpuFirstUseTestCase):
    NAMES = (
        "print([os.environ.get(n) for n in ('OCL_ICD_FILENAMES', 'OCL_ICD_VENDORS')])"
    )
    UNSET = {"OCL_ICD_FILENAMES": None, "OCL_ICD_VENDORS": None}

    def test_import_says_where_it_is_to_children_too(self):
        for mapping in ("CPU", "AUTO", "EXPLICIT"):
            printed = self.run_program(
                """
                import subprocess
                path = os.environ["OCL_ICD_FILENAMES"]
                print(os.path.basename(path), os.path.exists(path), runtime_is_started())
                subprocess.run(["sh", "-c", f"test $OCL_ICD_FILENAMES = {path}"], check=True)
                print(xpu.is_available())
                """,
                TORCH_XPU_MAPPING=mapping,
                **self.UNSET,
            )
            self.assertExpectedInline(printed, """libintelocl.so True False\nTrue\n""")

    def test_a_mapping_without_it_leaves_the_environment_alone(self):
        # Of the process, too: what a library sets is not in os.environ.
        printed = self.run_program(
            """
            import ctypes
            before = dict(os.environ)
            xpu.is_available()
            getenv = ctypes.CDLL(None).getenv
            getenv.restype = ctypes.c_char_p
            print(dict(os.environ) == before, getenv(b"OCL_ICD_FILENAMES"))
            """,
            TORCH_XPU_MAPPING="GPU",
            **self.UNSET,
        )
        self.assertExpectedInline(printed, """True None\n""")

    def test_what_the_user_has_set_stays(self):
        for name in ("OCL_ICD_FILENAMES", "OCL_ICD_VENDORS"):
            printed = self.run_program(
                f"{self.NAMES}; xpu.set_mapping('AUTO'); {self.NAMES}",
                **{**self.UNSET, name: "/none"},
            )
            self.assertEqual(printed.count("/none"), 2)
            self.assertEqual(printed.count("None"), 2)

    def test_set_mapping_does_the_same(self):
        printed = self.run_program(
            """
            print("OCL_ICD_FILENAMES" in os.environ)
            print(error_of(xpu.set_mapping, "none"), "OCL_ICD_FILENAMES" in os.environ)
            xpu.set_mapping("CPU")
            print(os.path.basename(os.environ["OCL_ICD_FILENAMES"]), xpu.device_count())
            """,
            TORCH_XPU_MAPPING="GPU",
            **self.UNSET,
        )
        self.assertExpectedInline(
            printed,
            """\
False
RuntimeError: Unknown XPU mapping 'none' (from set_mapping): it must be one of GPU, CPU, AUTO, EXPLICIT False
libintelocl.so 1
""",  # noqa: B950
        )


class TestNoDevice(XpuFirstUseTestCase):
    NONE = {"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu"}  # SYCL shows no CPU device

    def without_advice(self, printed):
        """What was printed, without what it says of the OpenCL library."""
        advice = (
            r"\. (A CPU device needs OCL_ICD_FILENAMES=<path of libintelocl\.so>"
            r"|OCL_ICD_FILENAMES=\S+ shows no CPU device)"
        )
        return re.sub(advice, "", printed)

    def test_is_available_makes_no_noise(self):
        self.assertEqual(
            self.run_program("print(xpu.is_available())", **self.NONE), "False\n"
        )

    def test_device_count_warns_once(self):
        printed = self.run_program(
            """
            xpu.is_available()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                print(xpu.device_count(), xpu.device_count())
            for warning in caught:
                print(str(warning.message).split(" (Triggered")[0])
            """,
            **self.NONE,
        )
        self.assertExpectedInline(
            self.without_advice(printed),
            """\
0 0
No XPU device is available with the mapping CPU (TORCH_XPU_MAPPING=GPU takes GPUs of Level Zero, CUDA or HIP, CPU the SYCL CPU device, AUTO the one or the other, EXPLICIT all). SYCL sees 0 devices (ONEAPI_DEVICE_SELECTOR may hide more)
""",  # noqa: B950
        )

    def test_a_use_says_what_was_looked_for(self):
        printed = self.run_program("print(error_of(xpu.Stream))", **self.NONE)
        self.assertExpectedInline(
            self.without_advice(printed),
            """\
RuntimeError: No XPU device is available with the mapping CPU (TORCH_XPU_MAPPING=GPU takes GPUs of Level Zero, CUDA or HIP, CPU the SYCL CPU device, AUTO the one or the other, EXPLICIT all). SYCL sees 0 devices (ONEAPI_DEVICE_SELECTOR may hide more)
""",  # noqa: B950
        )


class TestThreads(XpuFirstUseTestCase):
    def test_many_threads_come_first(self):
        printed = self.run_program(
            """
            inits = []
            init = torch._C._xpu_init
            torch._C._xpu_init = lambda: (inits.append(threading.get_ident()), init())
            uses = [
                xpu.init, xpu.current_device, xpu.Stream, xpu.current_stream,
                xpu.get_rng_state, xpu.memory_summary, xpu.synchronize,
                lambda: xpu.Event().record(),
                lambda: torch.Generator(device="xpu"),
                lambda: torch.UntypedStorage(8, device="xpu"),
                lambda: torch.manual_seed(3),
                lambda: xpu.get_device_properties("xpu:1"),
            ] * 4
            start = threading.Barrier(len(uses))
            failed = []
            def run(use):
                start.wait()
                text = error_of(use)
                if text != "no error":
                    failed.append(text)
            threads = [threading.Thread(target=run, args=(use,)) for use in uses]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print(len(uses), len(inits), failed, xpu.is_initialized())
            print({generator.initial_seed() for generator in xpu.default_generators})
            """,
            devices=2,
        )
        self.assertExpectedInline(printed, """48 1 [] True\n{3}\n""")


class TestFailure(XpuFirstUseTestCase):
    def test_a_failed_first_use_is_tried_again(self):
        printed = self.run_program(
            """
            print(error_of(xpu.current_device))
            print(error_of(torch.Generator, "xpu"))
            print(xpu.is_initialized())
            os.environ["TORCH_XPU_VIRTUAL_DEVICES"] = "2"
            print(xpu.current_device(), xpu.device_count(), xpu.is_initialized())
            print(torch.Generator("xpu").device)
            """,
            TORCH_XPU_VIRTUAL_DEVICES="two",
        )
        self.assertExpectedInline(
            printed,
            """\
RuntimeError: TORCH_XPU_VIRTUAL_DEVICES='two' is not valid: it must be a whole number from 1 to 64
RuntimeError: TORCH_XPU_VIRTUAL_DEVICES='two' is not valid: it must be a whole number from 1 to 64
False
0 2 True
xpu:0
""",
        )

    def test_a_queued_call_that_fails_says_where_it_was_made(self):
        printed = self.run_program(
            """
            def asked_too_early():
                xpu.set_rng_state(torch.zeros(3, dtype=torch.uint8))
            asked_too_early()
            torch.manual_seed(11)
            print(error_of(xpu.init))
            print(xpu.is_initialized())
            print(error_of(xpu.init), xpu.is_initialized(), xpu.initial_seed())
            """
        )
        self.assertExpectedInline(
            re.sub('File ".*", line [0-9]+, in ', "", printed),
            """\
DeferredXpuCallError: XPU call failed lazily at initialization with error: The state of an XPU generator has 16 bytes, got a tensor of 3. The state of a generator of another device type cannot be used here.

XPU call was originally invoked at:

  <module>
  asked_too_early
  set_rng_state
    _lazy_call(lambda: _generator(device).set_state(state))

False
no error True 11
""",
        )


class TestQueue(XpuFirstUseTestCase):
    def test_seeds_wait_for_the_first_use(self):
        printed = self.run_program(
            """
            def seeds():
                return [generator.initial_seed() for generator in xpu.default_generators]
            for seed in range(1000):
                xpu.manual_seed(seed)
                torch.manual_seed(seed)
            print(len(xpu._state._queue), seeds(), runtime_is_started())
            state = torch.zeros(16, dtype=torch.uint8)
            state[0] = 77
            xpu.set_rng_state(state, "xpu:1")
            state[0] = 78
            xpu.init()
            print(len(xpu._state._queue), seeds())
            """,
            devices=2,
        )
        self.assertExpectedInline(printed, """1 [] False\n0 [999, 77]\n""")

    def test_one_device_is_seeded_after_all(self):
        printed = self.run_program(
            """
            xpu.manual_seed_all(1)
            xpu.manual_seed(2)
            print(xpu.initial_seed(), xpu.default_generators[1].initial_seed())
            """,
            devices=2,
        )
        self.assertExpectedInline(printed, """2 1\n""")

    def test_a_queued_call_may_use_the_device(self):
        printed = self.run_program(
            """
            seen = []
            def use():
                xpu.init()
                seen.append((xpu.Stream().device, torch.Generator("xpu").device))
                torch.manual_seed(5)
                seen.append((xpu.initial_seed(), xpu.is_initialized()))
            xpu._lazy_call(use)
            xpu.init()
            print(*seen, xpu.is_initialized())
            """
        )
        self.assertExpectedInline(
            printed,
            """(device(type='xpu', index=0), device(type='xpu', index=0)) (5, False) True\n""",
        )


class TestFork(XpuFirstUseTestCase):
    def test_a_child_of_a_process_that_used_xpu(self):
        printed = self.run_program(
            """
            xpu.init()
            def child():
                print(xpu.is_available(), xpu.device_count(), xpu.is_initialized())
                torch.manual_seed(1)
                torch.seed()
                for use in (xpu.init, xpu.current_device, xpu.Stream, xpu.synchronize,
                            torch._C._xpu_getDevice, xpu.get_rng_state_all,
                            lambda: torch.Generator("xpu"),
                            lambda: torch.UntypedStorage(1, device="xpu")):
                    text = error_of(use)
                    if "spawn" not in text:
                        raise AssertionError(text)
                print(text)
            print(in_child(child))
            print(xpu.is_available(), xpu.current_device())
            """
        )
        self.assertExpectedInline(
            printed,
            """\
False 0 False
RuntimeError: Cannot re-initialize XPU in forked subprocess. To use XPU with multiprocessing, you must use the 'spawn' start method
True
True 0
""",  # noqa: B950
        )

    def test_a_child_of_a_process_that_counted_devices(self):
        printed = self.run_program(
            """
            xpu.device_count()
            print(in_child(lambda: print(error_of(xpu.init))))
            """
        )
        self.assertExpectedInline(
            printed,
            """\
RuntimeError: Cannot re-initialize XPU in forked subprocess. To use XPU with multiprocessing, you must use the 'spawn' start method
True
""",  # noqa: B950
        )

    def test_a_child_of_a_process_that_did_not(self):
        printed = self.run_program(
            """
            torch.manual_seed(21)
            print(in_child(lambda: print(xpu.initial_seed(), xpu.is_initialized())))
            print(xpu.is_initialized(), xpu.initial_seed())
            """
        )
        self.assertExpectedInline(printed, """21 True\nTrue\nFalse 21\n""")

    def test_a_child_forked_while_another_thread_holds_the_lock(self):
        printed = self.run_program(
            """
            held, forked = threading.Event(), threading.Event()
            def hold():
                with xpu._state._lock:
                    held.set()
                    forked.wait()
            thread = threading.Thread(target=hold)
            thread.start()
            held.wait()
            print(in_child(lambda: print(xpu.current_device())))
            forked.set()
            thread.join()
            print(xpu.current_device())
            """
        )
        self.assertExpectedInline(printed, """0\nTrue\n0\n""")

    def test_a_spawned_process_works(self):
        # A file, since what is spawned imports the main program.
        printed = self.run_program(
            """
            import pathlib, subprocess, tempfile
            program = '''
            import torch
            import torch.multiprocessing as multiprocessing

            def child(rank, seed):
                torch.manual_seed(seed)
                assert torch.xpu.initial_seed() == seed
                event = torch.xpu.Event(enable_timing=True)
                event.record(torch.xpu.Stream("xpu:1"))
                event.synchronize()
                assert event.device == torch.device("xpu:1")

            if __name__ == "__main__":
                torch.xpu.init()
                multiprocessing.spawn(child, args=(17,), nprocs=2)
                print("spawned", torch.xpu.current_device())
            '''
            import textwrap
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "spawning.py")
                path.write_text(textwrap.dedent(program))
                subprocess.run([sys.executable, str(path)], check=True)
            """,
            devices=2,
        )
        self.assertExpectedInline(printed, """spawned 0\n""")


class TestWithoutXpu(XpuFirstUseTestCase):
    def test_a_build_without_xpu(self):
        # All that torch.xpu goes by is whether the bindings are there.
        printed = self.run_program(
            """
            for name in [name for name in dir(torch._C) if name.startswith(("_xpu", "_Xpu"))]:
                delattr(torch._C, name)
            for name in [name for name in sys.modules if name.startswith("torch.xpu")]:
                del sys.modules[name]
            import torch.xpu as xpu
            torch.xpu = xpu
            print(xpu.is_available(), xpu.device_count(), xpu.is_initialized())
            torch.manual_seed(1)
            xpu.empty_cache()
            print(xpu.memory_allocated(), xpu.memory_snapshot(), xpu.memory_stats())
            for use in (xpu.init, xpu.current_device, xpu.Stream, xpu.Event, xpu.mapping,
                        xpu.synchronize, xpu.get_rng_state, xpu.memory_summary,
                        lambda: xpu.set_mapping("CPU"), lambda: xpu.set_device(0),
                        lambda: torch.Generator(device="xpu")):
                print(error_of(use).split(":")[0])
            print(error_of(xpu.Stream))
            """
        )
        self.assertExpectedInline(
            printed,
            "False 0 False\n0 [] OrderedDict()\n"
            + "AssertionError\n" * 11
            + "AssertionError: Torch not compiled with XPU enabled: it takes a build "
            "with USE_XPU=1\n",
        )


if __name__ == "__main__":
    run_tests()
