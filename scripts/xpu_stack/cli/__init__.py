"""The command line. The verbs are in the other modules; here errors become messages.

May import: everything.
"""

import errno
import os
import re
import sys
from pathlib import Path

import click

from xpu_stack.cli import building, changing, showing  # noqa: F401 (their verbs)
from xpu_stack.cli.options import cli, options_of, variable_of
from xpu_stack.core.system import commands, console, transaction
from xpu_stack.core.system.errors import ExitCode, MissingError, ToolError, UsageError
from xpu_stack.core.system.layout import Layout

_TOOL = "python3 scripts/bootstrap.py"


_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def _usage(problem: click.ClickException, verb: str | None) -> ToolError:
    """An error of click, in the form of all our errors."""
    if isinstance(problem, click.MissingParameter) and isinstance(problem.param, click.Option):
        variable = variable_of(problem.param)
        return UsageError(
            f"'make {verb}' needs {variable}=.",
            why=problem.param.help or problem.format_message(),
            next=f"make {verb} {variable}={problem.param.metavar or '...'}",
        )
    return UsageError(
        "The command line does not make sense.",
        why=problem.format_message(),
        next=f"{_TOOL} {verb} --help" if verb else commands.make("help"),
    )


def _defect(error: Exception, log_file: Path | None) -> ToolError:
    """A defect of the tool; a full disk or a missing permission is none."""
    console.log.exception("defect")
    why = transaction.reason(error)
    if any(os.strerror(number) in why for number in _NOT_WRITABLE):
        return MissingError(
            "A file could not be written.",
            why=why,
            next="df -h . # free some space, or make it writable; then run the same command again",
        )
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
        return
    except ToolError as error:
        failed = error
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (click.Abort, KeyboardInterrupt):
        look = f"{commands.make('status')}, {commands.make('undo')}"
        changed = f"interrupted, after a change of the checkout or the series: {look}"
        console.warn(changed if transaction.finished else "interrupted; the checkout is as it was")
        sys.exit(ExitCode.INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        sys.exit(ExitCode.USAGE)
    except click.ClickException as problem:
        failed = _usage(problem, verb)
    except Exception as error:
        failed = _defect(error, log_file)
    console.show_error(failed, log_file)
    sys.exit(failed.code)
