"""The proxy on top of the daemon's own service, so that its injections have receipts like any other."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from starlette.types import ASGIApp

from agentctx import wire
from agentctx.config.schema import ProxySettings, Settings
from agentctx.errors import ConfigInvalid
from agentctx.llm.context_source import MAX_PRESENT_BYTES, ContextQuestion, GivenContext, latest
from agentctx.llm.conversation import ConversationMemory
from agentctx.llm.injector import FailureLog, Injector
from agentctx.llm.proxy.access import NamespaceAccess, TokenAccess
from agentctx.llm.proxy.app import PREFIX, Proxy
from agentctx.llm.proxy.capture import Capture, SaveMethod
from agentctx.llm.proxy.runs import Runs
from agentctx.llm.proxy.upstream import Upstreams
from agentctx.service.access.control import AccessControl
from agentctx.service.access.policy import PATHS
from agentctx.service.base import Peer
from agentctx.service.receipts import ReceiptLog
from agentctx.service.refusals import Refusals
from agentctx.storage.steps import ErasureListener
from agentctx.telemetry import Telemetry
from agentctx.wire import DEFAULT_NAMESPACE

ContextMethod: TypeAlias = Callable[[wire.ContextRequest, Peer], Awaitable[wire.ContextReply]]
"""`Questions.context`, guarded."""
LOOPBACK: Final = "127.0.0.1"
_MAX_PEERS: Final = 64
"""Number of users whose conversations are kept, separately; the earliest user is evicted first."""


@dataclass(frozen=True, slots=True)
class PeerContextSource:
    """The daemon's answers for one peer. In a long conversation only the latest texts are compared."""

    give: ContextMethod
    peer: Peer
    max_present: int = MAX_PRESENT_BYTES
    """Bytes of these texts; at most the number of characters that the daemon compares with."""

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        reply = await self.give(
            wire.ContextRequest(
                query=question.text,
                namespaces=list(question.scope.namespaces) or None,
                session=question.scope.session,
                position=question.position,
                present=latest(question.present, self.max_present),
            ),
            self.peer,
        )
        return GivenContext.of(reply)


class Injectors:
    """Provides an injector for each peer. Users never share conversations."""

    def __init__(self, context: ContextMethod, settings: Settings, telemetry: Telemetry) -> None:
        self._context = context
        self._settings = settings
        self._telemetry = telemetry
        self._memories: dict[int, ConversationMemory] = {}
        self._failures = FailureLog()

    def of(self, peer: Peer, rests: Callable[[str], bool] = lambda _: False) -> Injector:
        """Return the injector for one call of this peer. `rests`: calls to a model go without context."""
        max_present = min(MAX_PRESENT_BYTES, self._settings.limits.max_present_chars)
        return Injector(
            PeerContextSource(self._context, peer, max_present),
            position=self._settings.proxy.position,
            deadline_s=self._settings.injection.deadline_ms / 1_000,
            conversations=self._memory(peer.uid),
            telemetry=self._telemetry,
            failures=self._failures,
            rests=rests,
        )

    def blocks(self, uid: int, key: str) -> list[str]:
        """Return every block given so far in a conversation of this user."""
        return list(self._memory(uid).recall(key).blocks.values())

    def forget(self, entry_ids: Sequence[str]) -> None:
        """Stop giving blocks with these entries, because they were forgotten or have expired."""
        for memory in self._memories.values():
            memory.forget(entry_ids)

    def forget_users(self, but: frozenset[int]) -> None:
        """Keep the conversations of these users only, because grants have changed."""
        self._memories = {uid: memory for uid, memory in self._memories.items() if uid in but}

    def _memory(self, uid: int) -> ConversationMemory:
        if uid not in self._memories:
            if len(self._memories) >= _MAX_PEERS:
                self._memories.pop(next(iter(self._memories)))
            self._memories[uid] = ConversationMemory()
        return self._memories[uid]


@asynccontextmanager
async def open_proxy(
    settings: Settings,
    access: AccessControl,
    telemetry: Telemetry,
    *,
    context: ContextMethod,
    save: SaveMethod,
    on_erased: Callable[[ErasureListener], None],
    refusals: Refusals,
    receipts: ReceiptLog,
    runs: Runs | None = None,
) -> AsyncIterator[ASGIApp]:
    """Open the proxy as an application for the socket; at exit, its connections to the vendors are closed.

    `context` and `save` check the caller's grants. `on_erased` registers a listener for erased entries. Into
    `refusals` and `receipts` goes what vendors refused. `runs` are those of programs with an own upstream.
    """
    proxy = settings.proxy
    upstreams = Upstreams(
        urls={
            "openai": proxy.openai_url,
            "anthropic": proxy.anthropic_url,
            "gemini": proxy.gemini_url,
            "ollama": proxy.ollama_url,
        },
        connect_timeout_s=proxy.connect_timeout_s,
        read_timeout_s=proxy.read_timeout_s,
        use_environment_proxies=proxy.use_environment_proxies,
    )
    injectors = Injectors(context, settings, telemetry)
    on_erased(injectors.forget)
    access.on_grants_changed(injectors.forget_users)
    capture = Capture(save, injectors.blocks, max_chars=settings.limits.max_content_chars)

    async def require(peer: Peer, namespace: str) -> None:
        await access.require(peer, namespace, PATHS[PREFIX.rstrip("/")].right)

    app = Proxy(
        upstreams,
        injectors.of if settings.embedding.rag.enabled else None,
        refusals,
        keys=_keys(proxy),
        note_refused=receipts.refuse,
        own_runs=runs,
        listen=capture.listen if proxy.capture else lambda _: None,
    )
    try:
        yield NamespaceAccess(app, require=require, default=DEFAULT_NAMESPACE)
    finally:
        await upstreams.aclose()
        await capture.aclose()


def on_loopback(app: ASGIApp, settings: ProxySettings, token: str, runs: Runs) -> ASGIApp:
    """Wrap the proxy for callers with the token, who get the identity of the daemon's own user."""
    me = Peer(pid=0, uid=os.getuid(), gid=os.getgid())
    return TokenAccess(app, token=token, peer=me, namespaces=settings.tcp_namespaces, run_of=runs.find)


def bind_loopback(port: int) -> socket.socket:
    """Return a listening socket on 127.0.0.1.

    Raises:
        ConfigInvalid: the port is taken or not permitted.
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
