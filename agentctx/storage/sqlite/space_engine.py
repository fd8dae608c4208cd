"""Spaces: opened, prepared, activated, compared and retired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import Space
from agentctx.storage.sqlite import spaces
from agentctx.storage.sqlite.connections import SqliteConnections


class SqliteSpaces(SqliteConnections):
    """See the protocol for each method."""

    async def spaces(self) -> list[Space]:
        return await self._readers.run(spaces.all_spaces)

    async def open_space(self, fingerprint: Mapping[str, str | int]) -> Space:
        return (await self.open_spaces([fingerprint]))[0]

    async def open_spaces(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        return await self._writer.run(
            partial(spaces.open_spaces, fingerprints=fingerprints, now=self._clock())
        )

    async def renew_space(self, space_id: int) -> Space:
        return await self._writer.run(partial(spaces.renew, space_id=space_id, now=self._clock()))

    async def prepare_space(self, space_id: int, canary: Vectors) -> Space:
        return await self._writer.run(partial(spaces.prepare, space_id=space_id, canary=canary))

    async def activate_space(self, space_id: int, *, most_owed: int | None = None) -> Space:
        return await self._removing(
            partial(spaces.activate, space_id=space_id, now=self._clock(), most_owed=most_owed)
        )

    async def retire_former(self) -> list[int]:
        return await self._removing(spaces.retire_former)

    async def approve_space(self, space_id: int) -> None:
        await self._writer.run(partial(spaces.approve, space_id=space_id, now=self._clock()))

    async def record_comparison(self, space_id: int, comparison: Mapping[str, Any]) -> None:
        await self._writer.run(partial(spaces.record_comparison, space_id=space_id, comparison=comparison))

    async def disable_spaces(self) -> None:
        await self._writer.run(spaces.disable_all)

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        return await self._writer.run(
            partial(spaces.backfill, space_id=space_id, now=self._clock(), limit=limit)
        )
