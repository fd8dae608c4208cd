"""Forgetting an entry, its copies in captured replies, and how long backups still contain it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from agentctx import wire
from agentctx.embedding.fair_queue import yield_admission
from agentctx.errors import AgentctxError, NotFound
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import DAEMON, WRITE
from agentctx.service.backup import Backups
from agentctx.service.base import Peer, Version
from agentctx.service.operations import Operation
from agentctx.service.stores.base import EntryStore
from agentctx.service.stores.fields import check_namespace
from agentctx.storage.audit import FORGET, Event
from agentctx.storage.base import Storage
from agentctx.storage.ids import first_id
from agentctx.storage.records import Entry
from agentctx.storage.search import Filter

log = structlog.get_logger("agentctx.forgetting")

PAGE: Final = 1_000
MAX_INSPECTED: Final = 50
"""How many chunks of captured replies, the best keyword matches, are compared with a forgotten text."""

FORGOTTEN_AT_ONCE: Final = 50
"""How many entries of a namespace are forgotten in one transaction, during which saves wait."""
REPEATED_SHARE: Final = 0.5
"""A text repeats another if at least this share of the shorter one is in the longer one."""
SHINGLE_WORDS: Final = 4
"""Length of the word sequences that are compared; texts rarely share one of this length by chance."""

_Shingles: TypeAlias = set[tuple[str, ...]]
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class ForgetService:
    """Forgets entries, and says where their text may still be."""

    storage: Storage
    stores: EntryStore
    backups: Backups

    @Operation("DELETE", "/entries/{entry_id}", WRITE, rules.on_entry, errors=(404, 409, 507))
    async def forget(
        self, entry_id: str, peer: Peer, *, if_version: Version | None = None, with_copies: bool = False
    ) -> wire.ForgetReply:
        """Erase an entry with all its versions; with `with_copies`, also captured replies that repeat it."""
        saved, parts, copies = await self._related(entry_id)
        removed = await self.stores.delete(entry_id, if_version=if_version, principal=peer.uid)
        gone = [copy for copy in copies if await self._is_removed(copy, peer)] if with_copies else []
        return wire.ForgetReply(
            id=entry_id,
            versions=removed,
            copies=[copy for copy in copies if copy not in gone],
            copies_forgotten=gone,
            parts=[part for part in parts if part not in gone],
            **await self._elsewhere(saved),
        )

    @Operation("DELETE", "/entries", WRITE, rules.in_named, errors=(507,))
    async def forget_all(self, namespace: str, peer: Peer, *, dry_run: bool = False) -> wire.ForgetAllReply:
        """Erase all entries of a namespace, in whatever state; with `dry_run`, only count them.

        It takes a few milliseconds for each, while other requests are served. If it is interrupted, the rest
        stays: repeat it.
        """
        count = await self.storage.search.count_entries(check_namespace(namespace))
        if count and not dry_run:
            detail = {"entries": count}
            await self.storage.audit.add(
                [Event(kind=FORGET, principal=peer.uid, namespace=namespace, detail=detail)]
            )
            async with yield_admission():
                await self._forget_in_steps(namespace, count, until=first_id(self.storage.clock() + 1))
        return wire.ForgetAllReply(
            namespace=namespace, entries=count, dry_run=dry_run, **await self._elsewhere()
        )

    async def _forget_in_steps(self, namespace: str, count: int, *, until: str) -> None:
        """Forget at least `count` entries and those with ids below `until`, if there are, and give way to
        others for as long as each step took. What is saved meanwhile has later ids.
        """
        after, entries = "", self.storage.entries
        while count > 0 or after < until:
            began = time.monotonic()
            if not (ids := await entries.ids_of(namespace, after=after, limit=FORGOTTEN_AT_ONCE)):
                return
            await asyncio.gather(*(self._forget_unaudited(each) for each in ids))
            after, count = ids[-1], count - len(ids)
            await asyncio.sleep(time.monotonic() - began)

    async def _forget_unaudited(self, entry_id: str) -> None:
        with suppress(NotFound):  # another task removed it first, or it has expired
            await self.storage.entries.delete(entry_id, is_audited=False)

    async def _elsewhere(self, since: int = 0) -> dict[str, Any]:
        """Return where text that was saved at `since` or later may still be, as fields of a reply."""
        remains = [*self.storage.upkeep.remains, *await self.backups.other_copies(since)]
        return {**await self.backups.holding(since), "remains": remains}

    @Operation("POST", "/rewrite", DAEMON, audit=notes.rewritten, errors=(504, 507))
    async def rewrite(self, peer: Peer) -> wire.RewriteReply:  # noqa: ARG002
        """Remove deleted data from the database's files now, from unused space too. It may take minutes.

        A new backup then replaces all automatic ones. Saves wait meanwhile: about five seconds for 100,000
        entries; with PostgreSQL, searches too.
        """
        remains = await self.storage.upkeep.rewrite()
        made = await self.backups.replace_older()
        return wire.RewriteReply(
            remains=[*remains, *await self.backups.other_copies()],
            backup=made.backup.path if made else None,
            backups_removed=list(made.removed) if made else [],
        )

    async def _related(self, entry_id: str) -> tuple[int, list[str], list[str]]:
        """Find when it was first saved, the other parts of its turn, and captured replies that repeat it.

        Times are 0 and lists are empty if the search fails.
        """
        try:
            entry = await self.storage.entries.get(entry_id)
            if entry is not None:
                return entry.created, await self._of_turn(entry), await self._captured(entry)
        except AgentctxError as error:
            log.warning("copies_not_looked_for", code=error.code, reason=error.message)
        return 0, [], []

    async def _of_turn(self, entry: Entry) -> list[str]:
        """Find the other parts of the turn that the entry is a part of."""
        if not (turn := entry.attributes.get("turn")):
            return []
        everything = Filter(namespace=entry.namespace, collections=("observation",), with_superseded=True)
        observations = replace(everything, session=entry.session)
        page = partial(self.storage.entries.list_entries, observations, limit=PAGE, with_content=False)
        entries, before = await page()
        while before is not None:
            more, before = await page(before=before)
            entries += more
        return [each.id for each in entries if each.attributes.get("turn") == turn and each.id != entry.id]

    async def _captured(self, entry: Entry) -> list[str]:
        storage = self.storage
        observations = Filter(namespace=entry.namespace, collections=("observation",), with_superseded=True)
        hits = (await storage.search.by_words(entry.content, observations, MAX_INSPECTED)).hits
        chunks = await storage.search.resolve([hit.chunk for hit in hits], observations)
        ids = dict.fromkeys(chunk.entry.id for chunk in chunks.values() if chunk.entry.origin == "capture")
        others = {each: await storage.entries.get(each) for each in ids if each != entry.id}
        contents = {each: other.content for each, other in others.items() if other is not None}
        return await asyncio.to_thread(repetitions_of, entry.content, contents)

    async def _is_removed(self, entry_id: str, peer: Peer) -> bool:
        try:
            await self.stores.delete(entry_id, principal=peer.uid)
        except NotFound:
            return False  # another task removed it first
        return True


def repetitions_of(text: str, others: Mapping[str, str]) -> list[str]:
    """Return the keys of the texts that repeat `text`, in order; long ones take tenths of a second.

    One text repeats another if it contains at least `REPEATED_SHARE` of its sequences of `SHINGLE_WORDS`
    words. Case and punctuation are ignored. Shorter texts are compared by shorter sequences.
    """
    words = _words(text)
    shingles = _shingles(words, SHINGLE_WORDS)
    return [key for key, other in others.items() if _is_repetition(words, shingles, _words(other))]


def _is_repetition(words: list[str], shingles: _Shingles, others: list[str]) -> bool:
    length = min(SHINGLE_WORDS, len(words), len(others))
    if not length:
        return False
    mine = shingles if length == SHINGLE_WORDS else _shingles(words, length)
    theirs = _shingles(others, length)
    return len(mine & theirs) >= REPEATED_SHARE * min(len(mine), len(theirs))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _shingles(words: list[str], length: int) -> _Shingles:
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
