"""Every HTTP provider against the fake server: faults are classified, and no invalid vector gets through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.config.schema import Settings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.registry import create_provider
from agentctx.errors import Disposition, ProviderFailed
from agentctx.wire import SearchRequest
from agentctx_testing.fake_provider.app import DIALECTS
from agentctx_testing.fake_provider.faults import Hint, HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer, running
from tests.running_core import ME, running_core, save

DIMENSION = 8
KEY = "sk-canary-4711"
RETRY, LATER, SPLIT, STOP = Disposition.RETRY, Disposition.LATER, Disposition.SPLIT, Disposition.STOP
ONE_TEXT = frozenset({SPLIT, Disposition.BURY})

CLASSES: dict[str, tuple[HttpFault, frozenset[Disposition]]] = {
    "400": (HttpFault.with_status(400), ONE_TEXT),
    "401": (HttpFault.with_status(401), frozenset({STOP})),
    "403": (HttpFault.with_status(403), frozenset({STOP})),
    "404": (HttpFault.with_status(404), frozenset({STOP})),
    "408": (HttpFault.with_status(408), frozenset({RETRY})),
    "409": (HttpFault.with_status(409), frozenset({RETRY})),
    "413": (HttpFault.with_status(413), ONE_TEXT),
    "429": (HttpFault.with_status(429), frozenset({LATER})),
    "500": (HttpFault.with_status(500), frozenset({RETRY})),
    "502": (HttpFault.with_status(502), frozenset({RETRY})),
    "503": (HttpFault.with_status(503), frozenset({RETRY, LATER})),
    "529": (HttpFault.with_status(529), frozenset({RETRY, LATER})),
    "refuse": (HttpFault(kind="refuse"), frozenset({RETRY})),
    "reset": (HttpFault(kind="reset"), frozenset({RETRY})),
    "endless_body": (HttpFault(kind="endless_body"), frozenset({RETRY, SPLIT})),
    "truncated_json": (HttpFault(kind="truncated_json"), frozenset({RETRY})),
    "wrong_content_type": (HttpFault(kind="wrong_content_type"), frozenset({RETRY})),
    "too_few": (HttpFault(kind="too_few"), frozenset({RETRY})),
    "too_many": (HttpFault(kind="too_many"), frozenset({RETRY})),
    "empty": (HttpFault(kind="empty"), frozenset({RETRY})),
    "wrong_dimension": (HttpFault(kind="wrong_dimension"), frozenset({STOP})),
    "nan": (HttpFault(kind="nan"), frozenset({SPLIT, RETRY})),
    "zeros": (HttpFault(kind="zeros"), frozenset({SPLIT})),
    "redirect": (HttpFault(kind="redirect"), frozenset({STOP})),
}


@pytest.fixture
async def server() -> AsyncIterator[FakeProviderServer]:
    async with running(dimension=DIMENSION, key=KEY) as fake:
        yield fake


def embedding_settings(service: str, server: FakeProviderServer) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate(
        {
            "provider": service,
            "model": "" if service != "openai-compatible" else "some-model",
            "dimensions": 0 if service == "openai-compatible" else DIMENSION,
            "base_url": server.base_url(service),
            "api_key": KEY,
        }
    )


@pytest.fixture(params=list(DIALECTS))
async def provider(
    request: pytest.FixtureRequest, server: FakeProviderServer
) -> AsyncIterator[EmbeddingProvider]:
    made = create_provider(embedding_settings(request.param, server))
    assert made is not None
    yield made
    await made.aclose()


async def test_texts_become_unit_vectors_in_order(provider: EmbeddingProvider) -> None:
    texts = ["the red apple", "a blue boat", "the red apple"]
    vectors = await provider.embed(texts)
    assert vectors.shape == (3, DIMENSION)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[1], await provider.embed_query("a blue boat"))


async def test_vectors_are_ordered_by_index(provider: EmbeddingProvider, server: FakeProviderServer) -> None:
    straight = await provider.embed(["one", "two", "three"])
    server.script(HttpFault(kind="wrong_order"))
    assert np.array_equal(await provider.embed(["one", "two", "three"]), straight)


@pytest.mark.parametrize("name", list(CLASSES))
async def test_a_fault_is_classified_and_its_error_does_not_contain_the_key(
    provider: EmbeddingProvider, server: FakeProviderServer, name: str
) -> None:
    fault, wanted = CLASSES[name]
    await provider.embed(["a valid text"])
    server.script(fault)
    with pytest.raises(ProviderFailed) as failure:
        await provider.embed(["one", "two"])
    assert failure.value.disposition in wanted
    error: BaseException | None = failure.value
    while error is not None:
        assert KEY not in f"{error!r} {error}"
        error = error.__cause__ or error.__context__
    server.reset()
    assert (await provider.embed(["another valid text"])).shape == (1, DIMENSION)


@pytest.mark.parametrize("hint", ["seconds", "date", "milliseconds"])
async def test_a_requested_pause_is_reported(
    provider: EmbeddingProvider, server: FakeProviderServer, hint: Hint
) -> None:
    server.script(HttpFault.with_status(429, hint=hint, after_s=90))
    with pytest.raises(ProviderFailed) as failure:
        await provider.embed(["one"])
    assert failure.value.disposition is LATER
    assert failure.value.retry_after_s == pytest.approx(90, abs=3)


async def test_a_redirect_never_gets_the_key(provider: EmbeddingProvider, server: FakeProviderServer) -> None:
    server.script(HttpFault(kind="redirect"))
    with pytest.raises(ProviderFailed):
        await provider.embed(["one"])
    assert len(server.requests) == 1


async def test_a_daemon_embeds_all_but_the_poisoned_text(
    provider: EmbeddingProvider, server: FakeProviderServer, tmp_path: Path
) -> None:
    """Every second call fails in another way, and one text always: no other text is lost."""
    faults = [
        HttpFault.with_status(400, contains="poison"),
        HttpFault.with_status(500, request=2),
        HttpFault(kind="reset", request=3),
        HttpFault(kind="truncated_json", request=4),
        HttpFault(kind="too_few", request=5),
        HttpFault(kind="zeros", request=7),
    ]
    settings = Settings.model_validate(
        {"embedding": {"queue": {"batch_size": 4, "backoff_base_s": 0.01, "backoff_max_s": 0.02}}}
    )
    async with running_core(tmp_path / "data", provider, settings=settings) as core:
        assert core.lanes is not None
        await core.lanes.leading.builder.served()
        server.script(*faults)
        texts = [f"text {number}" for number in range(11)] + ["the poison"]
        await asyncio.gather(*(save(core, key=text, content=text) for text in texts))
        async with asyncio.timeout(60):
            while (await core.storage.jobs.depth()).pending:
                await core.lanes.leading.queue.idle()
        depth, census = await core.storage.jobs.depth(), await core.storage.upkeep.census()
        assert (depth.pending, depth.buried) == (0, 1)
        assert (census.vectors, census.violations) == (11, 0)
        reply = await core.questions.search(SearchRequest(query="poison"), ME)
        assert reply.results[0].content == "the poison"
