"""An import restores what another memory exported, whatever the clocks of the two machines did."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.cli.export_format import entry_line, read_entry
from agentctx.daemon.build import Core
from agentctx.errors import Expired, InvalidInput
from agentctx.service.transfer import imported_entry
from agentctx.times import format_time
from agentctx.wire import (
    EditRequest,
    ImportEntry,
    ImportRequest,
    OutcomeRequest,
    RevokeRequest,
    SaveResult,
    SearchRequest,
)
from agentctx_testing.drafts import START_MS, ManualClock
from tests.amount import examples
from tests.moving import differences, exported, imported
from tests.running_core import ME, running_core, save

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
JUMPS = st.sampled_from([0, 1, -1, 90_000, -90_000, HOUR_MS, -HOUR_MS, YEAR_MS, -YEAR_MS]) | st.integers(
    -60 * YEAR_MS, 60 * YEAR_MS
)
TEXTS = st.sampled_from(["The tea is green.", "The tea is black.", "There is coffee."])
TTLS = st.sampled_from([None, "1m", "2h", "999999999w"])
KEYS = st.sampled_from(["tea", "coffee", "cake"])
PICKS = st.integers(0, 20)
STEPS = st.one_of(
    st.tuples(st.just("clock"), JUMPS),
    st.tuples(st.just("fact"), KEYS, TEXTS, TTLS),
    st.tuples(st.just("note"), TEXTS, TTLS),
    st.tuples(st.just("learning"), KEYS, TTLS),
    st.tuples(st.just("edit"), PICKS, TEXTS, TTLS),
    st.tuples(st.just("tags"), PICKS, KEYS),
    st.tuples(st.just("outcome"), PICKS, st.booleans()),
    st.tuples(st.just("forget"), PICKS),
    st.tuples(st.just("sweep")),
)


@pytest.mark.parametrize("character", ["0", "f"])
def test_reserved_ids_are_refused(character: str) -> None:
    entry = ImportEntry(
        id="-".join(character * length for length in (8, 4, 4, 4, 12)),
        namespace="default",
        collection="knowledge",
        content="Tea",
        attributes={},
        created="2026-11-21T00:00:00Z",
        updated="2026-11-21T00:00:00Z",
    )
    with pytest.raises(InvalidInput, match="Invalid entry id"):
        imported_entry(entry, entry, now=START_MS)


async def apply(core: Core, clock: ManualClock, step: tuple[Any, ...]) -> None:
    match step:
        case ("clock", jump):
            clock.now += jump
        case ("fact", key, content, ttl):
            await save(core, key=key, content=content, ttl=ttl)
        case ("note", content, ttl):
            await save(core, "observation", session="s", agent="a", content=content, ttl=ttl)
        case ("learning", trigger, ttl):
            await save(core, "learning", trigger=trigger, error_pattern="It is cold.", ttl=ttl)
        case ("sweep",):
            await core.storage.entries.sweep()
        case (what, pick, *change):
            if entries := await exported(core):
                await _change(core, entries[pick % len(entries)].entry.id, what, *change)


async def _change(core: Core, entry_id: str, what: str, *change: Any) -> None:
    entry = await core.entries.get(entry_id, ME)
    match what, change:
        case ("edit", (content, ttl)) if entry.collection == "learning":
            await core.entries.edit(entry_id, EditRequest(fix=content, ttl=ttl), ME)
        case ("edit", (content, ttl)):
            await core.entries.edit(entry_id, EditRequest(content=content, ttl=ttl), ME)
        case ("tags", (tag,)):
            await core.entries.edit(entry_id, EditRequest(tags=[tag]), ME)
        case ("outcome", (success,)) if entry.collection == "learning":
            await core.entries.outcome(entry_id, OutcomeRequest(success=success), ME)
        case ("forget", ()):
            await core.forgetting.forget(entry_id, ME)


async def assert_round_trip(folder: Path, steps: list[tuple[Any, ...]], skew: int) -> None:
    clock = ManualClock()
    async with running_core(folder / "here", None, clock=clock) as source:
        for step in steps:
            await apply(source, clock, step)
        assert await differences(source, folder / "there", now=clock.now + skew) == []


@given(st.lists(STEPS, max_size=12), JUMPS)
@settings(max_examples=examples(60))
def test_an_export_can_be_imported_whatever_the_clocks_do(steps: list[Any], skew: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(assert_round_trip(Path(folder), steps, skew))


async def test_two_versions_of_the_same_millisecond_stay_separate(tmp_path: Path) -> None:
    await assert_round_trip(tmp_path, [("fact", "tea", "one", None), ("fact", "tea", "two", None)], 0)


async def test_an_edited_learning_and_the_one_that_got_its_key_stay_apart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_core(tmp_path / "here", None, clock=clock) as core:
        first = await save(core, "learning", trigger="t", error_pattern="HTTP 404")
        await core.entries.edit(first.id, EditRequest(error_pattern="HTTP 500"), ME)
        second = await save(core, "learning", trigger="t", error_pattern="HTTP 404")
        assert second.id != first.id
        assert await differences(core, tmp_path / "there", now=clock.now) == []


async def test_a_learning_that_was_edited_since_its_export_is_not_changed_back(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_core(tmp_path / "here", None, clock=clock) as core:
        first = await save(core, "learning", trigger="t", error_pattern="HTTP 404")
        lines = await exported(core)
        clock.now += 1_000
        await core.entries.edit(first.id, EditRequest(error_pattern="HTTP 500"), ME)
        assert [each.changed for each in await imported(core, lines)] == [False]
        assert (await core.entries.get(first.id, ME)).attributes["error_pattern"] == "HTTP 500"


async def test_an_exported_learning_with_too_many_tags_keeps_the_newest(tmp_path: Path) -> None:
    tags = [f"run-{number}" for number in range(40)]
    for given_tags, kept in ((tags, tags[-32:]), ("run", None), ([{}], None), (5, None)):
        line = import_line(collection="learning", attributes={"trigger": "t", "tags": given_tags})
        async with running_core(tmp_path / str(kept)[:6], None, clock=ManualClock()) as core:
            (result,) = await core.transfer.import_entries(ImportRequest(entries=[line]), ME)
            assert isinstance(result, SaveResult if kept else InvalidInput)
            assert [each.entry.attributes["tags"] for each in await exported(core)] == (
                [kept] if kept else []
            )


async def test_an_expired_entry_is_not_imported_with_its_history(tmp_path: Path) -> None:
    steps = [("fact", "tea", "one", None), ("fact", "tea", "two", "1m")]
    here, there = ManualClock(), ManualClock(START_MS + HOUR_MS)
    async with running_core(tmp_path / "here", None, clock=here) as source:
        for step in steps:
            await apply(source, here, step)
        lines = await exported(source)
    async with running_core(tmp_path / "there", None, clock=there) as target:
        assert await imported(target, lines) == []
        assert await exported(target) == []


async def test_quarantine_travels(tmp_path: Path) -> None:
    async with running_core(tmp_path / "here", None) as source:
        await save(source, key="good", content="The tea is green.")
        await save(source, key="bad", content="The tea is a poison.", agent="bad")
        await save(source, key="bad", content="The tea is a good poison.", agent="bad")
        before = await exported(source)
        await source.revocations.revoke(RevokeRequest(agent="bad"), ME)
        lines = await exported(source)
    for already in ([], before):  # also when the text came there before it was revoked
        async with running_core(tmp_path / f"there{len(already)}", None) as target:
            await imported(target, already)
            versions = [version for line in map(entry_line, lines) for version in read_entry(line)]
            for dry_run in (True, False):
                request = ImportRequest(entries=versions, trust="agent", dry_run=dry_run)
                results = await target.transfer.import_entries(request, ME)
                held = [isinstance(each, SaveResult) and each.quarantined for each in results]
                assert (held[0], held[-1]) == (False, True), "the last version of each"
            found = (await target.questions.search(SearchRequest(query="tea"), ME)).results
            assert [each.source_id for each in found] == ["good"]
            await target.release_worker.settle()
            assert (await target.storage.upkeep.census()).violations == 0


def import_line(**changes: Any) -> ImportEntry:
    given_line: dict[str, Any] = {
        "id": "01a201d0-1506-73cf-bf84-000000000001",
        "namespace": "default",
        "collection": "knowledge",
        "content": "x",
        "attributes": {},
        "created": format_time(START_MS),
        "updated": format_time(START_MS),
    }
    return ImportEntry(**given_line | changes)


def test_an_import_keeps_times_of_any_clock() -> None:
    ahead = import_line(updated=format_time(START_MS + YEAR_MS), created="1901-01-01T00:00:00.000Z")
    entry = imported_entry(ahead, ahead, now=START_MS)
    assert format_time(entry.created) == "1901-01-01T00:00:00.000Z"
    assert entry.updated == START_MS + YEAR_MS


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"updated": format_time(START_MS - 1)}, InvalidInput),
        ({"created": "yesterday"}, InvalidInput),
        ({"id": "../x"}, InvalidInput),
        ({"expires": format_time(START_MS)}, Expired),
    ],
)
def test_an_invalid_line_is_refused(changes: dict[str, str], error: type[Exception]) -> None:
    given_line = import_line(**changes)
    with pytest.raises(error):
        imported_entry(given_line, given_line, now=START_MS)
