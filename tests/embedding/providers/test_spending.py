from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog.testing
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.providers.prices import Price
from agentctx.embedding.providers.spending import FILE_NAME, Spending, TokenUsage
from agentctx.errors import Disposition, SpendCapReached

DOLLAR_A_TOKEN = Price(1_000_000.0, "a test")
NOON = 1_800_014_400_000
HOUR_MS = 3_600_000


class Clock:
    """A clock at noon UTC that moves only when set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def spend(spending: Spending, tokens: int) -> None:
    with spending.call(tokens):
        pass


def is_cap_reached(spending: Spending) -> bool:
    return spending.is_cap_reached


def spending_with_cap(clock: Clock, folder: Path | None = None, cap_usd: float = 10.0) -> Spending:
    return Spending(DOLLAR_A_TOKEN, cap_usd, folder=folder, clock=clock)


def test_calls_add_up_until_one_exceeds_the_cap(clock: Clock) -> None:
    spending = spending_with_cap(clock)
    spend(spending, 6)
    with pytest.raises(SpendCapReached) as refused:
        spend(spending, 5)
    assert "$6.00 of $10.00 are spent" in refused.value.message
    assert refused.value.disposition is Disposition.LATER
    assert refused.value.retry_after_s == 12 * 3_600
    assert spending.today() == TokenUsage(6, 6.0)
    spend(spending, 4)
    assert spending.today() == TokenUsage(10, 10.0)


def test_the_reported_count_replaces_the_estimate(clock: Clock) -> None:
    spending = spending_with_cap(clock)
    with spending.call(9) as charge:
        charge.tokens = 3
    assert spending.today() == TokenUsage(3, 3.0)


def test_a_call_that_is_not_billed_costs_nothing(clock: Clock) -> None:
    spending = spending_with_cap(clock)
    with spending.call(9) as charge:
        charge.void()
    assert spending.today() == TokenUsage()
    spend(spending, 10)


def test_a_call_without_a_reply_costs_its_estimate(clock: Clock) -> None:
    spending = spending_with_cap(clock)
    with pytest.raises(asyncio.CancelledError), spending.call(9):
        raise asyncio.CancelledError
    assert spending.today() == TokenUsage(9, 9.0)


def test_calls_in_flight_reserve_their_estimate(clock: Clock) -> None:
    spending = spending_with_cap(clock)
    with ExitStack() as in_flight:
        in_flight.enter_context(spending.call(6))
        with pytest.raises(SpendCapReached):
            spend(spending, 5)
    spend(spending, 4)


def test_the_count_restarts_at_midnight_utc(clock: Clock) -> None:
    spending = spending_with_cap(clock)
    spend(spending, 10)
    assert is_cap_reached(spending)
    clock.now += 12 * HOUR_MS - 1
    assert is_cap_reached(spending)
    clock.now += 1
    assert not is_cap_reached(spending)
    spend(spending, 10)
    assert spending.since_start == TokenUsage(20, 20.0)


def test_after_a_refusal_the_cap_counts_as_reached_even_if_less_would_fit(clock: Clock) -> None:
    spending = spending_with_cap(clock)
    spend(spending, 9)
    assert not is_cap_reached(spending)
    with pytest.raises(SpendCapReached):
        spend(spending, 2)
    assert is_cap_reached(spending)
    clock.now += 12 * HOUR_MS
    assert not is_cap_reached(spending)


def test_the_count_survives_a_restart_and_is_private(clock: Clock, tmp_path: Path) -> None:
    spend(spending_with_cap(clock, tmp_path), 6)
    again = spending_with_cap(clock, tmp_path)
    assert again.today() == TokenUsage(6, 6.0)
    assert again.since_start == TokenUsage()
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_every_call_is_stored_when_it_ends(clock: Clock, tmp_path: Path) -> None:
    spending = spending_with_cap(clock, tmp_path)
    for tokens in (1, 2, 3):
        spend(spending, tokens)
        assert spending_with_cap(clock, tmp_path).today() == spending.today()


def test_after_the_clock_is_set_back_the_earlier_day_is_found_again(clock: Clock, tmp_path: Path) -> None:
    spend(spending_with_cap(clock, tmp_path), 6)
    clock.now += 400 * 24 * HOUR_MS
    spend(spending_with_cap(clock, tmp_path), 5)
    clock.now = NOON
    assert spending_with_cap(clock, tmp_path).today() == TokenUsage(6, 6.0)


def test_old_days_are_forgotten(clock: Clock, tmp_path: Path) -> None:
    spending = spending_with_cap(clock, tmp_path)
    for _ in range(100):
        spend(spending, 1)
        clock.now += 24 * HOUR_MS
    assert len(json.loads((tmp_path / FILE_NAME).read_text())["days"]) == 31


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"days": 1}',
        b'{"days": {"2027-01-15": {"tokens": -1, "usd": 0}}}',
        b'{"days": {"2027-01-15": {"tokens": 1, "usd": NaN}}}',
        b'{"days": {"2027-01-15": {"usd": 1}}}',
        b"\xff\xfe",
        b"[" * 60_000,
    ],
)
def test_a_broken_file_is_reported_and_replaced(clock: Clock, tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with structlog.testing.capture_logs() as logged:
        spending = spending_with_cap(clock, tmp_path)
    assert [line["event"] for line in logged] == ["spending_not_readable"]
    spend(spending, 1)
    assert spending_with_cap(clock, tmp_path).today() == TokenUsage(1, 1.0)


def test_an_unwritable_file_is_reported_and_counting_continues(clock: Clock, tmp_path: Path) -> None:
    spending = spending_with_cap(clock, tmp_path / "missing")
    with structlog.testing.capture_logs() as logged:
        spend(spending, 10)
    assert [line["event"] for line in logged] == ["spending_not_written"]
    assert is_cap_reached(spending)


def test_without_a_price_only_tokens_are_counted(clock: Clock) -> None:
    spending = Spending(clock=clock)
    spend(spending, 7)
    assert spending.today() == TokenUsage(7, 0.0)
    assert not is_cap_reached(spending)


@given(st.lists(st.integers(0, 20), max_size=30))
def test_the_cap_is_never_exceeded(calls: list[int]) -> None:
    spending = spending_with_cap(Clock())
    for tokens in calls:
        try:
            spend(spending, tokens)
        except SpendCapReached:
            assert spending.today().usd + tokens > 10
        assert spending.today().usd <= 10
