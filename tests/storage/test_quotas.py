"""Quotas of imaginary users at chosen times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.config.access import QuotaSettings
from agentctx.errors import QuotaExceeded, RateLimited
from agentctx.storage.quotas import DRAINING_S, IN_USE_S, Quota, Quotas, Usage

OWNER, ALICE, BOB = 1, 8_001, 8_002
MIB = 1024 * 1024
NOTHING = Usage(0, 0)


def quotas_of(refused: list[Quota] | None = None, **settings: Any) -> Quotas:
    refusals = [] if refused is None else refused
    return Quotas(QuotaSettings(**settings), unlimited=[OWNER], capacity=1_000, refused=refusals.append)


def allowed(quotas: Quotas, uid: int, times: list[float]) -> int:
    """Return how many of the requests at these times are admitted."""
    count = 0
    for now in times:
        try:
            quotas.request(uid, now)
            count += 1
        except RateLimited:
            pass
    return count


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    quotas = quotas_of(requests_per_second=10, burst=5)
    assert allowed(quotas, ALICE, [0.0] * 20) == 5
    assert allowed(quotas, ALICE, [1.0] * 20) == 5
    assert allowed(quotas, ALICE, [1.1] * 20) == 1


def test_who_waits_as_long_as_asked_is_served() -> None:
    quotas = quotas_of(requests_per_second=0.5, burst=1)
    quotas.request(ALICE, 10.0)
    with pytest.raises(RateLimited, match=r"0\.5 requests a second") as caught:
        quotas.request(ALICE, 10.5)
    quotas.request(ALICE, 10.5 + caught.value.retry_after_s)


def test_users_do_not_take_from_each_other_and_the_owner_has_no_limit() -> None:
    refused: list[Quota] = []
    quotas = quotas_of(refused, requests_per_second=1, burst=1)
    assert allowed(quotas, ALICE, [0.0] * 3) == 1
    assert refused == ["requests", "requests"]
    assert allowed(quotas, BOB, [0.0]) == 1
    assert allowed(quotas, OWNER, [0.0] * 1_000) == 1_000
    assert not any(quotas.request(ALICE, 0.0, is_admin=True) for _ in range(10))
    assert not quotas.request(OWNER, 0.0)
    assert quotas.request(BOB, 1.0)


def test_zero_means_no_limit() -> None:
    quotas = quotas_of(requests_per_second=0, burst=1, stored_mb=0, connections=0)
    assert allowed(quotas, ALICE, [0.0] * 1_000) == 1_000
    for _ in range(1_000):
        quotas.connect(ALICE)
    quotas.save(ALICE, Usage(10**15, 0), 10**9, 0.0)


@given(st.lists(st.floats(0, 100), max_size=200), st.integers(1, 20), st.floats(0.1, 50))
def test_never_more_than_the_burst_and_the_rate(times: list[float], burst: int, rate: float) -> None:
    quotas = quotas_of(requests_per_second=rate, burst=burst)
    times.sort()
    lasted = times[-1] - times[0] if times else 0.0
    assert allowed(quotas, ALICE, times) <= burst + rate * lasted + 1e-6


def test_a_stopped_or_reversed_clock_grants_no_extra_quota() -> None:
    quotas = quotas_of(requests_per_second=1, burst=1)
    assert allowed(quotas, ALICE, [100.0, 100.0, 0.0, 50.0, 100.0]) == 1


def test_connections_are_counted_by_user_and_given_back() -> None:
    refused: list[Quota] = []
    quotas = quotas_of(refused, connections=2)
    quotas.connect(ALICE)
    quotas.connect(ALICE)
    with pytest.raises(RateLimited, match="2 connections"):
        quotas.connect(ALICE)
    quotas.connect(BOB)
    quotas.disconnect(ALICE)  # the refused one
    quotas.disconnect(ALICE)
    quotas.connect(ALICE)
    for _ in range(100):
        quotas.connect(OWNER)
    assert refused == ["connections"]


def test_the_queue_is_shared_once_others_use_the_daemon() -> None:
    refused: list[Quota] = []
    quotas = quotas_of(refused, queue_share=0.25)
    quotas.request(ALICE, 0.0)
    quotas.save(ALICE, Usage(0, 10_000), 0, 0.0)  # alone
    quotas.request(OWNER, 0.0)
    quotas.save(ALICE, Usage(0, 249), 0, 0.0)
    with pytest.raises(RateLimited) as caught:
        quotas.save(ALICE, Usage(0, 250), 0, 0.0)
    assert caught.value.retry_after_s == DRAINING_S
    quotas.save(ALICE, Usage(0, 10_000), 0, IN_USE_S + 1)  # alone again
    assert refused == ["queue"]


def test_storage_is_limited_per_user() -> None:
    refused: list[Quota] = []
    quotas = quotas_of(refused, stored_mb=2)
    quotas.save(ALICE, Usage(MIB, 0), MIB, 0.0)
    with pytest.raises(QuotaExceeded, match=r"2 MiB of content and have 1\.0"):
        quotas.save(ALICE, Usage(MIB, 0), MIB + 1, 0.0)
    assert refused == ["stored"]


def test_many_users_cost_bounded_memory() -> None:
    quotas = quotas_of(requests_per_second=1, burst=1)
    for uid in range(10_000, 30_000):
        quotas.request(uid, 0.0)
    assert len(quotas._users) <= 10_000
