"""Consent to irreversible actions: asked for on a terminal, given with --yes elsewhere."""

from __future__ import annotations

import sys

import typer

from agentctx.errors import InvalidInput


def can_prompt() -> bool:
    """Return whether a user can answer: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_consent(question: str, *, yes: bool) -> None:
    """Return once the user agrees; with `yes` nothing is asked.

    Raises:
        InvalidInput: the input is not a terminal, so the user cannot be asked.
        typer.Abort: the answer is no.
    """
    if yes:
        return
    if not can_prompt():
        raise InvalidInput(
            "Nothing was changed: this needs a confirmation.",
            hint="Pass --yes to do it, or --dry-run to see what it would do.",
        )
    typer.confirm(question, abort=True, err=True)
