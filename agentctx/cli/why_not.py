"""`agentctx why-not`: why an entry is not in the context for a question."""

from __future__ import annotations

from typing import Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.entry_names import entry_id_of
from agentctx.cli.layout import columns, cut, one_line
from agentctx.cli.options import (
    AsJson,
    AskedNamespaces,
    Budget,
    ByAgent,
    ByCategory,
    ByTags,
    Collections,
    EntryName,
    Limit,
    OptionalSession,
    PositionOption,
    Since,
    Until,
)
from agentctx.cli.output import line_width, note, put, put_json
from agentctx.wire import ExplainReply


def why_not(
    ctx: typer.Context,
    entry: EntryName,
    *,
    query: Annotated[str, typer.Option("--query", help="The question that should have found it.")],
    collection: Collections = None,
    session: OptionalSession = None,
    namespace: AskedNamespaces,
    agent: ByAgent = None,
    category: ByCategory = None,
    tag: ByTags = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    budget: Budget = None,
    position: PositionOption = None,
    as_json: AsJson = False,
) -> None:
    """Say why an entry is not in the context for a question, as things are now."""
    with connect(ctx) as client:
        reply = client.why_not(
            entry_id_of(client, entry, namespace[0]),
            query,
            collections=collection,
            session=session,
            namespaces=namespace,
            agent=agent,
            category=category,
            tags=tag or None,
            since=since,
            until=until,
            limit=limit,
            budget_tokens=budget,
            position=position,
        )
    if as_json:
        put_json(reply)
        return
    for line in explanation_lines(reply, line_width()):
        put(line)
    if reply.degraded:
        note(f"keyword search only: {reply.degraded}")


def explanation_lines(reply: ExplainReply, limit: int | None) -> list[str]:
    """The verdict and its sentence, then the figures there are."""
    best = min(reply.candidates, key=lambda each: each.fate != reply.verdict, default=None)
    words = None if reply.words_matched is None else f"{reply.words_matched} of {reply.words_wanted}"
    facts = [
        (reply.verdict, one_line(reply.message, None)),
        ("by keyword", _place(reply.word_rank)),
        ("by distance", _place(reply.distance_rank)),
        ("both", _place(reply.fused_rank)),
        ("words", words),
        ("distance", _figure(best.distance if best else None)),
        ("relevance", _figure(best.relevance if best else None)),
        ("gate", _figure(reply.gate)),
    ]
    return [cut(line, limit) for line in columns([(name, value) for name, value in facts if value])]


def _place(rank: int | None) -> str | None:
    return None if rank is None else f"#{rank}"


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
