"""Map arbitrary values to labels of a bounded set. Pure."""

from __future__ import annotations

import asyncio

from agentctx import errors
from agentctx.errors import AgentctxError, Disposition, ProviderFailed

OTHER = "other"
CANCELLED = "cancelled"
"""Cancelled from outside: a deadline, a client that went away, a stop."""
NOT_ANSWERING = "provider_unavailable"
"""The provider has not answered yet, or is not called after failures."""

ERROR_CODES = frozenset(
    kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AgentctxError)
)
DEGRADATIONS = frozenset({*ERROR_CODES, "off", "deadline", "model_changed", "words"})
"""The part of our reasons before the colon."""


def degradation(reason: str) -> str:
    """Return the class of a reason why an answer may be incomplete.

    A reason begins with a code and a colon, or is a provider's own text; those texts share one class.
    """
    code = reason.partition(":")[0]
    return code if code in DEGRADATIONS else NOT_ANSWERING


def failure_code(error: BaseException) -> str:
    """Return the stable code of one of our errors, else `cancelled` or `other`."""
    if isinstance(error, AgentctxError):
        return error.code if error.code in ERROR_CODES else OTHER
    return CANCELLED if isinstance(error, asyncio.CancelledError) else OTHER


def provider_failure(error: BaseException) -> str:
    """Return what a failed provider call means for its texts: a disposition, or `cancelled`."""
    if isinstance(error, ProviderFailed):
        return error.disposition.value
    if isinstance(error, asyncio.CancelledError):
        return CANCELLED
    return Disposition.RETRY.value


def status_class(status: str) -> str:
    """Return `2xx` for `204`."""
    return status[:1] + "xx"
