# Owner(s): ["module: intel"]
"""What looks into XPU's allocator, or puts another in its place."""

import gc
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase
from torch.xpu import memory

COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0
GATE = pathlib.Path(torch.__file__).parent / "lib" / "libxpu_stream_gate.so"
MiB = 1024 * 1024

needs_device = unittest.skipIf(COUNT == 0, "there is no device")


class MemoryTestCase(TestCase):
    def setUp(self):
        super().setUp()
        torch.xpu.set_device(0)
        gc.collect()
        torch.xpu.synchronize()
        torch.xpu.empty_cache()
        # What was recorded is kept until the next record begins.
        memory._record_memory_history("state")
        memory._record_memory_history(None)
        self.addCleanup(memory._record_memory_history, None)


@needs_device
class TestSnapshot(MemoryTestCase):
    def test_segments(self):
        self.assertEqual(torch.xpu.memory_snapshot(), [])
        storage = torch.UntypedStorage(600, device=f"xpu:{COUNT - 1}")
        (segment,) = torch.xpu.memory_snapshot()
        address = storage.data_ptr()
        size = segment.pop("total_size")
        used, free = segment.pop("blocks")
        self.assertEqual(
            segment,
            {
                "device": COUNT - 1,
                "address": address,
                "requested_size": 600,
                "allocated_size": 1024,
                "active_size": 1024,
                "stream": 0,
                "segment_type": "small",
                "segment_pool_id": (0, 0),
                "frames": [],
            },
        )
        self.assertEqual(
            used,
            {
                "address": address,
                "size": 1024,
                "requested_size": 600,
                "state": "active_allocated",
                "frames": [],
            },
        )
        self.assertEqual(free["address"], address + 1024)
        self.assertEqual(free["size"], size - 1024)
        self.assertEqual(free["state"], "inactive")
        self.assertEqual(torch.xpu.memory_snapshot(), memory._snapshot()["segments"])


def allocate_here(size):
    return torch.UntypedStorage(size, device="xpu")


@needs_device
class TestHistory(MemoryTestCase):
    def trace(self, device=0):
        return memory._snapshot()["device_traces"][device]

    def actions(self):
        return [entry["action"] for entry in self.trace()]

    def test_nothing_is_recorded_unasked(self):
        storage = allocate_here(512)
        self.assertEqual(
            [len(t) for t in memory._snapshot()["device_traces"]], [0] * COUNT
        )
        del storage

    def test_life_of_a_block(self):
        memory._record_memory_history()
        storage = allocate_here(600)
        address = storage.data_ptr()
        del storage
        torch.xpu.empty_cache()
        trace = self.trace()
        self.assertEqual(
            [entry["action"] for entry in trace],
            ["segment_alloc", "alloc", "free_requested", "free_completed"]
            + ["segment_free"],
        )
        self.assertEqual({entry["addr"] for entry in trace}, {address})
        self.assertEqual({entry["stream"] for entry in trace}, {0})
        times = [entry["time_us"] for entry in trace]
        self.assertEqual(times, sorted(times))
        self.assertTrue(all(entry["size"] >= 600 for entry in trace))

    def test_each_device_has_its_trace(self):
        memory._record_memory_history()
        storage = torch.UntypedStorage(1, device=f"xpu:{COUNT - 1}")
        lengths = [len(trace) for trace in memory._snapshot()["device_traces"]]
        self.assertEqual(lengths, [0] * (COUNT - 1) + [2])
        del storage

    def test_frames(self):
        memory._record_memory_history(stacks="python")
        storage = allocate_here(512)
        line = sys._getframe().f_lineno - 1
        (segment,) = torch.xpu.memory_snapshot()
        frames = segment["blocks"][0]["frames"]
        self.assertEqual(
            [f["name"] for f in frames[:2]], ["allocate_here", "test_frames"]
        )
        self.assertEqual(
            frames[1], {"filename": __file__, "name": "test_frames", "line": line}
        )
        entry = [e for e in self.trace() if e["action"] == "alloc"][0]
        self.assertEqual(entry["frames"], frames)
        del storage

    def test_which_events_have_a_stack(self):
        stacks = {}
        for context in (None, "state", "alloc", "all"):
            memory._record_memory_history(context=context)
            storage = allocate_here(512)
            (segment,) = torch.xpu.memory_snapshot()
            held = bool(segment["blocks"][0]["frames"])
            del storage
            torch.xpu.empty_cache()
            by_action = {e["action"]: bool(e["frames"]) for e in self.trace()}
            stacks[context] = (held, by_action["alloc"], by_action["free_requested"])
            memory._record_memory_history(None)
        self.assertEqual(
            stacks,
            {
                None: (False, False, False),
                "state": (True, False, False),
                "alloc": (True, True, False),
                "all": (True, True, True),
            },
        )

    def test_state_alone_keeps_no_trace(self):
        memory._record_memory_history("state")
        storage = allocate_here(512)
        self.assertEqual(self.trace(), [])
        self.assertTrue(torch.xpu.memory_snapshot()[0]["blocks"][0]["frames"])
        del storage

    def test_the_newest_events_stay(self):
        memory._record_memory_history(max_entries=3)
        for _ in range(5):
            allocate_here(512)
        torch.xpu.empty_cache()
        self.assertEqual(
            self.actions(), ["free_requested", "free_completed", "segment_free"]
        )

    def test_stopping(self):
        memory._record_memory_history()
        storage = allocate_here(512)
        memory._record_memory_history(None)
        count = len(self.trace())
        allocate_here(512)
        self.assertEqual(len(self.trace()), count)
        del storage

    def test_out_of_memory_is_recorded(self):
        self.addCleanup(torch.xpu.set_per_process_memory_fraction, 1.0)
        memory._record_memory_history()
        torch.xpu.set_per_process_memory_fraction(0.0)
        with self.assertRaises(torch.xpu.OutOfMemoryError):
            allocate_here(512)
        entry = self.trace()[-1]
        self.assertEqual((entry["action"], entry["size"]), ("oom", 512))
        self.assertIn("device_free", entry)

    def test_wrong_arguments(self):
        for wrong in (
            {"enabled": "always"},
            {"context": "none"},
            {"stacks": "cpp"},
        ):
            ((name, value),) = wrong.items()
            with self.assertRaisesRegex(ValueError, f"^{name} must be .*'{value}'"):
                memory._record_memory_history(**wrong)

    def test_dump(self):
        memory._record_memory_history()
        storage = allocate_here(512)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            memory._dump_snapshot(path)
            with open(path, "rb") as file:
                dumped = pickle.load(file)
        self.assertEqual(dumped, memory._snapshot())
        del storage

    def test_threads_and_stacks(self):
        memory._record_memory_history(max_entries=64)
        barrier = threading.Barrier(5)

        def allocate():
            barrier.wait()
            for _ in range(200):
                allocate_here(512)

        def look():
            barrier.wait()
            for _ in range(50):
                memory._snapshot()

        threads = [threading.Thread(target=f) for f in (allocate,) * 4 + (look,)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.trace()), 64)


@needs_device
class TestRawAllocation(MemoryTestCase):
    def test_allocate_and_delete(self):
        for given in (
            {},
            {"device": COUNT - 1},
            {"stream": torch.xpu.Stream(COUNT - 1)},
        ):
            device = (
                given["stream"].device if "stream" in given else given.get("device", 0)
            )
            before = torch.xpu.memory_allocated(device)
            address = torch.xpu.caching_allocator_alloc(600, **given)
            self.assertEqual(torch.xpu.memory_allocated(device), before + 1024)
            torch.xpu.caching_allocator_delete(address)
            self.assertEqual(torch.xpu.memory_allocated(device), before)
        with self.assertRaises(RuntimeError):
            torch.xpu.caching_allocator_delete(address)
        with self.assertRaises(TypeError):
            torch.xpu.caching_allocator_alloc(1, stream=3)
        with self.assertRaises(TypeError):
            torch.xpu.caching_allocator_alloc(-1)


PRELUDE = f"""
import torch
from torch.xpu import memory
GATE = {str(GATE)!r}
"""


@needs_device
class TestInProcessesOfTheirOwn(TestCase):
    def printed(self, program):
        result = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_out_of_memory_observers(self):
        printed = self.printed(
            """
            seen = []
            def observe(device, requested, allowed, free):
                seen.append((device, requested, type(allowed), type(free)))
            memory._attach_out_of_memory_observer(observe)
            memory._attach_out_of_memory_observer(lambda *numbers: seen.append(len(numbers)))
            torch.xpu.set_per_process_memory_fraction(0.0)
            try:
                torch.UntypedStorage(512, device="xpu")
            except torch.xpu.OutOfMemoryError:
                print(seen)
            """
        )
        self.assertExpectedInline(
            printed, """[(0, 512, <class 'int'>, <class 'int'>), 4]\n"""
        )

    def test_an_error_of_an_observer_is_raised(self):
        printed = self.printed(
            """
            def observe(*numbers):
                raise KeyError("observed")
            memory._attach_out_of_memory_observer(observe)
            torch.xpu.set_per_process_memory_fraction(0.0)
            try:
                torch.UntypedStorage(512, device="xpu")
            except KeyError as error:
                print(error)
            """
        )
        self.assertExpectedInline(printed, """'observed'\n""")

    @unittest.skipUnless(
        GATE.exists(), f"{GATE.name} is not there: it takes a build with BUILD_TEST=1"
    )
    def test_a_pluggable_allocator(self):
        printed = self.printed(
            """
            import ctypes
            library = ctypes.CDLL(GATE)
            library.xpu_custom_live_bytes.restype = ctypes.c_size_t
            own = torch.xpu.XPUPluggableAllocator(GATE, "xpu_custom_alloc", "xpu_custom_free")
            torch.xpu.change_current_allocator(own)
            storage = torch.UntypedStorage(600, device="xpu")
            print(library.xpu_custom_live_bytes(), storage.data_ptr() != 0)
            del storage
            print(library.xpu_custom_live_bytes())
            """
        )
        self.assertExpectedInline(printed, """600 True\n0\n""")

    @unittest.skipUnless(
        GATE.exists(), f"{GATE.name} is not there: it takes a build with BUILD_TEST=1"
    )
    def test_it_comes_before_the_first_use(self):
        printed = self.printed(
            """
            own = torch.xpu.XPUPluggableAllocator(GATE, "xpu_custom_alloc", "xpu_custom_free")
            storage = torch.UntypedStorage(600, device="xpu")
            try:
                torch.xpu.change_current_allocator(own)
            except RuntimeError:
                print("too late")
            try:
                torch.xpu.XPUPluggableAllocator(GATE, "xpu_custom_alloc", "no_such_function")
            except AttributeError:
                print("no function")
            """
        )
        self.assertExpectedInline(printed, """too late\nno function\n""")


if __name__ == "__main__":
    run_tests()
