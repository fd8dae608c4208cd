from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.duplicates import ConversationTexts, normalised, without_duplicates
from agentctx.service.rag.render import BlockPassage, render

LONG = (
    "Deploys go out from the main branch after the full test suite was green for an hour, and the person on "
    "call watches the error rate for thirty minutes before anybody merges again, whatever the hurry is today"
)


def kept(*texts: str) -> list[int]:
    """Return the indexes of the texts, each a separate entry, that are kept."""
    candidates = [Candidate(at, f"e{at}", None, None) for at in range(len(texts))]
    return [c.chunk for c in without_duplicates(candidates, dict(enumerate(texts))).kept]


class TestDuplicates:
    def test_equal_texts_are_one(self) -> None:
        assert kept("red apple", "red  \n apple", "Red apple") == [0]

    def test_a_whole_text_replaces_its_part_at_the_better_rank(self) -> None:
        assert kept("the red apple is ripe", "red apple", "pear") == [0, 2]
        assert kept("red apple", "pear", "the red apple is ripe") == [2, 1]
        assert kept("red apple", "apple is", "the red apple is ripe") == [2]

    def test_nearly_equal_texts_are_one(self) -> None:
        assert kept(LONG, LONG.replace("today", "tomorrow")) == [0]

    @pytest.mark.parametrize(
        "other",
        [
            LONG.replace("thirty minutes", "ten hours"),
            LONG.replace("an hour", "3 hours"),
            LONG.replace("before anybody merges", "before nobody, not even Kim, merges"),
            LONG.replace("go out", "do not go out"),
            "Deploys go out on Fridays from a branch of their own, and nobody watches anything at all.",
        ],
    )
    def test_texts_that_say_something_else_both_stay(self, other: str) -> None:
        assert kept(LONG, other) == [0, 1]

    @pytest.mark.parametrize(("word", "other"), [("30", "45"), ("always", "never"), ("may", "can't")])
    def test_another_number_or_a_negation_is_another_fact(self, word: str, other: str) -> None:
        words = [first + second for first in "abcdefgh" for second in "nopqrstuvw"]
        text = " ".join([*words[:40], word, *words[40:]])
        assert kept(text.replace(word, "some"), text.replace(word, "another")) == [0]
        assert kept(text, text.replace(word, other)) == [0, 1]

    def test_languages_without_spaces_are_compared_too(self) -> None:
        text = "デプロイは全てのテストが一時間緑であった後に主枝から行われ当番は三十分間エラー率を見守る" * 2
        assert kept(text, text[:-1] + "守") == [0]
        assert kept(text, "猫は縁側で眠っている") == [0, 1]

    def test_each_duplicate_names_the_entry_kept(self) -> None:
        texts = dict(enumerate(["apple", "red apple", "a red apple", "red apple"]))
        candidates = [Candidate(at, f"e{at}", None, None) for at in texts]
        distinct = without_duplicates(candidates, texts)
        assert [c.chunk for c in distinct.kept] == [2]
        assert distinct.of == {0: 2, 1: 2, 3: 2}

    @given(st.lists(st.text(alphabet="ab \n", max_size=6), max_size=8))
    def test_kept_texts_contain_all_others_and_not_each_other(self, texts: list[str]) -> None:
        left = [normalised(texts[at]) for at in kept(*texts)]
        assert all(one not in other for at, one in enumerate(left) for other in left[:at] + left[at + 1 :])
        assert all(any(normalised(text) in one for one in left) for text in texts)


class TestConversation:
    def test_white_space_does_not_count_and_case_does(self) -> None:
        conversation = ConversationTexts(["Please note:\n  deploys run\tfrom main. Thanks"])
        assert conversation.holds("deploys  run from\nmain.")
        assert not conversation.holds("Deploys run from main.")

    def test_nothing_is_found_across_two_texts(self) -> None:
        assert not ConversationTexts(["deploys run", "from main"]).holds("deploys run from main")

    def test_an_empty_list_has_no_duplicates(self) -> None:
        assert not ConversationTexts().holds("red")

    def test_passages_of_an_earlier_block_are_there_already(self) -> None:
        content = "first line\n\nsecond <system> line\u200b"
        passage = BlockPassage(
            collection="knowledge", source="k", date="2026-01-01", trust="agent", content=content
        )
        block = render([passage], secret=b"s" * 32)
        assert ConversationTexts([f"What now?\n\n{block}"]).holds(content)
        assert not ConversationTexts([f"What now?\n\n{block}"]).holds("another line")
