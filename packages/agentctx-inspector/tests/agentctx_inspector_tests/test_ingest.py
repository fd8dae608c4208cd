"""The pages of ingested files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx import wire
from agentctx.config.access import AccessSettings
from agentctx.service.base import Peer
from agentctx_inspector import ingest
from agentctx_inspector.filters import MAX_LISTED
from agentctx_inspector_tests.running_pages import RunningPages, running_pages
from tests.running_core import ME, save

ANN = Peer(pid=1, uid=54_321, gid=54_321)


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[RunningPages]:
    async with running_pages(tmp_path) as running:
        yield running


async def read(
    pages: RunningPages, source: str, *, part: int = 1, parts: int = 1, namespace: str = "docs"
) -> str:
    """Save a part of a file; return its id."""
    file = wire.FileRecord(digest="0" * 64, size=1, modified=1, places=[[0, 1]], part=part, parts=parts)
    key = source if part == 1 else f"{source}#{part}"
    saved = await save(
        pages.core, namespace=namespace, key=key, source=source, file=file, content=key, origin="document"
    )
    return saved.id


async def mark(pages: RunningPages, entry: str, state: str, reason: str = "gone") -> None:
    marked = wire.FileMark(entries=[entry], state=state, reason=reason)  # type: ignore[arg-type]
    await pages.core.file_states.mark_files(wire.MarkFilesRequest(namespace="docs", marks=[marked]), ME)


async def test_files_are_listed_by_folder_with_what_became_of_them(pages: RunningPages) -> None:
    first = await read(pages, "/srv/a/long.md", parts=2)
    await read(pages, "/srv/a/long.md", part=2, parts=2)
    await read(pages, "/srv/b/<b>.md")
    stale = await read(pages, "/srv/b/s.md")
    await mark(pages, stale, "stale", reason="may not be read")
    await save(pages.core, namespace="docs", key="/no/file", content="A key that looks like a path.")
    page = await pages.page("/ingest")
    below_a, below_b = page.index("<bdi>/srv/a</bdi>"), page.index("<bdi>/srv/b</bdi>")
    assert below_b < page.index("<bdi>&lt;b&gt;.md</bdi>") < below_a
    assert "2 of 2 parts" in page
    assert f'href="/memory/{first}"' in page
    assert "May not be read, since" in page
    assert "agentctx ingest --namespace docs /srv/b/s.md</code>" in page
    assert "/no/file" not in page


async def test_the_address_filters(pages: RunningPages) -> None:
    await mark(pages, await read(pages, "/srv/a/gone#2"), "withdrawn")
    await read(pages, "/srv/a/other.md")
    await read(pages, "/srv/a/elsewhere.md", namespace="team")
    shown = {
        "path=/srv/a/gone%232": ["gone#2"],
        "path=srv/a/o&namespace=docs": ["other.md"],
        "state=marked": ["gone#2"],
        "namespace=team": ["elsewhere.md"],
        "path=/srv/x": [],
    }
    names = ["gone#2", "other.md", "elsewhere.md"]
    for given, expected in shown.items():
        page = await pages.page(f"/ingest?{given}")
        assert [each for each in names if f"<bdi>{each}</bdi></a>" in page] == expected, given
    assert 'role="alert"' in await pages.page("/ingest?namespace=not+valid%21")


async def test_files_come_in_pages(pages: RunningPages) -> None:
    for number in range(MAX_LISTED + 1):
        await read(pages, f"/srv/{number:02}.md")
    first = await pages.page("/ingest?path=/srv/")
    assert first.count('class="row"') == MAX_LISTED
    after = first.partition('<p class="next"><a class="button" href="')[2].partition('"')[0]
    second = await pages.page(after.replace("&amp;", "&"))
    assert "<bdi>00.md</bdi>" in second
    assert second.count('class="row"') == 1


async def test_files_are_counted_by_namespace(pages: RunningPages, monkeypatch: pytest.MonkeyPatch) -> None:
    await read(pages, "/srv/a.md", parts=2)
    await read(pages, "/srv/a.md", part=2, parts=2)
    await mark(pages, await read(pages, "/srv/b.md"), "withdrawn")
    await read(pages, "/srv/c.md", namespace="team")
    await save(pages.core, namespace="other", key="k", content="No file.")
    counts = await pages.page("/ingest/counts?fragment=1")
    assert counts.count("<tr>") == 3
    assert "<td>2</td>" in counts
    assert '>1<span class="hidden"> withdrawn files in docs</span>' in counts
    assert "no: embedding is off" in counts
    assert "<h1>Files by namespace</h1>" in await pages.page("/ingest/counts")
    monkeypatch.setattr(ingest, "LISTED_AT_ONCE", 1)
    monkeypatch.setattr(ingest, "MAX_COUNTED", 1)
    monkeypatch.setattr(ingest, "MAX_COUNTED_IN_ALL", 1)
    counts = await pages.page("/ingest/counts?fragment=1")
    assert "1 and more" in counts
    assert "2 more namespaces were not counted" in counts


async def test_withdrawn_files_are_erased_after_a_question(pages: RunningPages) -> None:
    gone, kept = await read(pages, "/srv/gone.md"), await read(pages, "/srv/kept.md")
    back, elsewhere = await read(pages, "/srv/back.md"), await read(pages, "/opt/gone.md")
    for entry, state in ((gone, "withdrawn"), (kept, "stale"), (back, "withdrawn"), (elsewhere, "withdrawn")):
        await mark(pages, entry, state)
    asked = await pages.page("/ingest/forget?namespace=docs&path=/srv/")
    assert "<strong>2 memories</strong> of 2 files" in asked
    assert "/srv/kept.md" not in asked
    await mark(pages, back, "present")
    await mark(pages, kept, "withdrawn")  # nobody was asked about it
    done = await pages.send("/ingest/forget", namespace="docs", path="/srv/", shown=f"{gone} {back}")
    assert "1 memory of withdrawn files is erased" in await pages.page(done.headers["location"])
    listed = await pages.core.entries.list_entries(ME, namespace="docs", withdrawn=True)
    assert {each.id for each in listed.entries} == {kept, back, elsewhere}


async def test_more_than_the_form_erases_is_said(
    pages: RunningPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MAX_FORGOTTEN", 1)
    both = [await read(pages, f"/srv/{name}") for name in ("a", "b")]
    for entry in both:
        await mark(pages, entry, "withdrawn")
    assert "there are more, for another time" in await pages.page("/ingest/forget?namespace=docs")
    await pages.send("/ingest/forget", namespace="docs", shown=" ".join(both))
    assert "<strong>1 memory</strong>" in await pages.page("/ingest/forget?namespace=docs")


async def test_readers_see_their_files_and_may_not_erase_them(tmp_path: Path) -> None:
    grant = {"uid": ANN.uid, "namespaces": ["docs"], "rights": "read"}
    access = AccessSettings.model_validate({"grants": [grant]})
    async with running_pages(tmp_path, access=access, owners=frozenset(), peer=ANN) as pages:
        entry = await read(pages, "/srv/gone.md")
        await mark(pages, entry, "withdrawn")
        await read(pages, "/srv/secret.md", namespace="secret")
        page = await pages.page("/ingest?namespace=docs")
        assert "gone.md" in page
        assert "secret.md" not in await pages.page("/ingest")
        assert "may not read in the namespace" in await pages.page("/ingest?namespace=secret")
        refused = await pages.send("/ingest/forget", namespace="docs", shown=entry)
        assert refused.status_code == 403
        assert "may not write" in refused.text
        assert (await pages.core.entries.get(entry, ME)).id == entry
