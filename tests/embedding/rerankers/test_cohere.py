"""With Cohere's own package, over HTTP, against a server on this machine."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator

import cohere
import pytest

from agentctx.embedding.rerankers.base import Reranker
from agentctx.embedding.rerankers.cohere import CohereReranker, scores_in_order
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from agentctx_testing.conformance.rerankers import RerankerConformance, chunks_of
from tests.embedding.rerankers.cohere_server import CohereServer, cohere_server


@pytest.fixture
def server() -> Iterator[CohereServer]:
    with cohere_server() as running:
        yield running


async def created(server: CohereServer) -> CohereReranker:
    return await CohereReranker.create("m", api_key="secret", base_url=server.url, max_retries=0)


class TestConformance(RerankerConformance):
    @pytest.fixture
    async def reranker(self, server: CohereServer) -> AsyncIterator[Reranker]:
        reranker = await created(server)
        yield reranker
        await reranker.aclose()


async def test_a_passed_synchronous_client_works_and_stays_open(server: CohereServer) -> None:
    with cohere.ClientV2("k", base_url=server.url) as client:
        reranker = CohereReranker(client)
        one, two = chunks_of(["the dog", "a cat"])
        assert await reranker.rerank("cat", [one, two], 1) == [two]
        await reranker.aclose()
        assert await reranker.rerank("cat", [one, two], 1) == [two]


async def test_the_request_matches_coheres_documentation(server: CohereServer) -> None:
    reranker = await created(server)
    await reranker.rerank("cat", chunks_of(["a cat"]), 1)
    await reranker.rerank("cat", [])
    await reranker.aclose()
    assert server.asked == [{"path": "/v2/rerank", "model": "m", "query": "cat", "documents": ["a cat"]}]
    assert server.keys == ["Bearer secret"]


async def test_environment_credentials(server: CohereServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CO_API_KEY", "from-environment")
    reranker = await CohereReranker.create(base_url=server.url)
    await reranker.rerank("cat", chunks_of(["a cat"]))
    await reranker.aclose()
    assert server.keys == ["Bearer from-environment"]


async def test_without_a_key_it_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CO_API_KEY", raising=False)
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    with pytest.raises(ConfigInvalid, match="API key"):
        await CohereReranker.create()


async def test_many_chunks_take_several_requests(
    server: CohereServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctx.embedding.rerankers.cohere.MAX_DOCUMENTS", 2)
    reranker = await created(server)
    chunks = chunks_of(["the dog", "a cat", "the mat", "the dog", "cat mat"])
    best = await reranker.rerank("cat mat", chunks, 3)
    await reranker.aclose()
    assert best == [chunks[4], chunks[1], chunks[2]]
    assert [len(asked["documents"]) for asked in server.asked] == [2, 2, 1]


@pytest.mark.parametrize(
    ("status", "disposition"),
    [(401, Disposition.STOP), (429, Disposition.LATER), (500, Disposition.RETRY)],
)
async def test_a_refusal_becomes_our_error(
    server: CohereServer, status: int, disposition: Disposition
) -> None:
    server.status = status
    reranker = await created(server)
    with pytest.raises(ProviderFailed, match=str(status)) as caught:
        await reranker.rerank("cat", chunks_of(["a cat"]))
    await reranker.aclose()
    assert caught.value.disposition is disposition
    assert "secret" not in caught.value.message + caught.value.hint


async def test_a_rate_limit_says_how_long_to_wait(server: CohereServer) -> None:
    server.status, server.headers = 429, {"Retry-After": "17"}
    reranker = await created(server)
    with pytest.raises(ProviderFailed) as caught:
        await reranker.rerank("cat", chunks_of(["a cat"]))
    await reranker.aclose()
    assert caught.value.retry_after_s == 17


@pytest.mark.parametrize("score", [None, "high", float("nan")])
async def test_a_score_that_is_no_number_is_refused(server: CohereServer, score: object) -> None:
    server.results = [{"index": at, "relevance_score": score} for at in (0, 1)]
    reranker = await created(server)
    with pytest.raises(ProviderFailed):
        await reranker.rerank("cat", chunks_of(["a cat", "a dog"]))
    await reranker.aclose()


@pytest.mark.parametrize("indexes", [[], [0], [0, 0], [0, 1, 1], [0, 2], [-1, 0]])
async def test_a_reply_that_does_not_fit_is_refused(server: CohereServer, indexes: list[int]) -> None:
    server.results = [{"index": at, "relevance_score": 0.5} for at in indexes]
    reranker = await created(server)
    with pytest.raises(ProviderFailed, match="exactly once"):
        await reranker.rerank("cat", chunks_of(["a cat", "a dog"]))
    await reranker.aclose()


async def test_an_unreachable_server_is_an_error(server: CohereServer) -> None:
    reranker = await CohereReranker.create(api_key="k", base_url="http://127.0.0.1:9", max_retries=0)
    with pytest.raises(ProviderFailed, match="request to Cohere failed"):
        await reranker.rerank("cat", chunks_of(["a cat"]))
    await reranker.aclose()


def test_scores_are_put_where_their_chunks_are() -> None:
    assert scores_in_order([(1, 0.9), (0, 0.1)], 2) == [0.1, 0.9]


async def test_without_cohere_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cohere", None)
    with pytest.raises(ConfigInvalid) as caught:
        await CohereReranker.create(api_key="k")
    assert "install cohere" in caught.value.hint
