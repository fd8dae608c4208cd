"""Questions to several namespaces, on the daemon's service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.config.access import AccessSettings
from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import AccessDenied, InvalidInput
from agentctx.service.access.control import AccessControl
from agentctx.service.base import Peer
from agentctx.service.rag.render import parse
from agentctx.storage.vectors import Vectors
from agentctx.wire import ContextRequest, ExplainRequest, SearchRequest
from tests.running_core import ME, embedded, guarded, running_core, save

PROJECT, OWN, FOREIGN = "git:github.com/ann/shop", "user:ann", "git:github.com/ann/bank"
ANN = Peer(pid=1, uid=7_500, gid=7_500)


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with running_core(tmp_path, FakeProvider(dimension=64)) as running:
        await save(running, key="indent", content="Ann wants tabs for indentation.", namespace=OWN)
        await save(running, key="window", content="The shop deploys on Tuesdays.", namespace=PROJECT)
        await save(running, key="vault", content="The bank deploys on Fridays.", namespace=FOREIGN)
        await embedded(running)
        yield running


def anns_operations(core: Core, *namespaces: str) -> Any:
    """Return the operations as guarded for Ann, who may read these namespaces."""
    grants = [{"uid": ANN.uid, "namespaces": namespaces, "rights": "read"}]
    return guarded(core, AccessControl(AccessSettings.model_validate({"grants": grants})))


async def test_one_answer_has_passages_from_every_namespace(core: Core) -> None:
    both = SearchRequest(query="deploys on Tuesdays, tabs for indentation", namespaces=[PROJECT, OWN])
    reply = await core.questions.search(both, ME)
    assert {(hit.namespace, hit.source_id) for hit in reply.results} == {(PROJECT, "window"), (OWN, "indent")}


async def test_a_question_is_embedded_once_for_all_namespaces(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert core.lanes is not None
    provider = core.lanes.leading.provider
    assert isinstance(provider, FakeProvider)
    answer = provider.embed_query

    async def embed_slowly(text: str) -> Vectors:
        for _ in range(50):  # the searches of the other namespaces ask meanwhile
            await asyncio.sleep(0)
        return await answer(text)

    monkeypatch.setattr(provider, "embed_query", embed_slowly)
    await core.questions.search(SearchRequest(query="asked of three", namespaces=[PROJECT, OWN, FOREIGN]), ME)
    assert sum("asked of three" in call.texts for call in provider.calls) == 1


async def test_a_large_namespace_leaves_room_for_a_small_one(core: Core) -> None:
    for number in range(60):
        await save(core, key=f"n{number}", content=f"indentation note {number}", namespace=PROJECT)
    await embedded(core)
    request = SearchRequest(query="Ann wants tabs for indentation", namespaces=[PROJECT, OWN], limit=3)
    assert "indent" in [hit.source_id for hit in (await core.questions.search(request, ME)).results]


async def test_an_empty_namespace_changes_nothing(core: Core) -> None:
    alone = await core.questions.search(SearchRequest(query="when deploys", namespace=PROJECT), ME)
    request = SearchRequest(query="when deploys", namespaces=["git:empty", PROJECT])
    assert (await core.questions.search(request, ME)).results == alone.results


async def test_the_block_names_the_namespaces_but_the_first(core: Core) -> None:
    request = ContextRequest(query="deploys on Tuesdays", namespaces=[PROJECT, OWN], all=True)
    block = (await core.questions.context(request, ME)).block
    assert {passage.namespace for passage in parse(block)} == {"", OWN}
    alone = await core.questions.context(ContextRequest(query="deploys", namespace=PROJECT, all=True), ME)
    assert [passage.namespace for passage in parse(alone.block)] == [""]


async def test_the_receipt_names_every_namespace(core: Core) -> None:
    request = ContextRequest(query="deploys on Tuesdays", namespaces=[PROJECT, OWN], position="tail")
    reply = await core.questions.context(request, ME)
    assert reply.injection_id is not None
    assert (await core.injections.injection(reply.injection_id, ME)).namespaces == [PROJECT, OWN]


async def test_every_namespace_must_be_granted(core: Core) -> None:
    allowed = anns_operations(core, PROJECT, OWN)
    both = SearchRequest(query="deploys", namespaces=[PROJECT, OWN])
    assert {hit.namespace for hit in (await allowed.search(both, ANN)).results} == {PROJECT, OWN}
    for asked in ([FOREIGN], [PROJECT, FOREIGN], [FOREIGN, PROJECT]):
        refused: list[tuple[Any, Any]] = [
            (allowed.search, SearchRequest(query="deploys", namespaces=asked)),
            (allowed.context, ContextRequest(query="deploys", namespaces=asked)),
            (allowed.explain, ExplainRequest(query="deploys", entry="e", namespaces=asked)),
        ]
        for ask, request in refused:
            with pytest.raises(AccessDenied, match="ann/bank"):
                await ask(request, ANN)


async def test_a_receipt_is_visible_only_with_grants_on_all_its_namespaces(core: Core) -> None:
    request = ContextRequest(query="deploys", namespaces=[PROJECT, OWN], position="tail")
    made = await anns_operations(core, PROJECT, OWN).context(request, ANN)
    assert made.injection_id is not None
    for granted, seen in ((PROJECT, OWN), 1), ((PROJECT,), 0), ((OWN,), 0):
        listed = await anns_operations(core, *granted).injections(ANN)
        assert len(listed.injections) == seen, granted


async def test_explain_searches_the_namespace_of_the_entry(core: Core) -> None:
    own = (await core.questions.search(SearchRequest(query="tabs", namespace=OWN), ME)).results[0].id
    asked = ExplainRequest(query="Ann wants tabs for indentation.", entry=own, namespaces=[PROJECT, OWN])
    reply = await core.injections.explain(asked, ME)
    assert (reply.verdict, reply.word_rank) == ("injected", 1)
    foreign = ExplainRequest(query="tabs", entry=own, namespaces=[PROJECT, FOREIGN])
    assert (await core.injections.explain(foreign, ME)).verdict == "namespace"


@pytest.mark.parametrize("asked", [[], [f"n{number}" for number in range(9)]])
async def test_the_number_of_namespaces_is_limited(core: Core, asked: list[str]) -> None:
    with pytest.raises(InvalidInput, match="number of namespaces"):
        await core.questions.search(SearchRequest(query="deploys", namespaces=asked), ME)


async def test_namespace_and_namespaces_are_mutually_exclusive(core: Core) -> None:
    with pytest.raises(InvalidInput, match="both `namespace` and `namespaces`"):
        await core.questions.search(SearchRequest(query="deploys", namespace=OWN, namespaces=[PROJECT]), ME)
