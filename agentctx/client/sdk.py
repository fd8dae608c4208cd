"""The vendors' own SDKs, bound to the daemon's proxy, which adds relevant context to their calls.

The SDKs are optional: a caller that asks for a client must have its package installed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from agentctx.config.extras import install_hint
from agentctx.config.outgoing import is_loopback, proxy_of, trusting_context
from agentctx.config.paths import find_socket
from agentctx.errors import ConfigInvalid, InvalidInput
from agentctx.names import NAMESPACE_RULE, is_namespace
from agentctx.wire.protocol import MAX_NAMESPACES

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from openai import AsyncOpenAI, OpenAI

T = TypeVar("T")

_URLS: Final = {
    "openai": ("http://agentctx/proxy/openai/v1", "https://api.openai.com/v1"),
    "anthropic": ("http://agentctx/proxy/anthropic", "https://api.anthropic.com"),
}
"""The base URL of each vendor at the proxy, and its own."""
_log: Final = logging.getLogger(__name__)
_KEPT_BACK: Final = (b"x-agentctx-", b"host:")
_CONNECTIONS: Final = 1_000
"""The SDKs' own default."""


class SdkClient(Generic[T]):
    """Makes clients of one class of a vendor's SDK."""

    def __init__(self, package: str, name: str) -> None:
        self._package = package
        self._name = name
        self._prefix = "Async" if name.startswith("Async") else ""

    def __call__(
        self,
        socket: Path | None = None,
        *,
        session: str | None = None,
        agent: str | None = None,
        namespace: str | Sequence[str] | None = None,
        fallback: bool | str = False,
        **options: Any,
    ) -> T:
        """Return a client of the SDK whose calls go through the daemon.

        Args:
            socket: the daemon's socket; None means its usual place.
            session: the session that the calls belong to.
            agent: the agent that makes them.
            namespace: where their context comes from, one namespace or up to eight; None means `default`.
            fallback: where calls go, with the SDK's own key and without context, while no daemon listens.
                True: to the vendor; a base URL: there; False: nowhere, the SDK raises `APIConnectionError`.
            options: passed on to the SDK, such as `api_key`, which defaults as in the SDK.

        Raises:
            ConfigInvalid: the SDK is not installed.
            InvalidInput: a namespace, or the fallback, is not valid.
        """
        tags = _tags(session, agent, namespace)
        try:
            sdk = import_module(self._package)
        except ImportError as error:
            hint = install_hint(self._package)
            raise ConfigInvalid(f"The package {self._package} is not installed.", hint=hint) from error
        # Depending on its version, an SDK takes an httpx client or an httpx2 client.
        http = import_module(sdk.DefaultHttpxClient.__base__.__module__.partition(".")[0])
        transport = self._transport(http, socket or find_socket(), fallback)
        client = getattr(http, f"{self._prefix}Client")(transport=transport, timeout=None, trust_env=False)
        if headers := {**(options.pop("default_headers", None) or {}), **tags}:
            options["default_headers"] = headers
        made: T = getattr(sdk, self._name)(base_url=_URLS[self._package][0], http_client=client, **options)
        return made

    def _transport(self, http: Any, socket: Path, fallback: bool | str) -> Any:
        kind, (proxy_url, own) = getattr(http, f"{self._prefix}HTTPTransport"), _URLS[self._package]
        limits = http.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=100)
        daemon = kind(uds=str(socket), limits=limits)
        if fallback is False:
            return daemon
        url = vendor_url(fallback, own)
        through = proxy_of(url)[1] or None
        vendor = kind(limits=limits, verify=trusting_context(), trust_env=False, proxy=through)
        return FallbackTransport(daemon, vendor, (proxy_url, url), (http.ConnectError, http.ConnectTimeout))


openai: Final[SdkClient[OpenAI]] = SdkClient("openai", "OpenAI")
async_openai: Final[SdkClient[AsyncOpenAI]] = SdkClient("openai", "AsyncOpenAI")
anthropic: Final[SdkClient[Anthropic]] = SdkClient("anthropic", "Anthropic")
async_anthropic: Final[SdkClient[AsyncAnthropic]] = SdkClient("anthropic", "AsyncAnthropic")


class FallbackTransport:
    """A transport for a client of httpx, synchronous or asynchronous, over two of its kind.

    `urls` are the base URL that the SDK uses, and the vendor's. A call goes to the vendor only after one of
    the errors `not_connected`, before anything was sent, so it never goes to both.
    """

    def __init__(
        self, daemon: Any, vendor: Any, urls: tuple[str, str], not_connected: tuple[type[Exception], ...]
    ) -> None:
        self._daemon = daemon
        self._vendor = vendor
        self._proxy_url, self._vendor_url = urls
        self._not_connected = not_connected
        self._has_warned = False

    def handle_request(self, request: Any) -> Any:
        try:
            return self._daemon.handle_request(request)
        except self._not_connected:
            return self._vendor.handle_request(self._direct(request))

    async def handle_async_request(self, request: Any) -> Any:
        try:
            return await self._daemon.handle_async_request(request)
        except self._not_connected:
            return await self._vendor.handle_async_request(self._direct(request))

    def close(self) -> None:
        self._daemon.close()
        self._vendor.close()

    async def aclose(self) -> None:
        await self._daemon.aclose()
        await self._vendor.aclose()

    def _direct(self, request: Any) -> Any:
        """Return the request for the vendor, without our headers. A client warns once."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("no agentctx daemon answers: LLM calls go to %s without context", self._vendor_url)
        url = type(request.url)(self._vendor_url + str(request.url).removeprefix(self._proxy_url))
        given = [pair for pair in request.headers.raw if not (pair[0].lower() + b":").startswith(_KEPT_BACK)]
        options = {"stream": request.stream, "extensions": request.extensions}
        return type(request)(request.method, url, headers=[(b"Host", url.netloc), *given], **options)


def vendor_url(fallback: str | bool, own: str) -> str:
    """Return the base URL of the vendor; `own` for True. Raises InvalidInput if no key may be sent there."""
    if fallback is True:
        return own
    url = urlsplit(str(fallback))
    is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
    if is_safe and url.hostname and "@" not in url.netloc:
        return url.geturl().rstrip("/")
    raise InvalidInput(
        "No key may be sent to the base URL of the fallback.",
        hint="Use True for the vendor's own, or a URL that begins with https://.",
    )


def _tags(session: str | None, agent: str | None, namespace: str | Sequence[str] | None) -> dict[str, str]:
    """Return the headers that say whose calls they are. Raises InvalidInput."""
    names = [namespace] if isinstance(namespace, str) else list(namespace or ())
    if namespace is not None and not (0 < len(names) <= MAX_NAMESPACES and all(map(is_namespace, names))):
        hint = f"Name 1 to {MAX_NAMESPACES}, without patterns. {NAMESPACE_RULE}"
        raise InvalidInput(f"The namespace {', '.join(names)!r} is not valid.", hint=hint)
    tags = {"Session": session, "Agent": agent, "Namespace": ", ".join(names)}
    return {f"X-Agentctx-{name}": value for name, value in tags.items() if value}
