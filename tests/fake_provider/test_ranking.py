from hypothesis import given
from hypothesis import strategies as st

from agentctx.fake_provider.asked import RerankAsked
from agentctx.fake_provider.ranking import overlap, rank


def test_shared_words_decide_and_equal_ones_keep_their_order() -> None:
    documents = ("nothing", "the cat", "a cat sat here", "cat sat", "other")
    rows = rank(RerankAsked("m", "Cat sat", documents))
    assert [row.index for row in rows] == [3, 2, 1, 0, 4]
    assert [row.index for row in rank(RerankAsked("m", "Cat sat", documents, top=2))] == [3, 2]


@given(st.text(), st.text())
def test_a_score_is_between_0_and_1(query: str, document: str) -> None:
    assert 0 <= overlap(query, document) <= 1
