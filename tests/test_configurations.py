"""In which configurations tests run."""

from xpu_stack.core.series.series import Series
from xpu_stack.core.system.layout import Layout
from xpu_stack.testing.runner import CONFIGURATIONS, configurations, scripts_of


def names(change: str, *, brief: bool = False) -> list[str]:
    return [*configurations(change, brief=brief)]


def test_what_maps_devices_is_tested_in_all() -> None:
    wanted = ["CPU", "CPU-2", "GPU", "GPU-2", "AUTO", "AUTO-2", "EXPLICIT", "EXPLICIT-2"]
    assert names("device/runtime") == wanted
    assert names("device/aten") == wanted


def test_all_else_is_tested_with_one_ordinal_and_two_and_without_a_device() -> None:
    assert names("stream/stream") == ["CPU", "CPU-2", "GPU"]
    assert configurations("frontend/device", python=True) == ("CPU-2", "GPU")


def test_tensors_are_tested_where_memory_is_copied() -> None:
    assert names("tensor/tensors") == ["CPU", "CPU-2", "GPU", "CPU-2-copied"]
    python = configurations("tensor/python", python=True)
    assert python == ("CPU-2", "GPU", "CPU-2-copied")
    assert CONFIGURATIONS[python[-1]] == {
        "TORCH_XPU_MAPPING": "CPU",
        "TORCH_XPU_VIRTUAL_DEVICES": "2",
        "TORCH_XPU_HOST_MEMORY": "0",
    }
    assert names("tensor/tensors", brief=True) == ["CPU-2"]


def test_the_brief_run_is_the_one_in_which_nothing_is_skipped() -> None:
    assert names("device/runtime", brief=True) == names("stream/stream", brief=True) == ["CPU-2"]
    (brief,) = configurations("stream/stream", brief=True)
    two = {"TORCH_XPU_MAPPING": "CPU", "TORCH_XPU_VIRTUAL_DEVICES": "2"}
    assert CONFIGURATIONS[brief] == two


def test_the_brief_run_leaves_the_python_tests_of_lower_stages_to_the_last() -> None:
    changes = Series.load(Layout.current(), "v1.13.1").changes("frontend")
    stages = {
        name: change.partition("/")[0] for name, change in scripts_of(changes, brief=False).items()
    }
    assert set(stages.values()) == {"lazy_init", "frontend"}
    own = {name for name, stage in stages.items() if stage == "frontend"}
    assert scripts_of(changes, brief=True).keys() == own
