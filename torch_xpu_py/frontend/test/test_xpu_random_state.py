# Owner(s): ["module: intel"]
"""What keeps XPU's random state: torch.random.fork_rng, torch.utils.checkpoint."""

import subprocess
import sys
import unittest

import torch
from test_xpu_autocast import xpu
from torch.testing._internal.common_utils import run_tests, TestCase
from torch.utils.checkpoint import checkpoint

COUNT = torch.xpu.device_count() if torch.xpu.is_available() else 0

needs_device = unittest.skipIf(COUNT == 0, "there is no device")


def seeds():
    return [generator.initial_seed() for generator in torch.xpu.default_generators]


def draw():
    """Advances the generator as an operator does; the offset before."""
    state = torch.xpu.get_rng_state()
    offset = int(state[8])
    state[8] += 4
    torch.xpu.set_rng_state(state)
    return offset


@needs_device
class TestForkRng(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        torch.xpu.init()

    def test_all_devices_are_forked(self):
        for given in ({}, {"device_type": "xpu"}, {"devices": range(COUNT)}):
            before = torch.xpu.get_rng_state_all()
            with torch.random.fork_rng(**given):
                torch.manual_seed(2)
                draw()
                self.assertEqual(seeds(), [2] * COUNT)
            self.assertEqual(torch.xpu.get_rng_state_all(), before)
            self.assertEqual(torch.initial_seed(), 1)

    def test_an_error_restores_too(self):
        with self.assertRaises(KeyError), torch.random.fork_rng():
            torch.xpu.manual_seed_all(2)
            raise KeyError
        self.assertEqual(seeds(), [1] * COUNT)

    def test_the_devices_that_are_given(self):
        last = COUNT - 1
        with torch.random.fork_rng(devices=iter([last]), device_type="xpu"):
            torch.xpu.manual_seed_all(2)
        self.assertEqual(seeds(), [2] * last + [1])
        with torch.random.fork_rng(devices=[]), torch.random.fork_rng(enabled=False):
            torch.xpu.manual_seed_all(3)
        self.assertEqual(seeds(), [3] * COUNT)
        with self.assertRaisesRegex(RuntimeError, "out of range"):
            with torch.random.fork_rng(devices=[COUNT]):
                pass

    def test_another_type(self):
        with self.assertRaisesRegex(
            ValueError, "must be 'cuda' or 'xpu', but is 'cpu'"
        ):
            with torch.random.fork_rng(device_type="cpu"):
                pass
        with torch.random.fork_rng(device_type="cuda"):
            torch.xpu.manual_seed_all(2)
        self.assertEqual(seeds(), [2] * COUNT)

    def test_no_devices_start_no_runtime(self):
        program = """
import torch, torch.utils.checkpoint
with torch.random.fork_rng(devices=[]):
    torch.manual_seed(2)
print(torch.xpu.is_initialized(), torch._C._xpu_mapping())
torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(1, requires_grad=True))
with open("/proc/self/maps") as maps:
    print("libur_adapter" in maps.read())
"""
        printed = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        self.assertRegex(printed, r"\AFalse [A-Z]+\nFalse\n\Z")


@needs_device
class TestCheckpoint(TestCase):
    def seen(self, use_reentrant, action, **kwargs):
        """What the action returned, in the forward pass and when it is repeated."""
        seen = []

        def function(tensor):
            seen.append(action())
            return tensor.sin()

        input = xpu(2, requires_grad=True)
        output = checkpoint(function, input, use_reentrant=use_reentrant, **kwargs)
        draw()
        after = torch.xpu.get_rng_state()
        output.backward(xpu(2))
        self.assertEqual(torch.xpu.get_rng_state(), after)
        return seen

    def test_random_numbers_are_repeated(self):
        for use_reentrant in (False, True):
            torch.xpu.manual_seed(1)
            self.assertEqual(self.seen(use_reentrant, draw), [0, 0])

    def test_they_are_not_if_so_wished(self):
        torch.xpu.manual_seed(1)
        state = torch.xpu.initial_seed
        seen = self.seen(False, state, preserve_rng_state=False)
        self.assertEqual(seen, [1, 1])

    def test_autocast_is_repeated(self):
        for use_reentrant in (False, True):
            for dtype in (torch.bfloat16, torch.float16):

                def state():
                    return (
                        torch.xpu.is_autocast_xpu_enabled(),
                        torch.xpu.get_autocast_xpu_dtype(),
                    )

                seen = []

                def function(tensor):
                    seen.append(state())
                    return tensor.sin()

                with torch.autocast("xpu", dtype=dtype):
                    output = checkpoint(
                        function,
                        xpu(2, requires_grad=True),
                        use_reentrant=use_reentrant,
                    )
                output.backward(xpu(2))
                self.assertEqual(seen, [(True, dtype)] * 2)

    def test_first_use_in_the_forward_pass_is_an_error(self):
        program = """
import torch
from torch.utils.checkpoint import checkpoint
def function(tensor):
    torch.xpu.init()
    return tensor.sin()
try:
    checkpoint(function, torch.ones(1, requires_grad=True), use_reentrant=False)
except RuntimeError as error:
    print(error)
"""
        printed = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn("XPU state was initialized in the forward pass", printed)


if __name__ == "__main__":
    run_tests()
