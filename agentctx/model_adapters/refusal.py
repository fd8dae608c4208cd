"""Convert refused or broken model calls to errors. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentctx.embedding_providers.remote.retry_after import retry_after_s, retry_delay_s
from agentctx.errors import ModelFailed

_CODE = re.compile(r"[A-Za-z]+(_[A-Za-z]+){0,7}")
_LONGEST_CODE = 48
_HINTS = {
    400: "The API does not take this request; `reply` of the error has its own words.",
    401: "Check the key: the API does not accept it.",
    403: "The key may not use this model, or not from here.",
    404: "Check the model's name and the base URL.",
    413: "The request is too large for the API.",
    429: "The API's limit is reached; try again after `retry_after_s` seconds.",
    529: "The API is overloaded; try again later.",
}
_BROKEN_HINT = "Try again; if the error persists, check the model name and the base URL."


def refusal(status: int, headers: Mapping[str, str], body: bytes, *, now: float, key: str) -> ModelFailed:
    """Return the error for a status other than 2xx. `now` is in Unix seconds; `key` is never shown."""
    if 300 <= status < 400:
        return ModelFailed(
            f"The API answered with a redirect ({status}), which is not followed.",
            status=status,
            hint="Set the base URL to the final address.",
        )
    reply = _json_or_none(body)
    hint = _HINTS.get(status, "The API failed; try again later." if status >= 500 else "")
    return ModelFailed(
        f"The API answered {status}{_codes_shown(reply, key)}.",
        status=status,
        retry_after_s=_pause_s(status, headers, reply, now),
        reply=reply,
        hint=hint,
    )


def broken_off(event: Mapping[str, Any], *, key: str) -> ModelFailed | None:
    """Return the error that a stream event contains, or None."""
    if not event.get("error") and event.get("type") != "error":
        return None
    return ModelFailed(
        f"The API broke off its reply{_codes_shown(event, key)}.",
        reply=dict(event),
        hint="The part received so far is incomplete; try again.",
    )


def unreadable() -> ModelFailed:
    """Return the error for a successful reply that is not a JSON object."""
    return ModelFailed("The API's answer is not a JSON object.", hint=_BROKEN_HINT)


def _pause_s(status: int, headers: Mapping[str, str], reply: Any, now: float) -> float | None:
    if status not in {408, 429, 500, 502, 503, 504, 529}:
        return None
    said = headers if status == 429 else {k: v for k, v in headers.items() if not k.startswith("x-ratelimit")}
    after = retry_after_s(said, now)
    return retry_delay_s(reply) if after is None else after


def _codes_shown(reply: Any, key: str) -> str:
    codes = [code for code in dict.fromkeys(_codes(reply)) if not key or key not in code]
    return f" ({', '.join(codes)})" if codes else ""


def _codes(reply: Any) -> Iterator[str]:
    """Yield the API's own codes. Its prose may quote what was sent, so it is left to `ModelFailed.reply`."""
    error = reply.get("error", reply) if isinstance(reply, Mapping) else None
    if not isinstance(error, Mapping):
        return
    for code in (error.get("type"), error.get("code"), error.get("status")):
        if isinstance(code, str) and len(code) <= _LONGEST_CODE and _CODE.fullmatch(code):
            yield code


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
