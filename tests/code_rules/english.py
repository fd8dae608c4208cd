"""Rules about the program's English, and about the form of its messages."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Final

from agentctx import errors

Finding = tuple[ast.AST, str]

UNUSUAL: Final = re.compile(
    r"(?<!there )\bis no (?!longer\b|more\b)|\banew\b|\bamid\b|\bgoes on\b|\bwhoever\b|\btold\b",
    re.IGNORECASE,
)
"""Phrases that are translated from another language; `there is no` and `is no longer` are English."""
_ERRORS: Final = frozenset(
    name
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.AgentctxError)
)
_LOWER_CASE_WORD: Final = re.compile(r"[a-z]+[ ,:;]")
_PLACEHOLDER: Final = "\0"


def unusual_phrases(tree: ast.Module) -> Iterator[Finding]:
    """Find phrases in messages, help texts and docstrings that no native speaker would use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node, match[0].strip().lower()) for match in UNUSUAL.finditer(node.value))


def errors_that_are_no_sentences(tree: ast.Module) -> Iterator[Finding]:
    """Find error messages that do not start with a capital, a value or a name, or lack a full stop."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _called(node) not in _ERRORS or not node.args:
            continue
        text = _text(node.args[0])
        if text and (_LOWER_CASE_WORD.match(text) or not text.endswith((".", "?", _PLACEHOLDER))):
            yield node, text.replace(_PLACEHOLDER, "{}")


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _text(message: ast.expr) -> str:
    """Return a literal, with a placeholder for each value; empty for anything else."""
    if isinstance(message, ast.JoinedStr):
        return "".join(_text(part) or _PLACEHOLDER for part in message.values)
    if isinstance(message, ast.Constant) and isinstance(message.value, str):
        return message.value
    return ""
