"""The command line. The verbs are in the other modules; here errors become messages.

May import: everything.
"""

import errno
import os
import re
import sys
from pathlib import Path
from typing import NoReturn

import click

from xpu_stack.cli import (  # noqa: F401 (their verbs)
    building,
    editing,
    inspecting,
    moving,
    packaging,
    reshaping,
    running,
    showing,
    upkeep,
)
from xpu_stack.cli.options import cli, options_of, variable_of
from xpu_stack.core.system import commands, console, critical, transaction
from xpu_stack.core.system.errors import ExitCode, MissingError, ToolError, UsageError
from xpu_stack.core.system.layout import Layout

_TOOL = "python3 scripts/bootstrap.py"


def _fail(error: ToolError, log_file: Path | None) -> NoReturn:
    console.show_error(error, log_file)
    sys.exit(error.code)


def _usage(problem: click.ClickException, verb: str | None) -> ToolError:
    """An error of click, in the form of all our errors."""
    why, next = (
        problem.format_message(),
        f"{_TOOL} {verb} --help" if verb else commands.make("help"),
    )
    what = "The command line does not make sense."
    if isinstance(problem, click.MissingParameter) and isinstance(problem.param, click.Option):
        variable = variable_of(problem.param)
        what = f"'make {verb}' needs {variable}=."
        why = problem.param.help or why
        next = f"make {verb} {variable}={problem.param.metavar or '...'}"
    return UsageError(what, why=why, next=next)


_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def _not_writable(error: Exception) -> ToolError | None:
    """A full disk or a missing permission is not a defect of the tool."""
    why = transaction.reason(error)
    if isinstance(error, OSError):
        refused = error.errno in _NOT_WRITABLE
    else:
        refused = any(os.strerror(number) in why for number in _NOT_WRITABLE)
    if not refused:
        return None
    return MissingError(
        "A file could not be written.",
        why=why,
        next="df -h . # free some space, or make it writable; then run the same command again",
    )


def _defect(error: Exception, log_file: Path | None) -> ToolError:
    return ToolError(
        "The tool itself failed.",
        why=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        next=commands.line("less", log_file or ""),
        code=ExitCode.INTERNAL,
    )


def _log_name(verb: str) -> str:
    """Of the base too, as runs for two bases may go on at once."""
    base = next((one for one in options_of(verb) if one.name == "base"), None)
    if base is None or "--variables" not in sys.argv:
        return verb
    given = re.sub(r"[^\w.]", "_", os.environ.get(variable_of(base), ""))
    return f"{verb}-{given}" if given else verb


# of the repository in whose hook the tool runs, or of one that is to be made
_OF_ANOTHER = ("DIR", "WORK_TREE", "COMMON_DIR", "INDEX_FILE", "PREFIX", "DEFAULT_HASH")


def main() -> None:
    """Runs the command line. Every way to end is one of ExitCode."""
    for name in _OF_ANOTHER:
        os.environ.pop(f"GIT_{name}", None)
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    verb = words[0] if words and words[0] in cli.commands else None
    log_file = None
    if verb is not None and not {"-h", "--help"} & set(sys.argv):
        log_file = console.start_log(Layout.current().logs, _log_name(verb))
    try:
        if log_file is not None:
            transaction.recover(Layout.current())
        cli(standalone_mode=False)
    except ToolError as error:
        _fail(error, log_file)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (click.Abort, KeyboardInterrupt):
        look = f"{commands.make('status')}, {commands.make('undo')}"
        changed = f"interrupted, after a change of the checkout or the series: {look}"
        console.warn(changed if critical.finished else "interrupted; the checkout is as it was")
        sys.exit(ExitCode.INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        sys.exit(ExitCode.USAGE)
    except click.ClickException as problem:
        _fail(_usage(problem, verb), log_file)
    except Exception as error:
        console.log.exception("defect")
        _fail(_not_writable(error) or _defect(error, log_file), log_file)
