from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.queue.comparison import finds_own_chunk, overlap
from agentctx.embedding.queue.worker import rest_ms
from agentctx.storage.search import NearestChunk, SampledChunk

ASKED = SampledChunk(1, "mine", "default", "text")


def hits(*chunks: int) -> list[NearestChunk]:
    return [NearestChunk(chunk, "mine" if chunk == 1 else f"e{chunk}", chunk / 100) for chunk in chunks]


def test_the_text_itself_does_not_count_as_overlap() -> None:
    assert overlap(ASKED, hits(1, 2, 3), hits(1, 4, 3)) == 0.5
    assert overlap(ASKED, hits(1), hits(1)) is None


def test_only_the_ten_nearest_count() -> None:
    assert overlap(ASKED, hits(*range(2, 13)), hits(*range(11, 22))) == 0.1


@pytest.mark.parametrize(
    ("near", "own", "found"),
    [(hits(1, 2), 0.01, True), (hits(2, 1), 0.5, False), (hits(2), 0.02, True), ([], 0.1, False)],
)
def test_a_text_finds_itself_when_nothing_else_is_nearer(
    near: list[NearestChunk], own: float, found: bool
) -> None:
    assert finds_own_chunk(ASKED, own, near) is found


@given(worked=st.integers(0, 100_000), share=st.floats(0.01, 1))
def test_a_throttled_lane_works_its_share_of_the_time(worked: int, share: float) -> None:
    rest = rest_ms(worked, share)
    assert abs(worked - share * (worked + rest)) <= 1
