"""Entries whose file cannot be seen stay in the answers; withdrawn ones return with their file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pytest

from agentctx.storage.base import Storage
from agentctx.storage.records import Change
from agentctx.storage.trust import RecordedState, Source, UndoneRevocation
from agentctx.wire import FileMark
from agentctx_testing.drafts import (
    ALL,
    START_MS,
    ManualClock,
    assert_sound,
    draft,
    embed,
    found_by_words,
    save,
    serving_space,
    vector,
)

FILE = {"category": "fact", "tags": ["ops"], "source": "/d/a.md", "file": {"digest": "0" * 64, "places": []}}
SETTLED = pytest.mark.parametrize("is_settled", [False, True])
State: TypeAlias = Literal["present", "stale", "withdrawn"]
DAY_MS = 86_400_000
LISTED = replace(ALL, with_quarantined=True)


class _Files:
    """A memory with one entry of a file, and one of no file."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.id = self.other = ""
        self.space = 0

    async def fill(self) -> None:
        self.space = (await serving_space(self.storage)).id
        saved = await self.say("otters like fish")
        self.id = saved.id
        await embed(self.storage, saved, vector(1))
        self.other = (await save(self.storage, draft("otters of no file", key="other"))).id

    async def say(self, text: str, **changes: Any) -> Any:
        return await save(self.storage, draft(text, key="/d/a.md", attributes=FILE, **changes))

    async def mark(
        self, state: Literal["present", "stale", "withdrawn"], reason: str = "gone", *, settle: bool = True
    ) -> int:
        marked = await self.storage.trust.mark_files(
            "default", [FileMark(entries=[self.id, self.other], state=state, reason=reason)]
        )
        if settle:
            await self.settle()
        return marked

    async def settle(self) -> None:
        while (await self.storage.trust.settle(embed=True)).rows:
            pass

    async def is_found(self) -> bool:
        hits = await self.storage.search.by_vector(self.space, vector(1), ALL, 10)
        near = self.id in [hit.entry for hit in hits]
        by_words = self.id in await found_by_words(self.storage, "otters")
        listed = self.id in [each.id for each in (await self.storage.entries.list_entries(ALL, limit=9))[0]]
        assert by_words == listed
        assert by_words or not near
        return by_words

    async def listed(self, **changes: Any) -> list[str]:
        entries, _ = await self.storage.entries.list_entries(replace(LISTED, **changes), limit=9)
        return sorted(each.id for each in entries)

    async def state(self) -> RecordedState | None:
        known = await self.storage.trust.provenance([self.id])
        return known[self.id].file_state if self.id in known else None


class FileStatesConformance:
    @pytest.fixture
    async def files(self, storage: Storage, clock: ManualClock) -> _Files:
        made = _Files(storage)
        await made.fill()
        return made

    @SETTLED
    async def test_a_withdrawn_entry_is_in_no_answer_and_keeps_everything(
        self, files: _Files, is_settled: bool
    ) -> None:
        assert await files.mark("withdrawn", settle=is_settled) == 1, "the entry of no file is passed over"
        assert not await files.is_found()
        assert await files.state() == RecordedState("withdrawn", "gone", START_MS)
        assert await files.listed() == [files.other]
        assert await files.listed(with_withdrawn=True) == sorted([files.id, files.other])
        assert await files.listed(with_withdrawn=True, only_marked=True) == [files.id]
        entry = await files.storage.entries.get(files.id)
        assert entry is not None
        assert (entry.content, entry.version, entry.attributes["tags"]) == ("otters like fish", 1, ["ops"])
        assert await files.storage.trust.quarantined() == 0
        await assert_sound(files.storage)

    @SETTLED
    async def test_it_returns_as_it_was(self, files: _Files, is_settled: bool) -> None:
        await files.mark("withdrawn", settle=is_settled)
        await files.mark("present")
        assert await files.is_found()
        assert await files.state() is None
        await assert_sound(files.storage)

    async def test_it_returns_with_another_text_as_its_next_version(self, files: _Files) -> None:
        await files.mark("withdrawn")
        saved = await files.say("otters like crabs")
        assert (saved.id, saved.version, saved.change) == (files.id, 2, Change.VERSION)
        assert saved.quarantined
        await files.mark("present")
        assert await files.is_found()
        assert files.id in await found_by_words(files.storage, "crabs")
        await assert_sound(files.storage)

    async def test_a_stale_entry_stays_in_the_answers_and_is_marked(
        self, files: _Files, clock: ManualClock
    ) -> None:
        await files.mark("withdrawn")
        clock.now += 5
        await files.mark("stale", "permission denied")
        clock.now += 5
        await files.mark("stale", "its disk is not mounted")
        assert await files.is_found()
        assert await files.state() == RecordedState("stale", "its disk is not mounted", START_MS + 5)
        hits = (await files.storage.search.by_words("otters", ALL, 9)).hits
        chunks = await files.storage.search.resolve([hit.chunk for hit in hits], ALL)
        stale = {chunk.entry.id: chunk.stale for chunk in chunks.values()}
        assert stale == {files.id: "its disk is not mounted", files.other: None}

    @SETTLED
    async def test_a_revoked_entry_stays_revoked_when_its_file_returns(
        self, files: _Files, is_settled: bool
    ) -> None:
        revoked = await files.storage.trust.revoke(Source(path="/d/a.md"), principal=0, dry_run=False)
        assert revoked.revocation is not None
        await files.mark("withdrawn", settle=is_settled)
        await files.mark("present")
        assert not await files.is_found()
        await files.say("otters like crabs")
        assert not await files.is_found()
        assert (await files.storage.trust.undo_revocation(revoked.revocation)).released == 1
        await files.settle()
        assert await files.is_found()

    async def test_an_undone_revocation_or_a_release_leaves_a_withdrawn_entry_out(
        self, files: _Files
    ) -> None:
        await files.mark("withdrawn")
        source = Source(path="/d/a.md")
        revoked = await files.storage.trust.revoke(source, principal=0, dry_run=False)
        assert revoked.held_before == 0
        assert await files.storage.trust.undo_revocation(revoked.revocation or 0) == UndoneRevocation(
            0, 1, ()
        )
        await files.settle()
        assert not await files.is_found()
        assert not await files.storage.trust.release(files.id)
        await files.storage.trust.revoke(source, principal=0, dry_run=False)
        assert await files.storage.trust.release(files.id)
        await files.settle()
        assert not await files.is_found()
        known = await files.storage.trust.provenance([files.id])
        assert (known[files.id].quarantined, known[files.id].revocation) == (None, None)
        await files.mark("present")
        assert await files.is_found()

    async def test_what_is_made_of_a_withdrawn_entry_stays_in_the_answers(self, files: _Files) -> None:
        await files.mark("withdrawn")
        await save(files.storage, draft("made of otters", key="made", derived_from=(files.id,)))
        assert len(await found_by_words(files.storage, "made")) == 1

    async def test_entries_of_another_namespace_are_passed_over(self, files: _Files) -> None:
        mark = FileMark(entries=[files.id], state="withdrawn", reason="gone")
        assert await files.storage.trust.mark_files("elsewhere", [mark]) == 0
        assert await files.is_found()

    async def test_a_withdrawn_entry_is_erased_when_its_time_is_over(
        self, files: _Files, clock: ManualClock
    ) -> None:
        await files.mark("withdrawn")
        clock.now += DAY_MS
        assert await files.storage.trust.expire_withdrawn(before=START_MS) == 0
        assert await files.storage.trust.expire_withdrawn(before=START_MS + 1) == 1
        assert await files.storage.entries.get(files.id) is None
        assert await files.storage.trust.expire_withdrawn(before=clock.now) == 0
        await files.settle()
        assert await files.state() is None
        saved = await files.say("otters like fish")
        assert (saved.id != files.id, saved.quarantined) == (True, False)
        await assert_sound(files.storage)

    async def test_stale_and_revoked_entries_are_not_erased(self, files: _Files) -> None:
        await files.mark("stale")
        assert await files.storage.trust.expire_withdrawn(before=START_MS + DAY_MS) == 0
        await files.mark("withdrawn")
        await files.storage.trust.revoke(Source(path="/d"), principal=0, dry_run=False)
        assert await files.storage.trust.expire_withdrawn(before=START_MS + DAY_MS) == 0
        assert await files.storage.entries.get(files.id) is not None

    async def test_forgetting_a_withdrawn_entry_leaves_nothing_of_it(self, files: _Files) -> None:
        await files.mark("withdrawn")
        await files.storage.entries.delete(files.id)
        assert await files.storage.trust.expire_withdrawn(before=0) == 1, "its state"
        await files.settle()
        assert await files.storage.trust.provenance([files.id]) == {}
