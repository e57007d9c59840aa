# Owner(s): ["module: intel"]
"""Other threads of Python go on while one waits for an XPU device.

Each program holds a stream up and waits for it. Only another thread can open it
again, and can run only once the one that waits has let go of the interpreter: a
wait that keeps the GIL would never end.
"""

import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

TIMEOUT = 120  # seconds, after which what waits is taken to wait for ever
GATE = pathlib.Path(torch.__file__).parent / "lib" / "libxpu_stream_gate.so"

PRELUDE = f"""
import ctypes, sys, threading
import torch
from torch import xpu

# Functions of a CDLL run without the GIL, those of a PyDLL with it.
free, holding = ctypes.CDLL({str(GATE)!r}), ctypes.PyDLL({str(GATE)!r})
for library in (free, holding):
    library.xpu_gate_close.restype = ctypes.c_void_p
    library.xpu_gate_close.argtypes = [ctypes.c_int64, ctypes.c_int64]
    library.xpu_gate_open.argtypes = [ctypes.c_void_p]
    library.xpu_gate_delete.argtypes = [ctypes.c_void_p]
    library.xpu_gate_is_opened_within.restype = ctypes.c_bool
    library.xpu_gate_is_opened_within.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.xpu_free_block_in_use.argtypes = [ctypes.c_int64, ctypes.c_int64]

def name(stream):
    return stream.stream_id, stream.device_index

def waiting(action, stream, prepare=None):
    "What the action returns, on whose way another thread opens the stream."
    gate = free.xpu_gate_close(*name(stream))
    given = prepare() if prepare else None
    start = threading.Semaphore(0)
    def open_gate():
        start.acquire()
        free.xpu_gate_open(gate)
    other = threading.Thread(target=open_gate)
    other.start()
    # From here on no thread is made to let go: the other one runs when this
    # one does so by itself, in the action.
    sys.setswitchinterval(3600)
    start.release()
    result = action(gate) if given is None else action(given)
    sys.setswitchinterval(0.005)
    other.join()
    free.xpu_gate_delete(gate)
    return result
"""


@unittest.skipUnless(torch.xpu.is_available(), "there is no device to wait for")
@unittest.skipUnless(
    GATE.exists(), f"{GATE.name} is not there: it takes a build with BUILD_TEST=1"
)
class TestGil(TestCase):
    def printed(self, program):
        result = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
            env=os.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_what_keeps_the_gil_is_told_apart(self):
        printed = self.printed(
            """
            for library in (free, holding):
                ends = lambda gate: library.xpu_gate_is_opened_within(gate, 500)
                print(waiting(ends, xpu.Stream()))
            """
        )
        self.assertEqual(printed, "True\nFalse\n")

    def test_synchronizing(self):
        printed = self.printed(
            """
            stream = xpu.Stream()
            waiting(lambda gate: stream.synchronize(), stream)
            print("a stream", stream.query())
            waiting(lambda gate: xpu.synchronize(), stream)
            print("a device", stream.query())
            event = waiting(lambda e: (e.synchronize(), e)[1], stream, stream.record_event)
            print("an event", event.query())
            """
        )
        self.assertEqual(printed, "a stream True\na device True\nan event True\n")

    def test_emptying_the_cache_waits_for_no_host_task(self):
        printed = self.printed(
            """
            stream = xpu.Stream()
            gate = free.xpu_gate_close(*name(stream))
            free.xpu_free_block_in_use(*name(stream))
            xpu.empty_cache()
            print(xpu.memory_reserved() > 0, stream.query())
            free.xpu_gate_open(gate)
            stream.synchronize()
            free.xpu_gate_delete(gate)
            xpu.empty_cache()
            print(xpu.memory_reserved())
            """
        )
        self.assertEqual(printed, "True False\n0\n")

    def test_recording_an_event_that_another_thread_awaits(self):
        printed = self.printed(
            """
            stream, elsewhere = xpu.Stream(), xpu.Stream()
            gate = free.xpu_gate_close(*name(stream))
            event, started = stream.record_event(), threading.Semaphore(0)
            def wait():
                started.release()
                event.synchronize()
            sys.setswitchinterval(3600)  # as above
            thread = threading.Thread(target=wait)
            thread.start()
            started.acquire()
            # The gate is opened after the event is recorded elsewhere. The thread
            # may await either record: it releases the GIL before it reads the event.
            event.record(elsewhere)
            elsewhere.synchronize()
            print("recorded", event.query())
            free.xpu_gate_open(gate)
            thread.join()
            free.xpu_gate_delete(gate)
            print("awaited", stream.query())
            """
        )
        self.assertEqual(printed, "recorded True\nawaited True\n")

    def test_asking_an_event_that_another_thread_awaits(self):
        printed = self.printed(
            """
            stream = xpu.Stream()
            gate = free.xpu_gate_close(*name(stream))
            event = stream.record_event()
            thread = threading.Thread(target=event.synchronize)
            thread.start()
            print(event.query(), event.device.type, event.sycl_event != 0)
            free.xpu_gate_open(gate)
            thread.join()
            free.xpu_gate_delete(gate)
            print(event.query())
            """
        )
        self.assertEqual(printed, "False xpu True\nTrue\n")


if __name__ == "__main__":
    run_tests()
