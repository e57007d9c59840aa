"""A pytest plugin: of the slow tests a share is run, and others are skipped.

TEST_SLOW is the share, by default all; TEST_SEED chooses. A test is marked by
pytest.mark.slow, or by PyTorch's slowTest, which wants PYTORCH_TEST_WITH_SLOW=1 as well.
With TEST_BRIEF=1 each test counts as slow.
"""

import os
import random

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share = float(os.environ.get("TEST_SLOW", "1"))
    seed = os.environ.get("TEST_SEED", "0")
    brief = os.environ.get("TEST_BRIEF") == "1"
    what = "below the last stage" if brief else "slow"
    reason = f"{what}, and TEST_SEED={seed} chooses others: TEST_SLOW=1 runs all"
    for item in items:
        function = getattr(item, "obj", None)
        slow = brief or item.get_closest_marker("slow") or getattr(function, "slow_test", False)
        if slow and random.Random(seed + item.nodeid).random() >= share:
            item.add_marker(pytest.mark.skip(reason))
