"""A pytest plugin: of the tests that are marked as slow, a share is run, and others are skipped.

TEST_SLOW is the share, by default all; TEST_SEED chooses. A test is marked by
pytest.mark.slow, or by PyTorch's slowTest, which wants PYTORCH_TEST_WITH_SLOW=1 as well.
"""

import os
import random

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share = float(os.environ.get("TEST_SLOW", "1"))
    seed = os.environ.get("TEST_SEED", "0")
    reason = f"slow, and TEST_SEED={seed} chooses others: TEST_SLOW=1 runs all"
    for item in items:
        function = getattr(item, "obj", None)
        slow = item.get_closest_marker("slow") or getattr(function, "slow_test", False)
        if slow and random.Random(seed + item.nodeid).random() >= share:
            item.add_marker(pytest.mark.skip(reason))
