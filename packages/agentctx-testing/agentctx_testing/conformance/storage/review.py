"""What waits for a review is in no answer until it is kept, and is erased when its time is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentctx.errors import NotFound
from agentctx.storage.base import Storage
from agentctx.storage.records import Change, ImportOptions, SaveOutcome
from agentctx.storage.review import Captures
from agentctx.storage.trust import Source
from agentctx_testing.drafts import (
    ALL,
    START_MS,
    ManualClock,
    assert_sound,
    draft,
    embed,
    found_by_words,
    keyless,
    save,
    serving_space,
    vector,
)

LISTED = replace(ALL, with_quarantined=True)
CAPTURED: dict[str, Any] = {"origin": "capture", "agent": "claude-code"}


async def capture(storage: Storage, text: str = "otters like fish", **changes: Any) -> SaveOutcome:
    return await save(storage, keyless(text, **{**CAPTURED, "remember": "review", **changes}))


async def settle(storage: Storage) -> None:
    while (await storage.trust.settle(embed=True)).rows:
        pass


async def listed(storage: Storage, **changes: Any) -> list[str]:
    entries, _ = await storage.entries.list_entries(replace(LISTED, **changes), limit=9)
    return [each.id for each in entries]


class ReviewConformance:
    @pytest.mark.parametrize("is_settled", [False, True])
    async def test_what_waits_is_in_no_answer_until_it_is_kept(
        self, storage: Storage, is_settled: bool
    ) -> None:
        space = (await serving_space(storage)).id
        saved = await capture(storage)
        assert (saved.quarantined, saved.jobs) == (True, ())
        if is_settled:
            await settle(storage)
        assert await found_by_words(storage, "otters") == []
        known = (await storage.trust.provenance([saved.id]))[saved.id]
        assert (known.quarantined, known.waiting) == ("waiting", START_MS)
        assert await storage.trust.keep(saved.id)
        returned = (await storage.trust.settle(embed=True)).jobs
        assert [job.entry for job in returned] == [saved.id]
        await embed(storage, replace(saved, jobs=returned), vector(1))
        assert await found_by_words(storage, "otters") == [saved.id]
        assert [hit.entry for hit in await storage.search.by_vector(space, vector(1), ALL, 9)] == [saved.id]
        assert await storage.trust.provenance([saved.id]) == {}
        assert not await storage.trust.keep(saved.id), "it does not wait any more"
        await assert_sound(storage)

    async def test_lists_and_counts_leave_out_what_waits_unless_it_is_asked_for(
        self, storage: Storage
    ) -> None:
        kept = (await save(storage, keyless("whales sing"))).id
        waiting = (await capture(storage)).id
        assert await listed(storage) == [kept]
        assert await listed(storage, waiting=True) == [waiting]
        assert sorted(await listed(storage, waiting=None)) == sorted([kept, waiting])
        assert await storage.entries.count_by_namespace() == {"default": 1}
        await storage.trust.keep(waiting)
        assert await listed(storage, waiting=True) == []
        assert sorted(await listed(storage)) == sorted([kept, waiting])

    async def test_hooks_ask_for_a_review_and_never_end_one(self, storage: Storage) -> None:
        assert not (await capture(storage, remember="auto")).quarantined
        assert (await capture(storage, "two", remember="review")).quarantined
        assert (await capture(storage, "three", remember="auto")).quarantined
        assert not (await capture(storage, "four", remember="auto", agent="codex")).quarantined
        assert not (await capture(storage, "five", remember="auto", namespace="other")).quarantined
        assert await storage.trust.captures() == {
            ("default", "claude-code"): Captures("review", 2, START_MS),
            ("default", "codex"): Captures("auto"),
            ("other", "claude-code"): Captures("auto"),
        }

    async def test_always_holds_for_this_agent_and_namespace(self, storage: Storage) -> None:
        saved = await capture(storage)
        await storage.trust.keep(saved.id, always=True)
        assert not (await capture(storage, "two")).quarantined
        assert (await capture(storage, "three", namespace="other")).quarantined
        assert (await capture(storage, "four", agent="codex")).quarantined
        assert (await storage.trust.captures())["default", "claude-code"] == Captures("always")

    async def test_a_mode_is_set_back_for_later_captures_of_who_has_one(self, storage: Storage) -> None:
        saved = await capture(storage)
        await storage.trust.keep(saved.id, always=True)
        assert await storage.trust.set_capture_mode("default", "claude-code", "review")
        assert (await capture(storage, "two", remember="auto")).quarantined
        assert await storage.trust.set_capture_mode("default", "claude-code", "auto")
        assert not (await capture(storage, "three", remember="auto")).quarantined
        assert (await capture(storage, "four")).quarantined, "its hooks may ask for a review again"
        assert not await storage.trust.set_capture_mode("default", "codex", "auto")
        assert not await storage.trust.set_capture_mode("other", "claude-code", "auto")

    async def test_what_is_saved_on_purpose_does_not_wait(self, storage: Storage) -> None:
        await capture(storage)
        assert not (await save(storage, keyless("whales", agent="claude-code"))).quarantined

    async def test_what_waits_cannot_change_what_is_kept(self, storage: Storage) -> None:
        kept = await save(storage, draft("whales sing", key="song"))
        again = await save(storage, draft("whales shout", key="song", remember="review", **CAPTURED))
        assert (again.id, again.change, again.quarantined) == (kept.id, Change.NONE, False)
        assert await found_by_words(storage, "sing") == [kept.id]

    async def test_what_waits_is_changed_and_still_waits(self, storage: Storage) -> None:
        first = await save(storage, draft("whales sing", key="song", remember="review", **CAPTURED))
        again = await save(storage, draft("whales shout", key="song"))
        assert (again.id, again.change, again.quarantined) == (first.id, Change.VERSION, True)
        assert await found_by_words(storage, "whales") == []
        assert not await storage.trust.keep(first.id), "this is not what somebody has seen"
        assert await storage.trust.keep(first.id, 2)
        await settle(storage)
        assert await found_by_words(storage, "shout") == [first.id]

    async def test_only_a_review_ends_the_waiting(self, storage: Storage) -> None:
        saved = await capture(storage)
        assert not await storage.trust.release(saved.id)
        revoked = await storage.trust.revoke(Source(agent="claude-code"), principal=0, dry_run=False)
        assert revoked.revocation is not None
        undone = await storage.trust.undo_revocation(revoked.revocation)
        assert (undone.released, undone.still_quarantined) == (0, 1)
        await settle(storage)
        assert await listed(storage, waiting=True) == [saved.id]
        assert await found_by_words(storage, "otters") == []

    async def test_a_kept_entry_stays_out_for_its_other_reasons(self, storage: Storage) -> None:
        saved = await capture(storage, is_held=True, flags=("override",))
        assert await storage.trust.release(saved.id)
        assert await listed(storage, waiting=True) == [saved.id]
        other = await capture(storage, "two otters", is_held=True, flags=("override",))
        assert await storage.trust.keep(other.id)
        await settle(storage)
        assert await found_by_words(storage, "otters") == []
        assert (await storage.trust.provenance([other.id]))[other.id].quarantined == "screened"

    async def test_what_is_made_of_it_waits_too(self, storage: Storage) -> None:
        saved = await capture(storage)
        made = await save(storage, keyless("otters are fond of fish", derived_from=(saved.id,)))
        assert await listed(storage, derived_from=saved.id, waiting=True) == [made.id]
        assert await listed(storage, derived_from=saved.id) == []
        assert made.quarantined
        assert sorted(await listed(storage, waiting=True)) == sorted([saved.id, made.id])

    async def test_it_expires(self, storage: Storage, clock: ManualClock) -> None:
        old = await capture(storage)
        kept = await capture(storage, "two otters")
        await storage.trust.keep(kept.id)
        clock.now += 1_000
        young = await capture(storage, "three otters")
        assert await storage.trust.expire_waiting(before=START_MS) == 0
        assert await storage.trust.expire_waiting(before=START_MS + 1) == 1
        assert await storage.trust.expire_waiting(before=START_MS + 1) == 0
        with pytest.raises(NotFound):
            await storage.entries.delete(old.id)
        assert await listed(storage, waiting=True) == [young.id]
        await settle(storage)
        assert await found_by_words(storage, "otters") == [kept.id]
        await assert_sound(storage)

    async def test_it_can_be_forgotten(self, storage: Storage) -> None:
        saved = await capture(storage)
        await storage.entries.delete(saved.id)
        assert await listed(storage, waiting=True) == []
        assert (await storage.trust.captures())["default", "claude-code"] == Captures("review")
        assert not await storage.trust.keep(saved.id)
        await assert_sound(storage)

    async def test_an_import_waits_unless_the_entry_is_kept_already(self, storage: Storage) -> None:
        text = replace(keyless("otters like fish"), origin="import")
        kept = await save(storage, keyless("whales sing"))
        other = "0190a1b2-0000-7000-8000-000000000001"
        for entry_id, is_new in ((other, True), (kept.id, False)):
            options = ImportOptions(entry_id, START_MS, START_MS + 9, waits=True)
            planned = await storage.entries.import_entry(text, options._replace(dry_run=True), embed=True)
            saved = await storage.entries.import_entry(text, options, embed=True)
            assert (planned.quarantined, saved.quarantined) == (is_new, is_new)
        assert await listed(storage, waiting=True) == [other]
        assert await found_by_words(storage, "whales") == [kept.id]
        assert await found_by_words(storage, "otters") == []

    async def test_a_superseding_capture_hides_nothing_while_it_waits(self, storage: Storage) -> None:
        old = await save(storage, keyless("whales sing"))
        new = await capture(storage, "whales shout", attributes={"supersedes": [old.id]})
        assert await found_by_words(storage, "whales") == [old.id]
        await storage.trust.keep(new.id)
        await settle(storage)
        assert await found_by_words(storage, "whales") == [new.id]
