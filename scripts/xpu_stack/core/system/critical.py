"""Runs a step that Ctrl-C, or killing the command and its group, cannot interrupt."""

import json
import os
import signal
from collections.abc import Callable
from typing import NoReturn

from xpu_stack.core.system.console import log
from xpu_stack.core.system.errors import ExitCode, ToolError

_HELD = {signal.SIGINT, signal.SIGTERM}

finished = 0  # steps that came to their end; after Ctrl-C it tells whether one did


class CutOff(ToolError):
    """The process of a step was killed in the middle; the next run completes the step."""


def run(step: Callable[[], None]) -> None:
    """Runs `step` in a process of its own session; an error of it is raised here.

    Signals to this process wait until the step has ended.
    """
    global finished
    reading, writing = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            _work(step, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        finished += not status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if told:
        what, why, next_, code = json.loads(told)
        raise ToolError(what, why=why, next=next_, code=ExitCode(code))
    if status:
        raise CutOff(
            "The last step was interrupted.",
            why=f"its process ended with {os.waitstatus_to_exitcode(status)}",
            next="run the same command again: it completes the step first",
        )


def _work(step: Callable[[], None], writing: int) -> NoReturn:
    try:
        os.setsid()
        step()
        os._exit(0)
    except ToolError as error:
        told = json.dumps([error.what, error.why, error.next, int(error.code)])
        os.write(writing, told.encode())
    except BaseException:
        log.exception("in the step")
    os._exit(1)
