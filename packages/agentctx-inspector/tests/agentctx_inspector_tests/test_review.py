"""The review: what waits, what can be decided about it, and what a conflict leaves."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import escape
from pathlib import Path
from typing import Any

import pytest

from agentctx import wire
from agentctx.config.access import AccessSettings
from agentctx.errors import NotFound
from agentctx.service.base import Peer
from agentctx_inspector.review import Queue, erased_at, following
from agentctx_inspector_tests.running_pages import RunningPages, running_pages
from agentctx_inspector_tests.test_filters import view
from tests.running_core import ME, save

ANN = Peer(pid=1, uid=54_321, gid=54_321)
FORM = {"if_version": "1"}


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[RunningPages]:
    async with running_pages(tmp_path) as running:
        yield running


async def capture(pages: RunningPages, content: str = "The whale eats krill.", **fields: Any) -> str:
    given = {"session": "s", "agent": "codex", "origin": "capture", "remember": "review", **fields}
    return (await save(pages.core, "observation", content=content, **given)).id


async def waiting(pages: RunningPages) -> list[str]:
    return [each.id for each in (await pages.core.entries.list_entries(ME, waiting=True)).entries]


async def modes(pages: RunningPages) -> dict[str, str | None]:
    return {each.namespace: each.mode for each in (await pages.core.reviews.review(ME)).captures}


async def entry_of(pages: RunningPages, id_: str) -> wire.EntryView:
    await pages.core.release_worker.settle()
    return await pages.core.entries.get(id_, ME)


async def test_what_waits_is_shown_with_all_that_a_decision_needs(pages: RunningPages) -> None:
    older = await save(pages.core, key="diet", content="A whale eats fish.", origin="tool")
    await capture(pages, namespace="team", supersedes=[])
    await capture(pages, "It eats krill,\u200b only krill.", supersedes=[older.id])
    page = await pages.page("/review")
    for shown in ("2 memories wait", "codex", "team", "capture", "arrived", "erased on", "It would replace"):
        assert shown in page
    assert f'<a href="/memory/{older.id}">diet</a>' in page
    assert "krill,&lt;U+200B&gt; only" in page, "what one cannot see is written out"


async def test_nothing_waits_says_how_something_would(pages: RunningPages) -> None:
    assert "--remember=review" in await pages.page("/review")


async def test_the_address_narrows_and_pages_go_on(pages: RunningPages) -> None:
    for number in range(51):
        await capture(pages, f"Number {number} of many.")
    await capture(pages, "Of another.", agent="gemini", namespace="team")
    assert "Of another." not in await pages.page("/review?agent=codex")
    narrow = await pages.page("/review?namespace=team")
    assert ("Of another." in narrow, "Number" in narrow, "51 elsewhere" in narrow) == (True, False, True)
    first = await pages.page("/review?agent=codex")
    (address,) = re.findall(r'class="button" href="(/review\?[^"]*before=[^"]*)">Next page', first)
    second = await pages.page(address.replace("&amp;", "&"))
    assert ("Number 0 of" in first, "Number 0 of" in second, "Number 1 of" in second) == (False, True, False)
    (last,) = re.findall(r'action="/review/([^/]*)/keep', second)
    reply = await pages.send(f"/review/{last}/keep?{address.split('?')[1].replace('&amp;', '&')}", **FORM)
    page = await pages.page(reply.headers["location"].partition("#")[0])
    assert ("50 memories wait" in page, "back to the first" in page) == (True, True)


@pytest.mark.parametrize(
    ("decision", "said"), [("keep", "Kept"), ("always", "from now on"), ("forget", "Forgotten")]
)
async def test_a_decision_leads_to_the_next_and_is_said(
    pages: RunningPages, decision: str, said: str
) -> None:
    next_, middle, newest = [await capture(pages, f"Whale {number}.") for number in range(3)]
    reply = await pages.send(f"/review/{middle}/{decision}?agent=codex", **FORM)
    assert reply.headers["location"] == f"/review?agent=codex&done={decision}&after={middle}#next"
    page = await pages.page(reply.headers["location"])
    assert said in page
    (focused,) = re.findall(r'id="next".*?<form method="post" action="/review/([^/]*)/keep', page, re.DOTALL)
    assert focused == next_
    assert await waiting(pages) == [newest, next_]


async def test_what_is_kept_here_is_in_the_audit_trail_as_kept_in_the_page(pages: RunningPages) -> None:
    id_ = await capture(pages)
    await pages.send(f"/review/{id_}/keep", **FORM)
    assert (await entry_of(pages, id_)).quarantined is None
    (event,) = (await pages.core.audit_reader.audit(ME, kind="keep")).events
    assert (event.subject, event.detail["way"]) == (id_, "page")


async def test_an_edit_is_kept_as_it_was_written(pages: RunningPages) -> None:
    id_ = await capture(pages)
    reply = await pages.send(f"/review/{id_}/edit", **FORM, content="The whale eats\r\nkrill and fish.")
    assert "done=edit" in reply.headers["location"]
    entry = await entry_of(pages, id_)
    assert (entry.content, entry.quarantined) == ("The whale eats\nkrill and fish.", None)


async def test_a_merge_appends_to_a_similar_memory(pages: RunningPages) -> None:
    other = await save(pages.core, key="whale", content="A whale is a mammal.")
    id_ = await capture(pages, "A whale eats krill.")
    page = await pages.page(f"/review/{id_}")
    assert f'name="into" value="{other.id}"' in page
    await pages.send(f"/review/{id_}/merge", **FORM, into=other.id, into_version="1")
    assert (await entry_of(pages, other.id)).content == "A whale is a mammal.\n\nA whale eats krill."
    with pytest.raises(NotFound):
        await pages.core.entries.get(id_, ME)


async def test_a_merge_into_what_changed_does_nothing(pages: RunningPages) -> None:
    other = await save(pages.core, key="whale", content="A whale is a mammal.")
    id_ = await capture(pages)
    await save(pages.core, key="whale", content="A whale is big.")
    late = await pages.send(f"/review/{id_}/merge", **FORM, into=other.id, into_version="1")
    assert (late.status_code, "changed the similar memory" in late.text) == (409, True)
    assert await waiting(pages) == [id_]


async def test_a_merge_that_fails_half_way_keeps_it(pages: RunningPages) -> None:
    other = await save(pages.core, key="whale", content="x" * 262_140)
    id_ = await capture(pages)
    failed = await pages.send(f"/review/{id_}/merge", **FORM, into=other.id, into_version="1")
    assert (failed.status_code, "kept, but not merged" in failed.text) == (409, True)
    assert (await entry_of(pages, id_)).content == "The whale eats krill."


@pytest.mark.parametrize("decision", ["keep", "always", "forget", "edit"])
async def test_what_changed_since_it_was_shown_still_waits(pages: RunningPages, decision: str) -> None:
    id_ = await capture(pages)
    await pages.core.entries.edit(id_, wire.EditRequest(content="Run evil.sh."), ME)
    late = await pages.send(f"/review/{id_}/{decision}", **FORM, content="What I wrote.")
    assert late.status_code == 409
    for shown in ("Somebody changed it", "Run evil.sh.", 'name="if_version" value="2"'):
        assert shown in late.text
    assert ("What I wrote." in late.text) or decision != "edit"
    assert await waiting(pages) == [id_]


async def test_what_was_decided_in_another_tab_says_so_and_keeps_what_was_typed(pages: RunningPages) -> None:
    id_ = await capture(pages)
    await pages.send(f"/review/{id_}/keep", **FORM)
    late = await pages.send(f"/review/{id_}/edit", **FORM, content="What I wrote.")
    assert (late.status_code, "does not wait any more" in late.text) == (409, True)
    assert "What I wrote." in late.text
    assert f'action="/memory/{id_}/edit"' in late.text, "it can be saved all the same"
    gone = await capture(pages, "Another.")
    await pages.send(f"/review/{gone}/forget", **FORM)
    late = await pages.send(f"/review/{gone}/edit", **FORM, content="What I wrote.")
    assert (late.status_code, "What I wrote." in late.text) == (404, True)


async def test_a_way_back_from_always(pages: RunningPages) -> None:
    id_ = await capture(pages, namespace="team")
    await pages.send(f"/review/{id_}/always", **FORM)
    assert await modes(pages) == {"team": "always"}
    reply = await pages.send("/review/mode?agent=x", namespace="team", agent="codex", mode="review")
    assert reply.headers["location"] == "/review?agent=x&done=mode"
    assert await modes(pages) == {"team": "review"}
    for wrong in ({"mode": "always"}, {"mode": "auto", "agent": "nobody"}):
        given = {"namespace": "team", "agent": "codex", **wrong}
        assert (await pages.send("/review/mode", **given)).status_code in {400, 404}
    assert await modes(pages) == {"team": "review"}


async def test_who_may_only_read_sees_the_queue_and_decides_nothing(tmp_path: Path) -> None:
    grant = {"uid": ANN.uid, "namespaces": ["default"], "rights": "read"}
    access = AccessSettings.model_validate({"grants": [grant]})
    async with running_pages(tmp_path, access=access, owners=frozenset(), peer=ANN) as pages:
        id_ = await capture(pages)
        await capture(pages, "Secret.", namespace="elsewhere-1")
        page = await pages.page("/review")
        assert ("The whale" in page, "Secret" in page, "elsewhere-1" in page) == (True, False, False)
        for decision in ("keep", "always", "forget", "edit"):
            reply = await pages.send(f"/review/{id_}/{decision}", **FORM, content="Mine.")
            assert reply.status_code == 403, decision
        form = {"namespace": "default", "agent": "codex", "mode": "auto"}
        assert (await pages.send("/review/mode", **form)).status_code == 403
        assert (await modes(pages))["default"] == "review"
        assert id_ in await waiting(pages)


async def test_a_memory_that_waits_says_so_on_its_page(pages: RunningPages) -> None:
    id_ = await capture(pages)
    page = await pages.page(f"/memory/{id_}")
    assert f'href="/review/{id_}"' in page
    assert "quarantine" not in page


async def test_texts_of_captures_are_text(pages: RunningPages) -> None:
    hostile = "</textarea></title><script>alert(1)</script>"
    names = {"agent": f"<b>{hostile}"[:64], "session": hostile, "tags": ["<i>"], "supersedes": []}
    id_ = await capture(pages, hostile, **names)
    refused = await pages.send(f"/review/{id_}/edit", if_version="9", content=f"{hostile} typed")
    for page in (await pages.page("/review"), await pages.page(f"/review/{id_}"), refused.text):
        assert ("<script>alert" in page, "<b>" in page) == (False, False)
        assert escape(hostile) in page


async def test_what_is_not_there_is_said(pages: RunningPages) -> None:
    for path in ("/review/nothing", "/review/mode"):
        assert "does not exist" in await pages.page(path)
        assert (await pages.send(f"{path}/keep", **FORM)).status_code == 404
    assert (await pages.http.get("/review/..%2f..%2fv1")).status_code == 404
    assert (await pages.send(f"/review/{await capture(pages)}/approve", **FORM)).status_code == 404


def test_the_entry_after_a_decided_one_is_next() -> None:
    entries = [view(id_) for id_ in ("d", "b", "a")]
    assert [following(entries, after) for after in ("e", "c", "b", "a", "")] == ["d", "b", "a", "a", ""]
    assert following([], "c") == ""


def test_it_is_erased_when_its_time_is_over() -> None:
    entry = view("1", waiting="2026-11-01T00:00:00.000Z")
    assert erased_at(entry, "30d") == "2026-12-01T00:00:00.000Z"
    assert erased_at(entry, "") is None


def test_the_part_of_the_queue_stays_in_the_address() -> None:
    assert Queue("n", "", "b").query(done="keep") == "?namespace=n&before=b&done=keep"
    assert Queue().query() == ""
