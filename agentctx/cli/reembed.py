"""`agentctx reembed`: move to another model while the current one answers."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.consent import require_consent_to_cost
from agentctx.cli.layout import columns
from agentctx.cli.options import AsJson
from agentctx.cli.output import print_note, progress_line, show
from agentctx.embedding.providers.prices import format_usd
from agentctx.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import ModelSpace, ReembedAction, ReembedCost, ReembedReply

_POLL_S = 0.5
_PLAIN_POLL_S = 5.0
"""The pause without a terminal, where each look becomes a line in a log."""


def reembed(
    ctx: typer.Context,
    status: Annotated[bool, typer.Option("--status", help="Only show the progress.")] = False,
    switch: Annotated[
        bool,
        typer.Option("--switch", help="Switch to the model of [embedding.next]; the previous one is kept."),
    ] = False,
    rollback: Annotated[bool, typer.Option("--rollback", help="Return to the previous model.")] = False,
    retire: Annotated[bool, typer.Option("--retire", help="Drop the vectors of the previous model.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the cost.")] = False,
    as_json: AsJson = False,
) -> None:
    """Embed everything with the model of [embedding.next] while the current one answers, and compare the two.

    The daemon does the work; this command shows the progress until it is done. Ctrl-C stops only the display.
    """
    action = _action({"switch": switch, "rollback": rollback, "retire": retire}, status=status)
    with connect(ctx) as client:
        reply = client.reembed(action) if action else client.reembed_status()
        if not (action or status):
            reply = _follow(client, reply, is_approved=yes)
    show(reply, reembed_lines(reply), as_json, reply.advice)


def reembed_line(reply: ReembedReply) -> str:
    """Return the progress on one line."""
    beside = reply.beside
    if beside is None:
        return f"{reply.stage}; {reply.advice}" if reply.advice else reply.stage
    parts = [f"{_name(beside)}: {reply.stage}"]
    if reply.stage in {"building", "held"} or beside.pending:
        parts.append(_progress(beside))
    if beside.reason:
        parts.append(beside.reason)
    return ", ".join(parts)


def reembed_lines(reply: ReembedReply) -> list[str]:
    """Return the answering model, the model beside it, its progress, and how the two compare."""
    rows: list[tuple[str, str]] = [("stage", reply.stage)]
    if reply.answering:
        rows.append(("answering", _model(reply.answering)))
    if reply.beside:
        rows += [("beside", _model(reply.beside)), ("embedded", _progress(reply.beside))]
    rows += [("also kept", _model(space)) for space in reply.former]
    if reply.cost and reply.beside and reply.beside.pending:
        rows.append(("cost", cost_line(reply.cost)))
    if (compared := reply.comparison) is not None:
        rows += [
            ("sampled", f"{compared.sampled} texts"),
            ("self-retrieval", f"{compared.self_retrieval:.0%} of them are their own nearest text"),
            ("overlap", _overlap(compared.overlap)),
        ]
    return columns(rows)


def cost_line(cost: ReembedCost) -> str:
    """Return the remaining cost."""
    tokens = f"about {cost.tokens:,} tokens"
    return f"{tokens}, no published price known" if cost.usd is None else f"{tokens}, {format_usd(cost.usd)}"


def _action(chosen: dict[ReembedAction, bool], *, status: bool) -> ReembedAction | None:
    actions = [action for action, is_chosen in chosen.items() if is_chosen]
    if len(actions) + status > 1:
        raise InvalidInput("Use only one of --status, --switch, --rollback and --retire.")
    return actions[0] if actions else None


def _follow(client: Client, reply: ReembedReply, *, is_approved: bool) -> ReembedReply:
    """Show progress until the other model is ready, asking first for consent to its cost."""
    if reply.stage == "off":
        raise NotFound(
            "No other model is configured.",
            hint="Set it in [embedding.next] of the config and restart the daemon.",
        )
    with progress_line() as display:
        while reply.stage in {"held", "building", "comparing"}:
            if reply.stage == "held":
                _agree(reply, is_approved=is_approved)
                client.reembed("approve")
            display(reembed_line(reply))
            time.sleep(_POLL_S if sys.stderr.isatty() else _PLAIN_POLL_S)
            reply = client.reembed_status()
    return reply


def _agree(reply: ReembedReply, *, is_approved: bool) -> None:
    cost = reply.cost
    if is_approved or cost is None:
        return
    print_note(cost_line(cost))
    refusal = InvalidInput(
        f"Embedding this costs more than {format_usd(cost.confirm_usd)}; nothing was sent.",
        hint="Pass --yes, or raise embedding.next.limits.confirm_usd in the config.",
    )
    require_consent_to_cost(refusal, can_ask=sys.stdin.isatty())


def _name(space: ModelSpace) -> str:
    return f"{space.provider} {space.model}".strip()


def _model(space: ModelSpace) -> str:
    dimension = f", {space.dimension} dimensions" if space.dimension else ""
    reason = f": {space.reason}" if space.reason else ""
    return f"{_name(space)}{dimension}{reason}"


def _progress(space: ModelSpace) -> str:
    done = max(0, space.chunks - space.pending - space.buried)
    buried = f", {space.buried} buried" if space.buried else ""
    return f"{done:,} of {space.chunks:,}{buried}"


def _overlap(share: float | None) -> str:
    if share is None:
        return "not known: there was nothing to compare with"
    return f"{share:.0%} of the ten nearest match the current model"
