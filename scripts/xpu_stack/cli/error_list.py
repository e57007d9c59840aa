"""The tool's error messages, read from its sources for docs/troubleshooting.md.

Each error is raised as a ToolError with what happened, why, and what to type
next. What differs from case to case is shown as <name>, or as an ellipsis.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.system.critical import CutOff
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.settings import settings

_Node = ast.expr
_UNKNOWN = "…"
_KINDS: list[type[ToolError]] = [ToolError, CutOff, *ToolError.__subclasses__()]
_CODES = {one.__name__: one.code for one in _KINDS}


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
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {one for function in functions for one in _of_function(function, tree)}


def _of_function(function: ast.FunctionDef, module: ast.Module) -> Iterator[Message]:
    for call in _calls(function):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name == "SeriesError":
            yield _of_series(function, call)
        elif name in _CODES:
            for given in _callers(function, call.args[0], module):
                yield from _messages(function, call, given, _CODES[name])
        elif name == "stop" and len(call.args) == 3:  # of bootstrap, which has no ToolError
            what, why, next = map(_text, call.args)
            yield Message(what, why, next, ExitCode.MISSING)


def _calls(inside: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(inside) if isinstance(node, ast.Call))


def _callers(
    function: ast.FunctionDef, what: _Node, module: ast.Module
) -> Iterator[dict[str, _Node]]:
    """What the function is called with, where it only hands the words on."""
    names = [one.arg for one in function.args.args]
    if not (isinstance(what, ast.Name) and what.id in names):
        yield {}
        return
    for call in _calls(module):
        if isinstance(call.func, ast.Name) and call.func.id == function.name:
            given = {one.arg: one.value for one in call.keywords if one.arg}
            yield {**dict(zip(names, call.args, strict=False)), **given}


def _messages(
    function: ast.FunctionDef, call: ast.Call, given: dict[str, _Node], usual: ExitCode
) -> Iterator[Message]:
    words = {one.arg: one.value for one in call.keywords if one.arg}
    code = words.get("code")
    number = ExitCode[code.attr] if isinstance(code, ast.Attribute) else usual
    for what in _values(function, call.args[0], given):
        if what != "<what>":  # one that is only handed on
            yield Message(
                what,
                "; or ".join(_values(function, words["why"], given)),
                "; or ".join(_values(function, words["next"], given)),
                number,
            )


def _of_series(function: ast.FunctionDef, call: ast.Call) -> Message:
    problem = _values(function, call.args[1], {}) if len(call.args) > 1 else [_UNKNOWN]
    words = {one.arg: one.value for one in call.keywords if one.arg}
    then = _text(words["next"]) if "next" in words else "make check"
    return Message(
        "The series is not valid.",
        f"<file>: {problem[0]}",
        f"correct that file, then {then}",
        ExitCode.SERIES,
    )


def _values(function: ast.FunctionDef, node: _Node, given: dict[str, _Node]) -> list[str]:
    """What an expression can be; of a local name, all that is assigned to it."""
    if not isinstance(node, ast.Name):
        return [_text(node)]
    if node.id in given:
        return [_text(given[node.id])]
    found = []
    for one in ast.walk(function):
        if isinstance(one, ast.Assign):
            found += [_text(value) for name, value in _pairs(one) if name == node.id]
    return list(dict.fromkeys(found)) or [_text(node)]


def _pairs(assignment: ast.Assign) -> Iterator[tuple[str, _Node]]:
    target, value = assignment.targets[0], assignment.value
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for name, one in zip(target.elts, value.elts, strict=True):
            if isinstance(name, ast.Name):
                yield name.id, one


def _text(node: _Node) -> str:
    """The words of an expression; <name> stands for what they do not say."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.FormattedValue):
        return _setting(node.value) or _text(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        parts = (_text(node.body), _text(node.orelse))
        return "; or ".join(filter(None, parts)) if all(" " in part for part in parts) else parts[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _command_of(node, node.func) or _name(node)
    return _name(node)


def _setting(node: _Node) -> str:
    """The value of `settings().<field>`; empty for another expression."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "settings()":
        return str(getattr(settings(), node.attr))
    return ""


def _command_of(call: ast.Call, function: ast.Attribute) -> str:
    """The command that a call of commands.py shows; empty for another call."""
    if not (isinstance(function.value, ast.Name) and function.value.id == "commands"):
        return ""
    words = {"git": ["git", "-C"]}.get(function.attr, ["make"] if function.attr != "line" else [])
    words += [_text(one) for one in call.args]
    words += [f"{one.arg}={_text(one.value)}" for one in call.keywords if one.arg]
    for one in call.keywords:
        if isinstance(one.value, ast.Dict):  # of variables that settings() names
            pairs = zip(one.value.keys, one.value.values, strict=True)
            words += [
                f"{_setting(key) or _text(key)}={_text(value)}" for key, value in pairs if key
            ]
    return " ".join(words)


def _name(node: _Node) -> str:
    if isinstance(node, ast.Name | ast.Attribute):
        word = node.id if isinstance(node, ast.Name) else node.attr
        return f"<{word.strip('_').lower().replace('_', ' ')}>"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return "<n>"
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        return _name(node.value)
    return _UNKNOWN


def table(messages: list[Message]) -> str:
    """The messages as Markdown, by exit code."""
    rows: list[str] = []
    for code in ExitCode:
        own = [one for one in messages if one.code is code]
        if own:
            rows += [f"### {code.value}: {code.meaning}", ""]
            rows += ["| message | why | next |", "|---|---|---|"]
            rows += [f"| {_cell(one.what)} | {_cell(one.why)} | {_command(one)} |" for one in own]
            rows += [""]
    return "\n".join(rows).rstrip() + "\n"


def _command(one: Message) -> str:
    return _cell(one.next) if one.next == _UNKNOWN else f"`{one.next}`"


def _cell(text: str) -> str:
    if text == _UNKNOWN:
        return "the message says"
    escaped = " ".join(text.split())
    return escaped.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
