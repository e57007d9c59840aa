# Owner(s): ["module: intel"]
"""torch.xpu on the devices that TORCH_XPU_MAPPING gives.

What happens once in a process, at the first use, is in test_xpu_first_use.py.
"""

import ast
import gc
import io
import os
import pathlib
import pickle
import re
import threading
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

MAPPING = os.environ.get("TORCH_XPU_MAPPING", "GPU")
VIRTUAL_DEVICES = int(os.environ.get("TORCH_XPU_VIRTUAL_DEVICES", "1"))
COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0
MiB = 1024 * 1024

needs_device = unittest.skipIf(
    COUNT == 0, f"the mapping {MAPPING} finds no device here"
)
needs_two = unittest.skipIf(
    COUNT < 2, f"needs 2 devices and has {COUNT}: set TORCH_XPU_VIRTUAL_DEVICES=2"
)


def in_threads(*actions):
    """Runs the actions in a thread each; what they return, or the error of one."""
    results = [None] * len(actions)
    errors = []

    def run(index):
        try:
            results[index] = actions[index]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class XpuTestCase(TestCase):
    def setUp(self):
        super().setUp()
        if COUNT:
            torch.xpu.set_device(0)
            for index in range(COUNT):
                device = torch.device("xpu", index)
                before = torch.xpu.current_stream(device)
                self.addCleanup(torch.xpu.set_stream, before)
            self.addCleanup(torch.xpu.set_device, 0)

    def text_of(self, error, action, *args, **kwargs):
        """What the error says that the action raises."""
        with self.assertRaises(error) as raised:
            action(*args, **kwargs)
        return str(raised.exception)

    def assertOutOfRange(self, index, action, *args, **kwargs):
        self.assertEqual(
            self.text_of(RuntimeError, action, *args, **kwargs),
            f"XPU device index {index} is out of range: there are {COUNT} XPU "
            f"device(s), so it must be from 0 to {COUNT - 1}",
        )


class TestMapping(XpuTestCase):
    def test_the_mapping_has_its_devices(self):
        # The tests of devices are skipped where there is none. That must not
        # happen where there has to be one.
        if MAPPING == "CPU":
            self.assertEqual(COUNT, VIRTUAL_DEVICES)
        elif MAPPING in ("AUTO", "EXPLICIT"):
            self.assertGreaterEqual(COUNT, VIRTUAL_DEVICES)
        self.assertEqual(COUNT % VIRTUAL_DEVICES, 0)
        self.assertEqual(torch.xpu.is_available(), COUNT > 0)
        self.assertEqual(torch.xpu.mapping(), MAPPING)

    def test_set_mapping_after_the_first_use_raises(self):
        self.assertExpectedInline(
            self.text_of(RuntimeError, torch.xpu.set_mapping, "CPU").replace(
                f"mapping {MAPPING}", "mapping <one>"
            ),
            """\
The XPU mapping cannot be set to CPU any more: the devices have been enumerated with the mapping <one>. Set it before the first use of an XPU device""",  # noqa: B950
        )

    def test_set_mapping_to_no_mapping_raises(self):
        self.assertExpectedInline(
            self.text_of(RuntimeError, torch.xpu.set_mapping, "cpu"),
            """Unknown XPU mapping 'cpu' (from set_mapping): it must be one of GPU, CPU, AUTO, EXPLICIT""",  # noqa: B950
        )
        self.text_of(TypeError, torch.xpu.set_mapping, 1)


@unittest.skipIf(COUNT > 0, f"the mapping {MAPPING} has devices")
class TestNoDevice(XpuTestCase):
    def test_any_use_says_what_was_looked_for(self):
        uses = [
            torch.xpu.init,
            torch.xpu.current_device,
            lambda: torch.xpu.set_device(0),
            torch.xpu.get_device_name,
            torch.xpu.get_device_properties,
            torch.xpu.synchronize,
            torch.xpu.Stream,
            torch.xpu.current_stream,
            lambda: torch.xpu.Event().record(),
            torch.xpu.memory_summary,
            torch.xpu.mem_get_info,
            torch.xpu.reset_peak_memory_stats,
            torch.xpu.get_rng_state,
            torch.xpu.initial_seed,
            lambda: torch.xpu.device(0).__enter__(),
            lambda: torch.Generator(device="xpu"),
            lambda: torch.UntypedStorage(1, device="xpu"),
        ]
        for use in uses:
            text = self.text_of(RuntimeError, use)
            self.assertRegex(
                text,
                rf"No XPU device is available with the mapping {MAPPING} "
                r"\(TORCH_XPU_MAPPING=GPU takes .+\)\. SYCL sees .+",
            )

    def test_what_needs_no_device_works(self):
        torch.manual_seed(1)
        torch.xpu.manual_seed_all(1)
        torch.xpu.manual_seed(1)
        torch.xpu.seed()
        torch.xpu.seed_all()
        torch.xpu.empty_cache()
        self.assertFalse(torch.xpu.is_initialized())
        self.assertEqual(torch.xpu.memory_stats(), {})
        self.assertEqual(torch.xpu.memory_allocated(), 0)
        self.assertEqual(torch.xpu.memory_snapshot(), [])
        with torch.xpu.device(None), torch.xpu.device(-1), torch.xpu.stream(None):
            pass


@needs_device
class TestDevice(XpuTestCase):
    def test_it_is_initialized_by_use(self):
        torch.xpu.current_device()
        self.assertTrue(torch.xpu.is_initialized())
        torch.xpu.init()

    def test_set_device_takes_all_forms(self):
        last = COUNT - 1
        for form in (last, f"xpu:{last}", torch.device("xpu", last)):
            torch.xpu.set_device(0)
            torch.xpu.set_device(form)
            self.assertEqual(torch.xpu.current_device(), last)
        torch.xpu.set_device(-1)
        self.assertEqual(torch.xpu.current_device(), last)

    def test_an_index_out_of_range_is_never_narrowed(self):
        for index in (COUNT, 127, 128, 255, 256, 2**31, 2**40):
            self.assertOutOfRange(index, torch.xpu.set_device, index)
            self.assertOutOfRange(index, torch.xpu.get_device_properties, index)
            self.assertOutOfRange(index, torch.xpu.synchronize, index)
            self.assertOutOfRange(index, torch.xpu.current_stream, index)
            self.assertOutOfRange(index, torch.xpu.memory_stats, index)
            self.assertOutOfRange(index, torch.xpu.mem_get_info, index)
            self.assertOutOfRange(index, torch.xpu.get_rng_state, index)
            self.assertOutOfRange(index, torch.xpu.Stream, index)
        self.assertEqual(torch.xpu.current_device(), 0)
        self.assertOutOfRange(-1, torch._C._xpu_setDevice, -1)
        self.assertOutOfRange(-300, torch._C._xpu_getCurrentStream, -300)

    def test_what_is_no_xpu_device_is_refused(self):
        for action in (
            torch.xpu.set_device,
            torch.xpu.device,
            torch.xpu.get_device_name,
            torch.xpu.synchronize,
            torch.xpu.current_stream,
            torch.xpu.memory_summary,
            torch.xpu.get_rng_state,
        ):
            self.assertExpectedInline(
                self.text_of(ValueError, action, "cpu"),
                """Expected a xpu device, but got: cpu""",
            )
            self.assertExpectedInline(
                self.text_of(ValueError, action, torch.device("cuda", 0)),
                """Expected a xpu device, but got: cuda:0""",
            )
            self.assertExpectedInline(
                self.text_of(TypeError, action, 1.5),
                """Expected a torch.device, an integer or a string, but got: 1.5""",
            )
        self.assertExpectedInline(
            self.text_of(ValueError, torch.xpu.set_device, "xpu"),
            """Expected a torch.device with a specified index or an integer, but got: xpu""",
        )
        self.text_of(RuntimeError, torch.xpu.set_device, "nonsense")
        self.text_of(TypeError, torch._C._xpu_setDevice, "xpu:0")
        self.text_of(TypeError, torch._C._xpu_setDevice, None)
        self.text_of(TypeError, torch._C._xpu_setDevice, 0, 0)

    def test_device_selects_for_a_scope(self):
        last = COUNT - 1
        for form in (
            last,
            f"xpu:{last}",
            torch.device("xpu", last),
            torch.xpu.device(last),
        ):
            with torch.xpu.device(form):
                self.assertEqual(torch.xpu.current_device(), last)
            self.assertEqual(torch.xpu.current_device(), 0)
        with self.assertRaisesRegex(KeyError, "inner"), torch.xpu.device(last):
            raise KeyError("inner")
        self.assertEqual(torch.xpu.current_device(), 0)

    def test_device_without_an_index_changes_nothing(self):
        torch.xpu.set_device(COUNT - 1)
        for form in (None, -1, "xpu", torch.device("xpu")):
            with torch.xpu.device(form):
                self.assertEqual(torch.xpu.current_device(), COUNT - 1)
            self.assertEqual(torch.xpu.current_device(), COUNT - 1)

    def test_device_of_an_object(self):
        there = torch.UntypedStorage(16, device=f"xpu:{COUNT - 1}")
        with torch.xpu.device_of(there):
            self.assertEqual(torch.xpu.current_device(), COUNT - 1)
        self.assertEqual(torch.xpu.current_device(), 0)
        for elsewhere in (torch.zeros(1), torch.zeros(1).storage()):
            with torch.xpu.device_of(elsewhere):
                self.assertEqual(torch.xpu.current_device(), 0)

    def test_device_guard_and_exchange(self):
        last = COUNT - 1
        with torch.xpu._DeviceGuard(last):
            self.assertEqual(torch.xpu.current_device(), last)
        self.assertEqual(torch.xpu.current_device(), 0)
        for exchange in (torch.xpu._exchange_device, torch.xpu._maybe_exchange_device):
            self.assertEqual(exchange(last), 0)
            self.assertEqual(exchange(0), last)
            self.assertEqual(exchange(-1), -1)
            self.assertEqual(torch.xpu.current_device(), 0)
            self.assertOutOfRange(COUNT, exchange, COUNT)

    def test_the_current_device_is_of_a_thread(self):
        torch.xpu.set_device(COUNT - 1)

        def other():
            first = torch.xpu.current_device()
            torch.xpu.set_device(0)
            return first

        self.assertEqual(in_threads(other), [0])
        self.assertEqual(torch.xpu.current_device(), COUNT - 1)

    def test_synchronize(self):
        for form in (None, 0, "xpu", f"xpu:{COUNT - 1}", torch.device("xpu", 0)):
            self.assertIsNone(torch.xpu.synchronize(form))

    def test_peer_access(self):
        for peer in (COUNT - 1, f"xpu:{COUNT - 1}"):
            access = torch.xpu.can_device_access_peer(0, peer)
            self.assertIsInstance(access, bool)
            self.assertEqual(access, torch.xpu.can_device_access_peer("xpu", peer))
        self.assertOutOfRange(COUNT, torch.xpu.can_device_access_peer, COUNT, 0)
        self.assertOutOfRange(256, torch.xpu.can_device_access_peer, 0, 256)
        self.text_of(ValueError, torch.xpu.can_device_access_peer, 0, "cpu")

    @needs_two
    def test_virtual_devices_access_each_other(self):
        if VIRTUAL_DEVICES > 1:
            self.assertTrue(torch.xpu.can_device_access_peer(0, 1))

    def test_sync_debug_mode(self):
        self.addCleanup(torch.xpu.set_sync_debug_mode, "default")
        self.assertEqual(torch.xpu.get_sync_debug_mode(), 0)
        for number, name in enumerate(("default", "warn", "error")):
            for mode in (number, name):
                torch.xpu.set_sync_debug_mode(mode)
                self.assertEqual(torch.xpu.get_sync_debug_mode(), number)
        stream = torch.xpu.Stream()
        with self.assertRaisesRegex(RuntimeError, "synchroniz"):
            stream.synchronize()
        torch.xpu.set_sync_debug_mode("warn")
        with self.assertWarnsRegex(UserWarning, "synchroniz"):
            stream.synchronize()

    def test_a_wrong_sync_debug_mode_changes_nothing(self):
        self.assertExpectedInline(
            self.text_of(RuntimeError, torch.xpu.set_sync_debug_mode, "never"),
            """invalid value of debug_mode, expected one of default, warn, error, but got: 'never'""",  # noqa: B950
        )
        for wrong in (-1, 3, 2**32):
            self.assertEqual(
                self.text_of(RuntimeError, torch.xpu.set_sync_debug_mode, wrong),
                f"The sync debug mode {wrong} is none: it must be 0 (default), 1 (warn) "
                "or 2 (error)",
            )
        self.assertEqual(torch.xpu.get_sync_debug_mode(), 0)

    def test_devices_pickle(self):
        for device in (torch.device("xpu"), torch.device("xpu", COUNT - 1)):
            self.assertEqual(pickle.loads(pickle.dumps(device)), device)

    def test_the_module_is_that_of_the_device_type(self):
        self.assertIs(getattr(torch, torch.device("xpu").type), torch.xpu)
        with self.assertRaisesRegex(RuntimeError, "already been registered"):
            torch._register_device_module("xpu", torch.xpu)


@needs_device
class TestProperties(XpuTestCase):
    def test_repr(self):
        shown = repr(torch.xpu.get_device_properties(0))
        shown = re.sub(r"='[^']*'", "='...'", shown)
        shown = re.sub(r"=\d+", "=N", shown)
        shown = re.sub(r"\[[\d, ]*\]", "[...]", shown)
        shown = re.sub(r"=(True|False)", "=B", shown)
        self.assertExpectedInline(
            shown,
            """_XpuDeviceProperties(name='...', platform_name='...', type='...', driver_version='...', total_memory=NMB, max_compute_units=N, gpu_eu_count=N, gpu_subslice_count=N, max_work_group_size=N, max_num_sub_groups=N, sub_group_sizes=[...], has_fp16=B, has_fp64=B, has_atomic64=B)""",  # noqa: B950
        )

    def test_values(self):
        properties = torch.xpu.get_device_properties()
        self.assertEqual(torch.xpu.get_device_name(), properties.name)
        self.assertIn(f"name='{properties.name}'", repr(properties))
        if MAPPING == "CPU":
            self.assertEqual(properties.type, "cpu")
        self.assertEqual(properties.type, properties.device_type)
        self.assertGreater(properties.total_memory, MiB)
        self.assertEqual(properties.total_memory, properties.global_mem_size)
        self.assertGreater(properties.max_compute_units, 0)
        self.assertTrue(all(isinstance(n, int) for n in properties.sub_group_sizes))
        self.assertIn("denorm", properties.single_fp_config)
        self.assertIn("relaxed", properties.atomic_memory_order_capabilities)
        self.assertTrue(properties.has_usm_device_allocations)
        with self.assertRaises(AttributeError):
            properties.name = "another"

    def test_virtual_devices_share_a_root(self):
        names = {torch.xpu.get_device_name(n) for n in range(VIRTUAL_DEVICES)}
        self.assertEqual(len(names), 1)

    def test_capability_has_every_property(self):
        properties = torch.xpu.get_device_properties()
        capability = torch.xpu.get_device_capability()
        for name, value in capability.items():
            self.assertEqual(value, getattr(properties, name), name)
            self.assertNotEqual(value, "unknown", name)
        self.assertIn("has_fp64", capability)
        self.assertEqual(set(capability), stub_of("_XpuDeviceProperties"))


def stub_of(name):
    """The members that the type stub gives a class; of "" those of the module."""
    path = pathlib.Path(torch.__file__).parent / "_C" / "__init__.pyi"
    body = ast.parse(path.read_text()).body
    if name:
        (body,) = (
            c.body for c in body if isinstance(c, ast.ClassDef) and c.name == name
        )
    members = set()
    for node in body:
        if isinstance(node, ast.AnnAssign):
            members.add(node.target.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            members.add(node.name)
    return members


class TestStubs(XpuTestCase):
    def test_stubs_name_what_there_is(self):
        bound = {name for name in dir(torch._C) if re.match("_xpu_|_Xpu", name)}
        self.assertEqual(
            bound, {name for name in stub_of("") if re.match("_xpu_|_Xpu", name)}
        )
        for name in ("_XpuStreamBase", "_XpuEventBase"):
            members = stub_of(name)
            self.assertEqual(members - set(dir(getattr(torch._C, name))), set())
            own = {n for n in vars(getattr(torch._C, name)) if not n.startswith("__")}
            self.assertEqual(own - members - {"device"}, set())

    def test_all_public_names_are_there(self):
        for name in torch.xpu.__all__:
            self.assertTrue(hasattr(torch.xpu, name), name)
        self.assertEqual(len(torch.xpu.__all__), len(set(torch.xpu.__all__)))

    def test_version(self):
        self.assertRegex(torch.version.xpu, r"\A20\d{6}\Z")


@needs_device
class TestStream(XpuTestCase):
    def test_the_default_stream_is_current(self):
        stream = torch.xpu.current_stream()
        self.assertEqual((stream.stream_id, stream.device_index), (0, 0))
        self.assertEqual(stream.device, torch.device("xpu", 0))
        self.assertEqual(stream.priority, 0)
        self.assertIsInstance(stream, torch.Stream)
        self.assertEqual(stream, torch.xpu.current_stream("xpu:0"))

    def test_the_default_stream(self):
        last = COUNT - 1
        for device in (last, f"xpu:{last}", torch.device("xpu", last)):
            with torch.xpu.stream(torch.xpu.Stream(last)):
                stream = torch.xpu.default_stream(device)
                self.assertNotEqual(stream, torch.xpu.current_stream())
            self.assertEqual(stream, torch.xpu.current_stream(last))
            self.assertEqual((stream.stream_id, stream.device_index), (0, last))
        self.assertEqual(torch.xpu.default_stream().device_index, 0)
        self.assertOutOfRange(COUNT, torch.xpu.default_stream, COUNT)

    def test_an_external_stream(self):
        queue = torch.xpu.Stream(COUNT - 1).sycl_queue
        stream = torch.xpu.ExternalStream(queue, COUNT - 1)
        self.assertIsInstance(stream, torch.xpu.Stream)
        self.assertEqual(stream.sycl_queue, queue)
        self.assertEqual(stream.device, torch.device("xpu", COUNT - 1))
        with torch.xpu.stream(stream):
            self.assertEqual(torch.xpu.current_stream(), stream)
            event = torch.xpu.current_stream().record_event()
        stream.synchronize()
        self.assertTrue(event.query() and stream.query())
        self.assertEqual(stream.priority, 0)

    def test_what_is_no_external_queue_is_refused(self):
        self.assertExpectedInline(
            self.text_of(RuntimeError, torch.xpu.ExternalStream, 0),
            """getStreamFromExternal was given a null queue""",
        )
        self.text_of(TypeError, torch.xpu.ExternalStream, "queue")
        self.text_of(TypeError, torch.xpu.ExternalStream, -1)
        queue = torch.xpu.Stream().sycl_queue
        self.assertOutOfRange(COUNT, torch.xpu.ExternalStream, queue, COUNT)

    def test_pool(self):
        streams = [torch.xpu.Stream() for _ in range(33)]
        self.assertEqual(len(set(streams)), 32)
        self.assertEqual(streams[0], streams[32])
        self.assertNotIn(torch.xpu.current_stream(), streams)
        self.assertEqual(len({s.sycl_queue for s in streams}), 32)

    def test_priority(self):
        self.assertEqual(torch.xpu.Stream.priority_range(), (1, -1))
        for priority in (-1, 0, 1):
            self.assertEqual(torch.xpu.Stream(priority=priority).priority, priority)
        self.assertEqual(torch.xpu.Stream(priority=-7).priority, -1)
        self.assertExpectedInline(
            self.text_of(RuntimeError, torch.xpu.Stream, priority=2),
            """The stream priority 2 is out of range: it must be from -1 (high) to 1 (low)""",
        )

    def test_wrong_arguments(self):
        self.text_of(TypeError, torch.xpu.Stream, priority="high")
        self.text_of(TypeError, torch.xpu.Stream, colour=1)
        self.text_of(ValueError, torch.xpu.Stream, "cpu")
        kind = torch.xpu.current_stream().device_type
        self.assertExpectedInline(
            self.text_of(
                RuntimeError,
                torch.xpu.Stream,
                stream_id=0,
                device_index=0,
                device_type=1,
            ),
            """An XPUStream was given the device type cuda: it must be xpu""",
        )
        self.text_of(
            RuntimeError,
            torch.xpu.Stream,
            stream_id=123456,
            device_index=0,
            device_type=kind,
        )
        self.assertOutOfRange(
            COUNT + 256,
            torch.xpu.Stream,
            stream_id=0,
            device_index=COUNT + 256,
            device_type=kind,
        )

    def test_a_device_type_is_never_narrowed(self):
        kind = torch.xpu.current_stream().device_type
        for wrong in (kind + 256, kind - 256, kind + 2**32, -1, 2**62):
            for action in (torch.xpu.Stream, torch._C._xpu_setStream):
                self.assertEqual(
                    self.text_of(
                        RuntimeError,
                        action,
                        stream_id=0,
                        device_index=0,
                        device_type=wrong,
                    ),
                    f"There is no device type {wrong}: that of an XPU stream is {kind}",
                )

    def test_three_numbers_name_a_stream(self):
        stream = torch.xpu.Stream(COUNT - 1, priority=-1)
        same = torch.xpu.Stream(
            stream_id=stream.stream_id,
            device_index=stream.device_index,
            device_type=stream.device_type,
        )
        self.assertEqual(stream, same)
        self.assertEqual(hash(stream), hash(same))
        self.assertEqual(stream.sycl_queue, same.sycl_queue)
        self.assertEqual(stream._cdata, same._cdata)
        self.assertNotEqual(stream, torch.xpu.Stream(COUNT - 1))
        self.assertFalse(stream != same)
        self.assertNotEqual(stream, "a stream")
        with self.assertRaises(TypeError):
            stream < same

    def test_repr(self):
        shown = repr(torch.xpu.Stream())
        self.assertExpectedInline(
            re.sub("0x[0-9a-f]+", "0x...", shown),
            """torch.xpu.Stream(device=xpu:0 sycl_queue=0x...)""",
        )

    def test_raw_stream(self):
        stream = torch.xpu.Stream()
        with torch.xpu.stream(stream):
            self.assertEqual(torch._C._xpu_getCurrentRawStream(0), stream.sycl_queue)
        self.assertEqual(stream._as_parameter_.value, stream.sycl_queue)

    def test_set_stream(self):
        stream = torch.xpu.Stream(COUNT - 1)
        torch.xpu.set_stream(stream)
        self.assertEqual(torch.xpu.current_device(), COUNT - 1)
        self.assertEqual(torch.xpu.current_stream(), stream)
        torch.xpu.set_stream(None)
        self.assertEqual(torch.xpu.current_stream(), stream)
        other = torch.xpu.Stream(0)
        torch.xpu._set_stream_by_id(
            other.stream_id, other.device_index, other.device_type
        )
        self.assertEqual(torch.xpu.current_stream(), other)
        self.assertExpectedInline(
            self.text_of(TypeError, torch.xpu.set_stream, 3),
            """expected a torch.xpu.Stream, but got int""",
        )
        self.text_of(TypeError, torch.xpu.stream, torch.device("xpu"))

    def test_stream_selects_for_a_scope(self):
        default = torch.xpu.current_stream()
        outer, inner = torch.xpu.Stream(), torch.xpu.Stream()
        with torch.xpu.stream(outer):
            self.assertEqual(torch.xpu.current_stream(), outer)
            with torch.xpu.StreamContext(inner), torch.xpu.stream(None):
                self.assertEqual(torch.xpu.current_stream(), inner)
            self.assertEqual(torch.xpu.current_stream(), outer)
        self.assertEqual(torch.xpu.current_stream(), default)
        with self.assertRaisesRegex(KeyError, "inner"), torch.xpu.stream(inner):
            raise KeyError("inner")
        self.assertEqual(torch.xpu.current_stream(), default)

    @needs_two
    def test_a_stream_of_another_device_for_a_scope(self):
        here, there = torch.xpu.Stream(0), torch.xpu.Stream(1)
        with torch.xpu.stream(here):
            with torch.xpu.stream(there):
                self.assertEqual(torch.xpu.current_device(), 1)
                self.assertEqual(torch.xpu.current_stream(), there)
                self.assertEqual(torch.xpu.current_stream(0), here)
            self.assertEqual(torch.xpu.current_device(), 0)
            self.assertEqual(torch.xpu.current_stream(), here)
            self.assertEqual(torch.xpu.current_stream(1).stream_id, 0)

    def test_current_streams_are_of_a_thread(self):
        with torch.xpu.stream(torch.xpu.Stream()):
            (other,) = in_threads(lambda: torch.xpu.current_stream().stream_id)
            self.assertEqual(other, 0)
            self.assertNotEqual(torch.xpu.current_stream().stream_id, 0)

    def test_query_and_synchronize(self):
        stream = torch.xpu.Stream()
        self.assertTrue(stream.query())
        stream.record_event()
        self.assertIsNone(stream.synchronize())
        self.assertTrue(stream.query())

    def test_waiting_for_each_other(self):
        first, second = torch.xpu.Stream(0), torch.xpu.Stream(COUNT - 1)
        second.wait_stream(first)
        event = first.record_event()
        self.assertIsInstance(event, torch.xpu.Event)
        second.wait_event(event)
        given = torch.xpu.Event()
        self.assertIs(second.record_event(given), given)
        self.assertEqual(given.device, second.device)
        second.synchronize()
        self.assertTrue(event.query() and given.query())


@needs_device
class TestEvent(XpuTestCase):
    def test_before_it_is_recorded(self):
        event = torch.xpu.Event()
        self.assertTrue(event.query())
        self.assertIsNone(event.device)
        self.assertEqual(event.sycl_event, 0)
        event.synchronize()
        event.wait()
        self.assertExpectedInline(repr(event), """torch.xpu.Event(uninitialized)""")

    def test_record(self):
        event = torch.xpu.Event()
        event.record()
        event.record(torch.xpu.Stream())
        event.synchronize()
        self.assertTrue(event.query())
        self.assertEqual(event.device, torch.device("xpu", 0))
        self.assertEqual(event._as_parameter_.value, event.sycl_event)
        self.assertExpectedInline(
            re.sub("0x[0-9a-f]+", "0x...", repr(event)),
            """torch.xpu.Event(sycl_event=0x...)""",
        )

    def test_wrong_arguments(self):
        event = torch.xpu.Event()
        for action in (event.record, event.wait):
            self.assertExpectedInline(
                self.text_of(TypeError, action, 1),
                """expected a torch.xpu.Stream, but got int""",
            )
        self.assertExpectedInline(
            self.text_of(TypeError, event.elapsed_time, None),
            """expected a torch.xpu.Event, but got NoneType""",
        )
        self.text_of(TypeError, torch.xpu.Event, interprocess=True)
        self.text_of(TypeError, torch.xpu.Stream().wait_event, event, 1)
        with self.assertRaises((TypeError, AttributeError)):
            torch.xpu.Stream().wait_event("event")

    @needs_two
    def test_another_device(self):
        event = torch.xpu.Stream(0).record_event()
        torch.xpu.Stream(1).wait_event(event)
        self.assertExpectedInline(
            self.text_of(RuntimeError, event.record, torch.xpu.Stream(1)),
            """This XPU event was first recorded on device xpu:0 and cannot be recorded on device xpu:1, the device of the stream: use another event there""",  # noqa: B950
        )
        self.assertEqual(event.device, torch.device("xpu", 0))

    def test_elapsed_time(self):
        start, end = (torch.xpu.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        end.synchronize()
        forward = start.elapsed_time(end)
        self.assertIsInstance(forward, float)
        self.assertGreaterEqual(forward, 0.0)
        self.assertEqual(end.elapsed_time(start), -forward)
        self.assertEqual(start.elapsed_time(start), 0.0)

    def test_elapsed_time_says_what_is_missing(self):
        timed, untimed = torch.xpu.Event(enable_timing=True), torch.xpu.Event()
        timed.record()
        self.assertExpectedInline(
            self.text_of(RuntimeError, timed.elapsed_time, untimed),
            """elapsed_time: the second event has not been recorded: record both before you take the time""",  # noqa: B950
        )
        untimed.record()
        torch.xpu.synchronize()
        self.assertExpectedInline(
            self.text_of(RuntimeError, untimed.elapsed_time, timed),
            """elapsed_time: the first event was made without timing: make both with enable_timing=true""",  # noqa: B950
        )

    def test_one_event_in_many_threads(self):
        event, timed = torch.xpu.Event(), torch.xpu.Event(enable_timing=True)
        timed.record()
        timed.synchronize()
        start = threading.Barrier(6)

        def repeating(action):
            def run():
                start.wait()
                for _ in range(200):
                    action()
                return True

            return run

        def time():
            try:
                return timed.elapsed_time(timed)
            except RuntimeError as error:  # recorded again, not complete yet
                self.assertIn("is not complete", str(error))

        done = in_threads(
            repeating(event.record),
            repeating(event.query),
            repeating(event.synchronize),
            repeating(event.wait),
            repeating(time),
            repeating(timed.record),
        )
        self.assertEqual(done, [True] * 6)

    def test_an_event_ends_while_it_is_awaited(self):
        stream = torch.xpu.Stream()
        for _ in range(100):
            stream.wait_stream(torch.xpu.current_stream())
        stream.synchronize()


@needs_device
class TestMemory(XpuTestCase):
    def setUp(self):
        super().setUp()
        gc.collect()
        torch.xpu.synchronize()
        torch.xpu.empty_cache()
        for index in range(COUNT):
            torch.xpu.reset_peak_memory_stats(index)
            torch.xpu.reset_accumulated_memory_stats(index)

    def test_stats_have_the_keys_of_cuda(self):
        pooled = "allocation segment active inactive_split allocated_bytes " + (
            "reserved_bytes active_bytes inactive_split_bytes requested_bytes"
        )
        values = ("allocated", "current", "freed", "peak")
        expected = {
            f"{what}.{pool}.{value}"
            for what in pooled.split()
            for pool in ("all", "large_pool", "small_pool")
            for value in values
        }
        expected |= {
            f"{what}.{value}"
            for what in ("oversize_allocations", "oversize_segments")
            for value in values
        }
        expected |= {"num_alloc_retries", "num_ooms", "max_split_size"}
        expected |= {"num_device_alloc", "num_device_free"}
        stats = torch.xpu.memory_stats()
        self.assertEqual(set(stats), expected)
        self.assertEqual(list(stats), sorted(stats))
        nested = torch.xpu.memory_stats_as_nested_dict()
        self.assertEqual(stats["segment.all.peak"], nested["segment"]["all"]["peak"])

    def test_a_block_comes_and_goes(self):
        storage = torch.UntypedStorage(1000, device="xpu")
        self.assertEqual(torch.xpu.memory_allocated(), 1024)
        self.assertEqual(torch.xpu.memory_reserved(), 2 * MiB)
        del storage
        self.assertEqual(torch.xpu.memory_allocated("xpu:0"), 0)
        self.assertEqual(torch.xpu.max_memory_allocated(0), 1024)
        self.assertEqual(torch.xpu.max_memory_reserved(torch.device("xpu")), 2 * MiB)
        torch.xpu.reset_peak_memory_stats()
        self.assertEqual(torch.xpu.max_memory_allocated(), 0)
        self.assertEqual(torch.xpu.max_memory_reserved(), 2 * MiB)
        torch.xpu.empty_cache()
        self.assertEqual(torch.xpu.memory_reserved(), 0)
        self.assertEqual(torch.xpu.memory_stats()["allocation.all.freed"], 1)
        torch.xpu.reset_accumulated_memory_stats()
        self.assertEqual(torch.xpu.memory_stats()["allocation.all.freed"], 0)

    @needs_two
    def test_devices_count_on_their_own(self):
        there = torch.UntypedStorage(512, device="xpu:1")
        self.assertEqual(there.device, torch.device("xpu", 1))
        self.assertEqual(torch.xpu.memory_allocated(0), 0)
        self.assertEqual(torch.xpu.memory_allocated(1), 512)
        with torch.xpu.device(1):
            self.assertEqual(torch.xpu.memory_allocated(), 512)

    def test_summary(self):
        small = torch.UntypedStorage(1, device="xpu")
        large = torch.UntypedStorage(30 * MiB, device="xpu")
        del small
        self.assertExpectedInline(
            torch.xpu.memory_summary(),
            """\
|===========================================================================|
|                  PyTorch XPU memory summary, device ID 0                  |
|---------------------------------------------------------------------------|
|             XPU OOMs: 0             |         XPU alloc retries: 0        |
|===========================================================================|
|         Metric        | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |   30720 KB |   30720 KB |   30720 KB |     512 B  |
|       from large pool |   30720 KB |   30720 KB |   30720 KB |       0 B  |
|       from small pool |       0 KB |       0 KB |       0 KB |     512 B  |
|---------------------------------------------------------------------------|
| Active memory         |   30720 KB |   30720 KB |   30720 KB |     512 B  |
|       from large pool |   30720 KB |   30720 KB |   30720 KB |       0 B  |
|       from small pool |       0 KB |       0 KB |       0 KB |     512 B  |
|---------------------------------------------------------------------------|
| Requested memory      |   30720 KB |   30720 KB |   30720 KB |       1 B  |
|       from large pool |   30720 KB |   30720 KB |   30720 KB |       0 B  |
|       from small pool |       0 KB |       0 KB |       0 KB |       1 B  |
|---------------------------------------------------------------------------|
| XPU reserved memory   |   32768 KB |   32768 KB |   32768 KB |       0 B  |
|       from large pool |   30720 KB |   30720 KB |   30720 KB |       0 B  |
|       from small pool |    2048 KB |    2048 KB |    2048 KB |       0 B  |
|---------------------------------------------------------------------------|
| Non-releasable memory |       0 B  |    2047 KB |    2047 KB |    2047 KB |
|       from large pool |       0 B  |       0 KB |       0 KB |       0 KB |
|       from small pool |       0 B  |    2047 KB |    2047 KB |    2047 KB |
|---------------------------------------------------------------------------|
| Allocations           |       1    |       2    |       2    |       1    |
|       from large pool |       1    |       1    |       1    |       0    |
|       from small pool |       0    |       1    |       1    |       1    |
|---------------------------------------------------------------------------|
| Active allocs         |       1    |       2    |       2    |       1    |
|       from large pool |       1    |       1    |       1    |       0    |
|       from small pool |       0    |       1    |       1    |       1    |
|---------------------------------------------------------------------------|
| XPU reserved segments |       2    |       2    |       2    |       0    |
|       from large pool |       1    |       1    |       1    |       0    |
|       from small pool |       1    |       1    |       1    |       0    |
|---------------------------------------------------------------------------|
| Non-releasable allocs |       0    |       1    |       1    |       1    |
|       from large pool |       0    |       0    |       0    |       0    |
|       from small pool |       0    |       1    |       1    |       1    |
|---------------------------------------------------------------------------|
| Oversize allocations  |       0    |       0    |       0    |       0    |
|---------------------------------------------------------------------------|
| Oversize XPU segments |       0    |       0    |       0    |       0    |
|===========================================================================|
""",
        )
        del large
        self.assertExpectedInline(
            torch.xpu.memory_summary(0, abbreviated=True),
            """\
|===========================================================================|
|                  PyTorch XPU memory summary, device ID 0                  |
|---------------------------------------------------------------------------|
|             XPU OOMs: 0             |         XPU alloc retries: 0        |
|===========================================================================|
|         Metric        | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |       0 B  |   30720 KB |   30720 KB |   30720 KB |
|---------------------------------------------------------------------------|
| Active memory         |       0 B  |   30720 KB |   30720 KB |   30720 KB |
|---------------------------------------------------------------------------|
| Requested memory      |       0 B  |   30720 KB |   30720 KB |   30720 KB |
|---------------------------------------------------------------------------|
| XPU reserved memory   |   32768 KB |   32768 KB |   32768 KB |       0 B  |
|---------------------------------------------------------------------------|
| Non-releasable memory |       0 B  |    2047 KB |    2047 KB |    2047 KB |
|---------------------------------------------------------------------------|
| Allocations           |       0    |       2    |       2    |       2    |
|---------------------------------------------------------------------------|
| Active allocs         |       0    |       2    |       2    |       2    |
|---------------------------------------------------------------------------|
| XPU reserved segments |       2    |       2    |       2    |       0    |
|---------------------------------------------------------------------------|
| Non-releasable allocs |       0    |       1    |       1    |       1    |
|---------------------------------------------------------------------------|
| Oversize allocations  |       0    |       0    |       0    |       0    |
|---------------------------------------------------------------------------|
| Oversize XPU segments |       0    |       0    |       0    |       0    |
|===========================================================================|
""",
        )

    def test_mem_get_info(self):
        properties = torch.xpu.get_device_properties()
        if properties.type == "cpu":
            free, total = torch.xpu.mem_get_info()
            self.assertEqual(total, properties.total_memory)
            with open("/proc/meminfo") as file:
                lines = dict(line.split(":") for line in file)
            available = 1024 * int(lines["MemAvailable"].split()[0])
            # Other processes take and give memory in between; a container has less.
            self.assertTrue(0 < free < available + total // 4)
        elif properties.has_ext_intel_free_memory:
            free, total = torch.xpu.mem_get_info()
            self.assertEqual(total, properties.total_memory)
            self.assertTrue(0 < free <= total)
        else:
            self.assertEqual(
                self.text_of(RuntimeError, torch.xpu.mem_get_info, 0),
                f"SYCL does not tell how much memory of xpu:0 ({properties.name}) is "
                "free. What it has in all is total_memory of "
                "torch.xpu.get_device_properties; what this process holds of it is "
                "torch.xpu.memory_reserved",
            )

    def test_memory_fraction(self):
        for index in range(COUNT):
            self.addCleanup(torch.xpu.set_per_process_memory_fraction, 1.0, index)
        torch.xpu.set_per_process_memory_fraction(0.0, COUNT - 1)
        with self.assertRaisesRegex(torch.xpu.OutOfMemoryError, "out of memory"):
            torch.UntypedStorage(1, device=f"xpu:{COUNT - 1}")
        self.assertEqual(torch.xpu.memory_stats(COUNT - 1)["num_ooms"], 1)
        self.assertExpectedInline(
            self.text_of(TypeError, torch.xpu.set_per_process_memory_fraction, 1),
            """Invalid type for fraction argument, must be `float`: 1""",
        )
        for wrong in (-0.1, 1.1, float("nan")):
            self.assertEqual(
                self.text_of(
                    ValueError, torch.xpu.set_per_process_memory_fraction, wrong
                ),
                f"Invalid fraction value: {wrong}. Allowed range: 0~1",
            )


@needs_device
class TestRandom(XpuTestCase):
    def test_torch_manual_seed_seeds_all_devices(self):
        torch.manual_seed(7)
        for index in range(COUNT):
            with torch.xpu.device(index):
                self.assertEqual(torch.xpu.initial_seed(), 7)
        cpu = torch.seed()
        self.assertEqual(torch.xpu.initial_seed(), cpu)

    def test_manual_seed(self):
        torch.xpu.manual_seed_all(3)
        with torch.xpu.device(COUNT - 1):
            torch.xpu.manual_seed(4)
        seeds = [g.initial_seed() for g in torch.xpu.default_generators]
        self.assertEqual(seeds, [3] * (COUNT - 1) + [4])
        self.text_of(ValueError, torch.xpu.manual_seed, "three")

    def test_seed(self):
        torch.xpu.manual_seed_all(3)
        torch.xpu.seed()
        first = torch.xpu.initial_seed()
        self.assertNotEqual(first, 3)
        torch.xpu.seed_all()
        self.assertNotEqual(torch.xpu.initial_seed(), first)
        self.assertEqual(
            len({g.initial_seed() for g in torch.xpu.default_generators}), 1
        )

    def test_states(self):
        torch.xpu.manual_seed_all(5)
        state = torch.xpu.get_rng_state()
        self.assertEqual((state.device.type, state.dtype), ("cpu", torch.uint8))
        self.assertEqual(state.tolist(), [5] + [0] * 15)
        torch.xpu.manual_seed(6)
        self.assertNotEqual(torch.xpu.get_rng_state(), state)
        torch.xpu.set_rng_state(state)
        self.assertEqual(torch.xpu.get_rng_state("xpu:0"), state)
        states = torch.xpu.get_rng_state_all()
        self.assertEqual(len(states), COUNT)
        torch.xpu.seed_all()
        torch.xpu.set_rng_state_all(states)
        self.assertEqual(torch.xpu.get_rng_state_all(), states)

    def test_a_wrong_state_changes_nothing(self):
        torch.xpu.manual_seed(5)
        good = torch.xpu.get_rng_state()
        for wrong in (torch.zeros(15, dtype=torch.uint8), torch.zeros(16)):
            with self.assertRaises((RuntimeError, TypeError)):
                torch.xpu.set_rng_state(wrong)
        self.text_of(AttributeError, torch.xpu.set_rng_state, 5)
        self.assertEqual(torch.xpu.get_rng_state(), good)

    def test_states_pickle(self):
        torch.xpu.manual_seed(8)
        state = torch.xpu.get_rng_state()
        self.assertEqual(pickle.loads(pickle.dumps(state)), state)
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        torch.xpu.manual_seed(9)
        torch.xpu.set_rng_state(torch.load(file))
        self.assertEqual(torch.xpu.initial_seed(), 8)

    def test_default_generators(self):
        self.assertEqual(len(torch.xpu.default_generators), COUNT)
        for index, generator in enumerate(torch.xpu.default_generators):
            self.assertIsInstance(generator, torch.Generator)
            self.assertEqual(generator.device, torch.device("xpu", index))
            self.assertIs(torch._C._xpu_getDefaultGenerator(index), generator)

    def test_generator(self):
        for device in ("xpu", f"xpu:{COUNT - 1}", torch.device("xpu", 0)):
            generator = torch.Generator(device=device)
            wanted = torch.device(device)
            self.assertEqual(generator.device.index, wanted.index or 0)
            self.assertEqual(generator.device.type, "xpu")
            torch.xpu.manual_seed_all(1)
            self.assertIs(generator.manual_seed(2), generator)
            self.assertEqual(generator.initial_seed(), 2)
            self.assertEqual(torch.xpu.initial_seed(), 1)
            state = generator.get_state()
            seed = generator.seed()
            self.assertEqual(generator.initial_seed(), seed)
            generator.set_state(state)
            self.assertEqual(generator.initial_seed(), 2)
        self.assertOutOfRange(COUNT, torch.Generator, device=f"xpu:{COUNT}")


if __name__ == "__main__":
    run_tests()
