"""REQ-EMB-009: the check validates the provider's configuration and the availability of its key."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from agentctx.config.embedding import EmbeddingSettings
from agentctx.doctor.check import CHECKS, run_checks
from agentctx.doctor.contexts import Embedding
from agentctx.doctor.provider import judge_key, judge_spending, make_embedding, probe
from agentctx.embedding.providers import registry
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.canary import CANARY
from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.embedding.providers.prices import Price
from agentctx.embedding.providers.registry import ProviderKind
from agentctx.embedding.providers.spending import Spending
from agentctx.errors import Disposition, SpendCapReached
from agentctx.wire import CheckResult
from tests.doctor.contexts import inner

ASKED = ("embedding.provider", "embedding.key", "embedding.answers")
KEY = "sk-secret"


def fake(_: EmbeddingSettings, __: Spending) -> EmbeddingProvider:
    return FakeProvider()


REMOTE = ProviderKind(fake, needs_key=True, is_remote=True)


@pytest.fixture(autouse=True)
def remote_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider like a cloud's: it needs a key, and calls cost money."""
    monkeypatch.setitem(registry._KINDS, "remote", REMOTE)


async def examined(embedding: Embedding) -> dict[str, CheckResult]:
    results = await run_checks(ASKED, inner(embedding=embedding))
    assert KEY not in repr(results)
    return {result.id: result for result in results}


async def configured(**settings: object) -> dict[str, CheckResult]:
    made = EmbeddingSettings.model_validate(settings)
    return await examined(make_embedding(made, offline=False))


def statuses(results: dict[str, CheckResult]) -> list[str]:
    return [result.status for result in results.values()]


async def test_a_provider_with_its_key_that_answers_passes() -> None:
    assert statuses(await configured(provider="remote", api_key=KEY)) == ["pass", "pass", "pass"]


async def test_an_unknown_provider_fails_with_the_known_ones() -> None:
    results = await configured(provider="opnai", api_key=KEY)
    assert statuses(results) == ["fail", "skip", "skip"]
    assert "embedded" in results["embedding.provider"].message


async def test_settings_that_do_not_fit_the_provider_fail() -> None:
    results = await configured(provider="embedded", dimensions=7)
    assert results["embedding.provider"].status == "fail"
    assert results["embedding.provider"].hint == "Set embedding.dimensions to 0."


async def test_disabled_embedding_is_not_a_fault() -> None:
    assert statuses(await configured(provider="none")) == ["pass", "skip", "skip"]


async def test_a_missing_key_fails_and_says_where_to_put_it() -> None:
    results = await configured(provider="remote")
    assert results["embedding.key"].status == "fail"
    assert "AGENTCTX_EMBEDDING__API_KEY" in results["embedding.key"].hint


async def test_a_provider_that_needs_no_key_passes_without_one() -> None:
    assert (await configured(provider="fake"))["embedding.key"].status == "pass"


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("", "fail"),
        ("  ", "fail"),
        ("${OPENAI_API_KEY}", "fail"),
        ("$OPENAI_API_KEY", "fail"),
        (KEY + "\n", "warn"),
        (KEY, "pass"),
    ],
)
def test_keys(key: str, status: str) -> None:
    finding = judge_key("remote", REMOTE, key)
    assert finding.status == status
    assert KEY not in repr(finding)


async def test_the_canary_is_embedded_once_for_all_checks() -> None:
    provider = FakeProvider()
    embedding = Embedding(settings=EmbeddingSettings(provider="fake"), provider=provider)
    assert (await probe(embedding)).vector is not None
    assert await probe(embedding) is await probe(embedding)
    assert [call.texts for call in provider.calls] == [(CANARY,)]


async def test_a_provider_that_refuses_fails_with_its_reason() -> None:
    provider = FakeProvider(faults=[FakeFault.fails(Disposition.STOP)])
    results = await examined(Embedding(settings=EmbeddingSettings(provider="fake"), provider=provider))
    answers = results["embedding.answers"]
    assert (answers.status, answers.message) == ("fail", "The fake provider failed on request.")


async def test_an_invalid_vector_fails() -> None:
    provider = FakeProvider(faults=[FakeFault.not_a_number()])
    results = await examined(Embedding(settings=EmbeddingSettings(provider="fake"), provider=provider))
    assert results["embedding.answers"].status == "fail"


async def test_a_provider_that_is_silent_fails_by_its_own_deadline() -> None:
    provider = FakeProvider()
    provider.hold()
    settings = EmbeddingSettings.model_validate({"provider": "fake", "queue": {"call_timeout_s": 0.001}})
    results = await examined(Embedding(settings=settings, provider=provider))
    assert results["embedding.answers"].message == "the provider did not answer within 0.001 s"


async def test_a_provider_that_hangs_is_not_waited_for_as_long_as_a_batch() -> None:
    waits = [check.timeout_s for name, check in CHECKS.items() if name.startswith("embedding.a")]
    assert waits == [25], "doctor ends within a minute"


@pytest.mark.parametrize(("provider_id", "status"), [("remote", "skip"), ("fake", "pass")])
async def test_offline_checks_only_in_process_providers(provider_id: str, status: str) -> None:
    provider = FakeProvider()
    settings = EmbeddingSettings(provider=provider_id, api_key=SecretStr(KEY))
    results = await examined(Embedding(settings=settings, provider=provider, offline=True))
    assert results["embedding.answers"].status == status
    assert bool(provider.calls) == (status == "pass")


PRICE = Price(1_000_000.0, "a test")


def spent(tokens: int, price: Price | None = PRICE, cap_usd: float = 0.0) -> Spending:
    spending = Spending(price, cap_usd, clock=lambda: 0)
    with spending.call(tokens):
        pass
    return spending


def test_a_provider_in_the_process_costs_nothing() -> None:
    embedding = make_embedding(EmbeddingSettings(provider="fake"), offline=False)
    assert judge_spending(embedding.spending).status == "pass"


def test_without_a_cap_todays_cost_is_shown() -> None:
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
