"""Rate limits and costs of HTTP providers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.registry import create_provider, open_spending
from agentctx.embedding.providers.spending import Spending, TokenUsage
from agentctx.errors import ProviderFailed, SpendCapReached
from tests.embedding.providers.remote.conftest import MakeProvider
from tests.embedding.providers.remote.loopback import Loopback, http, replies
from tests.embedding.providers.remote.wire_answers import ANSWERS, DIMENSION, settings_of

PRICED = {"usd_per_million_tokens": 1_000_000.0}
"""One dollar per token."""


def now() -> int:
    return 1_800_014_400_000


def provider_with_spending(
    server: Loopback, provider: str = "openai", **limits: Any
) -> tuple[EmbeddingProvider, Spending]:
    settings = EmbeddingSettings.model_validate(
        settings_of(provider, server.base_url, limits={**PRICED, **limits})
    )
    spending = open_spending(settings, None, now)
    assert spending is not None
    made = create_provider(settings, spending)
    assert made is not None
    return made, spending


def reply_reporting(tokens: Any) -> bytes:
    return replies({"embeddings": [[1.0] * DIMENSION], "prompt_eval_count": tokens})


async def test_reported_tokens_are_counted(server: Loopback) -> None:
    provider, spending = provider_with_spending(server, "ollama")
    server.answer = lambda _: reply_reporting(7)
    await provider.embed(["a text of some length"])
    await provider.embed_query("a question of some length")
    assert spending.today() == TokenUsage(14, 14.0)
    await provider.aclose()


@pytest.mark.parametrize("nonsense", [None, 0, -5, "many", True, 1e300, float("inf")])
async def test_absurd_reports_count_as_the_estimate(server: Loopback, nonsense: Any) -> None:
    provider, spending = provider_with_spending(server, "ollama")
    server.answer = lambda _: reply_reporting(nonsense)
    await provider.embed(["123456789"])
    assert spending.today().tokens == 3
    await provider.aclose()


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (replies({"error": "no"}, 400), 0),
        (replies({"error": "slow down"}, 429), 0),
        (replies({"error": "broken"}, 500), 0),
        (http(200, b'{"embeddings": [[1', length=1_000), 3),
        (http(200, b"<html>", content_type="text/html"), 3),
    ],
)
async def test_refusals_are_free_but_a_lost_answer_may_be_billed(
    server: Loopback, answer: bytes, tokens: int
) -> None:
    provider, spending = provider_with_spending(server, "ollama")
    server.answer = lambda _: answer
    with pytest.raises(ProviderFailed):
        await provider.embed(["123456789"])
    assert spending.today().tokens == tokens
    await provider.aclose()


async def test_an_unreachable_provider_bills_nothing(server: Loopback) -> None:
    provider, spending = provider_with_spending(server, "ollama")
    settings = EmbeddingSettings(provider="ollama", base_url="http://127.0.0.1:9")
    away = create_provider(settings, spending)
    assert away is not None
    with pytest.raises(ProviderFailed, match="no connection"):
        await away.embed(["123456789"])
    assert spending.today() == TokenUsage()
    await away.aclose()
    await provider.aclose()


async def test_nothing_is_sent_over_the_cap(server: Loopback) -> None:
    provider, spending = provider_with_spending(server, usd_per_day=5.0)
    await provider.embed(["123456789"])
    with pytest.raises(SpendCapReached):
        await provider.embed(["123456789"])
    with pytest.raises(SpendCapReached):
        await provider.embed_query("123456789")
    assert len(server.received) == 1
    assert spending.is_cap_reached
    await provider.aclose()


async def test_a_closed_provider_counts_nothing(server: Loopback) -> None:
    provider, spending = provider_with_spending(server)
    await provider.aclose()
    for ask in (provider.embed(["text"]), provider.embed_query("text")):
        with pytest.raises(ProviderFailed, match="closed"):
            await ask
    assert spending.today() == TokenUsage()


async def test_the_count_is_stored_in_the_folder(server: Loopback, tmp_path: Path) -> None:
    settings = EmbeddingSettings.model_validate(settings_of("openai", server.base_url))
    spending = open_spending(settings, tmp_path, now)
    provider = create_provider(settings, spending)
    assert provider is not None
    await provider.embed(["a text"])
    again = open_spending(settings, tmp_path, now)
    assert again is not None
    assert spending is not None
    assert again.today() == spending.today() != TokenUsage()
    await provider.aclose()


@pytest.mark.parametrize("provider", ["embedded", "fake", "none"])
def test_local_providers_cost_nothing(provider: str) -> None:
    assert open_spending(EmbeddingSettings(provider=provider), None, now) is None


async def test_a_question_does_not_wait_behind_batches(server: Loopback, connect: MakeProvider) -> None:
    provider = connect(limits={"requests_per_minute": 5})
    for _ in range(4):
        await provider.embed(["text"])
    batch = asyncio.create_task(provider.embed(["one more"]))
    await provider.embed_query("question")
    assert [request.body["input"] for request in server.received[4:]] == [["question"]]
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch


async def test_a_question_past_its_deadline_is_neither_sent_nor_counted(server: Loopback) -> None:
    provider, spending = provider_with_spending(server, requests_per_minute=5)
    await provider.embed_query("one")
    before = spending.today()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await provider.embed_query("two")
    assert spending.today() == before
    assert len(server.received) == 1
    await provider.aclose()


TYPES = {
    "cohere": ("input_type", ["search_document", "search_query"]),
    "voyage": ("input_type", ["document", "query"]),
    "google": ("taskType", ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"]),
}


@pytest.mark.parametrize("service", list(TYPES))
async def test_input_types_are_sent(server: Loopback, connect: MakeProvider, service: str) -> None:
    key, sent = TYPES[service]
    model = {"model": "gemini-embedding-001"} if service == "google" else {}
    provider = connect(service, input_types=True, **model)
    server.answer = lambda _: replies({})
    for ask in (provider.embed(["text"]), provider.embed_query("text")):
        with pytest.raises(ProviderFailed):
            await ask
    bodies = [request.body for request in server.received]
    requests = [body["requests"][0] for body in bodies] if service == "google" else bodies
    assert [request[key] for request in requests] == sent


@pytest.mark.parametrize("service", list(TYPES))
async def test_without_input_types_texts_and_questions_get_the_same_vector(
    server: Loopback, connect: MakeProvider, service: str
) -> None:
    server.answer = ANSWERS[service]
    provider = connect(service)
    assert (await provider.embed(["text"]))[0].tolist() == (await provider.embed_query("text")).tolist()
