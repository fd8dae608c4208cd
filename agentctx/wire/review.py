"""What waits for a review, and somebody's decision about it."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx.wire.protocol import CaptureMode, RememberMode, ReviewWay, request_body


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureState:
    """What an agent's hooks capture in a namespace, and how much of it waits. Imports have no agent."""

    namespace: str
    agent: str | None
    mode: CaptureMode | None
    """Null if nothing was captured."""
    waiting: int
    oldest: str | None
    """Since when one waits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewReply:
    """What waits, by namespace and agent."""

    captures: list[CaptureState]
    ttl: str = ""
    """How long it waits until it is erased, as in `review.ttl`; empty: for ever."""


@request_body
class KeepRequest:
    """Somebody's decision to keep an entry that waits. `always`: all that its agent captures there, too."""

    way: ReviewWay
    version: int
    """The version that was shown; what was changed since then still waits."""
    always: bool = False


@request_body
class CaptureModeRequest:
    """How to keep what an agent captures in a namespace from now on; `auto`: as its hooks ask."""

    namespace: str
    agent: str | None = None
    mode: RememberMode
    way: ReviewWay
