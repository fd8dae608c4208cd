from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.cli.top_rates import Rates, rates_between, recent_mean, seconds_left
from agentctx.wire import StatusReply
from tests.client.stub_daemon import status_reply

NOTHING = Rates(
    saves=0,
    questions=0,
    embeddings=0,
    commits=0,
    provider_failures=0,
    cpu=0,
    embed_cpu=0,
    degraded=None,
)


def later(before: StatusReply, seconds: float = 2.0, **counts: int) -> StatusReply:
    activity = replace(
        before.activity, **{name: getattr(before.activity, name) + more for name, more in counts.items()}
    )
    return replace(before, activity=activity, uptime_seconds=before.uptime_seconds + seconds)


def test_rates_are_differences_by_seconds() -> None:
    before = status_reply()
    now = later(before, saved=10, asked=8, degraded=2, embedded=6, provider_failures=1)
    now = replace(
        now,
        cpu_seconds=before.cpu_seconds + 1.0,
        embed_cpu_seconds=before.embed_cpu_seconds + 0.5,
        database=replace(before.database, commits=before.database.commits + 3),
    )
    assert rates_between(before, now, 2.0) == Rates(
        saves=5.0,
        questions=4.0,
        embeddings=3.0,
        commits=1.5,
        provider_failures=0.5,
        cpu=0.5,
        embed_cpu=0.25,
        degraded=0.25,
    )


def test_without_questions_there_is_no_share_of_them() -> None:
    before = status_reply()
    assert rates_between(before, later(before), 1.0) == NOTHING


def test_another_daemon_cannot_be_compared() -> None:
    before = status_reply()
    assert rates_between(before, replace(later(before), pid=1), 1.0) is None
    assert rates_between(before, later(before, -10.0), 1.0) is None
    assert rates_between(before, later(before), 0.0) is None


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_the_mean_is_of_the_last_looks(values: list[float]) -> None:
    last = values[-10:]
    expected = sum(last) / len(last) if last else 0.0
    assert recent_mean(values) == pytest.approx(expected)


def test_the_time_left_is_by_the_mean_rate() -> None:
    looks = [replace(NOTHING, embeddings=rate) for rate in (0, 20)]
    assert seconds_left(100, looks) == 10.0
    assert seconds_left(0, []) == 0.0
    assert seconds_left(5, []) is None
    assert seconds_left(5, [NOTHING]) is None
