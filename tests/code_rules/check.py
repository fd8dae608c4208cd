"""The program's files against the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.code_rules.allowed import ALLOWED
from tests.code_rules.rules import Source, Violation, violations


def sources(root: Path) -> list[Source]:
    """Every file of the program."""
    return [
        Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((root / "agentctx").rglob("*.py"))
    ]


def problems(root: Path) -> list[str]:
    """What is against a rule and not allowed, and what is allowed and not there; one line each."""
    return judged([found for source in sources(root) for found in violations(source)], ALLOWED)


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
