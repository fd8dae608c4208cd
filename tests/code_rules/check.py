"""Check the program's files against the rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_type_hints

from agentctx.server.routes import Services
from tests.code_rules.allowed import ALLOWED
from tests.code_rules.counts import too_many
from tests.code_rules.rules import Source, Violation, violations


def sources(root: Path) -> list[Source]:
    """Return every file of the program and of the packages beside it."""
    folders = [root / "agentctx", *root.glob("packages/*/agentctx_*/")]
    return [
        Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
    ]


def problems(root: Path) -> list[str]:
    """Return violations that are not allowed, exceptions that nothing needs, and exceeded limits.

    One line each.
    """
    program = sources(root)
    found = [found for source in program for found in violations(source)]
    return judged(found, ALLOWED) + repeated_class_names(program) + too_many(program, operation_names())


def operation_names() -> list[str]:
    """Return the names of the daemon's operations."""
    return [method.__name__ for method in Services(**get_type_hints(Services)).operations()]


def repeated_class_names(program: Iterable[Source]) -> list[str]:
    """Return public classes that share a name: readers would confuse them."""
    places: dict[str, list[str]] = {}
    for source in program:
        for node in ast.walk(source.tree()):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{source.path}:{node.lineno}")
    return [
        f"{', '.join(where)}: class name that stands twice: {name}"
        for name, where in places.items()
        if len(where) > 1
    ]


def judged(found: Iterable[Violation], allowed: Mapping[tuple[str, str, str], str]) -> list[str]:
    found = list(found)
    seen = {_key(each) for each in found}
    against = [str(each) for each in found if _key(each) not in allowed]
    stale = [
        f"{file}: allowed, but not there any more: {rule}: {subject}"
        for rule, file, subject in allowed
        if (rule, file, subject) not in seen
    ]
    return against + stale


def _key(found: Violation) -> tuple[str, str, str]:
    return found.rule, found.file, found.subject
