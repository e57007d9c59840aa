"""Running the examples in an environment, and that all of them are listed."""

import sys
from pathlib import Path

import pytest
from project import ROOT, Project, write
from workspace import workspace
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.yaml_file import Node
from xpu_stack.wheel import trial
from xpu_stack.wheel.trial import Environment

LIST = """\
stage: stream
programs:
  - name: train
  - name: elsewhere
    only: v2.13
    why: it needs torch.distributed
"""
TRAIN = """\
import os
print("on", os.environ["TORCH_XPU_MAPPING"])
print("loss 0.12, 91% are right")
"""


class Here(Environment):
    """This test's own Python in place of an empty environment."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.installed: list[str] = []

    @property
    def python(self) -> Path:
        return Path(sys.executable)

    def pip(self, *words: str) -> None:
        self.installed.append(Path(words[-1]).name)


def run(project: Project, files: dict[str, str], stage: str = "stream") -> Here:
    given = {"list.yaml": LIST, "train.py": TRAIN, "output/train.txt": "on CPU\n"} | files
    write(project.folder, {f"examples/{name}": text for name, text in given.items()})
    this = Here(project.folder)
    with workspace(project) as work:
        trial.run_examples(this, work, stage)
    return this


def test_figures_may_differ(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    recorded = "on CPU\nloss 0.10, 93% are right\n"
    assert run(project, {"output/train.txt": recorded}).installed == ["examples.txt"]
    said = capfd.readouterr().out
    assert "example elsewhere is left out: it needs torch.distributed\n" in said
    assert "examples: train passed\n" in said


def test_what_an_example_alone_needs_is_installed_where_it_runs(project: Project) -> None:
    given = {"output/train.txt": "on CPU\nloss 0.12, 91% are right\n"}
    given |= {"train.txt": "numpy\n", "elsewhere.txt": "numpy\n"}
    assert run(project, given).installed == ["examples.txt", "train.txt"]


def test_what_differs_is_said(project: Project) -> None:
    with pytest.raises(ToolError) as error:
        run(project, {"output/train.txt": "on CPU\nepoch 1: loss 0.10\n"})
    assert error.value.what == (
        "The example train does not print what is in examples/output/train.txt."
    )
    assert error.value.why == "+ loss #, #% are right"
    assert error.value.detail == "- epoch 1: loss #\n+ loss #, #% are right"


def test_an_example_judges_itself(project: Project) -> None:
    """An exit code is enough, whatever was printed."""
    with pytest.raises(ToolError) as error:
        run(project, {"train.py": TRAIN + "raise SystemExit(1)", "output/train.txt": TRAIN})
    assert error.value.what == "The example train fails."
    assert error.value.why == "loss 0.12, 91% are right"
    assert error.value.next.startswith("make python FILE=examples/train.py")


def test_an_example_with_arguments(project: Project) -> None:
    given = {
        "list.yaml": "stage: stream\nprograms:\n  - name: train\n  - name: train cpu 2\n",
        "train.py": "import sys\nprint(*sys.argv[1:])",
        "train.txt": "numpy\n",
        "output/train.txt": "\n",
        "output/train-cpu-2.txt": "cpu 3\n",
    }
    assert run(project, given | {"output/train-cpu-2.txt": "cpu 2\n"}).installed == [
        "examples.txt",
        "train.txt",
    ]
    with pytest.raises(ToolError) as error:
        run(project, given)
    assert error.value.why == "+ cpu 2"
    assert error.value.next.startswith("make python FILE=examples/train.py ARGS='cpu 2'")


def test_an_earlier_stage_runs_none(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(project, {"train.py": "raise SystemExit(1)"}, "device").installed == []
    assert "the examples need the stage 'stream', and are not run" in capfd.readouterr().out


def test_all_are_listed_and_have_their_output() -> None:
    folder = ROOT / "examples"
    listed = Node.load(folder / "list.yaml", trial.LIST).into(trial.Examples)
    names = [one.name for one in listed.programs]
    assert {name.split()[0] for name in names} == {path.stem for path in folder.glob("*.py")}
    recorded = {path.stem for path in folder.glob("output/*.txt")}
    assert {"-".join(name.split()) for name in names} == recorded
