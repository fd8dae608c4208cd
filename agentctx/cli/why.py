"""`agentctx why` and `why-not`: what was injected into LLM calls or omitted, and why."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from agentctx.agents.hooks.hook_events import passed_over, prompt_of
from agentctx.cli.connection import connect, entry_id_of
from agentctx.cli.layout import columns, one_line, truncate
from agentctx.cli.options import (
    AsJson,
    AskedNamespaces,
    Budget,
    EntryName,
    PositionOption,
    filter_options,
    with_options,
)
from agentctx.cli.output import line_width, print_note, show, table
from agentctx.cli.scope import ask
from agentctx.cli.status import without_context_lines
from agentctx.client.options import EntryFilter
from agentctx.errors import AgentctxError
from agentctx.names import readable
from agentctx.wire import ExplainReply, InjectionCandidate, InjectionSummary, InjectionView
from agentctx.wire.wording import counted

_LIST_HEADER = ("ID", "CREATED", "POSITION", "INJECTED", "FOUND", "TOKENS", "MS", "SESSION", "CONVERSATION")
_CANDIDATE_HEADER = ("FATE", "WORDS", "DISTANCE", "RELEVANCE", "COLLECTION", "SOURCE")
_LEFT_OUT = "the vendor refused the call with this block, and got it without"
_NO_CALLS = "no LLM call has asked for context yet"

InjectionId = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="Id of an injection; without one, the latest are listed."),
]


def why(
    ctx: typer.Context,
    injection_id: InjectionId = None,
    *,
    last: Annotated[bool, typer.Option("--last", help="Show the latest injection.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of injections to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show what was injected into an LLM call, what was omitted, and why."""
    if last and injection_id is not None:
        raise typer.BadParameter("give either an ID or --last, not both")
    with connect(ctx) as client:
        if injection_id is None:
            listed = client.injections(1 if last else limit)
            with suppress(AgentctxError):  # this user may not ask for the status
                for line in without_context_lines(client.status()):
                    print_note(f"no context for {line}")
            nothing = None if listed.injections else _NO_CALLS
            if not last:
                rows = map(_list_row, listed.injections)
                lines = table(_LIST_HEADER, rows, line_width(), right={3, 4, 5, 6})
                show(listed, lines if listed.injections else [], as_json, nothing)
                return
            if nothing:
                print_note(nothing)
                raise typer.Exit(1)
            injection_id = listed.injections[0].id
        view = client.injection(injection_id)
    show(view, injection_lines(view, line_width()), as_json)


def _list_row(injection: InjectionSummary) -> tuple[str, ...]:
    return (
        injection.id,
        injection.created,
        injection.position,
        str(injection.injected),
        str(sum(injection.fates.values())),
        str(injection.tokens),
        f"{injection.milliseconds:.1f}",
        one_line(injection.session or "-", None),
        one_line(injection.conversation or "-", None),
    )


def injection_lines(view: InjectionView, limit: int | None) -> list[str]:
    """Return the facts of an injection, then one line for each candidate, in order."""
    facts = [(name, one_line(value, None)) for name, value in _facts(view) if value]
    lines = [truncate(line, limit) for line in columns(facts)]
    if not view.candidates:
        return lines
    # A score itself is near 0 in a small memory, even for a full match.
    best = max(each.word_score or 0 for each in view.candidates) or 1
    rows = [_candidate_row(each, best) for each in view.candidates]
    return [*lines, "", *table(_CANDIDATE_HEADER, rows, limit, right={1, 2, 3})]


def _facts(view: InjectionView) -> list[tuple[str, str | None]]:
    uid = "" if view.principal is None else f"uid {view.principal}"
    session = f"session {view.session}" if view.session else ""
    conversation = f"conversation {view.conversation}" if view.conversation else ""
    scope = [*map(readable, view.namespaces), session, conversation, view.agent or "", uid]
    counts = ", ".join(f"{count} {fate}" for fate, count in view.fates.items())
    fates = f"{counted(sum(view.fates.values()), 'passage')}: {counts}" if counts else "no passages"
    gate = "none" if view.gate is None else f"relevance {view.gate:.2f} for the best passage"
    return [
        ("injection", view.id),
        ("created", view.created),
        ("position", view.position),
        ("asked by", ", ".join(filter(None, scope))),
        ("question", view.question or f"{view.question_hash} (fingerprint)"),
        ("found", fates),
        ("gate", gate),
        ("tokens", f"{view.tokens} of {view.budget_tokens}"),
        ("took", f"{view.milliseconds:.1f} ms"),
        ("block", view.block_hash or "empty: nothing was injected"),
        ("degraded", view.degraded),
        ("left out", _LEFT_OUT if "refused" in view.fates else None),
        ("not reranked", view.rerank),
        ("not judged", view.judge),
    ]


def _candidate_row(candidate: InjectionCandidate, best: float) -> tuple[str, ...]:
    of = f" of {candidate.duplicate_of}" if candidate.duplicate_of else ""
    of += f", superseded by {', '.join(candidate.superseded_by)}" if candidate.superseded_by else ""
    reranked = f" (reranked {candidate.reranked})" if candidate.reranked else ""
    return (
        candidate.fate + reranked,
        "-" if candidate.word_score is None else f"{candidate.word_score / best:.2f}",
        "-" if candidate.distance is None else f"{candidate.distance:.3f}",
        f"{candidate.relevance:.2f}",
        candidate.collection or "gone",
        one_line((candidate.source_id or candidate.entry) + of, None),
    )


@with_options(filter_options)
def why_not(
    ctx: typer.Context,
    entry: EntryName,
    *,
    query: Annotated[str, typer.Option("--query", help="The question that should have found it.")],
    options: EntryFilter,
    namespaces: AskedNamespaces = None,
    budget: Budget = None,
    position: PositionOption = None,
    conversation: Annotated[
        str | None, typer.Option(help="The conversation: what was injected there is present.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain why an entry is currently not in the context for a question."""
    with connect(ctx) as client:
        entry_id = entry_id_of(client, entry, *namespaces or ())
        _, reply = ask(
            client,
            namespaces,
            lambda asked: client.why_not(
                entry_id,
                query,
                **options,
                namespaces=asked,
                budget_tokens=budget,
                position=position,
                conversation=conversation,
            ),
        )
    degraded = f"keyword search only: {reply.degraded}" if reply.degraded else None
    unasked = passed_over(prompt_of({"prompt": query}))
    by_hooks = f"the hooks of agents ask nothing here: {unasked}" if unasked else None
    show(reply, explanation_lines(reply), as_json, degraded, by_hooks)


def explanation_lines(reply: ExplainReply) -> list[str]:
    """Return the verdict and its whole sentence, then the figures that are known."""
    best = min(reply.candidates, key=lambda each: each.fate != reply.verdict, default=None)
    words = None if reply.words_matched is None else f"{reply.words_matched} of {reply.words_wanted}"
    facts = [
        (reply.verdict, one_line(reply.message, None)),
        ("by keyword", _rank(reply.word_rank)),
        ("by meaning", _rank(reply.distance_rank)),
        ("together", _rank(reply.fused_rank)),
        ("words", words),
        ("distance", _figure(best.distance if best else None)),
        ("relevance", _figure(best.relevance if best else None)),
        ("gate", _figure(reply.gate)),
    ]
    return columns([(name, value) for name, value in facts if value])


def _rank(rank: int | None) -> str | None:
    return None if rank is None else f"#{rank}"


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
