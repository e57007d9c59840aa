"""`make help`, and docs/reference.md: the targets of the Makefile and their variables.

What a target does is the help of the verb that it calls, and what a variable
means is the help of that verb's option. A target that calls no verb has its text
in the Makefile, after `##`.

The error messages in docs/troubleshooting.md are read from the tool's sources. Each is
raised as a ToolError with what happened, why, and what to type next. What differs from
case to case is shown as <name>, or as an ellipsis.
"""

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click

from xpu_stack.cli.options import cli, options_of, variable_of
from xpu_stack.core.system import pages as rendered
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.layout import settings
from xpu_stack.core.system.transaction import CutOff

_TEMPLATES = Path(__file__).parent / "templates"
_UNKNOWN = "…"
_KINDS: list[type[ToolError]] = [ToolError, CutOff, *ToolError.__subclasses__()]
_CODES = {one.__name__: one.code for one in _KINDS}

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Known = Mapping[str, Sequence[ast.expr]]  # what names may stand for


@dataclass(frozen=True, order=True)
class Message:
    """An error that a person can meet."""

    what: str
    why: str
    next: str
    code: ExitCode


def collect(folder: Path) -> list[Message]:
    """Every error that the sources in `folder` raise, in the order of their words."""
    found = {one for path in folder.rglob("*.py") for one in of_file(path)}
    return sorted(found, key=lambda one: (one.code, one.what.lower(), one))


def of_file(path: Path) -> set[Message]:
    """Every error that a source raises."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    return {one for function in functions for one in _of_function(function, tree)}


def _of_function(function: _Function, module: ast.Module) -> Iterator[Message]:
    for call in _calls(function):
        words = _keywords(call)
        match call:
            case ast.Call(ast.Name("SeriesError"), [_, *problem]):
                then = _text(words.get("next", ast.Constant("make check")))
                for told in _texts(problem[0], _assigned(function)) if problem else [_UNKNOWN]:
                    why, next = f"<file>: {told}", f"correct that file, then {then}"
                    yield Message("The series is not valid.", why, next, ExitCode.SERIES)
            case ast.Call(ast.Name("stop"), [what, why, next]):  # of bootstrap
                yield Message(_text(what), _text(why), _text(next), ExitCode.MISSING)
            case ast.Call(ast.Name(name), [what]) if name in _CODES:
                code = words.get("code")
                number = ExitCode[code.attr] if isinstance(code, ast.Attribute) else _CODES[name]
                for known in _contexts(function, what, module):
                    why, next = ("; or ".join(_texts(words[one], known)) for one in ("why", "next"))
                    for told in _texts(what, known):
                        if told != "<what>":  # one that is only handed on
                            yield Message(told, why, next, number)


def _calls(inside: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(inside) if isinstance(node, ast.Call))


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {one.arg: one.value for one in call.keywords if one.arg}


def _contexts(function: _Function, what: ast.expr, module: ast.Module) -> Iterator[_Known]:
    """What names stand for in a function: for each call of one that is given the words."""
    names, assigned = [one.arg for one in function.args.args], _assigned(function)
    if not (isinstance(what, ast.Name) and what.id in names):
        yield assigned
        return
    for call in _calls(module):
        if isinstance(call.func, ast.Name) and call.func.id == function.name:
            given = {**dict(zip(names, call.args, strict=False)), **_keywords(call)}
            yield {**assigned, **{name: [node] for name, node in given.items()}}


def _assigned(function: _Function) -> _Known:
    """All that is assigned to local names."""
    found = defaultdict[str, list[ast.expr]](list)
    for one in ast.walk(function):
        match one:
            case ast.Assign([ast.Name(name)], value):
                found[name].append(value)
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                for target, value in zip(names, values, strict=True):
                    found[ast.unparse(target)].append(value)
    return found


def _texts(node: ast.expr, known: _Known) -> list[str]:
    """What an expression can be."""
    found = known.get(node.id) if isinstance(node, ast.Name) else None
    return list(dict.fromkeys(map(_text, found or [node])))


def _text(node: ast.expr) -> str:
    """The words of an expression; <name> stands for what they do not say."""
    match node:
        case ast.Constant(value):
            return str(value)
        case ast.JoinedStr(parts):
            return "".join(map(_text, parts))
        case ast.FormattedValue(value):
            return _text(value)
        case ast.BinOp(left, ast.Add(), right):
            return _text(left) + _text(right)
        case ast.IfExp(_, body, orelse):
            either = [_text(body), _text(orelse)]
            return "; or ".join(either) if all(" " in one for one in either) else either[0]
        case ast.Call(ast.Attribute(ast.Name("commands"), kind)):
            return _command(node, kind)
        case ast.Attribute(ast.Call(ast.Name("settings")), field):
            return str(getattr(settings(), field))
    return _name(node)


def _command(call: ast.Call, kind: str) -> str:
    """What a call of commands.py shows."""
    words = {"git": ["git", "-C"], "line": []}.get(kind, ["make"])
    words = [*words, *map(_text, call.args)]
    for one in call.keywords:
        if isinstance(one.value, ast.Dict):  # of variables that settings() names
            pairs = zip(one.value.keys, one.value.values, strict=True)
            words += [f"{_text(key)}={_text(value)}" for key, value in pairs if key]
        elif one.arg:
            words.append(f"{one.arg}={_text(one.value)}")
    return " ".join(words)


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(word) | ast.Attribute(_, word):
            return f"<{word.strip('_').lower().replace('_', ' ')}>"
        case ast.Call(ast.Name("len")):
            return "<n>"
        case ast.Subscript(value, index) if not isinstance(index, ast.Constant):
            return _name(value)
    return _UNKNOWN


def table(messages: list[Message]) -> str:
    """The messages as Markdown, by exit code."""
    parts = [(code, [one for one in messages if one.code is code]) for code in ExitCode]
    return rendered.render(_TEMPLATES / "messages.md", parts=parts, unknown=_UNKNOWN, cell=_cell)


def _cell(text: str) -> str:
    if text == _UNKNOWN:
        return "the message says"
    return re.sub(r"([|<*])", r"\\\1", " ".join(text.split()))


# -- targets and variables -----------------------------------------------------------


# What has no option: words that are handed on, and the environment.
_HANDED_ON = {"ARGS": "What pytest is given."}
ENVIRONMENT = {
    "JOBS": "How many compilers run at once. Default: by processors and free memory.",
    "TEST_SEED": "Which tests of PyTorch's operators a run of the tests takes; each run prints it.",
    "TEST_SLOW": "The share that is run of the slow tests, and of the Python tests of a stage "
    "below the last; TEST_SEED chooses. Default: 1.",
    "TEST_TIMEOUT": "Seconds after which a test program is ended and counted as failed. "
    "Default: 120; with a sanitizer 600.",
    "CCACHE_DIR": "The compiler cache. Default: a folder below XPU_STACK_HOME.",
    "CCACHE_MAXSIZE": "How large the compiler cache may grow. Default: 20G.",
    "CCACHE_REMOTE": "A compiler cache that machines share, e.g. redis://host.",
    "DISTCC": "Machines that compile for this one, e.g. 'localhost/2 other/8'.",
    "SYCL_ROOT": "A oneAPI installation to use in place of the SYCL runtime from PyPI.",
    "SYCL_VERSION": "Another release of the SYCL runtime from PyPI than the pinned one.",
    "TORCH": "For a base that is an installed PyTorch: the Python environment that it is in, or "
    "its Python. Default: an environment that the tool makes.",
    "PYTORCH_GIT": "Where PyTorch is cloned from when there is no source package.",
    "NO_COLOR": "Any value: tables and errors without colours.",
    "TERM": "`dumb`: the same.",
    "XPU_STACK_HOME": "The folder for all that is downloaded, built or installed. Default: .xpu.",
    "PYTHON": "The Python that starts the tool, 3.10 or later. Default: that of its own "
    "environment if it is there, else python3.",
}

_MARK = "<!-- written by make reference -->"
_VERBS = re.compile(r"^verbs := ((?:.*\\\n)*.*)$", re.M)
_OWN_TARGET = re.compile(r"^([a-z-]+):.*?## (.+)$", re.M)


@dataclass(frozen=True)
class Target:
    """A target of the Makefile."""

    name: str
    text: str
    variables: dict[str, str]  # what each means here


def targets(makefile: Path) -> list[Target]:
    """The verbs, then what else the Makefile has, in its order."""
    text = makefile.read_text()
    found = []
    for name in _VERBS.findall(text)[0].replace("\\\n", "").split():
        told = (cli.commands[name].help or "").split("\n\n")[0]
        variables = {variable_of(one): _meaning(one) for one in options_of(name)}
        found.append(Target(name, " ".join(told.split()), variables))
    for name, told in _OWN_TARGET.findall(text):
        found.append(Target(name, told, _HANDED_ON if name == "self-test" else {}))
    return found


def _meaning(one: click.Option) -> str:
    text = one.help or ""
    if one.is_flag:
        return f"{variable_of(one)}=1: {text[0].lower()}{text[1:]}"
    return f"{text} Default: {one.default}." if one.show_default else text


def _meanings(listed: list[Target]) -> Iterator[tuple[str, str, list[str]]]:
    """Each variable, what it means, and the targets for which it means something else."""
    told = defaultdict[str, defaultdict[str, list[str]]](lambda: defaultdict(list))
    for one in listed:
        for variable, text in one.variables.items():
            told[variable][text].append(one.name)
    for variable, texts in told.items():
        usual = max(texts, key=lambda text: len(texts[text]))
        for text, names in texts.items():
            yield variable, text, [] if text == usual else names


def pages(repository: Path) -> dict[Path, str]:
    """The generated page, and the generated part of one, as they should be."""
    listed = targets(repository / "Makefile")
    facts = {"targets": listed, "variables": _meanings(listed), "environment": ENVIRONMENT}
    page = rendered.render(_TEMPLATES / "reference.md", **facts, codes=list(ExitCode))
    troubles = repository / "docs" / "troubleshooting.md"
    written, mark, _ = troubles.read_text().partition(_MARK)
    return {
        repository / "docs" / "reference.md": page,
        troubles: f"{written}{mark}\n\n{table(collect(repository / 'scripts'))}",
    }


def overview(makefile: Path, width: int) -> str:
    """What `make help` prints."""
    listed = targets(makefile)
    sections: dict[str, Iterable[tuple[str, str]]] = {
        "Targets": chain(
            *(((one.name, one.text), ("", " ".join(one.variables))) for one in listed)
        ),
        "Variables": (
            (variable, f"({', '.join(names)}) {text}" if names else text)
            for variable, text, names in _meanings(listed)
        ),
        "Variables of the environment": ENVIRONMENT.items(),
    }
    wrapper = textwrap.TextWrapper(
        max(width, 60), subsequent_indent=" " * 18, break_long_words=False, break_on_hyphens=False
    )
    lines = ["Usage: make <target> [VARIABLE=value ...]"]
    for title, rows in sections.items():
        lines += ["", f"{title}:"]
        for name, text in rows:
            wrapper.initial_indent = f"  {name:<15} "
            lines += wrapper.wrap(text)
    return "\n".join([*lines, "", "docs/reference.md has the same, and the exit codes."])
