"""`agentctx status`: the daemon's report about itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import typer

from agentctx import __version__
from agentctx.cli.connection import connect
from agentctx.cli.layout import columns, file_size, one_line
from agentctx.cli.options import AsJson
from agentctx.cli.output import show
from agentctx.cli.reembed import reembed_line
from agentctx.config.commit import build_name, own_commit
from agentctx.embedding.providers.prices import format_usd
from agentctx.names import readable
from agentctx.wire.wording import duration

if TYPE_CHECKING:
    from agentctx.wire import (
        BackupStatus,
        CalibrationState,
        CaptureState,
        ProviderCost,
        ProviderStatus,
        StatusReply,
    )

CALIBRATED: Mapping[CalibrationState, str] = MappingProxyType(
    {
        "ready": "calibrated to the model",
        "pending": "decided by words until the model is calibrated",
        "off": "decided by words, injection.calibrate is false",
        "unusable": "decided by words, the model gives unlike texts the same vectors",
    }
)


def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show the daemon's version, sizes, provider and queue."""
    with connect(ctx) as client:
        reply = client.status()
    show(reply, status_lines(reply), as_json)


def status_lines(reply: StatusReply) -> list[str]:
    """Return aligned lines for the parts of the daemon."""
    queue, database, refused = reply.queue, reply.database, reply.activity.captures_refused
    theirs = build_name(reply.version, reply.commit)
    ours = build_name(__version__, own_commit())
    entries = ", ".join(f"{count} {name}" for name, count in reply.entries.items()) or "none"
    rows = [
        ("daemon", f"{theirs}, pid {reply.pid}, up {duration(reply.uptime_seconds)}"),
        *([("", f"this command is {ours}: restart the daemon")] if theirs != ours else []),
        ("socket", reply.socket),
        ("entries", entries),
        ("chunks", f"{reply.chunks}, {reply.vectors} vectors"),
        ("provider", _provider(reply.provider)),
        *([("relevance", CALIBRATED[state])] if (state := reply.provider.calibration) else []),
        *([("requests", _requests(reply.activity.requests))] if reply.activity.requests else []),
        *([("cost", _cost(reply.provider.cost))] if reply.provider.cost else []),
        *([("reembed", reembed_line(reply.reembed))] if reply.reembed else []),
        ("queue", f"{queue.pending} pending, {queue.buried} buried, oldest {duration(queue.oldest_seconds)}"),
        ("database", database.path),
        ("", f"{database.engine}, {database.commits} commits"),
        ("", f"{file_size(database.bytes)}, WAL {file_size(database.wal_bytes)}"),
        *([("", f"nothing can be saved now: {database.fault}")] if database.fault else []),
        *([("backups", held)] if (held := _backups(reply.backups)) else []),
        *([("hooks", f"{refused} saves refused, see `agentctx doctor`")] if refused else []),
        *(("captures", _captures(each)) for each in reply.captures),
        *(("", f"warning: {sentence}") for sentence in database.warnings),
        *(("no context", line) for line in without_context_lines(reply)),
        ("process", f"{file_size(reply.rss_bytes)} of memory, {_cpu(reply)}"),
    ]
    return columns([(name, one_line(value, None)) for name, value in rows])


def without_context_lines(reply: StatusReply) -> list[str]:
    """Return a line for each model whose calls go without context."""
    return [
        f"{each.model or 'no model'} at {each.upstream} until {each.until}: it refused three calls with "
        f"context (status {each.status}) and took them without"
        for each in reply.without_context
    ]


def _captures(each: CaptureState) -> str:
    waiting = f", {each.waiting} waiting for `agentctx review`" if each.waiting else ""
    return f"{each.agent or 'imports'} in {readable(each.namespace)}: {each.mode or 'review'}{waiting}"


def _backups(backups: BackupStatus | None) -> str | None:
    """Say until when the automatic backups hold what has expired or was forgotten."""
    if backups is None or not backups.backups:
        return None
    until = f"until about {backups.backups_until}" if backups.backups_until else "until somebody removes them"
    return f"{backups.backups}, which may hold expired and forgotten text {until}"


def _provider(provider: ProviderStatus) -> str:
    model = f" {provider.model}" if provider.model else ""
    dimension = f", {provider.dimension} dimensions" if provider.dimension else ""
    reason = f": {provider.reason}" if provider.reason else ""
    return f"{provider.id}{model}{dimension}, {provider.state}{reason}"


def _cost(cost: ProviderCost) -> str:
    """Return today's cost, or only the tokens if no price is known."""
    tokens = f"{cost.tokens_today:,} tokens"
    if cost.usd_per_million_tokens is None:
        return f"{tokens} today, no published price known"
    cap = f" of {format_usd(cost.usd_per_day)}" if cost.usd_per_day else ""
    pause = "; the cap is reached, embedding pauses until 00:00 UTC" if cost.cap_reached else ""
    return f"{format_usd(cost.usd_today)}{cap} today, {tokens}{pause}"


def _requests(by_purpose: Mapping[str, int]) -> str:
    """Return how often the provider was called since the start, and what for."""
    return ", ".join(f"{count:,} {purpose}" for purpose, count in sorted(by_purpose.items()))


def _cpu(reply: StatusReply) -> str:
    return f"{reply.cpu_seconds:.1f} s of CPU, {reply.embed_cpu_seconds:.1f} s of it for embedding"
