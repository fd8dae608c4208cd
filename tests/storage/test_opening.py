"""The daemon with its vectors in Chroma: a real core on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.doctor.examination import examine_alone
from agentctx.embedding_providers.fake import FakeProvider
from agentctx.errors import ConfigInvalid
from agentctx.service.base import Examination
from agentctx.storage.opening import open_storage
from agentctx.storage.sqlite.engine import DATABASE_NAME
from agentctx.times import wall_clock
from agentctx.wire import SearchRequest
from tests import chroma_server
from tests.ports import free_port
from tests.running_core import ME, embedded, running_core, save
from tests.storage.conformance import assert_sound

TEXTS = ("red apple", "green pear", "blue plum")


def settings(port: int = 0, **vectors: Any) -> Settings:
    url = f"http://127.0.0.1:{port}" if port else ""
    return Settings.model_validate(
        {"embedding": {"provider": "fake"}, "vectors": {"store": "chroma", "url": url, **vectors}}
    )


@pytest.fixture
async def core(tmp_path: Path, chroma_port: int) -> AsyncIterator[Core]:
    async with running_core(tmp_path, FakeProvider(), settings=settings(chroma_port)) as running:
        for text in TEXTS:
            await save(running, key=text, content=text)
        await embedded(running)
        yield running


async def search(core: Core, text: str) -> tuple[list[str], str | None]:
    reply = await core.service.search(SearchRequest(query=text, order="distance"), ME)
    return [passage.content for passage in reply.results if passage.distance is not None], reply.degraded


async def statuses(core: Core, *, fix: bool = False) -> dict[str, str]:
    ask = core.service.doctor_fix if fix else core.service.doctor
    reply = await ask(Examination(only=("database.vectors", "database.invariant", "embedding.space")), ME)
    return {check.id.split(".")[1]: check.status for check in reply.checks}


async def test_answers_by_meaning_come_from_chroma(core: Core) -> None:
    found, degraded = await search(core, "green pear")
    assert (found[0], len(found), degraded) == ("green pear", 3, None)
    assert set((await statuses(core)).values()) == {"pass"}


async def test_two_daemons_on_one_server_do_not_meet(core: Core, tmp_path: Path, chroma_port: int) -> None:
    async with running_core(tmp_path / "other", FakeProvider(), settings=settings(chroma_port)) as other:
        await save(other, key="k", content="a lonely quince")
        await embedded(other)
        assert (await search(other, "a lonely quince"))[0] == ["a lonely quince"]
    assert len((await search(core, "red apple"))[0]) == 3
    await assert_sound(core.storage)


async def test_doctor_finds_and_repairs_what_was_lost_out_there(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider(), settings=settings()) as core:
        for text in TEXTS:
            await save(core, key=text, content=text)
        await embedded(core)
        outside = core.storage._outside  # type: ignore[attr-defined]
        await outside.delete(1, [1, 2])
        assert (await statuses(core))["invariant"] == "fail"
        await statuses(core, fix=True)
        await embedded(core)
        assert set((await statuses(core)).values()) == {"pass"}
        assert len((await search(core, "blue plum"))[0]) == 3
        await outside.drop(1)
        assert (await statuses(core))["vectors"] == "fail"
        await statuses(core, fix=True)
        await embedded(core)
        assert set((await statuses(core)).values()) == {"pass"}


async def test_it_is_examined_without_a_daemon_as_well(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider(), settings=settings()) as core:
        await save(core, key="k", content=TEXTS[0])
        await embedded(core)
    only = ("database.vectors", "database.invariant")
    results = await examine_alone(settings(), tmp_path / DATABASE_NAME, only)
    assert {check.status for check in results} == {"pass"}


async def test_a_server_that_goes_away_costs_meaning_and_nothing_else(tmp_path: Path) -> None:
    port = free_port()
    folder = tmp_path / "chroma"
    folder.mkdir()
    async with running_core(tmp_path / "data", FakeProvider(), settings=settings(port)) as core:
        saved = await save(core, key="k", content="red apple")
        assert saved.embedding == "pending"
        assert "model" in str((await search(core, "apple"))[1])
        with chroma_server.running(folder, port):
            await embedded(core)
            assert await search(core, "red apple") == (["red apple"], None)
        found, degraded = await search(core, "red apple")
        assert (found, str(degraded).split(":")[0]) == ([], "storage_failed")
        await save(core, key="k2", content="green pear")
        reply = await core.service.search(SearchRequest(query="pear"), ME)
        assert [passage.content for passage in reply.results] == ["green pear"]
        assert (await core.storage.depth()).pending == 1
        assert (await statuses(core))["vectors"] == "fail"
        with chroma_server.running(folder, port):
            assert core.queue is not None
            await core.queue.idle()
            assert len((await search(core, "green pear"))[0]) == 2
            await assert_sound(core.storage)


async def test_a_changed_store_embeds_everything_again(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider(), settings=settings()) as core:
        await save(core, key="k", content="red apple")
        await embedded(core)
    inside = settings(store="sqlite-vec")
    (check,) = await examine_alone(inside, tmp_path / DATABASE_NAME, ("embedding.space",))
    assert (check.status, "vectors.store" in str(check.detail)) == ("warn", True)
    async with running_core(tmp_path, FakeProvider(), settings=inside) as core:
        await embedded(core)
        assert await search(core, "red apple") == (["red apple"], None)
        await assert_sound(core.storage)


async def test_an_address_that_is_none_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"vectors\.url"):
        await open_storage(settings(url="nonsense"), tmp_path / DATABASE_NAME, clock=wall_clock)
