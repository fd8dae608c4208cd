import re

import pytest

from agentctx.cli.demo_memories import BY_MEANING, BY_WORD, FOR_AN_LLM, MEMORIES, DemoQuestion
from agentctx.wire import COLLECTIONS

COMMON = set("a an and by do during for i is it may of or right the to up we which why".split())  # noqa: SIM905 - words


def words(*texts: str) -> set[str]:
    """Return the words without their endings, roughly as a stemmer would."""
    found = re.findall(r"[^\W_]+", " ".join(texts).lower())
    return {re.sub(r"(n?ing|es|ed|s|e)$", "", word) for word in found if word not in COMMON}


ALL_WORDS = words(*(f"{name} {memory.content} {memory.fields}" for name, memory in MEMORIES.items()))


@pytest.mark.parametrize("question", BY_MEANING)
def test_questions_share_no_words_with_their_answers(question: DemoQuestion) -> None:
    assert not words(question.text) & ALL_WORDS


@pytest.mark.parametrize("question", [*BY_WORD, *BY_MEANING, FOR_AN_LLM])
def test_every_answer_is_saved(question: DemoQuestion) -> None:
    assert question.answer in MEMORIES


@pytest.mark.parametrize("question", BY_WORD)
def test_the_keywords_occur_in_only_one_memory(question: DemoQuestion) -> None:
    holding = [
        name
        for name, memory in MEMORIES.items()
        if all(word in f"{memory.content} {memory.fields}" for word in question.text.split())
    ]

    assert holding == [question.answer]


def test_all_collections_are_shown() -> None:
    assert {memory.collection for memory in MEMORIES.values()} == set(COLLECTIONS)
