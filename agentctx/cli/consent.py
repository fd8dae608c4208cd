"""Consent to what cannot be taken back: asked for on a terminal, given with --yes elsewhere."""

from __future__ import annotations

import sys

import typer

from agentctx.errors import InvalidInput


def may_ask() -> bool:
    """Whether a user is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agree(question: str, *, yes: bool) -> None:
    """Return when the user agrees; `yes` is their answer already.

    Raises:
        InvalidInput: nobody can be asked.
        typer.Abort: the answer is no.
    """
    if yes:
        return
    if not may_ask():
        raise InvalidInput(
            "Nothing was changed: this needs a confirmation.",
            hint="Pass --yes to do it, or --dry-run to see what it would do.",
        )
    typer.confirm(question, abort=True, err=True)
