"""What a save supersedes or resolves leaves the answers, and what says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import AgentctxError, NotFound, SupersessionRefused
from agentctx.storage.audit import AuditQuery
from agentctx.wire import (
    ContextRequest,
    EditRequest,
    ExplainRequest,
    ImportEntry,
    ImportRequest,
    SaveRequest,
    SaveResult,
    SearchRequest,
)
from agentctx_testing.drafts import ManualClock
from tests.running_core import ME, embedded, running_core, save


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    settings: dict[str, Any] = {"injection": {"eagerness": "eager"}}
    async with running_core(tmp_path, FakeProvider(dimension=64), clock=ManualClock(), **settings) as running:
        yield running


@pytest.fixture
async def replaced(core: Core) -> tuple[SaveResult, SaveResult]:
    """An entry, and the one that superseded it after it was injected."""
    old = await save(core, key="old", content="deploys happen on tuesday")
    await embedded(core)
    await inject(core)
    new = await save(core, key="new", content="deploys happen on thursday", supersedes=["old"])
    await embedded(core)
    return old, new


async def inject(core: Core, **fields: Any) -> list[str]:
    request = ContextRequest(query="when do deploys happen", **{"position": "tail", **fields})
    return [hit.id for hit in (await core.questions.context(request, ME)).results]


async def refusal(core: Core, **fields: Any) -> AgentctxError:
    request = SaveRequest(collection="knowledge", key="x", content="x", **fields)
    (outcome,) = await core.entries.save([request], ME)
    assert isinstance(outcome, AgentctxError)
    return outcome


async def test_it_is_in_no_answer_and_no_injection_unless_asked_for(
    core: Core, replaced: tuple[SaveResult, SaveResult]
) -> None:
    old, new = replaced
    question: dict[str, Any] = {"query": "deploys happen on tuesday"}
    assert [hit.id for hit in (await core.questions.search(SearchRequest(**question), ME)).results] == [
        new.id
    ]
    for position in ("tail", "system"):
        assert await inject(core, position=position) == [new.id]
    reply = await core.questions.search(SearchRequest(**question, include_superseded=True), ME)
    assert {hit.id: (hit.superseded, hit.superseded_by) for hit in reply.results} == {
        old.id: ("superseded", [new.id]),
        new.id: (None, []),
    }
    assert set(await inject(core, include_superseded=True)) == {old.id, new.id}


async def test_lists_leave_it_out_but_its_key_finds_it(
    core: Core, replaced: tuple[SaveResult, SaveResult]
) -> None:
    old, new = replaced
    listed = await core.entries.list_entries(ME)
    assert [each.id for each in listed.entries] == [new.id]
    everything = await core.entries.list_entries(ME, include_superseded=True)
    assert [each.superseded_by for each in everything.entries] == [[], [new.id]]
    (named,) = (await core.entries.list_entries(ME, key="old")).entries
    assert (named.id, named.superseded) == (old.id, "superseded")
    (version,) = (await core.entries.versions(old.id, ME)).versions
    assert version.superseded_by == [new.id]
    assert (await core.entries.get(new.id, ME)).attributes["supersedes"] == [old.id]


async def test_explanations_and_receipts_name_what_is_in_its_place(
    core: Core, replaced: tuple[SaveResult, SaveResult]
) -> None:
    old, new = replaced
    asked = await save(core, key="question", content="who deploys on tuesday?")
    answer = await save(core, key="answer", content="ana", resolves=["question"])
    for entry, verb, by in ((old, "supersedes", new), (asked, "resolves", answer)):
        reply = await core.injections.explain(ExplainRequest(entry=entry.id, query="deploys on tuesday"), ME)
        assert reply.verdict == "superseded"
        assert reply.message.startswith(f"entry {by.id} {verb} it")
    asking = ExplainRequest(entry=old.id, query="deploys on tuesday", include_superseded=True)
    assert (await core.injections.explain(asking, ME)).verdict == "injected"
    last = (await core.injections.injections(ME)).injections[-1]
    (candidate,) = (await core.injections.injection(last.id, ME)).candidates
    assert (candidate.entry, candidate.fate, candidate.superseded_by) == (old.id, "injected", [new.id])


async def test_a_save_over_it_says_that_no_answer_has_it(
    core: Core, replaced: tuple[SaveResult, SaveResult]
) -> None:
    old, new = replaced
    again = await save(core, key="old", content="deploys happen on monday")
    assert (again.id, again.superseded_by) == (old.id, [new.id])
    assert new.superseded_by == []


async def test_an_edit_adds_and_takes_out(core: Core, replaced: tuple[SaveResult, SaveResult]) -> None:
    old, new = replaced
    await core.entries.edit(new.id, EditRequest(clear=["supersedes"]), ME)
    assert (await core.entries.get(old.id, ME)).superseded_by == []
    await core.entries.edit(new.id, EditRequest(resolves=["old"]), ME)
    assert (await core.entries.get(old.id, ME)).superseded == "resolved"


async def test_a_learning_that_recurs_keeps_what_it_supersedes(core: Core) -> None:
    old = await save(core, key="old", content="psql needs a password")
    learning = {"collection": "learning", "trigger": "psql", "diagnosis": "peer"}
    new = await save(core, **learning, supersedes=["old"])
    assert (await save(core, **learning)).id == new.id
    assert (await core.entries.get(old.id, ME)).superseded_by == [new.id]


async def test_refusals_save_nothing(core: Core, replaced: tuple[SaveResult, SaveResult]) -> None:
    there = await save(core, key="there", content="x", namespace="other")
    assert isinstance(await refusal(core, supersedes=["new", "nothing"]), NotFound)
    assert isinstance(await refusal(core, supersedes=[there.id]), NotFound)
    assert isinstance(await refusal(core, supersedes=["new"], origin="document"), SupersessionRefused)
    assert (await core.entries.list_entries(ME, key="x")).entries == []
    assert (await core.entries.get(replaced[1].id, ME)).superseded_by == []


async def test_an_imported_page_hides_nothing_and_an_imported_memory_its_own(
    core: Core, replaced: tuple[SaveResult, SaveResult]
) -> None:
    old, new = replaced
    exported = (await core.transfer.export(ME)).entries
    assert {each.entry.id for each in exported} == {old.id, new.id}
    page = ImportEntry(
        id="01900000-0000-7000-8000-000000000001",
        namespace="default",
        collection="knowledge",
        key="page",
        content="deploys never happen",
        attributes={"supersedes": [new.id, "old", "01900000-0000-7000-8000-000000000001"]},
        created="2026-01-01T00:00:00Z",
        updated="2026-01-01T00:00:00Z",
    )
    (saved,) = await core.transfer.import_entries(ImportRequest(entries=[page]), ME)
    assert isinstance(saved, SaveResult)
    assert (await core.entries.get(new.id, ME)).superseded_by == []
    assert (await core.entries.get(saved.id, ME)).attributes["supersedes"] == [new.id]


async def test_the_audit_trail_names_the_ids(core: Core, replaced: tuple[SaveResult, SaveResult]) -> None:
    old, new = replaced
    (row,) = await core.storage.audit.page(AuditQuery(limit=9, kind="save", subject=new.id))
    assert json.loads(row.detail)["supersedes"] == [old.id]
