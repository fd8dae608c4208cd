"""The proxy over the daemon's own answers: what is injected has a receipt like any other injection."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from agentctx.access.control import AccessControl
from agentctx.access.policy import PATHS
from agentctx.config.schema import ProxySettings, Settings
from agentctx.errors import ConfigInvalid
from agentctx.model_adapters.context_source import (
    MOST_PRESENT_BYTES,
    ContextQuestion,
    GivenContext,
    latest,
)
from agentctx.model_adapters.conversation import ConversationMemory, RecentConversations
from agentctx.model_adapters.injector import Failures, Injector
from agentctx.proxy.access import NamespaceAccess, TokenAccess, read_token
from agentctx.proxy.app import PREFIX, Proxy, no_listener
from agentctx.proxy.bodies import Bodies
from agentctx.proxy.capture import Capture
from agentctx.proxy.upstream import Upstreams
from agentctx.service.base import Peer, Service
from agentctx.storage.entries import ErasureListener
from agentctx.telemetry.base import Telemetry
from agentctx.wire import DEFAULT_NAMESPACE, ContextRequest

LOOPBACK: Final = "127.0.0.1"
_MOST_PEERS: Final = 64
"""Users whose conversations are kept apart; the one who came first is forgotten first."""


@dataclass(frozen=True, slots=True)
class PeerContextSource:
    """What the daemon answers this peer. Of a long conversation it is given the latest texts."""

    service: Service
    peer: Peer
    most_present: int = MOST_PRESENT_BYTES
    """Bytes of them; at most the characters that the daemon compares with."""

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        reply = await self.service.context(
            ContextRequest(
                query=question.text,
                namespace=question.scope.namespace or DEFAULT_NAMESPACE,
                session=question.scope.session,
                position=question.position,
                present=latest(question.present, self.most_present),
            ),
            self.peer,
        )
        return GivenContext(
            block=reply.block,
            tokens=reply.tokens,
            injection_id=reply.injection_id,
            degraded=reply.degraded,
            ids=tuple(dict.fromkeys(passage.id for passage in reply.results)),
        )


class Injectors:
    """An injector for each peer. Conversations of one user are never another's."""

    def __init__(self, service: Service, settings: Settings, telemetry: Telemetry) -> None:
        self._service = service
        self._settings = settings
        self._telemetry = telemetry
        self._memories: dict[int, ConversationMemory] = {}
        self._failures = Failures()

    def of(self, peer: Peer) -> Injector:
        """For one call of this peer."""
        most_present = min(MOST_PRESENT_BYTES, self._settings.limits.max_present_chars)
        return Injector(
            PeerContextSource(self._service, peer, most_present),
            position=self._settings.proxy.position,
            deadline_s=self._settings.injection.deadline_ms / 1_000,
            conversations=self._memory(peer.uid),
            telemetry=self._telemetry,
            failures=self._failures,
        )

    def blocks(self, uid: int, key: str) -> list[str]:
        """Every block given so far in a conversation of this user."""
        return list(self._memory(uid).recall(key).blocks.values())

    def forget(self, entry_ids: Sequence[str]) -> None:
        """Give no block with one of these entries again: they were forgotten, or their time is over."""
        for memory in self._memories.values():
            memory.forget(entry_ids)

    def forget_users(self, but: frozenset[int]) -> None:
        """Give only these users what was given to them before: grants have changed."""
        self._memories = {uid: memory for uid, memory in self._memories.items() if uid in but}

    def _memory(self, uid: int) -> ConversationMemory:
        if uid not in self._memories:
            if len(self._memories) >= _MOST_PEERS:
                self._memories.pop(next(iter(self._memories)))
            self._memories[uid] = RecentConversations()
        return self._memories[uid]


@asynccontextmanager
async def open_proxy(
    settings: Settings,
    service: Service,
    access: AccessControl,
    telemetry: Telemetry,
    *,
    tell_erased: Callable[[ErasureListener], None],
) -> AsyncIterator[ASGIApp]:
    """The proxy as an application for the socket; its connections to the vendors are closed at the end.

    `service` checks the caller's grants. `tell_erased` registers a listener for erased entries.
    """
    proxy = settings.proxy
    upstreams = Upstreams(
        {
            "openai": proxy.openai_url,
            "anthropic": proxy.anthropic_url,
            "gemini": proxy.gemini_url,
            "ollama": proxy.ollama_url,
        },
        connect_timeout_s=proxy.connect_timeout_s,
        read_timeout_s=proxy.read_timeout_s,
        use_environment_proxies=proxy.use_environment_proxies,
    )
    bodies = Bodies(deadline_s=settings.injection.deadline_ms / 1_000)
    injectors = Injectors(service, settings, telemetry)
    tell_erased(injectors.forget)
    access.tell_changed(injectors.forget_users)
    capture = Capture(service, injectors.blocks, most_chars=settings.limits.max_content_chars)

    async def require(peer: Peer, namespace: str) -> None:
        await access.require(peer, namespace, PATHS[PREFIX.rstrip("/")].right)

    app = Proxy(
        upstreams,
        bodies,
        injectors.of if settings.embedding.rag.enabled else None,
        keys=_keys(proxy),
        listen=capture.listen if proxy.capture else no_listener,
    )
    try:
        yield NamespaceAccess(app, require=require, default=DEFAULT_NAMESPACE)
    finally:
        await upstreams.aclose()
        await bodies.aclose()
        await capture.aclose()


def on_loopback(app: ASGIApp, settings: ProxySettings, data_dir: Path) -> ASGIApp:
    """The proxy for those who have the token; they are whom the daemon itself is.

    Raises:
        ConfigInvalid: the file of the token cannot be used.
    """
    token = read_token(settings.token_path(data_dir))
    me = Peer(pid=0, uid=os.getuid(), gid=os.getgid())
    return TokenAccess(app, token=token, peer=me, namespaces=settings.tcp_namespaces)


def bind_loopback(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1.

    Raises:
        ConfigInvalid: the port is taken, or may not be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConfigInvalid(
            f"proxy.tcp_port: {LOOPBACK}:{port} cannot be used ({error.strerror}).",
            hint="Choose another port.",
        ) from error
    listening.setblocking(False)
    return listening


def _keys(settings: ProxySettings) -> dict[str, str]:
    given = {
        "openai": settings.openai_key,
        "anthropic": settings.anthropic_key,
        "gemini": settings.gemini_key,
    }
    return {vendor: key.get_secret_value() for vendor, key in given.items() if key is not None}
