from __future__ import annotations

import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.doctor.provider import make_embedding
from agentctx.doctor.runner import run_checks
from agentctx.doctor.spending import judge_spending, spending_check
from agentctx.embedding_providers.prices import Price
from agentctx.embedding_providers.spending import Spending
from agentctx.errors import SpendCapReached

PRICE = Price(1_000_000.0, "a test")


def spent(tokens: int, price: Price | None = PRICE, cap_usd: float = 0.0) -> Spending:
    spending = Spending(price, cap_usd, clock=lambda: 0)
    with spending.call(tokens):
        pass
    return spending


async def test_a_provider_in_the_process_costs_nothing() -> None:
    embedding = make_embedding(EmbeddingSettings(provider="fake"), offline=False)
    (result,) = await run_checks([spending_check(embedding)])
    assert (result.id, result.status) == ("embedding.spending", "pass")


def test_without_a_cap_it_says_what_today_cost() -> None:
    finding = judge_spending(spent(1_234))
    assert (finding.status, finding.message) == ("pass", "$1,234.00 today, 1,234 tokens; no cap is set")
    assert "a test" in finding.detail


def test_under_the_cap_it_passes() -> None:
    assert judge_spending(spent(1, cap_usd=4)).message == "$1.00 of $4.00 today, 1 tokens"


def test_without_a_price_tokens_are_reported() -> None:
    assert judge_spending(spent(7, price=None)).message == "7 tokens today; no published price known"


def test_a_reached_cap_warns_and_says_what_to_do() -> None:
    spending = spent(3, cap_usd=4)
    with pytest.raises(SpendCapReached):
        spending.call(2).__enter__()
    finding = judge_spending(spending)
    assert finding.status == "warn"
    assert finding.message.startswith("$3.00 of $4.00 for today are spent: embedding pauses until 00:00 UTC")
    assert "usd_per_day" in finding.hint
