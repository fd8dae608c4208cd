"""The vendors' own SDKs, bound to the daemon's proxy, which adds relevant context to their calls.

The SDKs are optional: a caller that asks for a client must have its package installed.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from agentctx.config.paths import find_socket
from agentctx.errors import ConfigInvalid
from agentctx.extras import install_hint

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from openai import AsyncOpenAI, OpenAI

OPENAI_URL: Final = "http://agentctx/proxy/openai/v1"
ANTHROPIC_URL: Final = "http://agentctx/proxy/anthropic"
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
    sdk, http = _imported("openai")
    client: OpenAI = sdk.OpenAI(
        base_url=OPENAI_URL, http_client=_client(http, socket), **_tagged(options, session, agent)
    )
    return client


def async_openai(
    socket: Path | None = None, *, session: str | None = None, agent: str | None = None, **options: Any
) -> AsyncOpenAI:
    """Like `openai`, but returns an `openai.AsyncOpenAI`."""
    sdk, http = _imported("openai")
    client: AsyncOpenAI = sdk.AsyncOpenAI(
        base_url=OPENAI_URL, http_client=_async_client(http, socket), **_tagged(options, session, agent)
    )
    return client


def anthropic(
    socket: Path | None = None, *, session: str | None = None, agent: str | None = None, **options: Any
) -> Anthropic:
    """Like `openai`, but returns an `anthropic.Anthropic`."""
    sdk, http = _imported("anthropic")
    client: Anthropic = sdk.Anthropic(
        base_url=ANTHROPIC_URL, http_client=_client(http, socket), **_tagged(options, session, agent)
    )
    return client


def async_anthropic(
    socket: Path | None = None, *, session: str | None = None, agent: str | None = None, **options: Any
) -> AsyncAnthropic:
    """Like `openai`, but returns an `anthropic.AsyncAnthropic`."""
    sdk, http = _imported("anthropic")
    client: AsyncAnthropic = sdk.AsyncAnthropic(
        base_url=ANTHROPIC_URL, http_client=_async_client(http, socket), **_tagged(options, session, agent)
    )
    return client


def _imported(package: str) -> tuple[ModuleType, ModuleType]:
    """Return the SDK and the HTTP library whose clients it accepts."""
    try:
        return import_module(package), import_module("httpx2")
    except ImportError as error:
        raise ConfigInvalid(
            f"The package {package} is not installed.",
            hint=install_hint(package),
        ) from error


def _tagged(options: dict[str, Any], session: str | None, agent: str | None) -> dict[str, Any]:
    tags = {"X-Agentctx-Session": session, "X-Agentctx-Agent": agent}
    headers = {**(options.pop("default_headers", None) or {}), **{k: v for k, v in tags.items() if v}}
    return {**options, "default_headers": headers} if headers else options


def _client(http: ModuleType, socket: Path | None) -> Any:
    transport = http.HTTPTransport(uds=str(socket or find_socket()), limits=_limits(http))
    return http.Client(transport=transport, timeout=None, trust_env=False)


def _async_client(http: ModuleType, socket: Path | None) -> Any:
    transport = http.AsyncHTTPTransport(uds=str(socket or find_socket()), limits=_limits(http))
    return http.AsyncClient(transport=transport, timeout=None, trust_env=False)


def _limits(http: ModuleType) -> Any:
    return http.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=100)
