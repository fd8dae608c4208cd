"""`agentctx search` and `agentctx context`: query the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agentctx.cli.connection import connect
from agentctx.cli.elsewhere import entries_elsewhere, namespace_label
from agentctx.cli.layout import GAP, one_line, printable, truncate_left, width
from agentctx.cli.options import AsJson, AskedNamespaces, Budget, PositionOption, filter_options, with_options
from agentctx.cli.output import line_width, show, table
from agentctx.cli.scope import ask
from agentctx.client.options import EntryFilter
from agentctx.wire import Order

if TYPE_CHECKING:
    from agentctx.wire import Location, Passage

Query: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="QUERY", help="The question in plain words; no quotes needed."),
]
OrderOption: TypeAlias = Annotated[Order, typer.Option("--order", help="Order of the results.")]
MaxDistance: TypeAlias = Annotated[
    float | None, typer.Option(min=0, max=2, help="Drop passages farther than this cosine distance.")
]
_HEADER: tuple[str, ...] = ("DISTANCE", "RELEVANCE", "COLLECTION", "SOURCE")
_MIN_SOURCE_WIDTH = 24
_NOT_RELEVANT = "nothing is relevant enough for an LLM call; --all shows what was found"
_UNLIKELY = "these are the nearest, but none is likely to answer: relevance is the chance that a passage does"
_WORDS_MISSING = "words: "
_INDENT = " " * (len("RELEVANCE") + len(GAP))


@with_options(filter_options)
def search(
    ctx: typer.Context,
    query: Query,
    *,
    options: EntryFilter,
    namespaces: AskedNamespaces = None,
    order: OrderOption = "relevance",
    max_distance: MaxDistance = None,
    full: Annotated[bool, typer.Option("--full", help="Show passages in full.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the closest passages by keyword and by meaning. RELEVANCE is the chance that a passage answers."""
    with connect(ctx) as client:
        asked, reply = ask(
            client,
            namespaces,
            lambda asked: client.search(
                " ".join(query), namespaces=asked, order=order, max_distance=max_distance, **options
            ),
        )
        nothing = None
        if not (reply.results or as_json):
            elsewhere = entries_elsewhere(client, asked)
            nothing = f"nothing was found; {elsewhere or '`agentctx list` shows what is saved'}"
    lines = passage_lines(
        reply.results, line_width(), full=full, with_distance=order == "distance", home=asked[0]
    )
    best = max((each.relevance for each in reply.results), default=1.0)
    unlikely = _UNLIKELY if best < 0.1 and reply.degraded is None else None
    show(reply, lines, as_json, nothing, unlikely, _degraded(reply.degraded), _not_reranked(reply.rerank))


@with_options(filter_options)
def context(
    ctx: typer.Context,
    query: Query,
    *,
    options: EntryFilter,
    namespaces: AskedNamespaces = None,
    order: OrderOption = "relevance",
    max_distance: MaxDistance = None,
    budget: Budget = None,
    position: PositionOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Include passages that are not relevant enough for an LLM call.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the context block that an LLM call would get, or nothing if no passage is relevant."""
    with connect(ctx) as client:
        asked, reply = ask(
            client,
            namespaces,
            lambda asked: client.context(
                " ".join(query),
                **options,
                namespaces=asked,
                order=order,
                max_distance=max_distance,
                budget_tokens=budget,
                position=position,
                all=everything or None,
            ),
        )
        nothing = None
        if not (reply.block or as_json):
            elsewhere = entries_elsewhere(client, asked, if_empty=True)
            nothing = f"nothing is saved here; {elsewhere}" if elsewhere else _NOT_RELEVANT
    lines = [printable(reply.block).removesuffix("\n")] if reply.block else []
    show(reply, lines, as_json, nothing, _degraded(reply.degraded), _not_reranked(reply.rerank))


def passage_lines(
    passages: list[Passage],
    limit: int | None,
    *,
    full: bool = False,
    with_distance: bool = False,
    home: str | None = None,
) -> list[str]:
    """Return lines for each passage: its figures and source, then the beginning of its text (`full`: all).

    The namespace of a passage is shown unless it is `home`; without a home, none is.
    """
    if not passages:
        return []
    rows = [_HEADER, *(_row(passage) for passage in passages)]
    rows = rows if with_distance else [row[1:] for row in rows]
    figures = set(range(len(rows[0]) - 2))
    taken = sum(max(width(row[at]) for row in rows) + len(GAP) for at in range(len(rows[0]) - 1))
    source_room = None if limit is None else max(_MIN_SOURCE_WIDTH, limit - taken)
    head, *rest = rows
    # A key is what other commands need; the place in a file is for people, and its end says most.
    rest = [
        (*row[:-1], truncate_left(row[-1], source_room)) if passage.location else row
        for row, passage in zip(rest, passages, strict=True)
    ]
    room = None if limit is None else limit - len(_INDENT)
    header, *lines = table(head, rest, None, right=figures)
    shown = [header]
    for line, passage in zip(lines, passages, strict=True):
        labels = [
            *namespace_label(passage.namespace, home),
            *(["stale"] if passage.stale else []),
            *([passage.superseded] if passage.superseded else []),
            *passage.flags,
        ]
        flags = f"[{', '.join(labels)}] " if labels else ""
        text = flags + passage.content
        parts = [*printable(text).splitlines(), ""] if full else [one_line(text, room)]
        if passage.headings:
            parts.insert(0, one_line(", ".join(passage.headings), room))
        shown += [line, *((_INDENT + part).rstrip() for part in parts)]
    return shown


def _row(passage: Passage) -> tuple[str, ...]:
    distance = "-" if passage.distance is None else f"{passage.distance:.3f}"
    source = location_text(passage.location) if passage.location else passage.source_id
    return distance, f"{passage.relevance:.2f}", passage.collection, one_line(source, None)


def location_text(location: Location) -> str:
    """Return `notes.md:12-20`, as compilers write it, or `report.pdf page 3` for a file without lines."""
    first, last = location.first, location.last
    if location.unit == "line":
        return f"{location.path}:{first}" if first == last else f"{location.path}:{first}-{last}"
    numbers = f"{location.unit} {first}" if first == last else f"{location.unit}s {first}-{last}"
    return f"{location.path} {numbers}"


def _not_reranked(reason: str | None) -> str | None:
    return f"not reranked: {reason}" if reason else None


def _degraded(reason: str | None) -> str | None:
    if reason and reason.startswith(_WORDS_MISSING):
        return f"may be incomplete: {reason.removeprefix(_WORDS_MISSING)}"
    return f"keyword search only: {reason}" if reason else None
