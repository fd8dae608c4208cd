"""Save the models' answers through the proxy, if configured, as observations of trust external."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import structlog

from agentctx import wire
from agentctx.errors import AccessDenied, AgentctxError, InvalidInput
from agentctx.llm.proxy.app import Exchange
from agentctx.llm.proxy.replies import ReplyReader
from agentctx.service.base import Peer
from agentctx.service.entries import MAX_SOURCES
from agentctx.service.rag.render import parse
from agentctx.wire import DEFAULT_NAMESPACE

log = structlog.get_logger("agentctx.capture")

MAX_WAITING: Final = 64
"""Limit on replies being saved at once; further ones are dropped, as capture is best effort."""
UNNAMED_SESSION: Final = "proxy"
"""Session of calls that name none."""
_OK: Final = 200

SaveMethod: TypeAlias = (
    "Callable[[Sequence[wire.SaveRequest], Peer], Awaitable[list[wire.SaveResult | AgentctxError]]]"
)
"""`Entries.save`, guarded."""
Blocks = Callable[[int, str], Iterable[str]]
"""The blocks given so far in a user's conversation, by uid and the conversation's key."""
SAME: Final = 0.7
"""Share of a sentence's word pairs that occur in the passages, from which on it counts as repetition."""
MIN_WORDS: Final = 4
"""A shorter text is not worth keeping as an observation."""

_SENTENCE: Final = re.compile(r"(?<=[.!?:;\u3002\uff01\uff1f])\s+|\n+")
_WORD: Final = re.compile(r"[^\W_]+")


class Capture:
    """Listens to replies and saves what is new, after the call. `aclose` waits for the last ones."""

    def __init__(self, save: SaveMethod, blocks_of: Blocks, *, max_chars: int) -> None:
        self._save_entries = save
        self._blocks_of = blocks_of
        self._max_chars = max_chars
        self._saving: set[asyncio.Task[None]] = set()

    def listen(self, exchange: Exchange) -> Listener | None:
        """Return a listener for a successful reply, or None."""
        return Listener(self, exchange) if exchange.status == _OK else None

    async def aclose(self) -> None:
        """Wait until everything heard is saved."""
        while self._saving:
            await asyncio.wait(self._saving)

    def save_soon(self, exchange: Exchange, text: str) -> None:
        """Save what is new in a reply, in the background, unless it is longer than an entry may be."""
        if len(text) > self._max_chars:
            log.warning("reply_not_captured", reason="it is too long")
            return
        if len(self._saving) >= MAX_WAITING:
            log.warning("reply_not_captured", reason="too many at once")
            return
        task = asyncio.create_task(self._save_new(exchange, text, self._passages(exchange)))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    def _passages(self, exchange: Exchange) -> list[str]:
        """Return the contents of every passage given in the conversation."""
        prepared = exchange.prepared
        blocks = list(self._blocks_of(exchange.peer.uid, prepared.key)) if prepared.key else []
        if prepared.context is not None:
            blocks.append(prepared.context.block)
        return [content for block in blocks for content in _contents(block)]

    async def _save_new(self, exchange: Exchange, text: str, passages: Sequence[str]) -> None:
        if not (new := await asyncio.to_thread(new_text, text, passages)):
            return
        scope, peer = exchange.scope, exchange.peer
        request = wire.SaveRequest(
            collection="observation",
            content=new,
            namespace=next(iter(scope.namespaces), DEFAULT_NAMESPACE),
            session=scope.conversation or UNNAMED_SESSION,
            agent=scope.agent,
            origin="capture",
            # A model repeats what it was given: if that is revoked, so is this entry.
            derived_from=list(exchange.prepared.ids[:MAX_SOURCES]) or None,
        )
        assert isinstance(peer, Peer)  # noqa: S101 - it came through our own server; for the type checker
        try:
            (result,) = await self._save_entries([request], peer)
        except AccessDenied as error:
            result = error
        if isinstance(result, AgentctxError):
            log.warning("reply_not_captured", reason=result.code)


class Listener:
    """Listens to one reply."""

    def __init__(self, capture: Capture, exchange: Exchange) -> None:
        self._capture = capture
        self._exchange = exchange
        self._reader = ReplyReader(exchange.dialect.name, exchange.headers)

    def feed(self, data: bytes) -> None:
        self._reader.feed(data)

    def end(self, *, is_whole: bool) -> None:
        if is_whole and (text := self._reader.text()):
            self._capture.save_soon(self._exchange, text)


def _contents(block: str) -> list[str]:
    try:
        return [passage.content for passage in parse(block)]
    except InvalidInput:
        return [block]


def new_text(reply: str, injected: Iterable[str]) -> str:
    """Return the sentences of a reply that say something new, one per line; empty if there is hardly any.

    `injected` holds the contents of the passages that the model was given.
    """
    known = [_words(passage) for passage in injected]
    pairs = {pair for words in known for pair in pairwise(words)}
    singles = {word for words in known for word in words}
    kept = [
        sentence
        for piece in _SENTENCE.split(reply)
        if (sentence := piece.strip()) and not _is_known(_words(sentence), pairs, singles)
    ]
    text = "\n".join(kept)
    return text if len(_words(text)) >= MIN_WORDS else ""


def _is_known(words: Sequence[str], pairs: set[tuple[str, str]], singles: set[str]) -> bool:
    if len(words) < 2:
        return not words or words[0] in singles
    own = list(pairwise(words))
    return sum(pair in pairs for pair in own) >= SAME * len(own)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
