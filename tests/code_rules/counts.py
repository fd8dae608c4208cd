"""Things the program may have only so many of: forwarding methods, files that name an operation."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tests.code_rules.rules import Source

MOST_FORWARDS: Final = 30
MOST_FILES_OF_OPERATION: Final = 6
_OF_OPERATIONS: Final = tuple(
    f"agentctx/{package}/" for package in ("service", "server", "client", "cli", "daemon", "doctor", "llm")
)
"""Packages that offer or call operations. In lower packages such a name means something else."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def forwards(program: Iterable[Source]) -> list[str]:
    """Return functions that only call a function of the same name with their own parameters: needless layers.

    The call is all of the body but the docstring; `run(partial(x.name, …))` and `run(x.name)` count as calls
    of `name`. One that computes an argument does work of its own, and a `super().__init__` has no choice.
    """
    return [
        f"{source.path}:{node.lineno}: only forwards: {node.name}"
        for source in program
        for node in ast.walk(source.tree())
        if isinstance(node, Function) and not node.name.startswith("__") and _only_forwards(node)
    ]


def files_of_operations(program: Iterable[Source], names: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the files that contain an operation's name, in packages that offer or call operations.

    A name of several words (`list_entries`) is nothing else's: it counts wherever it stands, as an identifier
    or as a string. A single word (`search`, `get`) has other meanings too: there a file counts that defines a
    function of the name.
    """
    files: dict[str, list[str]] = {name: [] for name in names}
    for source in program:
        if not source.path.startswith(_OF_OPERATIONS):
            continue
        tree = source.tree()
        defined = {node.name for node in ast.walk(tree) if isinstance(node, Function)}
        there = defined | {word for word in _words(tree) if "_" in word}
        for name in there & files.keys():
            files[name].append(source.path)
    return files


def too_many(program: Iterable[Source], operations: Iterable[str]) -> list[str]:
    """Return a line for each exceeded limit."""
    program = list(program)
    found = forwards(program)
    over = [*found, f"{len(found)} functions only forward, at most {MOST_FORWARDS}"]
    return (over if len(found) > MOST_FORWARDS else []) + [
        f"{name}: operation in {len(files)} files, at most {MOST_FILES_OF_OPERATION}: {', '.join(files)}"
        for name, files in files_of_operations(program, operations).items()
        if len(files) > MOST_FILES_OF_OPERATION
    ]


def _only_forwards(function: Function) -> bool:
    has_docstring = ast.get_docstring(function) is not None
    body = function.body[has_docstring:]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    value = body[0].value
    call = value.value if isinstance(value, ast.Await) else value
    if not isinstance(call, ast.Call):
        return False
    called, arguments = _called(call)
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    return called == function.name and all(
        isinstance(each, ast.Name) and each.id in own for each in arguments
    )


def _called(call: ast.Call) -> tuple[str, list[ast.expr]]:
    """Return the name of the innermost call, and its arguments."""
    arguments = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
    arguments += [each.value for each in call.keywords]
    if arguments and isinstance(first := arguments[0], ast.Call) and ast.unparse(first.func) == "partial":
        inner = [each.value if isinstance(each, ast.Starred) else each for each in first.args]
        return _name(inner[0]), [*inner[1:], *(each.value for each in first.keywords), *arguments[1:]]
    if len(arguments) == 1 and isinstance(arguments[0], ast.Attribute):
        return arguments[0].attr, []
    return _name(call.func), arguments


def _name(expression: ast.expr) -> str:
    return expression.attr if isinstance(expression, ast.Attribute) else ""


def _words(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                yield word
            case ast.arg(arg=word) | ast.alias(name=word):
                yield word
            case ast.keyword(arg=str(word)):
                yield word
