from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag import spelling
from agentctx.service.rag.spelling import is_typing_error, unfamiliar
from agentctx.service.rag.word_match import QuestionWords

TEXTS = ["The scheduler starts at six.", "Invoices go to billing by courier."]
WORDS = st.text("abcdefgh", min_size=6, max_size=12)


def corrected(question: str, texts: list[str]) -> str | None:
    """Return what is asked instead of a question that found these texts."""
    return spelling.corrected(question, unfamiliar(question, QuestionWords(question).found(texts)), texts)


def test_a_misspelled_word_becomes_the_word_of_the_memory() -> None:
    assert corrected("When does the scehduler start?", TEXTS) == "When does the scheduler start?"
    assert corrected("who brings invoces", TEXTS) == "who brings invoices"
    assert corrected("is the couurier paid", TEXTS) == "is the courier paid"


def test_words_that_the_memory_has_stay_also_in_another_form() -> None:
    assert corrected("is it scheduled", [*TEXTS, "schedule"]) is None
    assert corrected("the couriers", [*TEXTS, "courries"]) is None


def test_another_letter_and_another_end_make_other_words() -> None:
    for word, other in (("stage", "state"), ("officer", "office"), ("mango", "mongo"), ("there", "three")):
        assert corrected(f"which {word} is it", [f"the {other} of it"]) is None


def test_a_beginning_is_never_mistyped() -> None:
    assert corrected("the shceduler", TEXTS) is None


def test_a_word_that_could_be_two_is_left_alone() -> None:
    assert corrected("the contrct", ["contract"]) == "the contract"
    assert corrected("the contrct", ["contract", "contrect"]) is None


def test_short_words_are_left_alone() -> None:
    assert corrected("the prot", ["port"]) is None


def test_a_stop_word_is_never_meant() -> None:
    assert corrected("wheere is it", ["It is where it was."]) is None


@given(WORDS, st.integers(2, 10))
def test_a_lost_or_swapped_letter_in_the_middle_is_a_typing_error(word: str, at: int) -> None:
    at = min(at, len(word) - 2)
    shorter = word[:at] + word[at + 1 :]
    assert is_typing_error(shorter, word)
    assert is_typing_error(word, shorter)
    swapped = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    assert is_typing_error(swapped, word) == (swapped != word and swapped[-1] == word[-1])


@given(WORDS)
def test_a_word_is_no_typing_error_of_itself(word: str) -> None:
    assert not is_typing_error(word, word)
