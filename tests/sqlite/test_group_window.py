from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.sqlite.group_window import GROUP_GAP_S, GROUP_WAIT_S, MAX_GROUP, GroupWindow


class TestGroupWindow:
    def test_a_lone_caller_is_never_delayed(self) -> None:
        window = GroupWindow()
        for now in (1.0, 2.0, 3.0):
            assert window.closes_at(waiting=1, first=now, last=now) <= now
            window.committed(members=1, arrived=0)

    def test_waits_for_as_many_as_the_last_commit_saw(self) -> None:
        window = GroupWindow()
        window.committed(members=1, arrived=15)
        assert window.closes_at(waiting=15, first=1.0, last=1.001) > 1.001
        assert window.closes_at(waiting=16, first=1.0, last=1.001) <= 1.001

    def test_one_miss_and_a_lone_caller_is_not_delayed_again(self) -> None:
        window = GroupWindow()
        window.committed(members=16, arrived=0)
        assert window.closes_at(waiting=1, first=1.0, last=1.0) == 1.0 + GROUP_GAP_S
        window.committed(members=1, arrived=0)
        assert window.closes_at(waiting=1, first=2.0, last=2.0) <= 2.0

    def test_expectation_falls_when_fewer_come(self) -> None:
        window = GroupWindow()
        window.committed(members=16, arrived=0)
        for _ in range(10):
            window.committed(members=2, arrived=0)
        assert window.expected == 2

    @given(
        seen=st.lists(st.tuples(st.integers(1, MAX_GROUP), st.integers(0, 1_000)), max_size=20),
        waiting=st.integers(1, 1_000),
        first=st.floats(0, 1e6),
        spread=st.floats(0, 1),
    )
    def test_nobody_waits_longer_than_the_limit(
        self, seen: list[tuple[int, int]], waiting: int, first: float, spread: float
    ) -> None:
        window = GroupWindow()
        for members, arrived in seen:
            window.committed(members=members, arrived=arrived)
        assert 1 <= window.expected <= MAX_GROUP
        closes = window.closes_at(waiting=waiting, first=first, last=first + spread)
        assert closes <= first + max(GROUP_WAIT_S, spread)
        if waiting >= MAX_GROUP:
            assert closes <= first + spread
