"""Every answer that is not a success."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorBody:
    """What is wrong, and what to do next."""

    code: str
    message: str
    hint: str = ""
    request_id: str | None = None
    """The daemon's log has the request under it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorReply:
    """Every answer that is not a success."""

    error: ErrorBody
