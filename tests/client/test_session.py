from __future__ import annotations

from agentctx.client.session import MAX_REPEATS, Attempts
from agentctx.client.transport import BacklogFull, ConnectionDropped, NotListening
from agentctx.errors import (
    AgentctxError,
    DaemonUnreachable,
    DeadlineExceeded,
    InvalidInput,
    StorageClosed,
    StorageFull,
    Unavailable,
)

NOT_SENT = [NotListening("no socket"), BacklogFull("no room")]
PASSING = [Unavailable("stopping"), StorageClosed("closing")]
FINAL = [
    DaemonUnreachable("permission denied"),
    DeadlineExceeded("30 s"),
    InvalidInput("no"),
    StorageFull("full"),
]
DROPPED = ConnectionDropped("gone")


def attempts(*, repeatable: bool = True, is_probe: bool = False, start_timeout_s: float = 5.0) -> Attempts:
    return Attempts(repeatable=repeatable, is_probe=is_probe, start_timeout_s=start_timeout_s)


def total_pause_s(tries: Attempts, error: AgentctxError) -> float:
    """Return the sum of the pauses, on a clock that only the pauses advance."""
    now = started = 1000.0
    while (pause_s := tries.pause_after(error, now)) is not None:
        assert 0 < pause_s <= 0.25
        now += pause_s
    return now - started


def test_any_call_waits_if_nothing_was_sent() -> None:
    for error in NOT_SENT:
        for repeatable in (True, False):
            waited_s = total_pause_s(attempts(repeatable=repeatable), error)
            assert abs(waited_s - 5.0) < 1e-6


def test_only_repeatable_calls_wait_if_the_daemon_may_have_begun() -> None:
    for error in PASSING:
        assert abs(total_pause_s(attempts(), error) - 5.0) < 1e-6
        assert attempts(repeatable=False).pause_after(error, 0.0) is None


def test_probes_and_a_timeout_of_zero_fail_immediately() -> None:
    for error in [*NOT_SENT, *PASSING]:
        assert attempts(start_timeout_s=0).pause_after(error, 0.0) is None
        assert attempts(is_probe=True).pause_after(error, 0.0) is None


def test_the_timeout_starts_with_the_first_failure() -> None:
    tries = attempts()

    assert tries.pause_after(Unavailable("stopping"), 100.0) is not None
    assert tries.pause_after(NotListening("no socket"), 104.9) is not None
    assert tries.pause_after(NotListening("no socket"), 105.0) is None


def test_the_first_retry_comes_soon_and_the_last_on_time() -> None:
    tries = attempts()
    first = tries.pause_after(NOT_SENT[0], 0.0)
    assert first is not None
    assert first <= 0.02
    assert tries.pause_after(NOT_SENT[0], 4.999) == 5.0 - 4.999


def test_a_dropped_connection_is_retried_a_few_times_first_immediately() -> None:
    tries = attempts(start_timeout_s=0)

    pauses = [tries.pause_after(DROPPED, 0.0) for _ in range(MAX_REPEATS + 1)]

    assert pauses[0] == 0
    assert None not in pauses[:-1]
    assert pauses[-1] is None
    assert attempts(repeatable=False).pause_after(DROPPED, 0.0) is None


def test_waiting_for_a_restart_does_not_use_up_the_repeats() -> None:
    tries = attempts()

    for error in (DROPPED, *[NOT_SENT[0]] * 10, DROPPED, DROPPED):
        assert tries.pause_after(error, 0.0) is not None


def test_any_other_error_is_raised() -> None:
    for error in FINAL:
        assert attempts().pause_after(error, 0.0) is None
