# Owner(s): ["module: intel"]
"""torch.profiler with ProfilerActivity.XPU: what is on the device's timeline."""

import json
import os
import tempfile
import unittest

import torch
from torch.autograd import DeviceType
from torch.profiler import profile, ProfilerActivity
from torch.testing._internal.common_utils import run_tests, TestCase
from xpu_host_memory import has_host_memory

BOTH = (ProfilerActivity.CPU, ProfilerActivity.XPU)


def trace_of(prof):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        prof.export_chrome_trace(path)
        with open(path) as file:
            return json.load(file)["traceEvents"]


def on_device(trace):
    return [event for event in trace if event.get("cat") in ("kernel", "gpu_memcpy")]


@unittest.skipIf(torch.xpu.device_count() == 0, "there is no device")
class TestProfiler(TestCase):
    def test_work_is_linked_with_its_operator(self):
        x = torch.ones(64, 64, device="xpu")
        with profile(activities=BOTH) as prof:
            y = (x @ x).relu()
            z = y.cpu()
        self.assertEqual(z, torch.full((64, 64), 64.0))
        trace = trace_of(prof)
        operators = {
            event["args"]["External id"]: event for event in trace if event.get("cat") == "cpu_op"
        }
        linked = []
        for event in on_device(trace):
            operator = operators[event["args"]["External id"]]
            linked.append((event["name"], operator["name"]))
            self.assertEqual(event["pid"], torch.xpu.current_device())
            self.assertGreaterEqual(event["dur"], 0)
            if has_host_memory():  # which works within the operator
                self.assertGreaterEqual(event["ts"], operator["ts"])
                self.assertLessEqual(event["ts"] + event["dur"], operator["ts"] + operator["dur"])
        if has_host_memory():
            expected = [("aten::mm", "aten::mm"), ("aten::relu", "aten::relu")]
        else:  # the argument, which is both of them, and results
            expected = [("Memcpy", "aten::mm")] * 2 + [("Memcpy", "aten::relu")] * 2
        self.assertEqual(linked, [*expected, ("Memcpy", "aten::copy_")])
        self.assertEqual(
            [e["args"]["bytes"] for e in on_device(trace) if e["name"] == "Memcpy"],
            [64 * 64 * 4] * (1 if has_host_memory() else 5),
        )

    def test_averages_have_the_time_of_the_device(self):
        x = torch.ones(256, 256, device="xpu")
        with profile(activities=BOTH) as prof:
            for _ in range(3):
                x @ x
        (mm,) = (
            one
            for one in prof.key_averages()
            if one.key == "aten::mm" and one.device_type == DeviceType.CPU
        )
        self.assertEqual(mm.count, 3)
        self.assertGreater(mm.device_time_total, 0)
        self.assertIn("Self XPU", prof.key_averages().table())

    def test_streams_are_rows(self):
        x = torch.ones(8, device="xpu")
        streams = [torch.xpu.Stream() for _ in range(2)]
        with profile(activities=BOTH) as prof:
            for stream in streams:
                with stream:
                    x.cos()
        trace = trace_of(prof)
        rows = {event["tid"] for event in on_device(trace)}
        self.assertEqual(len(rows), 2)
        names = {
            event["args"]["name"]
            for event in trace
            if event.get("ph") == "M" and event["name"] == "thread_name" and event["tid"] in rows
        }
        self.assertEqual(len(names & {f"stream {row}" for row in rows}), 2)

    def test_ranges_have_what_is_submitted_in_them(self):
        """Whoever submits it: PyTorch's copy stands for the work of an extension."""
        host = torch.ones(1 << 22).pin_memory()
        x = torch.empty(1 << 22, device="xpu")
        stream = torch.xpu.Stream()
        with profile(activities=BOTH) as prof:
            with stream, torch.profiler.record_function("outer"):
                with torch.profiler.record_function("inner"):
                    x.copy_(host, non_blocking=True)
        trace = trace_of(prof)
        (copy,) = on_device(trace)
        ranges = {
            event["name"]: event for event in trace if event.get("cat") == "gpu_user_annotation"
        }
        self.assertEqual({*ranges}, {"outer", "inner"})
        for event in ranges.values():
            self.assertEqual((event["pid"], event["tid"]), (copy["pid"], copy["tid"]))
            self.assertLessEqual(event["ts"], copy["ts"] + 1)  # microseconds
            self.assertGreaterEqual(event["ts"] + event["dur"] + 1, copy["ts"] + copy["dur"])

    def test_only_where_it_is_asked_for(self):
        x = torch.ones(8, device="xpu")
        x.cos()  # before it begins
        with profile(activities=[ProfilerActivity.CPU]) as prof:
            x.cos()
        self.assertEqual(on_device(trace_of(prof)), [])
        for _ in range(2):  # the second has nothing of the first
            with profile(activities=BOTH) as prof:
                x.cos()
            events = on_device(trace_of(prof))
            self.assertEqual(len(events), 1 if has_host_memory() else 2)

    def test_schedule(self):
        x = torch.ones(8, device="xpu")
        seen = []
        with profile(
            activities=BOTH,
            schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2),
            on_trace_ready=lambda prof: seen.append(
                sum(event.device_type != DeviceType.CPU for event in prof.events())
            ),
        ) as prof:
            for _ in range(8):
                x.cos()
                prof.step()
        # "ProfilerStep" has a range of its own there.
        self.assertEqual(len(seen), 2)
        self.assertEqual(seen[0], seen[1])
        self.assertGreaterEqual(seen[0], 2 if has_host_memory() else 4)


if __name__ == "__main__":
    run_tests()
