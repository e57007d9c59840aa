"""The programs of examples/, run in an environment with nothing but what a user installs.

What a program prints is compared with what is recorded in examples/output/, less figures:
losses and shares of test data differ a little between releases and processors. A program
judges those itself, and ends with an error.
"""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import TestError, ToolError
from xpu_stack.core.system.yaml_file import Node
from xpu_stack.wheel.environment import Environment

LIST = "examples/list.yaml"
_FIGURE = re.compile(r"\d+\.\d+|\d+(?=%)")


@dataclass(frozen=True)
class Program:
    """An example. only: the base that it is for; why: it is for no other."""

    name: str  # with its arguments: "ddp cpu"
    only: str = ""
    why: str = ""


@dataclass(frozen=True)
class Examples:
    """What there is to run. stage: the first that they need."""

    stage: str
    programs: tuple[Program, ...]

    def on(self, base: str) -> tuple[list[str], dict[str, str]]:
        """The names of those that run on a base, and why others do not."""
        left_out = {one.name: one.why for one in self.programs if one.only not in ("", base)}
        return [one.name for one in self.programs if one.name not in left_out], left_out


def run(this: Environment, work: Workspace, stage: str) -> None:
    """Runs the examples, if `stage` has what they need. What is wrong is a ToolError."""
    folder = work.layout.repository / "examples"
    if not folder.is_dir():
        say("there are no examples")
        return
    examples = Node.load(folder / "list.yaml", LIST).into(Examples)
    if examples.stage not in [one.name for one in work.series.up_to(stage.partition("/")[0])]:
        say(f"the examples need the stage '{examples.stage}', and are not run")
        return
    names, left_out = examples.on(work.base.name)
    with progress(None, "installing what the examples need"):
        own = dict.fromkeys(folder / f"{name.split()[0]}.txt" for name in names)
        for file in (packages.REQUIREMENTS / "examples.txt", *filter(Path.exists, own)):
            this.pip("install", "--no-compile", "--requirement", str(file))
    for name in names:
        _run_one(this, folder, name)
    for name, why in left_out.items():
        say(f"example {name} is left out: {why}")
    say(f"examples: {', '.join(names)} passed")


def _run_one(this: Environment, folder: Path, name: str) -> None:
    program, *arguments = name.split()
    with progress(None, f"running example {name}"):
        path = folder / f"{program}.py"
        result = this.run(path, *arguments, mapping={"TORCH_XPU_MAPPING": "CPU"})
    said = result.complaint + result.text
    if result.code:
        last = (said.splitlines() or ["it said nothing"])[-1]
        raise _failed(name, f"The example {name} fails.", last, said)
    recorded = f"output/{name.replace(' ', '-')}.txt"
    before, now = (
        _FIGURE.sub("#", text).splitlines()
        for text in ((folder / recorded).read_text(), result.text)
    )
    different = [line for line in difflib.ndiff(before, now) if line.startswith(("- ", "+ "))]
    if different:
        raise _failed(
            name,
            f"The example {name} does not print what is in examples/{recorded}.",
            different[-1],
            "\n".join(different),
        )


def _failed(name: str, what: str, why: str, detail: str) -> ToolError:
    program, *arguments = name.split()
    given = {"ARGS": " ".join(arguments)} if arguments else {}
    run = commands.make("python", FILE=f"examples/{program}.py", **given)
    again = f"{run} # does it run in the checkout?"
    return TestError(what, why=why, next=again, detail=detail)
