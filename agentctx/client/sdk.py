"""The vendors' own SDKs, bound to the daemon's proxy, which adds relevant context to their calls.

The SDKs are optional: a caller that asks for a client must have its package installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from agentctx.client.fallback import FallbackTransport, vendor_url
from agentctx.config.extras import install_hint
from agentctx.config.outgoing import proxy_of, trusting_context
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


def _tags(session: str | None, agent: str | None, namespace: str | Sequence[str] | None) -> dict[str, str]:
    """Return the headers that say whose calls they are. Raises InvalidInput."""
    names = [namespace] if isinstance(namespace, str) else list(namespace or ())
    if namespace is not None and not (0 < len(names) <= MAX_NAMESPACES and all(map(is_namespace, names))):
        hint = f"Name 1 to {MAX_NAMESPACES}, without patterns. {NAMESPACE_RULE}"
        raise InvalidInput(f"The namespace {', '.join(names)!r} is not valid.", hint=hint)
    tags = {"Session": session, "Agent": agent, "Namespace": ", ".join(names)}
    return {f"X-Agentctx-{name}": value for name, value in tags.items() if value}
