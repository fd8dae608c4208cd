"""The daemon's service, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import (
    AgentctxError,
    IdempotencyKeyReused,
    InvalidInput,
    NotFound,
    TooLarge,
    UnknownCollection,
    VersionConflict,
)
from agentctx.wire import (
    ContextRequest,
    DrainRequest,
    EditRequest,
    ExplainRequest,
    FileRecord,
    ImportEntry,
    ImportRequest,
    Location,
    MarkFilesRequest,
    OutcomeRequest,
    RevokeRequest,
    SaveRequest,
    SaveResult,
    SearchRequest,
)
from agentctx_testing.drafts import ManualClock
from tests.running_core import ME, embedded, running_core, save

DAY_MS = 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def core(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Core]:
    declared = {"decisions": {"description": "why"}}
    async with running_core(tmp_path, None, clock=clock, collections=declared) as running:
        yield running


async def search(core: Core, query: str, **filters: Any) -> list[str]:
    reply = await core.questions.search(SearchRequest(query=query, **filters), ME)
    return [hit.content for hit in reply.results]


async def test_a_saved_entry_is_returned_in_full(core: Core) -> None:
    saved = await save(core, key="k", content="red apple", tags=["x"], session="s", agent="a", ttl="1d")
    view = await core.entries.get(saved.id, ME)
    assert (view.key, view.content, view.session, view.agent, view.live) == ("k", "red apple", "s", "a", True)
    assert view.attributes == {"category": "fact", "tags": ["x"]}
    assert view.created.endswith("Z")
    assert view.expires is not None
    assert (view.embedding, view.principal) == ("off", ME.uid)


async def test_every_entry_of_a_request_gets_its_own_result(core: Core) -> None:
    results = await core.entries.save(
        [
            SaveRequest(collection="decisions", content="good"),
            SaveRequest(collection="decisions", content=" "),
            SaveRequest(collection="gossip", content="x"),
            SaveRequest(collection="learning", trigger="t"),
        ],
        ME,
    )
    assert [type(result) for result in results] == [SaveResult, InvalidInput, UnknownCollection, SaveResult]


async def test_an_idempotency_key_covers_each_entry_of_a_request(core: Core) -> None:
    requests = [SaveRequest(collection="decisions", content=f"text {n}") for n in range(3)]
    first = await core.entries.save(requests, ME, idempotency_key="k")
    again = await core.entries.save(requests, ME, idempotency_key="k")
    assert first == again
    (other,) = await core.entries.save(
        [SaveRequest(collection="decisions", content="else")], ME, idempotency_key="k"
    )
    assert isinstance(other, IdempotencyKeyReused)


async def test_waiting_makes_a_repeated_save_no_other_request(core: Core) -> None:
    request = SaveRequest(collection="decisions", content="text")
    first = await core.entries.save([request], ME, idempotency_key="k")
    again = await core.entries.save([replace(request, wait="embedded")], ME, idempotency_key="k")
    assert first == again


async def test_an_edit_must_change_something(core: Core) -> None:
    saved = await save(core, key="k", content="one")
    with pytest.raises(InvalidInput, match="changes nothing"):
        await core.entries.edit(saved.id, EditRequest(), ME)
    edited = await core.entries.edit(saved.id, EditRequest(content="two", if_version=1), ME)
    assert (edited.version, edited.changed) == (2, True)
    page = await core.entries.versions(saved.id, ME, limit=50)
    assert [version.content for version in page.versions] == ["two", "one"]


async def test_an_edit_may_change_only_the_ttl(core: Core) -> None:
    saved = await save(core, key="k", content="one")
    await core.entries.edit(saved.id, EditRequest(ttl="1d"), ME)
    view = await core.entries.get(saved.id, ME)
    assert (view.version, view.expires is not None) == (2, True)


async def test_the_largest_namespaces_come_first_and_the_list_is_bounded(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, namespace in enumerate(["b", "a", "c", "c"]):
        await save(core, key=f"k{number}", content="x", namespace=namespace)
    monkeypatch.setattr("agentctx.service.entries.MAX_PAGE", 2)
    found = await core.entries.namespaces(ME)
    assert [(each.namespace, each.entries) for each in found.namespaces] == [("c", 2), ("a", 1)]
    assert found.more == 1


async def test_a_pattern_where_a_name_belongs_is_refused_with_a_hint(core: Core) -> None:
    name = "user-*"
    asked = ["default", name]
    times = "2026-01-01T00:00:00.000Z"
    imported = ImportEntry(
        id="01900000-0000-7000-8000-000000000007",
        namespace=name,
        collection="decisions",
        content="x",
        attributes={},
        created=times,
        updated=times,
    )
    calls: dict[str, Callable[[], Any]] = {
        "save": lambda: save(core, "decisions", content="x", namespace=name),
        "list": lambda: core.entries.list_entries(ME, namespace=name),
        "search": lambda: core.questions.search(SearchRequest(query="apple", namespaces=asked), ME),
        "context": lambda: core.questions.context(ContextRequest(query="apple", namespace=name), ME),
        "explain": lambda: core.injections.explain(
            ExplainRequest(entry="e", query="apple", namespaces=asked), ME
        ),
        "export": lambda: core.transfer.export(ME, namespace=[name]),
        "import": lambda: core.transfer.import_entries(ImportRequest(entries=[imported]), ME),
        "forget_all": lambda: core.forgetting.forget_all(name, ME),
        "mark_files": lambda: core.file_states.mark_files(MarkFilesRequest(namespace=name, marks=[]), ME),
        "revoke": lambda: core.revocations.revoke(RevokeRequest(namespace=name), ME),
    }
    problems = {}
    for operation, call in calls.items():
        try:
            reply: Any = await call()
            [refused] = reply if isinstance(reply, list) else [reply]
        except AgentctxError as error:
            refused = error
        if not (isinstance(refused, InvalidInput) and "* is for grants" in refused.hint):
            problems[operation] = refused
    assert problems == {}


async def test_a_forgotten_entry_is_not_found(core: Core) -> None:
    saved = await save(core, key="k", content="red apple")
    assert (await core.forgetting.forget(saved.id, ME)).versions == 1
    assert await search(core, "apple") == []
    with pytest.raises(NotFound):
        await core.forgetting.forget(saved.id, ME)


async def test_a_key_where_an_id_belongs_gets_a_hint(core: Core) -> None:
    await save(core, key="plan", content="red apple")
    for call in (
        core.entries.get("plan", ME),
        core.entries.get("plan", ME, version=2),
        core.forgetting.forget("plan", ME),
        core.entries.edit("plan", EditRequest(content="x"), ME),
    ):
        with pytest.raises(NotFound, match=r"'plan' does not exist") as raised:
            await call
        assert raised.value.hint.startswith("If it is a key, use get(key='plan') in Python")
    with pytest.raises(NotFound) as missing:
        await core.entries.get("01900000-0000-7000-8000-000000000007", ME)
    assert missing.value.hint == "`agentctx list` shows the ids."


async def test_an_outcome_changes_the_confidence(core: Core) -> None:
    saved = await save(core, "learning", trigger="t")
    await core.entries.outcome(saved.id, OutcomeRequest(success=True), ME)
    assert (await core.entries.get(saved.id, ME)).attributes["confidence"] == 0.6667
    knowledge = await save(core, key="k", content="x")
    with pytest.raises(NotFound):
        await core.entries.outcome(knowledge.id, OutcomeRequest(success=True), ME)


async def test_lists_are_paged_by_cursor(core: Core) -> None:
    for number in range(5):
        await save(core, key=f"k{number}", content="x")
    seen: list[str | None] = []
    cursor: str | None = None
    while True:
        page = await core.entries.list_entries(ME, collection=["knowledge"], limit=2, cursor=cursor)
        seen += [entry.key for entry in page.entries]
        cursor = page.next
        if cursor is None:
            break
    assert seen == ["k4", "k3", "k2", "k1", "k0"]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "9" * 30, "٣"])
async def test_an_invented_cursor_is_refused(core: Core, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await core.entries.list_entries(ME, limit=2, cursor=cursor)


async def test_filters_apply_to_search(core: Core, clock: ManualClock) -> None:
    await save(core, key="old", content="red old", category="rule", tags=["a", "b"], agent="ann")
    clock.now += 10 * DAY_MS
    await save(core, key="new", content="red new", tags=["a"], agent="bob")
    await save(core, "decisions", content="red decision")
    await save(core, key="far", content="red far", namespace="other")
    assert set(await search(core, "red")) == {"red old", "red new"}, "declared collections are searched, too"
    assert await search(core, "red", collections=["decisions"]) == ["red decision"]
    assert await search(core, "red", namespace="other") == ["red far"]
    assert await search(core, "red", category="rule") == ["red old"]
    assert await search(core, "red", tags=["a", "b"]) == ["red old"]
    assert await search(core, "red", agent="bob") == ["red new"]
    assert await search(core, "red", since="5d") == ["red new"]
    assert await search(core, "red", until="5d") == ["red old"]
    assert await search(core, "red", limit=1, since="2020-01-01") in (["red old"], ["red new"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": ""},
        {"query": " \n"},
        {"limit": 0},
        {"limit": 101},
        {"max_distance": -0.1},
        {"max_distance": 2.1},
        {"max_distance": float("nan")},
        {"since": "yesterday-ish"},
        {"collections": ["gossip"]},
    ],
)
async def test_an_invalid_search_is_refused(core: Core, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await core.questions.search(SearchRequest(**{"query": "red", **wrong}), ME)


async def test_a_question_over_the_limit_is_refused(core: Core) -> None:
    with pytest.raises(TooLarge):
        await core.questions.search(SearchRequest(query="x" * 20_001), ME)


async def test_a_block_stays_within_its_budget(core: Core) -> None:
    await save(core, key="k", content="red apple")
    reply = await core.questions.context(ContextRequest(query="apple", all=True), ME)
    assert reply.block.startswith("## Semantic Context (RAG)\n")
    assert len(reply.results) == 1
    small = await core.questions.context(ContextRequest(query="apple", all=True, budget_tokens=10), ME)
    assert (small.block, small.results) == ("", [])
    with pytest.raises(InvalidInput):
        await core.questions.context(ContextRequest(query="apple", budget_tokens=0), ME)


async def test_with_rag_off_there_is_no_block(tmp_path: Path) -> None:
    off = {"provider": "none", "rag": {"enabled": False}}
    async with running_core(tmp_path, None, embedding=off) as core:
        await save(core, key="k", content="red apple")
        reply = await core.questions.context(ContextRequest(query="apple"), ME)
    assert (reply.block, reply.tokens) == ("", 0)
    assert reply.degraded is not None


async def test_status_reports_the_daemons_state(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        await save(core, key="k", content="red apple")
        await embedded(core)
        status = await core.status.status(ME)
        assert (status.entries, status.chunks, status.vectors) == ({"knowledge": 1}, 1, 1)
        assert (status.provider.id, status.provider.state) == ("fake", "ok")
        assert (status.queue.pending, status.queue.buried) == (0, 0)
        assert status.rss_bytes > 1_000_000
        assert status.database.commits >= 2


async def test_the_age_of_the_queue_is_the_age_of_its_oldest_job(tmp_path: Path, clock: ManualClock) -> None:
    provider = FakeProvider()
    provider.hold()
    async with running_core(tmp_path, provider, clock=clock) as core:
        await save(core, key="k", content="red apple")
        clock.now += 2_500
        queue = await core.status.queue(ME)
        assert (queue.pending, queue.oldest_seconds) == (1, 2.5)
        provider.release()


DIGEST = "0" * 64


CUES = ["Can I ship before the weekend?", "writing a rollout plan"]


async def test_cues_find_an_entry_but_are_never_shown(core: Core) -> None:
    text = "Deploys happen on Tuesdays."
    saved = await save(core, key="k", content=text, cues=[*CUES, CUES[0]])
    assert (await core.entries.get(saved.id, ME)).attributes["cues"] == CUES
    reply = await core.questions.search(SearchRequest(query="ship at the weekend"), ME)
    assert [hit.content for hit in reply.results] == [text]
    block = await core.questions.context(
        ContextRequest(query="ship at the weekend, or a rollout plan?", position="tail"), ME
    )
    assert text in block.block
    for shown in (repr(reply), repr(block)):
        assert "before the weekend" not in shown
        assert "writing a" not in shown


async def test_an_edit_changes_or_clears_cues(core: Core) -> None:
    saved = await save(core, key="k", content="Deploys happen on Tuesdays.", cues=CUES)
    await core.entries.edit(saved.id, EditRequest(cues=["asking about zebras"]), ME)
    assert (await search(core, "weekend"), len(await search(core, "zebras"))) == ([], 1)
    edited = await core.entries.edit(saved.id, EditRequest(content="Deploys happen on Fridays."), ME)
    assert await search(core, "zebras") == ["Deploys happen on Fridays."]
    cleared = await core.entries.edit(saved.id, EditRequest(clear=["cues"]), ME)
    assert (edited.version, cleared.version) == (3, 4)
    assert await search(core, "zebras") == []
    page = await core.entries.versions(saved.id, ME, limit=9)
    assert [version.attributes.get("cues") for version in page.versions] == [
        None,
        ["asking about zebras"],
        ["asking about zebras"],
        CUES,
    ]


async def test_a_repeated_learning_keeps_its_cues(core: Core) -> None:
    learnt = {"trigger": "pip install", "error_pattern": "no space left", "fix": "clear the cache"}
    await save(core, "learning", **learnt, cues=CUES)
    again = await save(core, "learning", **learnt)
    assert (await core.entries.get(again.id, ME)).attributes["cues"] == CUES


async def test_cues_survive_an_export_and_import(core: Core, tmp_path: Path) -> None:
    saved = await save(core, key="k", content="Deploys happen on Tuesdays.", cues=CUES)
    (exported,) = (await core.transfer.export(ME)).entries
    assert exported.chunks == [[0, 27]], "chunks are pieces of the content, without cues"
    entry = exported.entry
    line = ImportEntry(**{each.name: getattr(entry, each.name) for each in fields(ImportEntry)})
    async with running_core(tmp_path / "other", None) as other:
        await other.transfer.import_entries(ImportRequest(entries=[line]), ME)
        assert (await other.entries.get(saved.id, ME)).attributes["cues"] == CUES
        assert await search(other, "weekend") == ["Deploys happen on Tuesdays."]


def file_record(**changes: Any) -> FileRecord:
    return replace(FileRecord(digest=DIGEST, size=3, modified=1, places=[[0, 1]]), **changes)


async def test_a_hit_in_a_file_has_its_lines_and_headings(core: Core) -> None:
    text = "# Title\n\nIntroduction.\n\nThe falcon nests on the tower."
    await save(core, key="/d/a.md", content=text, source="/d/a.md", file=file_record())
    reply = await core.questions.search(SearchRequest(query="falcon"), ME)
    assert reply.results[0].location == Location(path="/d/a.md", unit="line", first=1, last=5)
    assert reply.results[0].headings == ["Title"]
    assert "file" not in reply.results[0].attributes


async def test_editing_the_content_drops_the_file_record(core: Core) -> None:
    saved = await save(core, key="/d/a.md", content="The falcon.", source="/d/a.md", file=file_record())
    await core.entries.edit(saved.id, EditRequest(tags=["x"]), ME)
    assert (await core.entries.get(saved.id, ME)).attributes["file"]["digest"] == DIGEST
    await core.entries.edit(saved.id, EditRequest(content="Another falcon."), ME)
    assert "file" not in (await core.entries.get(saved.id, ME)).attributes


@pytest.mark.parametrize(
    "wrong",
    [{"digest": "x"}, {"places": []}, {"places": [[0, 1, 2]]}, {"places": [[5, 1], [5, 2]]}, {"part": 0}],
)
async def test_an_invalid_file_record_is_refused(core: Core, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="file"):
        await save(core, key="/d/a.md", content="x", source="/d/a.md", file=file_record(**wrong))


async def test_a_list_can_be_limited_to_a_key_prefix_and_omit_texts(core: Core) -> None:
    for key in ("/a/1", "/a/2", "/a", "/b/1", "/a%/1"):
        await save(core, key=key, content="x")
    page = await core.entries.list_entries(ME, key_prefix="/a/", content=False)
    assert [(entry.key, entry.content) for entry in page.entries] == [("/a/2", ""), ("/a/1", "")]


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        ({"key": "old"}, ["old"]),
        ({"key": "ol"}, []),
        ({"agent": "bob"}, ["new"]),
        ({"category": "rule"}, ["old"]),
        ({"tag": ["a", "b"]}, ["old"]),
        ({"tag": ["a"]}, ["new", "old"]),
        ({"since": "7d"}, ["new"]),
        ({"until": "7d"}, ["old"]),
    ],
)
async def test_a_list_can_be_filtered(
    core: Core, clock: ManualClock, narrowed: dict[str, Any], found: list[str]
) -> None:
    await save(core, key="old", content="x", category="rule", tags=["a", "b"], agent="ann")
    clock.now += 10 * DAY_MS
    await save(core, key="new", content="x", tags=["a"], agent="bob")
    page = await core.entries.list_entries(ME, **narrowed)
    assert [entry.key for entry in page.entries] == found


async def test_a_drain_returns_when_no_job_is_pending(core: Core) -> None:
    await save(core, key="a", content="x")
    reply = await core.status.drain(DrainRequest(timeout_s=10), ME)
    assert (reply.pending, reply.buried) == (0, 0)


async def test_a_drain_times_out_when_the_model_does_not_respond(tmp_path: Path) -> None:
    provider = FakeProvider(8)
    provider.hold()
    async with running_core(tmp_path / "held", provider) as core:
        await save(core, key="a", content="x")
        reply = await core.status.drain(DrainRequest(timeout_s=0.05), ME)
        assert reply.pending == 1
        provider.release()


@pytest.mark.parametrize("seconds", [0.0, -1.0, 61.0, float("nan")])
async def test_a_drain_timeout_has_bounds(core: Core, seconds: float) -> None:
    with pytest.raises(InvalidInput, match="timeout_s"):
        await core.status.drain(DrainRequest(timeout_s=seconds), ME)


CHANGES: list[tuple[str, dict[str, Any], Callable[[int], dict[str, Any]]]] = [
    ("knowledge", {"key": "k", "content": "one"}, lambda n: {"content": f"text {n}"}),
    ("knowledge", {"key": "k", "content": "one"}, lambda n: {"tags": ["base", f"t{n}"]}),
    ("knowledge", {"key": "k", "content": "one"}, lambda n: {"category": ("rule", "pattern")[n % 2]}),
    ("knowledge", {"key": "k", "content": "one"}, lambda n: {"source": f"file {n}"}),
    ("knowledge", {"key": "k", "content": "one"}, lambda n: {"cues": [f"cue {n}"]}),
    ("knowledge", {"key": "k", "content": "one"}, lambda n: {"ttl": f"{n + 1}d"}),
    (
        "knowledge",
        {"key": "k", "content": "one", "ttl": "90d"},
        lambda n: {"clear": ["ttl"], "tags": [f"{n}"]},
    ),
    ("observation", {"session": "s", "content": "one"}, lambda n: {"tags": [f"t{n}"]}),
    ("decisions", {"key": "k", "content": "one"}, lambda n: {"tags": [f"t{n}"]}),
    ("learning", {"trigger": "t", "fix": "f"}, lambda n: {"category": ("timeout", "permission")[n % 2]}),
    ("learning", {"trigger": "t", "fix": "f"}, lambda n: {"fix": f"fix {n}"}),
]
EDITORS = 50


async def test_of_fifty_editors_of_one_version_one_is_answered_and_the_others_are_refused(core: Core) -> None:
    wrong = []
    for number, (collection, fields_of, change) in enumerate(CHANGES):
        saved = await save(core, collection, namespace=f"n{number}", **fields_of)
        edits = [EditRequest(**change(each), if_version=1) for each in range(EDITORS)]
        answers = await asyncio.gather(
            *(core.entries.edit(saved.id, edit, ME) for edit in edits), return_exceptions=True
        )
        stale = sum(isinstance(answer, VersionConflict) for answer in answers)
        view = await core.entries.get(saved.id, ME)
        history = [each.version for each in (await core.entries.versions(saved.id, ME, limit=9)).versions]
        if (stale, view.version, history) != (EDITORS - 1, 2, [2, 1]):
            wrong.append((collection, change(1), stale, history))
    assert wrong == []


async def test_a_save_or_a_forget_of_an_older_version_is_refused(core: Core) -> None:
    saved = await save(core, key="k", content="one")
    await core.entries.edit(saved.id, EditRequest(tags=["legal hold"]), ME)
    with pytest.raises(VersionConflict):
        await core.forgetting.forget(saved.id, ME, if_version=1)
    saves = [
        SaveRequest(collection="knowledge", key="k", content="one", tags=[f"t{n}"], if_version=2)
        for n in range(EDITORS)
    ]
    answers = await core.entries.save(saves, ME)
    assert sum(isinstance(answer, VersionConflict) for answer in answers) == EDITORS - 1


async def test_counts_and_recurrences_move_no_version(core: Core) -> None:
    for tags in (["a"], ["b"]):
        learned = await save(core, "learning", trigger="t", fix="f", tags=tags)
    await core.entries.outcome(learned.id, OutcomeRequest(success=True), ME)
    view = await core.entries.get(learned.id, ME)
    assert (view.version, view.attributes["tags"], view.attributes["successes"]) == (1, ["a", "b"], 1)
    assert view.updated == view.created
