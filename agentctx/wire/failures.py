"""The reply to every failed request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorBody:
    """The error, and what to do about it."""

    code: str
    message: str
    hint: str = ""
    request_id: str | None = None
    """The id of the request in the daemon's log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorReply:
    """The reply to every failed request."""

    error: ErrorBody
