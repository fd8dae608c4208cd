"""The list of memories, as a browser gets it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html import escape
from pathlib import Path

import pytest

from agentctx.config.access import AccessSettings
from agentctx.service.base import Peer
from agentctx_inspector.filters import MAX_LISTED
from agentctx_inspector_tests.running_pages import RunningPages, running_pages
from tests.running_core import save

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
NOBODY = frozenset[int]()
ANN = Peer(pid=1, uid=54_321, gid=54_321)


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[RunningPages]:
    async with running_pages(tmp_path) as running:
        yield running


async def test_the_newest_of_every_namespace_are_listed(pages: RunningPages) -> None:
    await save(pages.core, key="first", content="The first.", namespace="a")
    await save(pages.core, key="second", content="The second.", namespace="b")
    page = await pages.page("/")
    assert page.index("The second.") < page.index("The first.")
    assert "2 memories, newest first" in page


async def test_a_question_finds_and_filters_narrow(pages: RunningPages) -> None:
    await save(
        pages.core, key="kettle", content="Descale the kettle on Mondays.", namespace="a", tags=["tea"]
    )
    await save(pages.core, key="printer", content="The printer needs paper.", namespace="b")
    found = await pages.page("/?q=kettle")
    assert "Descale the kettle" in found
    assert "The printer" not in found
    assert "Degraded" in found  # nothing is embedded here
    assert "Descale" not in await pages.page("/?namespace=b")
    assert "Descale" in await pages.page("/?tag=tea")


async def test_a_fragment_is_the_results_alone(pages: RunningPages) -> None:
    fragment = await pages.page("/?q=anything&fragment=1")
    assert "Nothing here matches" in fragment
    assert "<html" not in fragment


async def test_older_memories_are_on_the_next_page(pages: RunningPages) -> None:
    for number in range(MAX_LISTED + 1):
        await save(pages.core, "observation", session="s", content=f"Number {number} of many.")
    first = await pages.page("/")
    assert "Number 0 of" not in first
    address = first.split('<p class="next"><a class="button" href="')[1].split('"')[0]
    second = await pages.page(address.replace("&amp;", "&"))
    assert "Number 0 of" in second
    assert "Number 1 of" not in second


async def test_texts_are_text_in_every_place(pages: RunningPages) -> None:
    names = {"namespace": "n", "session": "<b>s", "agent": "<b>a"}
    saved = await save(
        pages.core, key=f"k{HOSTILE}", content=HOSTILE, tags=["<i>t"], cues=["<u>c?"], source="<s>", **names
    )
    for path in (
        *("/", "/?by=session", "/?by=agent", "/?by=project", f"/memory/{saved.id}"),
        *("/?q=alert", "/?agent=<b>a", "/?tag=<i>t", '/?session="><script>x'),
    ):
        page = await pages.page(path)
        for forbidden in ("<script>alert", "<img src=x", "<b>", "<i>", "<u>", "<s>", "<script>x"):
            assert forbidden not in page, (path, forbidden)
    assert escape(HOSTILE) in await pages.page("/")


async def test_a_refused_filter_is_said_beside_the_filters(pages: RunningPages) -> None:
    page = await pages.page("/?since=yesterday")
    assert 'role="alert"' in page
    assert 'value="yesterday"' in page


async def test_a_reader_sees_the_granted_namespaces_only(tmp_path: Path) -> None:
    access = AccessSettings.model_validate(
        {"grants": [{"uid": ANN.uid, "namespaces": ["team"], "rights": "read"}]}
    )
    async with running_pages(tmp_path, access=access, owners=NOBODY, peer=ANN) as pages:
        mine = await save(pages.core, key="mine", content="For the team.", namespace="team")
        other = await save(pages.core, key="other", content="For others.", namespace="secret")
        page = await pages.page("/")
        assert "For the team." in page
        assert "For others." not in page
        assert "For others." not in await pages.page(f"/memory/{other.id}")
        refused = await pages.http.get("/?namespace=secret")
        assert "you may not read" in refused.text
        denied = await pages.send(f"/memory/{mine.id}/forget", if_version="1")
        assert denied.status_code == 403
        assert "For the team." in await pages.page("/")
