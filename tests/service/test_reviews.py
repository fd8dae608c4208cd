"""What waits for a review, and who may decide about it."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agentctx.daemon.build import Core
from agentctx.errors import AccessDenied, AgentctxError, NotFound
from agentctx.service import reviews
from agentctx.service.base import Peer
from agentctx.service.reviews import is_in_foreground as decide
from agentctx.wire import (
    CaptureModeRequest,
    ContextRequest,
    EditRequest,
    ExplainRequest,
    ImportEntry,
    ImportRequest,
    KeepRequest,
    ReleaseReply,
    SaveRequest,
    SearchRequest,
)
from agentctx_testing.drafts import ManualClock
from tests.running_core import ME, guarded, running_core, save
from tests.service.access.peers import access_control

DAY_MS = 86_400_000
FORM: dict[str, Any] = {"way": "terminal", "version": 1}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def core(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Core]:
    async with running_core(
        tmp_path / "data", None, clock=clock, injection={"eagerness": "eager"}
    ) as running:
        yield running


async def capture(core: Core, content: str = "The whale eats krill.", **fields: Any) -> str:
    given = {"session": "s", "agent": "claude-code", "origin": "capture", "remember": "review", **fields}
    return (await save(core, "observation", content=content, **given)).id


@pytest.fixture(autouse=True)
def at_a_terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may have none."""
    if "without_terminal" not in request.fixturenames:
        monkeypatch.setattr(reviews, "is_in_foreground", lambda _: True)


async def keep(core: Core, entry: str, **fields: Any) -> ReleaseReply:
    kept = await core.reviews.keep(entry, KeepRequest(**{**FORM, **fields}), ME)
    await core.release_worker.settle()
    return kept


async def found(core: Core, query: str = "whale") -> set[str]:
    reply = await core.questions.search(SearchRequest(query=query, limit=20), ME)
    return {each.id for each in reply.results}


async def listed(core: Core, **options: Any) -> list[str]:
    return [each.id for each in (await core.entries.list_entries(ME, **options)).entries]


async def test_what_waits_is_in_no_answer_and_no_injection(core: Core) -> None:
    waiting = await capture(core)
    asked = ContextRequest(query="what does the whale eat?", position="tail")
    assert await found(core) == set()
    assert (await core.questions.context(asked, ME)).results == []
    explained = await core.injections.explain(ExplainRequest(entry=waiting, query="whale"), ME)
    assert (explained.verdict, "agentctx review" in explained.message) == ("waiting", True)
    assert (await core.entries.get(waiting, ME)).quarantined == "waiting"
    kept = await keep(core, waiting)
    assert (kept.released, kept.still_quarantined) == (1, 0)
    assert await found(core) == {waiting}


async def test_only_the_list_of_what_waits_has_it(core: Core) -> None:
    waiting = await capture(core)
    other = (await save(core, content="whales sing", key="song")).id
    assert await listed(core) == [other]
    assert await listed(core, waiting=True) == [waiting]
    (shown,) = (await core.entries.list_entries(ME, waiting=True)).entries
    assert shown.waiting == shown.created


async def test_the_count_of_what_waits_is_by_namespace_and_agent(core: Core) -> None:
    await capture(core)
    await capture(core, "two", namespace="other")
    reply = await core.reviews.review(ME, readable=lambda namespace: namespace == "other")
    (state,) = reply.captures
    assert (state.namespace, state.agent, state.mode, state.waiting) == ("other", "claude-code", "review", 1)
    assert state.oldest is not None


async def test_what_is_kept_always_ends_the_waiting_of_its_agent_and_project(core: Core) -> None:
    await keep(core, await capture(core), always=True)
    await capture(core, "Another whale.")
    await capture(core, "A foreign whale.", namespace="other")
    assert len(await found(core)) == 2
    modes = {state.namespace: state.mode for state in (await core.reviews.review(ME)).captures}
    assert modes == {"default": "always", "other": "review"}


async def set_mode(core: Core, peer: Peer = ME, **fields: Any) -> str | None:
    given = {"namespace": "default", "agent": "claude-code", "way": "terminal", "mode": "auto", **fields}
    (state,) = (await core.reviews.set_capture_mode(CaptureModeRequest(**given), peer)).captures
    return state.mode


async def test_always_is_taken_back(core: Core) -> None:
    await keep(core, await capture(core), always=True)
    assert await set_mode(core, mode="review") == "review"
    waiting = await capture(core, "Another whale.", remember="auto")
    assert await listed(core, waiting=True) == [waiting]
    assert await set_mode(core) == "auto"
    with pytest.raises(NotFound, match="captured nothing"):
        await set_mode(core, agent="codex")


async def test_a_mode_is_set_only_by_somebody_who_was_asked(core: Core, without_terminal: Peer) -> None:
    await capture(core)
    for way in ("terminal", "page", "elicitation"):
        with pytest.raises(AccessDenied, match="was asked"):
            await set_mode(core, without_terminal, way=way)
    assert await set_mode(core, replace(ME, via="page"), way="page") == "auto"


async def test_a_set_mode_is_in_the_audit_trail(core: Core) -> None:
    await capture(core)
    request = CaptureModeRequest(namespace="default", agent="claude-code", mode="auto", way="terminal")
    await guarded(core, access_control()).set_capture_mode(request=request, peer=ME)
    (event,) = (await core.audit_reader.audit(ME, kind="capture_mode")).events
    assert (event.namespace, event.detail) == (
        "default",
        {"agent": "claude-code", "mode": "auto", "way": "terminal"},
    )


async def test_an_edit_or_a_release_does_not_keep_it(core: Core) -> None:
    waiting = await capture(core)
    await core.entries.edit(waiting, EditRequest(content="The whale eats fish."), ME)
    with pytest.raises(NotFound, match="not in quarantine"):
        await core.revocations.release(waiting, ME)
    await core.release_worker.settle()
    assert await found(core) == set()
    with pytest.raises(NotFound, match="changed since"):
        await keep(core, waiting)
    await keep(core, waiting, version=2)
    assert await found(core, "fish") == {waiting}


async def test_the_same_text_saved_again_by_an_agent_does_not_approve_it(core: Core) -> None:
    entry = {"key": "song", "content": "whales sing"}
    first = await save(core, **entry, origin="capture", remember="review")
    again = await save(core, **entry)
    assert (again.id, again.changed, again.quarantined) == (first.id, True, True) or again.quarantined
    assert await found(core, "whales") == set()


async def test_what_does_not_wait_cannot_be_kept(core: Core) -> None:
    entry = await save(core, content="whales sing", key="song")
    with pytest.raises(NotFound, match="does not wait"):
        await keep(core, entry.id)


@pytest.fixture
def without_terminal() -> Iterator[Peer]:
    """A process in a session of its own."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield replace(ME, pid=process.pid)
        process.kill()


async def test_a_process_without_a_terminal_cannot_say_that_it_has_one(
    core: Core, without_terminal: Peer
) -> None:
    waiting = await capture(core)
    with pytest.raises(AccessDenied, match="was asked"):
        await core.reviews.keep(waiting, KeepRequest(way="terminal", version=1), without_terminal)
    assert await listed(core, waiting=True) == [waiting]


@pytest.mark.parametrize(
    ("stat", "is_in_foreground"),
    [
        ("7 (agentctx) S 1 7 7 34816 7 4194304", True),
        ("7 (a) b) c) S 1 7 7 34816 7 4194304", True),
        ("7 (agentctx) S 1 7 7 0 -1 4194304", False),
        ("7 (in background) S 1 7 7 34816 9 4194304", False),
    ],
)
def test_the_kernel_says_who_reads_from_a_terminal(stat: str, is_in_foreground: bool) -> None:
    assert decide(stat) == is_in_foreground


@pytest.mark.parametrize(
    ("command", "is_server"),
    [
        (b"/usr/bin/python3\0/opt/bin/agentctx\0mcp\0--agent\0codex\0", True),
        (b"python\0-m\0agentctx\0--socket\0/run/x\0mcp\0", True),
        (b"agentctx\0search\0whales\0", False),
        (b"curl\0--unix-socket\0agentctx.sock\0mcp\0", False),
        (b"", False),
    ],
)
def test_a_command_line_says_who_serves_mcp(command: bytes, is_server: bool) -> None:
    assert reviews.is_mcp_server(command) == is_server


@pytest.mark.parametrize("way", ["page", "elicitation"])
async def test_a_process_cannot_say_that_it_asked_in_the_page_or_over_mcp(
    core: Core, without_terminal: Peer, way: Any
) -> None:
    waiting = await capture(core)
    with pytest.raises(AccessDenied, match="somebody who was asked"):
        await core.reviews.keep(waiting, KeepRequest(way=way, version=1), without_terminal)
    assert await listed(core, waiting=True) == [waiting]


@pytest.mark.parametrize(("via", "way"), [("page", "page"), ("mcp", "elicitation")])
async def test_the_page_and_mcp_may_keep_only_in_their_own_way(core: Core, via: Any, way: Any) -> None:
    waiting, peer = await capture(core), replace(ME, via=via)
    others: set[Any] = {"terminal", "page", "elicitation"} - {way}
    for other in others:
        with pytest.raises(AccessDenied):
            await core.reviews.keep(waiting, KeepRequest(way=other, version=1), peer)
    await core.reviews.keep(waiting, KeepRequest(way=way, version=1), peer)
    assert await listed(core, waiting=True) == []


async def test_it_is_erased_when_its_time_is_over(core: Core, clock: ManualClock) -> None:
    waiting, kept = await capture(core), await capture(core, "A kept whale.")
    await keep(core, kept)
    clock.now += 30 * DAY_MS
    assert await core.reviews.sweep() == 0
    clock.now += 1
    assert await core.reviews.sweep() == 1
    assert await found(core) == {kept}
    with pytest.raises(NotFound):
        await core.entries.get(waiting, ME)


async def test_it_is_not_erased_without_a_time(tmp_path: Path, clock: ManualClock) -> None:
    async with running_core(tmp_path / "data", None, clock=clock, review={"ttl": ""}) as core:
        waiting = await capture(core)
        clock.now += 400 * DAY_MS
        assert await core.reviews.sweep() == 0
        assert await listed(core, waiting=True) == [waiting]


async def test_an_export_marks_it_and_an_import_keeps_it_waiting(core: Core, tmp_path: Path) -> None:
    waiting = await capture(core)
    (exported,) = (await core.transfer.export(ME)).entries
    assert exported.entry.quarantined == "waiting"
    names = [name for name in ImportEntry.__dataclass_fields__ if name != "file_state"]
    line = ImportEntry(**{name: getattr(exported.entry, name) for name in names})
    async with running_core(tmp_path / "other", None) as other:
        (saved,) = await other.transfer.import_entries(ImportRequest(entries=[line]), ME)
        assert cast("Any", saved).quarantined
        assert await listed(other, waiting=True) == [waiting]


async def test_an_import_for_review_waits(core: Core) -> None:
    line = ImportEntry(
        id="0190a1b2-0000-7000-8000-000000000001",
        namespace="default",
        collection="knowledge",
        key="song",
        content="whales sing",
        attributes={"category": "fact"},
        created="2026-01-01T00:00:00.000Z",
        updated="2026-01-01T00:00:00.000Z",
    )
    (saved,) = await core.transfer.import_entries(ImportRequest(entries=[line], review=True), ME)
    assert not isinstance(saved, AgentctxError)
    assert await listed(core, waiting=True) == [line.id]
    assert await found(core, "whales") == set()


async def test_a_repeated_turn_is_one_entry_although_the_mode_changed(core: Core) -> None:
    for remember in ("auto", "review"):
        turn = SaveRequest(
            collection="observation",
            session="s",
            content="x",
            origin="capture",
            remember=cast("Any", remember),
        )
        (result,) = await core.entries.save([turn], ME, idempotency_key="turn")
        assert not isinstance(result, AgentctxError)
    assert (await core.storage.stats()).entries == {"observation": 1}


async def test_each_approval_is_in_the_audit_trail_with_its_way(core: Core) -> None:
    waiting = await capture(core)
    operations = guarded(core, access_control())
    await operations.keep(entry_id=waiting, request=KeepRequest(**FORM), peer=ME)
    page = await core.audit_reader.audit(ME, kind="keep")
    (event,) = page.events
    assert (event.subject, event.principal) == (waiting, ME.uid)
    assert event.detail == {"way": "terminal", "always": False}
