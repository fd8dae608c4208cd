"""`agentctx search` and `agentctx context`: questions."""

from __future__ import annotations

import typer

from agentctx.cli.connection import connect
from agentctx.cli.layout import GAP, columns, cut_left, one_line, printable, width
from agentctx.cli.options import (
    AsJson,
    AskedNamespaces,
    Budget,
    ByAgent,
    ByCategory,
    ByTags,
    Collections,
    Limit,
    MaxDistance,
    OptionalSession,
    OrderOption,
    PositionOption,
    Query,
    Since,
    Until,
)
from agentctx.cli.output import line_width, note, paint, put, put_json
from agentctx.cli.places import place
from agentctx.wire import Passage

_HEADER: tuple[str, ...] = ("DISTANCE", "RELEVANCE", "COLLECTION", "SOURCE")
_LEAST_SOURCE = 24
_WORDS_MISSING = "words: "
_INDENT = " " * (len("DISTANCE") + len("RELEVANCE") + 4)


def search(
    ctx: typer.Context,
    query: Query,
    *,
    collection: Collections = None,
    session: OptionalSession = None,
    namespace: AskedNamespaces = None,
    agent: ByAgent = None,
    category: ByCategory = None,
    tag: ByTags = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    order: OrderOption = "relevance",
    max_distance: MaxDistance = None,
    as_json: AsJson = False,
) -> None:
    """Find the closest passages by keyword and by meaning."""
    with connect(ctx) as client:
        reply = client.search(
            query,
            collections=collection,
            session=session,
            namespaces=namespace or None,
            agent=agent,
            category=category,
            tags=tag or None,
            since=since,
            until=until,
            limit=limit,
            order=order,
            max_distance=max_distance,
        )
    if as_json:
        put_json(reply)
        return
    for line in passage_lines(reply.results, line_width(), with_namespace=len(namespace or []) > 1):
        put(line)
    if not reply.results:
        note("nothing was found")
    _tell_degraded(reply.degraded)
    _tell_rerank(reply.rerank)


def context(
    ctx: typer.Context,
    query: Query,
    *,
    collection: Collections = None,
    session: OptionalSession = None,
    namespace: AskedNamespaces = None,
    agent: ByAgent = None,
    category: ByCategory = None,
    tag: ByTags = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    order: OrderOption = "relevance",
    max_distance: MaxDistance = None,
    budget: Budget = None,
    position: PositionOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the context block, as an LLM call would get it."""
    with connect(ctx) as client:
        reply = client.context(
            query,
            collections=collection,
            session=session,
            namespaces=namespace or None,
            agent=agent,
            category=category,
            tags=tag or None,
            since=since,
            until=until,
            limit=limit,
            order=order,
            max_distance=max_distance,
            budget_tokens=budget,
            position=position,
        )
    if as_json:
        put_json(reply)
        return
    if reply.block:
        put(printable(reply.block).removesuffix("\n"))
    else:
        note("nothing is relevant: the block is empty")
    _tell_degraded(reply.degraded)
    _tell_rerank(reply.rerank)


def passage_lines(passages: list[Passage], limit: int | None, *, with_namespace: bool = False) -> list[str]:
    """Two lines for each passage: its figures and source; then the beginning of its text.

    `with_namespace` adds a column that says where each is from.
    """
    if not passages:
        return []
    rows = [_HEADER, *(_row(passage) for passage in passages)]
    if with_namespace:
        names = ["NAMESPACE", *(one_line(passage.namespace, None) for passage in passages)]
        rows = [(name, *row) for row, name in zip(rows, names, strict=True)]
    taken = sum(max(width(row[at]) for row in rows) + len(GAP) for at in range(len(rows[0]) - 1))
    figures = {1, 2} if with_namespace else {0, 1}
    source_room = None if limit is None else max(_LEAST_SOURCE, limit - taken)
    header, *lines = columns([(*row[:-1], cut_left(row[-1], source_room)) for row in rows], right=figures)
    room = None if limit is None else limit - len(_INDENT)
    texts = [_INDENT + one_line(_flagged(passage) + passage.content, room) for passage in passages]
    pairs = [line for pair in zip(lines, texts, strict=True) for line in pair]
    return [paint(header, "dim"), *pairs]


def _flagged(passage: Passage) -> str:
    """What a reader should know before the text, in brackets."""
    return f"[{', '.join(passage.flags)}] " if passage.flags else ""


def _row(passage: Passage) -> tuple[str, ...]:
    distance = "-" if passage.distance is None else f"{passage.distance:.3f}"
    source = place(passage.location) if passage.location else passage.source_id
    return distance, f"{passage.relevance:.2f}", passage.collection, one_line(source, None)


def _tell_rerank(reason: str | None) -> None:
    if reason:
        note(f"not reranked: {reason}")


def _tell_degraded(reason: str | None) -> None:
    if reason and reason.startswith(_WORDS_MISSING):
        note(f"may be incomplete: {reason.removeprefix(_WORDS_MISSING)}")
    elif reason:
        note(f"keyword search only: {reason}")
