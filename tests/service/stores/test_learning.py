"""LearningStore."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import KeyTaken, NotFound
from agentctx.service.stores.base import SaveContext
from agentctx.service.stores.learning import confidence
from agentctx.service.stores.typed import LearningStore
from agentctx.storage.chunk_texts import MAX_CUES
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import ManualClock
from tests.service.stores.conftest import EmbedCalls

ERROR = "FileNotFoundError: /home/ann/build-17/out.txt at 2026-11-21T08:00:00Z"
SAME_ERROR = "FileNotFoundError: /srv/bob/build-42/out.txt at 2026-11-22T09:30:11Z"


@pytest.fixture
def store(storage: SqliteStorage, embed_calls: EmbedCalls, clock: ManualClock) -> LearningStore:
    return LearningStore(storage, embed_calls, clock=clock)


async def test_all_fields_are_searchable_and_embedded(store: LearningStore, embed_calls: EmbedCalls) -> None:
    saved = await store.save(
        "tool:bash", error_pattern="exit 127", diagnosis="no such command", fix="install it", tags=["shell"]
    )
    entry = await store.get(saved.id)
    assert entry.content == "tool:bash\nError: exit 127\nDiagnosis: no such command\nFix: install it"
    assert embed_calls.texts == [f"shell\n{entry.content}"]
    assert entry.attributes == {
        "trigger": "tool:bash",
        "error_pattern": "exit 127",
        "diagnosis": "no such command",
        "fix": "install it",
        "category": "general",
        "tags": ["shell"],
        "occurrences": 1,
        "successes": 0,
        "failures": 0,
        "confidence": 0.5,
    }


async def test_a_repeated_error_of_the_same_tool_updates_one_entry(
    store: LearningStore, embed_calls: EmbedCalls
) -> None:
    first = await store.save("tool:make", error_pattern=ERROR, fix="run make prepare", tags=["a"])
    again = await store.save("tool:make", error_pattern=SAME_ERROR, diagnosis="not prepared", tags=["b"])
    assert again.id == first.id
    entry = await store.get(first.id)
    assert entry.attributes["occurrences"] == 2
    assert entry.attributes["fix"] == "run make prepare", "what was known stays"
    assert entry.attributes["diagnosis"] == "not prepared", "what is new is added"
    assert entry.attributes["tags"] == ["a", "b"]
    assert "not prepared" in embed_calls.texts[-1]


async def test_an_exact_repetition_adds_no_version_and_is_not_reembedded(
    store: LearningStore, embed_calls: EmbedCalls
) -> None:
    saved = await store.save("tool:make", error_pattern=ERROR)
    await store.save("tool:make", error_pattern=ERROR)
    entry = await store.get(saved.id)
    assert (entry.version, entry.attributes["occurrences"], len(embed_calls.jobs)) == (1, 2, 1)


async def test_other_tools_or_errors_are_separate_learnings(store: LearningStore) -> None:
    ids = {
        (await store.save("tool:make", error_pattern=ERROR)).id,
        (await store.save("tool:ninja", error_pattern=ERROR)).id,
        (await store.save("tool:make", error_pattern="PermissionError: denied")).id,
        (await store.save("tool:make", fix="read the manual")).id,
        (await store.save("tool:make", fix="ask somebody")).id,
    }
    assert len(ids) == 5


async def test_concurrent_occurrences_are_all_counted(store: LearningStore) -> None:
    saved = await asyncio.gather(*(store.save("t", error_pattern="e") for _ in range(30)))
    entry = await store.get(saved[0].id)
    assert entry.attributes["occurrences"] == 30


async def test_confidence_rises_with_successes_and_falls_with_failures(store: LearningStore) -> None:
    saved = await store.save("t", error_pattern="e", fix="f")
    seen = [0.5]
    for success in (True, True, True, False, False, False, False):
        await store.record_outcome(saved.id, success=success)
        seen.append((await store.get(saved.id)).attributes["confidence"])
    assert seen[:4] == sorted(seen[:4])
    assert seen[3:] == sorted(seen[3:], reverse=True)
    assert (seen[3], seen[-1]) == (0.8, 0.4444)
    attributes = (await store.get(saved.id)).attributes
    assert (attributes["successes"], attributes["failures"], attributes["occurrences"]) == (3, 4, 1)


async def test_outcomes_survive_the_next_occurrence(store: LearningStore) -> None:
    saved = await store.save("t", error_pattern="e")
    await store.record_outcome(saved.id, success=True)
    await store.save("t", error_pattern="e", diagnosis="d")
    attributes = (await store.get(saved.id)).attributes
    assert (attributes["successes"], attributes["confidence"], attributes["occurrences"]) == (1, 0.6667, 2)


async def test_an_edit_keeps_the_counts(store: LearningStore) -> None:
    saved = await store.save("t", error_pattern="e")
    await store.record_outcome(saved.id, success=True)
    await store.edit(saved.id, {"fix": "restart it"})
    attributes = (await store.get(saved.id)).attributes
    assert (attributes["fix"], attributes["successes"], attributes["confidence"]) == ("restart it", 1, 0.6667)


async def test_an_outcome_of_an_unknown_entry_is_an_error(store: LearningStore) -> None:
    with pytest.raises(NotFound):
        await store.record_outcome("unknown", success=True)


async def test_other_codes_and_other_fixes_are_learnings_of_their_own(store: LearningStore) -> None:
    saved = {
        (code, fix): await store.save("tool:curl", error_pattern=f"HTTP {code}, pid 17", fix=fix)
        for code in (404, 500)
        for fix in ("retry", "sign in")
    }
    assert len({each.id for each in saved.values()}) == 4
    for _ in range(30):
        await store.record_outcome(saved[404, "retry"].id, success=True)
    again = await store.save("tool:curl", error_pattern="HTTP 404, pid 99", fix="sign  in")
    assert again.id == saved[404, "sign in"].id
    tried, untried = [(await store.get(saved[404, fix].id)).attributes for fix in ("retry", "sign in")]
    assert (tried["fix"], tried["successes"], tried["occurrences"]) == ("retry", 30, 1)
    assert (untried["fix"], untried["successes"], untried["occurrences"]) == ("sign in", 0, 2)
    assert untried["error_pattern"] == "HTTP 404, pid 17"


async def test_the_first_fix_is_added_to_the_learning_without_one(store: LearningStore) -> None:
    first = await store.save("t", error_pattern="HTTP 404")
    assert (await store.save("t", error_pattern="HTTP 404", fix="f")).id == first.id
    assert (await store.save("t", error_pattern="HTTP 404")).id == first.id
    attributes = (await store.get(first.id)).attributes
    assert (attributes["fix"], attributes["occurrences"]) == ("f", 3)
    assert (await store.save("t", error_pattern="HTTP 404", fix="g")).id != first.id
    assert (await store.save("t", error_pattern="HTTP 500")).id != first.id


async def test_different_fixes_saved_at_once_are_all_kept(store: LearningStore) -> None:
    await store.save("t", error_pattern="e")
    saves = [store.save("t", error_pattern="e", fix=f"fix {number % 5}") for number in range(30)]
    ids = {each.id for each in await asyncio.gather(*saves)}
    attributes = [(await store.get(entry_id)).attributes for entry_id in ids]
    assert sorted(each["fix"] for each in attributes) == [f"fix {number}" for number in range(5)]
    assert sum(each["occurrences"] for each in attributes) in (30, 31), "one had the occurrence without a fix"


async def test_a_repetition_keeps_the_newest_tags_and_what_was_known(store: LearningStore) -> None:
    first = await store.save("t", error_pattern="e", fix="f", category="timeout", tags=["stays"])
    for number in range(40):
        await store.save(
            "t", error_pattern="e", fix="f", tags=["stays", f"run-{number}"], cues=[f"q{number}"]
        )
    attributes = (await store.get(first.id)).attributes
    assert attributes["tags"] == ["stays", *(f"run-{number}" for number in range(9, 40))]
    assert attributes["cues"] == [f"q{number}" for number in range(40 - MAX_CUES, 40)]
    assert (attributes["category"], attributes["occurrences"]) == ("timeout", 41)
    await store.edit(first.id, {"diagnosis": "d"})


async def test_an_edit_takes_the_key_along(store: LearningStore) -> None:
    first = await store.save("t", error_pattern="HTTP 404", fix="f")
    await store.edit(first.id, {"error_pattern": "HTTP 500"})
    again = await store.save("t", error_pattern="HTTP 404", fix="f")
    assert again.id != first.id
    assert (await store.save("t", error_pattern="HTTP 500", fix="f")).id == first.id
    for change in ({"error_pattern": "HTTP 404"}, {"error_pattern": "http  404"}):
        with pytest.raises(KeyTaken, match=again.id):
            await store.edit(first.id, change)
    await store.edit(first.id, {"fix": "g"})
    assert (await store.save("t", error_pattern="HTTP 500", fix="f")).id != first.id


async def test_an_external_repetition_lowers_trust(store: LearningStore) -> None:
    saved = await store.save("t", error_pattern="e")
    await store.save("t", error_pattern="e", context=SaveContext(origin="tool"))
    assert (await store.get(saved.id)).trust == "external"


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_confidence_is_monotone_and_bounded(successes: int, failures: int) -> None:
    value = confidence(successes, failures)
    assert 0 <= value <= 1
    assert confidence(successes + 1, failures) >= value
    assert confidence(successes, failures + 1) <= value
