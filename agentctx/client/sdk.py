"""The vendors' own SDKs, bound to the daemon's proxy, which adds relevant context to their calls.

The SDKs are optional: a caller that asks for a client must have its package installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentctx.config.paths import find_socket
from agentctx.errors import ConfigInvalid
from agentctx.extras import install_hint

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from openai import AsyncOpenAI, OpenAI

_URLS: Final = {
    "openai": "http://agentctx/proxy/openai/v1",
    "anthropic": "http://agentctx/proxy/anthropic",
}
_CONNECTIONS: Final = 1_000
"""The SDKs' own default."""


def openai(
    socket: Path | None = None, *, session: str | None = None, agent: str | None = None, **options: Any
) -> OpenAI:
    """Return an `openai.OpenAI` whose calls go through the daemon.

    Args:
        socket: the daemon's socket; None means its usual place.
        session: the session that the calls belong to.
        agent: the agent that makes them.
        options: passed on to the SDK, such as `api_key`, which defaults as in the SDK.

    Raises:
        ConfigInvalid: the SDK is not installed.
    """
    client: OpenAI = _made("openai", "OpenAI", socket, {"Session": session, "Agent": agent}, options)
    return client


def async_openai(
    socket: Path | None = None, *, session: str | None = None, agent: str | None = None, **options: Any
) -> AsyncOpenAI:
    """Like `openai`, but returns an `openai.AsyncOpenAI`."""
    client: AsyncOpenAI = _made(
        "openai", "AsyncOpenAI", socket, {"Session": session, "Agent": agent}, options
    )
    return client


def anthropic(
    socket: Path | None = None, *, session: str | None = None, agent: str | None = None, **options: Any
) -> Anthropic:
    """Like `openai`, but returns an `anthropic.Anthropic`."""
    client: Anthropic = _made("anthropic", "Anthropic", socket, {"Session": session, "Agent": agent}, options)
    return client


def async_anthropic(
    socket: Path | None = None, *, session: str | None = None, agent: str | None = None, **options: Any
) -> AsyncAnthropic:
    """Like `openai`, but returns an `anthropic.AsyncAnthropic`."""
    client: AsyncAnthropic = _made(
        "anthropic", "AsyncAnthropic", socket, {"Session": session, "Agent": agent}, options
    )
    return client


def _made(package: str, name: str, socket: Path | None, tags: Mapping[str, str | None], options: Any) -> Any:
    """Return the client of this name from an SDK, over an HTTP client of the library that it accepts."""
    try:
        sdk, http = import_module(package), import_module("httpx2")
    except ImportError as error:
        raise ConfigInvalid(
            f"The package {package} is not installed.",
            hint=install_hint(package),
        ) from error
    prefix = "Async" if name.startswith("Async") else ""
    limits = http.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=100)
    transport = getattr(http, f"{prefix}HTTPTransport")(uds=str(socket or find_socket()), limits=limits)
    client = getattr(http, f"{prefix}Client")(transport=transport, timeout=None, trust_env=False)
    own = {f"X-Agentctx-{name}": value for name, value in tags.items() if value}
    headers = {**(options.pop("default_headers", None) or {}), **own}
    given = {**options, "default_headers": headers} if headers else options
    return getattr(sdk, name)(base_url=_URLS[package], http_client=client, **given)
