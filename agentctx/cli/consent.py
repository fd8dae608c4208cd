"""Consent to irreversible actions and to costs: asked for on a terminal, given with --yes elsewhere."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import typer

from agentctx.cli.output import print_note
from agentctx.cli.termination import handling
from agentctx.errors import InvalidInput

EXIT_DECLINED = 1


def can_prompt() -> bool:
    """Return whether a user can answer: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_consent(question: str, *, yes: bool, show_details: Callable[[], object] | None = None) -> None:
    """Return once the user agrees; with `yes` nothing is asked. The answer `d` shows the details first.

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
    if show_details is None:
        typer.confirm(question, abort=True, err=True)
        return
    choices = f"{question} d shows the changes. [y/N/d]"
    while (answer := typer.prompt(choices, default="n", show_default=False, err=True).lower()) == "d":
        show_details()
    if answer not in {"y", "yes"}:
        raise typer.Abort


def require_consent_to_cost(refusal: InvalidInput, *, can_ask: bool) -> None:
    """Return once the user agrees to a cost that was just shown.

    Raises:
        InvalidInput: `refusal`, if no user can be asked.
        typer.Exit: the answer is no.
    """
    if not can_ask:
        raise refusal
    with handling({signal.SIGINT: signal.default_int_handler}):  # the first one ends the prompt
        agreed = typer.confirm("Go on?", err=True)
    if not agreed:
        print_note("nothing was sent")
        raise typer.Exit(EXIT_DECLINED)
