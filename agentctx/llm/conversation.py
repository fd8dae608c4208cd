"""The blocks given in each conversation, kept so that they are given again in place. Bounded; no I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.content import Body
from agentctx.llm.scope import Scope

MAX_CONVERSATIONS = 1_000
MAX_BLOCKS = 256
"""Per conversation; turns without a relevant entry count too."""
MAX_BYTES = 16 * 1024 * 1024
"""Of all blocks together, in UTF-8."""
MAX_FORGOTTEN = 10_000
"""Number of recently forgotten entries to remember, as a block being built may still contain one."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The blocks given so far, by the hash of the user turn that each one follows, oldest first."""

    blocks: Mapping[str, str] = field(default_factory=dict)
    """Never empty strings."""
    latest: str | None = None
    """The latest block, for a body without user turns because the API keeps them."""
    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The entries in each block, by the same hash."""
    answered: Collection[str] = ()
    """The user turns for which retrieval ran, even if nothing was relevant."""


def conversation_key(named: str | None, scope: Scope) -> str | None:
    """Return the key for the blocks of a call, or None if its body has no conversation.

    The conversation is identified by, in this order: a session (argument or header), the client's own
    session, and `named`, from the body: the API's own state, or the first messages. Namespaces and agent are
    always part of the key, so that no block ever crosses a namespace.
    """
    name = f"session:{scope.conversation}" if scope.conversation else named
    return None if name is None else _scoped(name, scope)


def reply_key(dialect: Dialect, body: Body, scope: Scope, reply: object) -> str | None:
    """Return the key of calls that continue from this reply; None unless only the API's state names it."""
    if scope.conversation:
        return None
    named = dialect.reply_key(body, reply)
    return None if named is None else _scoped(named, scope)


def _scoped(named: str, scope: Scope) -> str:
    return repr((scope.namespaces, scope.agent, named))


@dataclass(slots=True)
class _StoredBlocks:
    blocks: OrderedDict[str, str]
    """Blocks of all answered turns; empty strings where nothing was relevant."""
    latest: str | None = None
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(kw_only=True)
class ConversationMemory:
    """The blocks of the most recent conversations, in this process. Called from one event loop.

    Over a limit, the least recently used conversation is evicted as a whole: a cache matches from the
    beginning, so half of a conversation's blocks are useless to it. Within one, the oldest block is evicted.
    """

    max_conversations: int = MAX_CONVERSATIONS
    max_blocks: int = MAX_BLOCKS
    max_bytes: int = MAX_BYTES
    _stored: OrderedDict[str, _StoredBlocks] = field(default_factory=OrderedDict, init=False)
    _links: OrderedDict[str, tuple[str, str | None]] = field(default_factory=OrderedDict, init=False)
    _forgotten: OrderedDict[str, None] = field(default_factory=OrderedDict, init=False)
    bytes: int = field(default=0, init=False)
    """Size of all stored blocks."""

    def recall(self, key: str) -> Conversation:
        """Return the conversation with that key, or an empty one if unknown."""
        key, turn = self._resolved(key)
        stored = self._stored.get(key)
        if stored is None:
            return Conversation()
        self._stored.move_to_end(key)
        latest = stored.latest if turn is None else turn
        last = None if latest is None else stored.blocks.get(latest)
        blocks = {name: block for name, block in stored.blocks.items() if block}
        return Conversation(blocks, last or None, dict(stored.ids), frozenset(stored.blocks))

    def remember(self, key: str, turn: str, block: str | None, ids: Sequence[str] = ()) -> None:
        """Store the block of a user turn, and the entries in it.

        An empty block means that nothing is relevant to the turn, and removes an earlier block. None means
        that no answer came: the turn keeps its earlier block.
        """
        key, _ = self._resolved(key)
        if block is not None and self._forgotten.keys().isdisjoint(ids):
            self._store(self._stored.setdefault(key, _StoredBlocks(OrderedDict())), turn, block, ids)
            self._stored.move_to_end(key)
            while self._stored and (
                len(self._stored) > self.max_conversations or self.bytes > self.max_bytes
            ):
                _, dropped = self._stored.popitem(last=False)
                self.bytes -= sum(map(_size, dropped.blocks.values()))
        elif stored := self._stored.get(key):
            stored.latest = turn
            if block is not None:
                self._drop(stored, turn)

    def clear(self, key: str) -> None:
        """Drop every block of a conversation, because a vendor refused them. Its turns stay answered."""
        stored = self._stored.get(self._resolved(key)[0])
        if stored is not None:
            for turn in list(stored.blocks):
                self._store(stored, turn, "", ())

    def forget(self, entry_ids: Sequence[str]) -> None:
        """Drop every block with one of these forgotten entries, and reject later blocks with one."""
        self._forgotten.update(dict.fromkeys(entry_ids))
        while len(self._forgotten) > MAX_FORGOTTEN:
            self._forgotten.popitem(last=False)
        gone = set(entry_ids)
        for stored in self._stored.values():
            for turn in [turn for turn, ids in stored.ids.items() if not gone.isdisjoint(ids)]:
                self._drop(stored, turn)

    def link(self, reply_key: str, key: str, turn: str | None) -> None:
        """Continue a conversation under the key of a reply, whose call answered that turn."""
        key, earlier = self._resolved(key)
        self._links[reply_key] = key, earlier if turn is None else turn
        self._links.move_to_end(reply_key)
        while len(self._links) > self.max_conversations * 4:
            self._links.popitem(last=False)

    def _resolved(self, key: str) -> tuple[str, str | None]:
        return self._links.get(key, (key, None))

    def _store(self, stored: _StoredBlocks, turn: str, block: str, ids: Sequence[str]) -> None:
        self._drop(stored, turn)
        stored.blocks[turn] = block
        stored.ids[turn] = tuple(ids)
        stored.latest = turn
        self.bytes += _size(block)
        while len(stored.blocks) > self.max_blocks:
            self._drop(stored, next(iter(stored.blocks)))

    def _drop(self, stored: _StoredBlocks, turn: str) -> None:
        self.bytes -= _size(stored.blocks.pop(turn, ""))
        stored.ids.pop(turn, None)


def _size(block: str) -> int:
    return len(block.encode("utf-8", "surrogatepass"))
