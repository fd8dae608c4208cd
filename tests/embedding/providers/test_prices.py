from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.providers.prices import (
    PUBLISHED,
    CostEstimate,
    Price,
    estimate_cost,
    estimate_tokens,
    format_usd,
    price_of,
)
from agentctx.embedding.providers.remote.services import SERVICES


def test_every_default_model_of_a_vendor_has_a_dated_price() -> None:
    for service in ("openai", "google", "cohere", "voyage"):
        price = price_of(service, SERVICES[service].model)
        assert price is not None
        assert re.fullmatch(r"published, as of 20\d\d-\d\d", price.source)


def test_published_prices_belong_to_known_services() -> None:
    assert {service for service, _ in PUBLISHED} <= set(SERVICES)
    assert all(0 < price.usd_per_million_tokens < 1 for price in PUBLISHED.values())


def test_a_configured_price_takes_precedence() -> None:
    assert price_of("openai", "text-embedding-3-small", 0.5) == Price(
        0.5, "embedding.limits.usd_per_million_tokens"
    )
    assert price_of("ollama", "nomic-embed-text", 0.5) is not None


def test_an_unpublished_price_is_unknown() -> None:
    assert price_of("ollama", "nomic-embed-text") is None
    assert price_of("openai-compatible", "text-embedding-3-small") is None
    assert price_of("openai", "text-embedding-9") is None


def test_google_models_may_be_named_with_their_path() -> None:
    assert price_of("google", "models/gemini-embedding-001") == price_of("google", "gemini-embedding-001")


def test_costs_are_estimated_from_characters() -> None:
    assert estimate_cost(3_000_000, 0.02) == CostEstimate(1_000_000, 0.02)
    assert estimate_cost(10, None) == CostEstimate(4, None)
    assert estimate_cost(0, 0.02) == CostEstimate(0, 0.0)


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_more_text_never_has_fewer_tokens(one: int, more: int) -> None:
    assert 1 <= estimate_tokens(one) <= estimate_tokens(one + more) <= max(1, one + more)


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0, "$0.00"),
        (1e-9, "$0.000001"),
        (0.0000251, "$0.000025"),
        (0.00123, "$0.0012"),
        (0.1, "$0.10"),
        (12.345, "$12.35"),
        (12_345.6, "$12,345.60"),
    ],
)
def test_amounts_are_formatted(usd: float, shown: str) -> None:
    assert format_usd(usd) == shown
