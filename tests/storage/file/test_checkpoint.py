from __future__ import annotations

from agentctx.storage.file.checkpoint import DUE_FRAMES, MANY_FRAMES, CheckpointSchedule, WalState


def test_a_checkpoint_is_due_once_there_are_enough_pages() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(DUE_FRAMES - 1, 0)) is None
    assert schedule.due(WalState(DUE_FRAMES, 0)) == "PASSIVE"


def test_pages_retained_by_a_reader_are_retried_after_as_many_more() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(DUE_FRAMES, 0))
    assert not any(schedule.due(WalState(DUE_FRAMES + more, 400)) for more in range(1, DUE_FRAMES))
    assert schedule.due(WalState(2 * DUE_FRAMES, 400))


def test_a_restarted_wal_is_counted_from_zero() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(9 * DUE_FRAMES, 0))
    assert not schedule.due(WalState(20, 0))
    assert schedule.due(WalState(DUE_FRAMES + 20, 20)) == "PASSIVE"


def test_no_checkpoint_is_due_when_all_pages_are_moved() -> None:
    assert CheckpointSchedule().due(WalState(DUE_FRAMES, DUE_FRAMES)) is None


def test_a_long_wal_is_restarted_even_when_all_pages_are_moved() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(MANY_FRAMES, MANY_FRAMES)) == "RESTART"
    assert schedule.due(WalState(MANY_FRAMES + 1, 0)) is None, "not every commit waits for readers"
