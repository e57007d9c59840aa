"""Programs that the tool runs, and what becomes of them when it ends."""

import os
import select
import signal
import subprocess
import sys

FOLLOW = """\
import sys
from xpu_stack.core.system import shell
shell.follow(["sh", "-c", "echo $$; exec sleep 600"], lambda line: print(line, flush=True))
"""


def test_a_program_ends_when_the_tool_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOW],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    ) as tool:
        assert tool.stdout is not None
        running = os.pidfd_open(int(tool.stdout.readline()))
        tool.send_signal(signal.SIGKILL)
        tool.wait()
    ended, _, _ = select.select([running], [], [], 30)
    os.close(running)
    assert ended
