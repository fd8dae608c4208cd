from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.word_match import ENOUGH_WORDS, QuestionWords, WordMatch


@pytest.mark.parametrize(
    ("question", "text", "match"),
    [
        ("When did Caroline paint a sunrise?", "Caroline painted the sunrises.", (3, 3)),
        ("how do deployments work", "We DEPLOYED it yesterday", (0, 2)),
        ("deploying services", "the service was deployed", (2, 2)),
        ("café crème", "CAFE creme", (2, 2)),
        ("getUserName fails", "get the user's name", (3, 5)),
        ("getUserName fails", "getUserName failed", (5, 5)),
        ("what is tok7f3a9c", "it is tok7f3a9c", (7, 7)),
        ("config.yaml", "see config.yaml", (2, 2)),
        ("red", "Fred is bored", (0, 1)),
        ("東京タワー", "東京タワーは高い", (4, 4)),
        ("한국어 문서", "이 문서는 한국어로", (3, 3)),
        ("what is it", "it is what it is", (3, 3)),
        ("wie lang ist die Frist", "die Ware ist in der Kiste, wie lang", (1, 2)),
        ("डिलीवरी का दिन", "डिलीवरी दो दिन में", (2, 2)),
        ("दिन", "दीन", (0, 1)),
        ("?!", "anything", (0, 0)),
    ],
)
def test_words_are_compared_by_stem(question: str, text: str, match: tuple[int, int]) -> None:
    assert QuestionWords(question).match([text]) == match


def test_several_texts_count_together() -> None:
    assert QuestionWords("deploy friday").match(["deploys", "no fridays"]) == (2, 2)


def test_a_long_question_need_not_be_repeated() -> None:
    assert WordMatch(ENOUGH_WORDS, 100).coverage == 1.0
    assert WordMatch(ENOUGH_WORDS // 2, 100).coverage == 0.5
    assert WordMatch(1, 4).coverage == 0.25
    assert WordMatch(0, 0).coverage == 0.0


@given(
    st.text("aeinrstsS .-é東京", max_size=40),
    st.lists(st.lists(st.text("aeinrstgS .-_é\n東京", max_size=30), max_size=3), max_size=4),
)
def test_passages_scored_together_equal_those_scored_alone(question: str, passages: list[list[str]]) -> None:
    words = QuestionWords(question)
    alone = [words.found(texts) for texts in passages]
    assert words.matches_in_each(passages) == alone
    by_word = [frozenset[str]().union(*(words.found([word]) for word in _words(texts))) for texts in passages]
    assert [each - {"東京", "京東"} for each in alone] == [each - {"東京", "京東"} for each in by_word]


def _words(texts: list[str]) -> list[str]:
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", "\n".join(texts)))


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=3))
def test_a_share_is_a_share_whatever_the_texts(question: str, texts: list[str]) -> None:
    match = QuestionWords(question).match(texts)
    assert 0 <= match.matched <= match.total
    assert 0 <= match.coverage <= 1


@given(st.text("aefrsS .-é", max_size=40), st.lists(st.text("aefrsé", min_size=1, max_size=6), max_size=12))
def test_a_word_inside_of_another_is_not_that_word(question: str, words: list[str]) -> None:
    assert QuestionWords(question).match([f"q{word}" for word in words]).matched == 0
