"""What a refusal over HTTP means for the queue. No I/O.

300-399                        stop   (following would send key and texts to another host)
400, 413, 422                  split  (stop where the body says that key or project is at fault)
408, 409, 425, 429, 500-       retry  (later where the provider says when)
every other                    stop
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agentctx.embedding_providers.remote.retry_after import retry_after_s, retry_delay_s
from agentctx.errors import Disposition, ProviderFailed

_REFUSES_TEXTS: Final = frozenset({400, 413, 422})
_TRANSIENT: Final = frozenset({408, 409, 425, 429})
_MISCONFIGURED: Final = frozenset({"API_KEY_INVALID", "FAILED_PRECONDITION", "invalid_api_key"})
"""Codes under which providers say with status 400 that no request can succeed."""
_CODE = re.compile(r"[A-Za-z]+(_[A-Za-z]+)*")
_LONGEST_CODE: Final = 48
_SHORTEST_SECRET: Final = 4
"""Nothing shorter gives a text away, and most codes hold it by chance."""
_HINTS: Final = {
    401: "Check embedding.api_key: the provider does not accept it.",
    402: "Check the plan and the balance at the provider.",
    403: "The key may not use this model, or not from here; check both at the provider.",
    404: "Check embedding.model and embedding.base_url; Ollama needs `ollama pull MODEL` first.",
    429: "The provider's limit is reached; pending texts are embedded when it accepts requests again.",
}


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float, withheld: Sequence[str]
) -> ProviderFailed:
    """The failure that a status other than 2xx is.

    The message names the status and the provider's own codes, never its prose, which may quote texts or key,
    nor codes that share letters with `withheld`, the key and the texts sent. `now` is in Unix seconds.
    """
    if 300 <= status < 400:
        return _redirect(status)
    reply = _json_or_none(body)
    codes = list(dict.fromkeys(_codes(reply)))
    is_misconfigured = status == 400 and not _MISCONFIGURED.isdisjoint(codes)
    disposition = Disposition.STOP if is_misconfigured else _disposition(status)
    pause_s = _pause_s(status, headers, reply, now) if disposition is Disposition.RETRY else None
    shown = [code for code in codes if not any(_share_letters(code, secret) for secret in withheld)]
    details = f" ({', '.join(shown)})" if shown else ""
    return ProviderFailed(
        f"The provider answered {status}{details}.",
        disposition=disposition if pause_s is None else Disposition.LATER,
        retry_after_s=pause_s,
        hint=_HINTS.get(401 if is_misconfigured else status),
    )


def _redirect(status: int) -> ProviderFailed:
    return ProviderFailed(
        f"The provider answered with a redirect ({status}), which is not followed; nothing was sent there.",
        disposition=Disposition.STOP,
        hint="Set embedding.base_url to the final address.",
    )


def _disposition(status: int) -> Disposition:
    if status in _REFUSES_TEXTS:
        return Disposition.SPLIT
    if status in _TRANSIENT or status >= 500:
        return Disposition.RETRY
    return Disposition.STOP


def _share_letters(code: str, secret: str) -> bool:
    return code in secret or (len(secret) >= _SHORTEST_SECRET and secret in code)


def _pause_s(status: int, headers: Mapping[str, str], reply: Any, now: float) -> float | None:
    # Rate limits are reported with every answer; only a 429 was caused by them.
    said = headers if status == 429 else {k: v for k, v in headers.items() if not k.startswith("x-ratelimit")}
    from_headers = retry_after_s(said, now)
    return retry_delay_s(reply) if from_headers is None else from_headers


def _codes(reply: Any) -> Iterator[str]:
    error = reply.get("error", reply) if isinstance(reply, dict) else None
    if not isinstance(error, dict):
        return
    details = error.get("details")
    parts = details if isinstance(details, list) else []
    reasons = [part.get("reason") for part in parts if isinstance(part, dict)]
    for code in (error.get("code"), error.get("type"), error.get("status"), *reasons):
        if isinstance(code, str) and len(code) <= _LONGEST_CODE and _CODE.fullmatch(code):
            yield code


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
