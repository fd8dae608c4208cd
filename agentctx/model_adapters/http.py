"""Models over HTTP: one pooled client per model, no redirects, and no keys in messages."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

import httpx

from agentctx.embedding_providers.remote.refusals import codes_of, json_or_none, requested_pause_s
from agentctx.errors import ConfigInvalid, InvalidInput, ModelFailed
from agentctx.model_adapters import endpoints
from agentctx.model_adapters.base import ModelEvent, ModelRequest
from agentctx.model_adapters.dialects.base import Dialect
from agentctx.model_adapters.endpoints import Endpoint, Target
from agentctx.outgoing import CERTIFICATE_HINT, open_client, tls_problem

TIMEOUT_S = 600.0
CONNECT_S = 10.0
_MAX_REFUSAL_BYTES = 65_536
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504, 529})
_HINTS = {
    400: "The API does not accept this request; `reply` of the error has its message.",
    401: "Check the key: the API does not accept it.",
    403: "The key may not use this model, or not from this location.",
    404: "Check the model's name and the base URL.",
    413: "The request is too large for the API.",
    429: "The API's limit is reached; try again after `retry_after_s` seconds.",
    529: "The API is overloaded; try again later.",
}
_BROKEN_HINT = "Try again; if the error persists, check the model name and the base URL."


class Secret(Protocol):
    """A text that is revealed only on explicit request, like pydantic's `SecretStr`."""

    def get_secret_value(self) -> str: ...


class HttpModelAdapter:
    """A `ModelAdapter` for one API. Use it with `async with`, or call `aclose` at the end.

    Requests and replies are in the API's format: a request is the call's body, a reply is its JSON.

    Args:
        api_key: the key; by default from the vendor's usual environment variable. It never appears in a
            `repr`, log or error.
        base_url: another address than the vendor's.
        headers: sent with every call, such as `anthropic-beta`.
        timeout_s: how long the API may stay silent, in seconds; a whole reply has no limit.
        client: your own httpx client, which stays open; redirects are not followed with it either.

    Raises:
        InvalidInput: the key or the base URL is unusable.
        ModelFailed: by every call, see `refusal`; also if the API cannot be reached or the connection
        is lost.
    """

    endpoint: ClassVar[Endpoint]

    def __init__(
        self,
        api_key: str | Secret | None = None,
        *,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        self.base_url = _checked_url(base_url or self.endpoint.base_url)
        self._key = _checked_key(api_key, self.endpoint.key_variable)
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._client = client
        self._is_ours = client is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    @property
    def dialect(self) -> Dialect:
        """The format of the requests."""
        return self.endpoint.dialect

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; idempotent. A client passed by the caller stays open."""
        client = self._client
        if client is not None and self._is_ours:
            self._client = None
            await client.aclose()

    async def complete(self, request: ModelRequest, /) -> dict[str, Any]:
        """Return the reply in the API's format."""
        target = self.endpoint.target(request, False)
        try:
            async with self._answered(target) as response:
                failure = await self._refusal(response)
                body = b"" if failure else await response.aread()
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            failure = _unanswered(error, self._timeout_s)
        # Raised outside of `try`, so that no httpx exception, whose request holds the key, is chained to it.
        if failure is not None:
            raise failure
        return _parsed(body)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelEvent]:
        """Yield the events of the reply as they arrive. Ending the iteration ends the call.

        Raises:
            ModelFailed: possibly in mid-stream, if the API sends an error event or the connection ends.
        """
        target = self.endpoint.target(request, True)
        failure: ModelFailed | None = None
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(self._answered(target))
                failure = await self._refusal(response)
                if failure is None:
                    async for event in self._events(response):
                        if failure := stream_failure(event, key=self._key):
                            break
                        yield event
            except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
                failure = _unanswered(error, self._timeout_s)
        if failure is not None:
            raise failure

    async def _events(self, response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
        decoder = self.endpoint.decoder()
        async for data in response.aiter_bytes():
            for event in decoder.feed(data):
                yield event
        for event in decoder.finish():
            yield event

    @asynccontextmanager
    async def _answered(self, target: Target) -> AsyncIterator[httpx.Response]:
        client = self._client = self._client or _opened(self.base_url, self._timeout_s)
        content = json.dumps(target.body, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        headers = {
            "content-type": "application/json",
            **self.endpoint.headers,
            **(self.endpoint.key_headers(self._key) if self._key else {}),
            **self._headers,
        }
        async with client.stream(
            "POST",
            self.base_url + target.path,
            content=content,
            headers=headers,
            follow_redirects=False,
        ) as response:
            yield response

    async def _refusal(self, response: httpx.Response) -> ModelFailed | None:
        if response.is_success:
            return None
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _MAX_REFUSAL_BYTES:
                break
        return refusal(
            response.status_code, dict(response.headers), bytes(body), now=time.time(), key=self._key
        )


class OpenAIChatAdapter(HttpModelAdapter):
    """OpenAI's chat completions, and every service that copies them."""

    endpoint = endpoints.OPENAI_CHAT


class OpenAIResponsesAdapter(HttpModelAdapter):
    """OpenAI's Responses."""

    endpoint = endpoints.OPENAI_RESPONSES


class AnthropicAdapter(HttpModelAdapter):
    """Anthropic's Messages."""

    endpoint = endpoints.ANTHROPIC


class GeminiAdapter(HttpModelAdapter):
    """Google's generateContent. The request contains its `model`, which goes into the path."""

    endpoint = endpoints.GEMINI


class OllamaAdapter(HttpModelAdapter):
    """Ollama's chat; it needs no key."""

    endpoint = endpoints.OLLAMA


def _opened(base_url: str, timeout_s: float) -> httpx.AsyncClient:
    try:
        return open_client(
            base_url,
            use_environment_proxies=True,  # this runs in the user's program, and in its environment
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        )
    except ConfigInvalid as error:
        raise ModelFailed(f"The API cannot be reached: {error.message}", hint=error.hint) from error


def _checked_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidInput("The base URL must begin with http:// or https://.")
    return url.rstrip("/")


def _checked_key(key: str | Secret | None, variable: str) -> str:
    if key is None:
        value = os.environ.get(variable, "")
    else:
        value = key if isinstance(key, str) else key.get_secret_value()
    if not value.isascii() or not (value.isprintable() and value == value.strip()):
        raise InvalidInput(
            "The key contains characters that are not allowed in a key.",
            hint=f"Check the argument or {variable} for a line break.",
        )
    return value


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        raise ModelFailed("The API's answer is not a JSON object.", hint=_BROKEN_HINT)
    return reply


def _unanswered(error: Exception, timeout_s: float) -> ModelFailed:
    """Explain why there is no reply, without an exception's text, which may quote what was sent."""
    if reason := tls_problem(error):
        return ModelFailed(f"The API cannot be reached: {reason}.", hint=CERTIFICATE_HINT)
    match error:
        case httpx.ConnectTimeout() | httpx.ConnectError():
            said, hint = "The API cannot be reached: no connection.", "Check the base URL and the network."
        case httpx.TimeoutException():
            said, hint = (
                f"The API was silent for {timeout_s:g} s.",
                "Try again, or allow more time (timeout_s).",
            )
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            said, hint = "The connection to the API was lost.", "Try again."
        case _:
            said, hint = f"The request to the API failed: {type(error).__name__}.", "Check the base URL."
    return ModelFailed(said, hint=hint)


def refusal(status: int, headers: Mapping[str, str], body: bytes, *, now: float, key: str) -> ModelFailed:
    """Return the error for a status other than 2xx. `now` is in Unix seconds; `key` is never shown."""
    if 300 <= status < 400:
        return ModelFailed(
            f"The API answered with a redirect ({status}), which is not followed.",
            status=status,
            hint="Set the base URL to the final address.",
        )
    reply = json_or_none(body)
    hint = _HINTS.get(status, "The API failed; try again later." if status >= 500 else "")
    return ModelFailed(
        f"The API answered {status}{_codes_shown(reply, key)}.",
        status=status,
        retry_after_s=requested_pause_s(status, headers, reply, now) if status in _TRANSIENT else None,
        reply=reply,
        hint=hint,
    )


def stream_failure(event: Mapping[str, Any], *, key: str) -> ModelFailed | None:
    """Return the error that a stream event contains, or None."""
    if not event.get("error") and event.get("type") != "error":
        return None
    return ModelFailed(
        f"The API aborted its reply{_codes_shown(event, key)}.",
        reply=dict(event),
        hint="The part received so far is incomplete; try again.",
    )


def _codes_shown(reply: Any, key: str) -> str:
    codes = [code for code in codes_of(reply) if not key or key not in code]
    return f" ({', '.join(codes)})" if codes else ""
