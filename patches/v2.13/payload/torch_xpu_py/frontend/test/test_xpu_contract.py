# Owner(s): ["module: intel"]
"""Every name of PyTorch's torch.xpu and torch.accelerator works, or raises an error that
says why it cannot: one case for each. A name that a later PyTorch adds has none, and
fails."""

import gc
import unittest

import torch
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)

COUNT = torch.xpu.device_count()
XPU = torch.xpu
ACC = torch.accelerator
GRAPHS = "XPU graphs are not supported on xpu:0 .*Run the work without a graph"


def on_cpu():
    return XPU.get_device_properties().type == "cpu"


def is_type(call, kind):
    """The call succeeds and returns that."""
    return lambda test: test.assertIsInstance(call(), kind)


def is_equal(call, value):
    return lambda test: test.assertEqual(call(), value)


def raises(call, kind, text):
    """The call raises that."""

    def case(test):
        with test.assertRaisesRegex(kind, text):
            call()

    return case


def all_of(*cases):
    def case(test):
        for one in cases:
            one(test)

    return case


def free_memory(call):
    """SYCL knows it of some devices."""

    def case(test):
        try:
            free, total = call()
        except RuntimeError as error:
            test.assertRegex(str(error), "SYCL does not tell how much memory")
        else:
            test.assertLessEqual(free, total)

    return case


def telemetry(name):
    """Sysman's answers depend on the device; without its package an error names it."""

    def case(test):
        try:
            import pyzes  # noqa: F401
        except ImportError:
            raises(getattr(XPU, name), ImportError, "pip install pyzes")(test)
        else:
            test.skipTest("sysman's answers depend on the device")

    return case


def peers(test):
    test.assertIs(XPU.can_device_access_peer(0, 0), True)
    raises(lambda: XPU.can_device_access_peer(0, COUNT), RuntimeError, "out of range")(test)


def events(test):
    event = XPU.Event(enable_timing=True)
    event.record()
    event.synchronize()
    test.assertTrue(event.query())


def streams(test):
    stream = XPU.Stream(device=0, priority=-1)
    before = XPU.current_stream()
    with XPU.stream(stream):
        test.assertEqual(XPU.current_stream(), stream)
    with XPU.StreamContext(stream):
        test.assertEqual(XPU.current_stream(), stream)
    XPU.set_stream(stream)
    test.assertEqual(XPU.current_stream(), stream)
    XPU.set_stream(before)
    test.assertEqual(XPU.current_stream(0), before)


def external_stream(test):
    stream = XPU.Stream()
    again = XPU.get_stream_from_external(stream.sycl_queue)
    test.assertEqual(again.sycl_queue, stream.sycl_queue)


def devices(test):
    before = XPU.current_device()
    last = COUNT - 1
    with XPU.device(last):
        test.assertEqual(XPU.current_device(), last)
        XPU.set_device(0)
        test.assertEqual(XPU.current_device(), 0)
        with XPU.device_of(torch.empty(0)):
            test.assertEqual(XPU.current_device(), 0)
    test.assertEqual(XPU.current_device(), before)


def statistics(test):
    gc.collect()  # what other tests left, which may go between two of the lines below
    storage = torch.UntypedStorage(1 << 20, device="xpu")
    for module in (XPU, ACC):
        test.assertGreaterEqual(module.memory_allocated(), 1 << 20)
        test.assertGreaterEqual(module.memory_reserved(), module.memory_allocated())
        test.assertGreaterEqual(module.max_memory_allocated(), module.memory_allocated())
        test.assertGreaterEqual(module.max_memory_reserved(), module.memory_reserved())
        test.assertIn("allocated_bytes.all.current", module.memory_stats())
        module.reset_peak_memory_stats()
        module.reset_accumulated_memory_stats()
        test.assertEqual(module.max_memory_allocated(), module.memory_allocated())
    test.assertIn("allocated_bytes", XPU.memory_stats_as_nested_dict())
    test.assertIsInstance(XPU.memory_snapshot(), list)
    del storage
    XPU.empty_cache()
    ACC.empty_cache()
    ACC.empty_host_cache()


def fractions(test):
    before = XPU.get_per_process_memory_fraction()
    XPU.set_per_process_memory_fraction(0.5)
    test.assertEqual(XPU.get_per_process_memory_fraction(), 0.5)
    XPU.set_per_process_memory_fraction(before)


def seeds(test):
    before = XPU.get_rng_state_all()
    XPU.manual_seed(7)
    test.assertEqual(XPU.initial_seed(), 7)
    XPU.manual_seed_all(8)
    state = XPU.get_rng_state()
    XPU.seed(), XPU.seed_all()
    test.assertNotEqual(XPU.initial_seed(), 8)
    XPU.set_rng_state(state)
    test.assertEqual(XPU.initial_seed(), 8)
    XPU.set_rng_state_all(before)
    test.assertEqual(XPU.get_rng_state_all(), before)


def pools(test):
    pool = XPU.MemPool()
    with XPU.use_mem_pool(pool):
        held = torch.UntypedStorage(64, device="xpu")
    (segment,) = pool.snapshot()
    test.assertEqual(segment["address"], held.data_ptr())


def graphs(test):
    """A device without graphs says so when a capture begins."""
    graph, before = XPU.XPUGraph(), XPU.current_stream()
    try:
        with XPU.graph(graph):
            held = torch.UntypedStorage(64, device="xpu")
    except NotImplementedError as error:
        test.assertRegex(str(error), GRAPHS)
        XPU.set_stream(before)  # XPU.graph set its own
        return
    test.assertFalse(on_cpu(), "its operators are not in the graph")
    graph.replay()
    XPU.synchronize()
    (segment,) = XPU.memory_snapshot(graph.pool())
    test.assertEqual(segment["address"], held.data_ptr())
    graph.reset()


def accelerator_graphs(test):
    graph = ACC.Graph()
    with XPU.stream(XPU.Stream()):
        try:
            with graph:
                held = torch.UntypedStorage(64, device="xpu")
        except NotImplementedError as error:
            test.assertRegex(str(error), GRAPHS)
            return
        graph.replay()
        XPU.synchronize()
    (segment,) = XPU.memory_snapshot(graph.pool())
    test.assertEqual(segment["address"], held.data_ptr())
    graph.reset()


def make_callables(test):
    if not on_cpu():
        test.skipTest("there are no operators that a graph could record")
    before = XPU.current_stream()
    call = lambda: XPU.make_graphed_callables(torch.nn.ReLU(), (torch.zeros(1),))  # noqa: E731
    raises(call, NotImplementedError, GRAPHS)(test)
    XPU.set_stream(before)


def accelerator_devices(test):
    before = ACC.current_device_index()
    with ACC.device_index(COUNT - 1):
        test.assertEqual(ACC.current_device_index(), COUNT - 1)
    ACC.set_device_index(before)
    with test.assertWarns(FutureWarning):
        ACC.set_device_idx(before)
    with test.assertWarns(FutureWarning):
        test.assertEqual(ACC.current_device_idx(), before)


def accelerator_streams(test):
    before = ACC.current_stream()
    stream = torch.Stream(device="xpu")
    ACC.set_stream(stream)
    test.assertEqual(ACC.current_stream(), stream)
    ACC.synchronize()
    ACC.set_stream(before)


XPU_CASES = {
    "Event": events,
    "MemPool": pools,
    "Stream": streams,
    "StreamContext": streams,
    "XPUGraph": graphs,
    "XPUPluggableAllocator": raises(
        lambda: XPU.XPUPluggableAllocator("none.so", "alloc", "free"), OSError, "none.so"
    ),
    "can_device_access_peer": peers,
    "change_current_allocator": raises(
        lambda: XPU.change_current_allocator(None), AttributeError, "allocator"
    ),
    "clock_rate": telemetry("clock_rate"),
    "current_device": devices,
    "current_stream": streams,
    "default_generators": lambda test: test.assertEqual(len(XPU.default_generators), COUNT),
    "device": devices,
    "device_count": is_equal(XPU.device_count, COUNT),
    "device_memory_used": telemetry("device_memory_used"),
    "device_of": devices,
    "empty_cache": statistics,
    "get_arch_list": is_type(XPU.get_arch_list, list),
    "get_device_capability": is_type(XPU.get_device_capability, dict),
    "get_device_name": is_type(XPU.get_device_name, str),
    "get_device_properties": lambda test: test.assertGreater(
        XPU.get_device_properties().total_memory, 0
    ),
    "get_gencode_flags": is_type(XPU.get_gencode_flags, str),
    "get_per_process_memory_fraction": fractions,
    "get_rng_state": seeds,
    "get_rng_state_all": seeds,
    "get_stream_from_external": external_stream,
    "graph": graphs,
    "graph_pool_handle": is_type(XPU.graph_pool_handle, tuple),
    "init": all_of(is_equal(XPU.init, None), is_equal(XPU.is_initialized, True)),
    "initial_seed": seeds,
    "is_available": is_equal(XPU.is_available, True),
    "is_bf16_supported": is_type(XPU.is_bf16_supported, bool),
    "is_current_stream_capturing": is_equal(XPU.is_current_stream_capturing, False),
    "is_initialized": is_equal(XPU.is_initialized, True),
    "is_tf32_supported": is_type(XPU.is_tf32_supported, bool),
    "make_graphed_callables": make_callables,
    "manual_seed": seeds,
    "manual_seed_all": seeds,
    "max_memory_allocated": statistics,
    "max_memory_reserved": statistics,
    "mem_get_info": free_memory(XPU.mem_get_info),
    "memory_allocated": statistics,
    "memory_reserved": statistics,
    "memory_snapshot": statistics,
    "memory_stats": statistics,
    "memory_stats_as_nested_dict": statistics,
    "memory_usage": telemetry("memory_usage"),
    "power_draw": telemetry("power_draw"),
    "reset_accumulated_memory_stats": statistics,
    "reset_peak_memory_stats": statistics,
    "seed": seeds,
    "seed_all": seeds,
    "set_device": devices,
    "set_per_process_memory_fraction": fractions,
    "set_rng_state": seeds,
    "set_rng_state_all": seeds,
    "set_stream": streams,
    "stream": streams,
    "streams": lambda test: test.assertIs(XPU.streams.Stream, XPU.Stream),
    "synchronize": all_of(
        is_equal(XPU.synchronize, None), is_equal(lambda: XPU.synchronize(0), None)
    ),
    "temperature": telemetry("temperature"),
    "use_mem_pool": pools,
    "utilization": telemetry("utilization"),
}
if hasattr(XPU, "list_gpu_processes"):  # since PyTorch 2.14
    XPU_CASES["list_gpu_processes"] = telemetry("list_gpu_processes")
ACC_CASES = {
    "Graph": accelerator_graphs,
    "current_accelerator": is_equal(lambda: ACC.current_accelerator(True), torch.device("xpu")),
    "current_device_idx": accelerator_devices,
    "current_device_index": accelerator_devices,
    "current_stream": accelerator_streams,
    "device_count": is_equal(ACC.device_count, COUNT),
    "device_index": accelerator_devices,
    "empty_cache": statistics,
    "empty_host_cache": statistics,
    "get_device_capability": lambda test: test.assertIn(
        torch.float32, ACC.get_device_capability()["supported_dtypes"]
    ),
    "get_memory_info": free_memory(ACC.get_memory_info),
    "is_available": is_equal(ACC.is_available, True),
    "max_memory_allocated": statistics,
    "max_memory_reserved": statistics,
    "memory_allocated": statistics,
    "memory_reserved": statistics,
    "memory_stats": statistics,
    "reset_accumulated_memory_stats": statistics,
    "reset_peak_memory_stats": statistics,
    "set_device_idx": accelerator_devices,
    "set_device_index": accelerator_devices,
    "set_stream": accelerator_streams,
    "synchronize": accelerator_streams,
}


@unittest.skipIf(COUNT == 0, "there is no device")
class TestContract(TestCase):
    def setUp(self):
        super().setUp()
        torch.xpu.init()

    def check(self, module, cases, name):
        self.assertIn(name, module.__all__)
        self.assertIn(name, cases, "the name has no case")
        cases[name](self)

    @parametrize("name", sorted({*XPU.__all__, *XPU_CASES}))
    def test_xpu(self, name):
        self.check(XPU, XPU_CASES, name)

    @parametrize("name", sorted({*ACC.__all__, *ACC_CASES}))
    def test_accelerator(self, name):
        self.check(ACC, ACC_CASES, name)


instantiate_parametrized_tests(TestContract)

if __name__ == "__main__":
    run_tests()
