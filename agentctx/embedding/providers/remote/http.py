"""The HTTP client of all remote providers: pooled connections, deadlines, bounded replies, no redirects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from pydantic import SecretStr

from agentctx.config.outgoing import CERTIFICATE_HINT, open_client, tls_problem
from agentctx.embedding.providers.remote.refusals import codes_of, json_or_none, requested_pause_s
from agentctx.embedding.providers.remote.wire_format import malformed_reply
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed

MAX_CONNECTIONS: Final = 24
_CONNECT_S: Final = 10.0
_KEEP_ALIVE_S: Final = 55.0
_MAX_REFUSAL_BYTES: Final = 65_536
"""The most bytes read of an error's body."""
_REFUSES_TEXTS: Final = frozenset({400, 413, 422})
_TRANSIENT: Final = frozenset({408, 409, 425, 429})
_LIMITED: Final = 429
_MISCONFIGURED: Final = frozenset({"API_KEY_INVALID", "FAILED_PRECONDITION", "invalid_api_key"})
"""Codes that providers send with status 400 when no request can succeed."""
_SHORTEST_SECRET: Final = 4
"""Shorter fragments reveal nothing, and most codes contain them by chance."""
_UNANSWERED_HINT: Final = "Check embedding.base_url and the network; agentctx retries automatically."
_HINTS: Final = {
    401: "Check embedding.api_key: the provider does not accept it.",
    402: "Check the plan and the balance at the provider.",
    403: "The key may not use this model, or not from here; check both at the provider.",
    404: "Check embedding.model and embedding.base_url; Ollama needs `ollama pull MODEL` first.",
    429: "The provider's limit is reached; pending texts are embedded when it accepts requests again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A provider's URL and our credentials for it. `repr` shows no key."""

    base_url: str
    """The base URL without a trailing slash."""
    key: SecretStr | None = None
    key_header: str = "authorization"
    """The header that carries the key, prefixed with `Bearer ` if it is `authorization`."""
    use_environment_proxies: bool = False


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply whose `repr` shows no body: refusals quote keys."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class _NoConnection(ProviderFailed):
    """No connection was made, so nothing was sent."""


_NOT_CONNECTED: Final = (httpx.ConnectTimeout, httpx.ConnectError, httpx.ProxyError, httpx.PoolTimeout)


class HttpClient:
    """Posts JSON to one provider. Connections are opened when first needed and kept until `aclose`.

    Args:
        address: the provider's address.
        timeout_s: the time limit of a request, its answer included.
    """

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None
        self._is_closed = False

    def require_open(self) -> None:
        """Raise `ProviderFailed` after `aclose`."""
        if self._is_closed:
            raise ProviderFailed("The embedding provider is closed.", hint="Create a new provider.")

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        texts: Sequence[str],
        max_bytes: int,
        when_unbilled: Callable[[], object] = lambda: None,
    ) -> Any:
        """Post the body and return the JSON of the answer.

        `texts` are the texts in `body`, which no error may repeat. An answer over `max_bytes` is refused.
        `when_unbilled` is called if the request was refused or did not arrive. If its answer is cut off or
        late, the request may have been carried out and billed.

        Raises:
            ProviderFailed: the answer is a `refusal`; no answer or an unreadable one (retry).
        """
        self.require_open()
        outcome = await self._exchange(path, body, max_bytes)
        # Raised outside the handlers so that no httpx exception, whose request has the key in its headers,
        # is chained to it.
        if isinstance(outcome, ProviderFailed):
            if isinstance(outcome, _NoConnection):
                when_unbilled()
            raise outcome
        if not 200 <= outcome.status < 300:
            when_unbilled()
            raise refusal(
                outcome.status, outcome.headers, outcome.body, now=time.time(), withheld=self._withheld(texts)
            )
        return _parsed(outcome)

    async def aclose(self) -> None:
        """Close the connections; idempotent."""
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _exchange(self, path: str, body: Mapping[str, Any], max_bytes: int) -> _Reply | ProviderFailed:
        url = self._address.base_url + path
        try:
            client = self._client = self._client or self._open()
            async with asyncio.timeout(self._timeout_s), client.stream("POST", url, json=body) as response:
                return await _read(response, max_bytes)
        except (TimeoutError, httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            kind = _NoConnection if isinstance(error, _NOT_CONNECTED) else ProviderFailed
            hint = CERTIFICATE_HINT if tls_problem(error) else _UNANSWERED_HINT
            return kind(_unanswered(error, self._timeout_s), hint=hint)
        except ConfigInvalid as error:
            return _NoConnection(
                f"the provider cannot be asked: {error.message}",
                disposition=Disposition.STOP,
                hint=error.hint,
            )

    def _open(self) -> httpx.AsyncClient:
        return open_client(
            self._address.base_url,
            use_environment_proxies=self._address.use_environment_proxies,
            headers={
                "accept": "application/json",
                # Bounds what a small compressed answer can grow to.
                "accept-encoding": "identity",
                "user-agent": "agentctx",
                **_key_header(self._address),
            },
            timeout=httpx.Timeout(self._timeout_s, connect=min(_CONNECT_S, self._timeout_s)),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=_KEEP_ALIVE_S),
        )

    def _withheld(self, texts: Sequence[str]) -> list[str]:
        # A function of its own, so that no traceback with variables shows the key.
        key = self._address.key
        return [*texts, key.get_secret_value()] if key else list(texts)


def _key_header(address: Address) -> dict[str, str]:
    if address.key is None:
        return {}
    scheme = "Bearer " if address.key_header == "authorization" else ""
    return {address.key_header: scheme + address.key.get_secret_value()}


async def _read(response: httpx.Response, max_bytes: int) -> _Reply | ProviderFailed:
    refused = not response.is_success
    limit = _MAX_REFUSAL_BYTES if refused else max_bytes
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > limit:
            if not refused:
                return malformed_reply(f"it is larger than {max_bytes} bytes")
            break
    return _Reply(response.status_code, dict(response.headers), bytes(body))


def _unanswered(error: Exception, timeout_s: float) -> str:
    """Say why there is no answer, without an exception's text, which may quote the request."""
    if reason := tls_problem(error):
        return f"the provider cannot be reached: {reason}"
    match error:
        case httpx.ConnectTimeout() | httpx.ConnectError():
            return "the provider cannot be reached: no connection"
        case TimeoutError() | httpx.TimeoutException():
            return f"the provider did not answer within {timeout_s:g} s"
        case httpx.ProxyError():
            return "the provider cannot be reached: the proxy refused"
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            return "the connection to the provider was lost"
        case _:
            return f"the provider cannot be asked: {type(error).__name__}"


def _parsed(reply: _Reply) -> Any:
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise malformed_reply("it is not JSON but has another content type")
    parsed = json_or_none(reply.body)
    if parsed is None:
        raise malformed_reply("its JSON is broken or cut off")
    return parsed


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float, withheld: Sequence[str]
) -> ProviderFailed:
    """Return the failure for a status other than 2xx.

    The message names the status and the provider's codes, but never its prose, which may quote texts or the
    key, nor codes that overlap with `withheld`, the key and the texts sent. `now` is in Unix seconds.
    """
    if 300 <= status < 400:
        return _redirect(status)
    reply = json_or_none(body)
    codes = codes_of(reply)
    is_misconfigured = status == 400 and not _MISCONFIGURED.isdisjoint(codes)
    disposition = Disposition.STOP if is_misconfigured else _disposition(status)
    pause_s = requested_pause_s(status, headers, reply, now) if disposition is Disposition.RETRY else None
    shown = [code for code in codes if not any(_share_letters(code, secret) for secret in withheld)]
    details = f" ({', '.join(shown)})" if shown else ""
    return ProviderFailed(
        f"The provider answered {status}{details}.",
        disposition=Disposition.LATER if status == _LIMITED or pause_s is not None else disposition,
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
