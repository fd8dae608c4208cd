"""The page of namespaces, grants and quotas, and erasing a namespace."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from agentctx.config.access import AccessSettings
from agentctx.names import namespace_from
from agentctx.service.base import Peer
from agentctx.storage.audit import AuditQuery
from agentctx_inspector.namespaces import MAX_LISTED, granting, page_in
from agentctx_inspector_tests.running_pages import RunningPages, running_pages
from tests.running_core import ME, save

ANN = Peer(pid=1, uid=54_321, gid=54_321)
SHOP = namespace_from("dir", "/home/ann/my <b>shop</b>+100%")
"""A name that has to be escaped in an address, in HTML and in a namespace."""


def granted(*grants: dict[str, Any]) -> AccessSettings:
    return AccessSettings.model_validate({"grants": grants})


def ann(right: str, *namespaces: str) -> dict[str, Any]:
    return {"uid": ANN.uid, "namespaces": namespaces, "rights": right}


def texts(page: str) -> str:
    """Return what a page says, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page.partition("<main")[2])).split())


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[RunningPages]:
    async with running_pages(tmp_path, access=granted(ann("write", "team"))) as running:
        yield running


async def test_it_lists_what_has_memories_what_waits_and_what_is_only_granted(pages: RunningPages) -> None:
    await save(pages.core, namespace=SHOP, key="a", content="One.")
    await save(pages.core, namespace=SHOP, key="b", content="Two.")
    await save(
        pages.core, collection="observation", namespace="notes", session="s", content="It waits.",
        origin="capture", agent="codex", remember="review",
    )  # fmt: skip
    said = texts(await pages.page("/namespaces"))
    assert "3 namespaces, the largest first dir:/home/ann/my <b>shop</b>+100% 2 memories" in said
    assert "notes 0 memories 1 waits for a reviewErase everything" in said
    assert "team 0 memories uid 54321 may write" in said


async def test_names_are_filtered_and_shown_in_pages(pages: RunningPages) -> None:
    for number in range(MAX_LISTED + 3):
        await save(pages.core, namespace=f"x{number:02}", key="a", content="One.")
    first = await pages.page("/namespaces?q=X")
    assert first.count('class="title"') == MAX_LISTED
    assert 'href="/namespaces?q=X&amp;page=2"' in first
    second = await pages.page("/namespaces?q=X&page=2")
    assert second.count('class="title"') == 3
    assert "page=3" not in second
    assert "No namespace is named so" in await pages.page("/namespaces?q=<b>&page=<b>")


async def test_grants_are_shown_with_what_takes_them_away(pages: RunningPages) -> None:
    page = html.unescape(await pages.page("/namespaces"))
    assert '[[access.grants]]\nuid = 54321\nnamespaces = ["team"]\nrights = "write"' in page


async def test_the_form_shows_the_command_and_grants_nothing(pages: RunningPages) -> None:
    page = await pages.page("/namespaces?user=ann&to=team-*&right=read&group=1")
    assert "agentctx access grant --group --read ann &#39;team-*&#39;</pre>" in page
    assert '<details class="more" id="grant" open>' in page
    assert "Name the namespace, too." in await pages.page("/namespaces?user=ann&right=read")


@pytest.mark.parametrize(
    ("form", "command"),
    [
        ("user=ann&to=team&right=write", "agentctx access grant ann team"),
        ("user=7&right=metrics&to=ignored", "agentctx access grant --metrics 7"),
        ("user=-x;rm&to=$(id)&right=read", "agentctx access grant --read -- '-x;rm' '$(id)'"),
        ("user=ann&right=write", None),
        ("to=team&right=write", None),
        ("user=ann&to=team&right=admin", None),
    ],
)
def test_the_command_of_a_grant(form: str, command: str | None) -> None:
    assert granting(QueryParams(form), is_owner=True)["command"] == command
    of_another = granting(QueryParams(form), is_owner=False)["command"]
    assert of_another == (command and f"sudo {command}")


@pytest.mark.parametrize(("text", "number"), [("2", 2), ("0", 1), ("", 1), ("x", 1), ("²", 1), ("9" * 9, 1)])
def test_the_number_of_a_page(text: str, number: int) -> None:
    assert page_in(text) == number


async def test_others_see_their_own_part_and_why_not_more(tmp_path: Path) -> None:
    access = granted(ann("write", "team", "git:*"), {"uid": 7, "namespaces": ["team"], "rights": "admin"})
    async with running_pages(tmp_path, access=access, owners=frozenset(), peer=ANN) as pages:
        for namespace in ("team", "git:shop", "secret"):
            await save(pages.core, namespace=namespace, key="a", content="One.")
        said = texts(await pages.page("/namespaces"))
        assert "You may read and write in team; read and write in git:*." in said
        assert "2 namespaces" in said
        assert "secret" not in said
        assert "only admins of the daemon may do that. That includes" in said
        assert "uid 7" not in said
        assert "Give a grant" not in said
        assert "uid 54321 0.0 MiB1,024 MiB" in said
        refused = await pages.send("/namespaces/forget", namespace="secret", typed="secret")
        assert refused.status_code == 403
        assert "may not write in the namespace" in await pages.page("/namespaces/forget?namespace=secret")


async def test_refusals_for_a_quota_are_counted(pages: RunningPages) -> None:
    assert "Nothing was refused for a quota" in await pages.page("/namespaces")
    pages.core.telemetry.quota_exceeded("stored")
    assert "for all users: 1 for stored." in await pages.page("/namespaces")


async def test_a_namespace_is_erased_after_its_name_was_typed(pages: RunningPages) -> None:
    await save(pages.core, namespace=SHOP, key="a", content="One.")
    await save(pages.core, namespace="team", key="a", content="One.")
    asked = await pages.page(f"/namespaces/forget?namespace={SHOP.replace('+', '%2B')}")
    assert "Erase 1 memory for good" in asked
    assert "unused parts of the database file" in asked
    wrong = await pages.send("/namespaces/forget", namespace=SHOP, typed="team")
    assert wrong.status_code == 400
    assert "That is not its name." in wrong.text
    assert await counts(pages) == {SHOP: 1, "team": 1}
    done = await pages.send("/namespaces/forget", namespace=SHOP, typed=" dir:/home/ann/my <b>shop</b>+100% ")
    assert "Everything in the namespace is erased" in await pages.page(done.headers["location"])
    assert await counts(pages) == {"team": 1}
    (row,) = await pages.core.storage.audit.page(AuditQuery(kind="forget", limit=9))
    assert (row.namespace, row.principal) == (SHOP, ME.uid)


async def test_nothing_is_asked_about_what_is_empty_or_no_name(pages: RunningPages) -> None:
    assert "Nothing is in it." in await pages.page("/namespaces/forget?namespace=unknown")
    assert "namespace" in texts(await pages.page("/namespaces/forget?namespace=<b>"))
    refused = await pages.send("/namespaces/forget", namespace="", typed="")
    assert refused.status_code == 400


async def counts(pages: RunningPages) -> dict[str, int]:
    listed = await pages.core.entries.namespaces(ME)
    return {each.namespace: each.entries for each in listed.namespaces}
