"""Quarantined entries are never found, before and after they leave the indexes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentctx.storage.base import Storage
from agentctx.storage.trust import Source, UndoneRevocation
from agentctx_testing.drafts import ALL, embed, found_by_words, keyless, save, serving_space, vector

BAD = Source(agent="bad")
SETTLED = pytest.mark.parametrize("is_settled", [False, True])


class QuarantineSetup:
    """A few entries; those in `revoked` are by an agent that is no longer trusted."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.revoked: list[str] = []
        self.visible: list[str] = []
        self.chunks: dict[str, int] = {}
        self.space = 0

    async def fill(self) -> None:
        self.space = (await serving_space(self.storage)).id
        for number in range(4):
            agent = "good" if number % 2 else "bad"
            saved = await save(self.storage, keyless(f"whale number {number}", agent=agent))
            (self.visible if number % 2 else self.revoked).append(saved.id)
            self.chunks[saved.id] = saved.jobs[0].chunk
            await embed(self.storage, saved, vector(1, number / 10))

    async def revoke(self, *, is_settled: bool) -> None:
        await self.storage.trust.revoke(BAD, principal=0, dry_run=False)
        if is_settled:
            await self.storage.trust.settle(embed=True)

    async def nearest(self, limit: int = 10) -> list[str]:
        hits = await self.storage.search.by_vector(self.space, vector(1), ALL, limit)
        return [hit.entry for hit in hits]


class QuarantineConformance:
    @pytest.fixture
    async def setup(self, storage: Storage) -> QuarantineSetup:
        made = QuarantineSetup(storage)
        await made.fill()
        return made

    @SETTLED
    async def test_keyword_search_skips_quarantined_entries(
        self, setup: QuarantineSetup, is_settled: bool
    ) -> None:
        assert sorted(await found_by_words(setup.storage, "whale")) == sorted(setup.revoked + setup.visible)
        await setup.revoke(is_settled=is_settled)
        assert sorted(await found_by_words(setup.storage, "whale")) == sorted(setup.visible)

    @SETTLED
    async def test_vector_search_skips_quarantined_entries_and_fills_the_limit(
        self, setup: QuarantineSetup, is_settled: bool
    ) -> None:
        assert await setup.nearest(1) == setup.revoked[:1], "a revoked entry is the nearest"
        await setup.revoke(is_settled=is_settled)
        assert await setup.nearest() == setup.visible
        assert await setup.nearest(2) == setup.visible

    @SETTLED
    async def test_an_earlier_hit_on_a_quarantined_entry_is_not_resolved(
        self, setup: QuarantineSetup, is_settled: bool
    ) -> None:
        await setup.revoke(is_settled=is_settled)
        found = await setup.storage.search.resolve(list(setup.chunks.values()), ALL)
        assert sorted(chunk.entry.id for chunk in found.values()) == sorted(setup.visible)

    @SETTLED
    async def test_lists_and_counts_include_quarantined_entries_only_on_request(
        self, setup: QuarantineSetup, is_settled: bool
    ) -> None:
        await setup.revoke(is_settled=is_settled)
        asking = replace(ALL, with_quarantined=True)
        for wanted, expected in ((ALL, setup.visible), (asking, setup.revoked + setup.visible)):
            entries, _ = await setup.storage.entries.list_entries(wanted, limit=10)
            assert sorted(entry.id for entry in entries) == sorted(expected)
        assert await setup.storage.trust.quarantined() == 2

    async def test_undoing_a_revocation_restores_everything(self, setup: QuarantineSetup) -> None:
        revoked = await setup.storage.trust.revoke(BAD, principal=0, dry_run=False)
        await setup.storage.trust.settle(embed=True)
        assert revoked.revocation is not None
        assert await setup.storage.trust.undo_revocation(revoked.revocation) == UndoneRevocation(released=2)
        await setup.storage.trust.settle(embed=True)
        assert len(await found_by_words(setup.storage, "whale")) == 4
        assert await setup.storage.trust.quarantined() == 0
        assert (await setup.storage.upkeep.census()).violations == 0

    @SETTLED
    async def test_entries_revoked_twice_return_once_both_revocations_are_undone(
        self, setup: QuarantineSetup, is_settled: bool
    ) -> None:
        await setup.revoke(is_settled=is_settled)
        await setup.revoke(is_settled=is_settled)
        assert await setup.storage.trust.undo_revocation(1) == UndoneRevocation(
            released=0, still_quarantined=2, revocations=(2,)
        )
        await setup.storage.trust.settle(embed=True)
        assert sorted(await found_by_words(setup.storage, "whale")) == sorted(setup.visible)
        known = await setup.storage.trust.provenance(setup.revoked)
        assert {each.revocation for each in known.values()} == {2}
        assert await setup.storage.trust.undo_revocation(2) == UndoneRevocation(released=2)
        await setup.storage.trust.settle(embed=True)
        assert sorted(await found_by_words(setup.storage, "whale")) == sorted(setup.revoked + setup.visible)

    async def test_revoking_again_before_an_undo_settles_belongs_to_the_new_revocation(
        self,
        setup: QuarantineSetup,
    ) -> None:
        await setup.revoke(is_settled=True)
        await setup.storage.trust.undo_revocation(1)
        await setup.revoke(is_settled=False)
        assert await setup.storage.trust.undo_revocation(1) == UndoneRevocation(released=0)
        assert await setup.storage.trust.quarantined() == 2
        assert await setup.storage.trust.undo_revocation(2) == UndoneRevocation(released=2)

    async def test_derived_entries_are_held_by_every_revocation_of_their_source(
        self,
        setup: QuarantineSetup,
    ) -> None:
        await setup.revoke(is_settled=True)
        await setup.revoke(is_settled=True)
        made = await save(setup.storage, keyless("made of a whale", derived_from=(setup.revoked[0],)))
        undone = await setup.storage.trust.undo_revocation(1)
        assert (undone.released, undone.still_quarantined) == (0, 3)
        assert made.id in await setup.storage.trust.provenance([made.id])
        assert (await setup.storage.trust.undo_revocation(2)).released == 3

    async def test_a_manual_release_overrides_every_revocation(self, setup: QuarantineSetup) -> None:
        await setup.revoke(is_settled=True)
        await setup.revoke(is_settled=True)
        assert await setup.storage.trust.release(setup.revoked[0])
        await setup.storage.trust.settle(embed=True)
        assert await setup.storage.trust.quarantined() == 1
        assert (await setup.storage.trust.undo_revocation(1)).still_quarantined == 1
        assert (await setup.storage.trust.undo_revocation(2)).released == 1
