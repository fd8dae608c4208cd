"""Waits until everything that was saved can be found by meaning."""

from __future__ import annotations

from threading import Event
from typing import Protocol

from agentctx.errors import AccessDenied
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.wire import QueueReply, StatusReply

LOOK_S = 0.5
"""How long one question to the daemon waits: so often the bar moves and Ctrl-C is heard."""


class Queues(Protocol):
    """The part of `Client` that is needed here."""

    def status(self) -> StatusReply: ...

    def queue(self) -> QueueReply: ...

    def drain(self, timeout_s: float = ...) -> QueueReply: ...


def wait_until_embedded(
    client: Queues, report: Report, progress: IngestProgress, stop: Event, *, look_s: float = LOOK_S
) -> None:
    """Wait for all pending embeddings of the daemon; the figures are in `report`.

    A daemon without an embedding provider is not waited for, nor one that does not let us see its queue.
    """
    try:
        provider, reply = client.status().provider, client.queue()
    except AccessDenied:
        return
    progress.begin("embedding", reply.pending)
    try:
        while reply.pending and provider.state != "off" and not stop.is_set():
            before = reply.pending
            reply = client.drain(look_s)
            progress.done(files=max(0, before - reply.pending))
    finally:
        progress.end()
        report.pending, report.buried = reply.pending, reply.buried
    report.interrupted = report.interrupted or (bool(reply.pending) and stop.is_set())
