"""What is in quarantine is in no hit of any index, before it is out of the indexes and after.

Subclass it with a fixture `storage`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentctx.storage.base import Storage
from agentctx.storage.trust import RevocationUndone, Source
from tests.storage.conformance import embed, found_by_words, save, serving_space
from tests.storage.drafts import ALL, keyless, vector

BAD = Source(agent="bad")
SETTLED = pytest.mark.parametrize("is_settled", [False, True])


class Machine:
    """Of a few entries the ones in `held` are of an agent that is not trusted any more."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.held: list[str] = []
        self.open: list[str] = []
        self.chunks: dict[str, int] = {}
        self.space = 0

    async def fill(self) -> None:
        self.space = (await serving_space(self.storage)).id
        for number in range(4):
            agent = "good" if number % 2 else "bad"
            saved = await save(self.storage, keyless(f"whale number {number}", agent=agent))
            (self.open if number % 2 else self.held).append(saved.id)
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
    """What every engine keeps in quarantine."""

    @pytest.fixture
    async def machine(self, storage: Storage) -> Machine:
        made = Machine(storage)
        await made.fill()
        return made

    @SETTLED
    async def test_no_word_finds_it(self, machine: Machine, is_settled: bool) -> None:
        assert sorted(await found_by_words(machine.storage, "whale")) == sorted(machine.held + machine.open)
        await machine.revoke(is_settled=is_settled)
        assert sorted(await found_by_words(machine.storage, "whale")) == sorted(machine.open)

    @SETTLED
    async def test_no_vector_finds_it_and_it_takes_no_others_place(
        self, machine: Machine, is_settled: bool
    ) -> None:
        assert await machine.nearest(1) == machine.held[:1], "the nearest is one of them"
        await machine.revoke(is_settled=is_settled)
        assert await machine.nearest() == machine.open
        assert await machine.nearest(2) == machine.open

    @SETTLED
    async def test_a_hit_from_before_is_not_resolved(self, machine: Machine, is_settled: bool) -> None:
        await machine.revoke(is_settled=is_settled)
        found = await machine.storage.search.resolve(list(machine.chunks.values()), ALL)
        assert sorted(chunk.entry.id for chunk in found.values()) == sorted(machine.open)

    @SETTLED
    async def test_lists_and_counts_hold_it_only_where_they_ask_for_it(
        self, machine: Machine, is_settled: bool
    ) -> None:
        await machine.revoke(is_settled=is_settled)
        asking = replace(ALL, with_quarantined=True)
        for wanted, expected in ((ALL, machine.open), (asking, machine.held + machine.open)):
            entries, _ = await machine.storage.entries.list_entries(wanted, limit=10)
            assert sorted(entry.id for entry in entries) == sorted(expected)
        assert await machine.storage.trust.quarantined() == 2

    async def test_it_all_comes_back_when_it_is_undone(self, machine: Machine) -> None:
        revoked = await machine.storage.trust.revoke(BAD, principal=0, dry_run=False)
        await machine.storage.trust.settle(embed=True)
        assert revoked.revocation is not None
        assert await machine.storage.trust.undo_revocation(revoked.revocation) == RevocationUndone(released=2)
        await machine.storage.trust.settle(embed=True)
        assert len(await found_by_words(machine.storage, "whale")) == 4
        assert await machine.storage.trust.quarantined() == 0
        assert (await machine.storage.upkeep.census()).violations == 0

    @SETTLED
    async def test_what_two_revocations_hold_back_comes_back_when_both_are_undone(
        self, machine: Machine, is_settled: bool
    ) -> None:
        await machine.revoke(is_settled=is_settled)
        await machine.revoke(is_settled=is_settled)
        assert await machine.storage.trust.undo_revocation(1) == RevocationUndone(
            released=0, still_quarantined=2, revocations=(2,)
        )
        await machine.storage.trust.settle(embed=True)
        assert sorted(await found_by_words(machine.storage, "whale")) == sorted(machine.open)
        known = await machine.storage.trust.provenance(machine.held)
        assert {each.revocation for each in known.values()} == {2}
        assert await machine.storage.trust.undo_revocation(2) == RevocationUndone(released=2)
        await machine.storage.trust.settle(embed=True)
        assert sorted(await found_by_words(machine.storage, "whale")) == sorted(machine.held + machine.open)

    async def test_what_is_revoked_again_before_it_was_back_is_held_by_the_new_revocation(
        self,
        machine: Machine,
    ) -> None:
        await machine.revoke(is_settled=True)
        await machine.storage.trust.undo_revocation(1)
        await machine.revoke(is_settled=False)
        assert await machine.storage.trust.undo_revocation(1) == RevocationUndone(released=0)
        assert await machine.storage.trust.quarantined() == 2
        assert await machine.storage.trust.undo_revocation(2) == RevocationUndone(released=2)

    async def test_what_is_made_of_an_entry_that_two_revocations_hold_back_is_held_by_both(
        self,
        machine: Machine,
    ) -> None:
        await machine.revoke(is_settled=True)
        await machine.revoke(is_settled=True)
        made = await save(machine.storage, keyless("made of a whale", derived_from=(machine.held[0],)))
        undone = await machine.storage.trust.undo_revocation(1)
        assert (undone.released, undone.still_quarantined) == (0, 3)
        assert made.id in await machine.storage.trust.provenance([made.id])
        assert (await machine.storage.trust.undo_revocation(2)).released == 3

    async def test_a_release_by_hand_lets_go_of_every_revocation(self, machine: Machine) -> None:
        await machine.revoke(is_settled=True)
        await machine.revoke(is_settled=True)
        assert await machine.storage.trust.release(machine.held[0])
        await machine.storage.trust.settle(embed=True)
        assert await machine.storage.trust.quarantined() == 1
        assert (await machine.storage.trust.undo_revocation(1)).still_quarantined == 1
        assert (await machine.storage.trust.undo_revocation(2)).released == 1
