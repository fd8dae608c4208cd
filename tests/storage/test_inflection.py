"""A question finds what is written with other forms of its words, in each language of `inflected.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.inflection import forms, inflected
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.words import question_terms
from agentctx_testing.drafts import ManualClock, keyless, save

CASES: dict[str, list[list[str]]] = tomllib.loads(
    Path(__file__).with_name("data").joinpath("inflected.toml").read_text("utf-8")
)
UNFOUND = {"kada su sastanci timova": "Snowball knows neither `sastan(a)k` nor `tim(ov)`"}


@pytest.mark.parametrize("language", CASES)
async def test_other_forms_of_the_words_are_found_first(language: str, tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "agentctx.db", clock=ManualClock())
    chunks = {}
    for number, (memory, _) in enumerate(CASES[language], 1):
        await save(storage, keyless(memory))
        chunks[memory] = number
    missed = []
    for memory, question in CASES[language]:
        hits = (await storage.search.by_words(question, Filter(namespace="default"), 5)).hits
        best = [hit.chunk for hit in hits if hit.score == hits[0].score]
        if best != [chunks[memory]] and question not in UNFOUND:
            missed.append(question)
    await storage.close()
    assert missed == []


@pytest.mark.parametrize("language", CASES)
def test_a_passage_is_credited_with_other_forms_of_the_words(language: str) -> None:
    credited = [QuestionWords(question).match([memory]).matched for memory, question in CASES[language]]
    assert sum(map(bool, credited)) >= len(credited) - 1


@pytest.mark.parametrize(
    ("question", "languages"),
    [
        ("wo sind die Passwörter", ["german"]),
        ("Kündigungsfrist Mietvertrag", ["german", "turkish"]),
        ("де паролі серверів", ["ukrainian"]),
        ("пароли серверов", ["russian"]),
        ("kde jsou hesla", ["czech"]),
        ("gdje su lozinke", ["serbian"]),
        ("where are the passwords", []),
        ("where is the Kündigungsfrist defined", []),
        ("wo steht die Hausnummer", ["german"]),
        ("was steht im Mietvertrag", ["german"]),
        ("do we have a plan in May", []),
        ("kubernetes limits", []),
        ("有哪些版本", []),
        ("", []),
    ],
)
def test_the_question_shows_its_language(question: str, languages: Sequence[str]) -> None:
    assert list(inflected(question)) == languages


def test_a_compound_has_both_parts_or_all_of_it() -> None:
    words = QuestionWords("wo steht die Versicherungsnummer")
    found = [
        "Nummer und Versicherung",
        "Die Versicherungsnummern sind neu",
        "Die Versicherung ist teuer",
        "Nummern ohne Ende",
    ]
    assert [words.match([text]).matched for text in found] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("wann können wir kündigen", "Die Kündigung ist im März möglich"),
        ("wie lang ist die Kuendigungsfrist", "Die Kündigungsfristen sind lang"),
        ("wie lang ist die Kündigungsfrist", "Kuendigungsfrist: drei Monate"),
        ("in welcher Straße ist das", "Hauptsitz ist Lange Strasse 3"),
        ("welche Lieblingseditoren haben wir", "Mein Lieblingseditor ist Emacs"),
    ],
)
def test_german_spellings_and_derivations_are_forms(question: str, text: str) -> None:
    assert QuestionWords(question).match([text]).matched


def test_little_follows_a_short_beginning() -> None:
    words = QuestionWords("gdzie jest baza")
    assert words.match(["w bazie"]).matched == 1
    assert words.match(["targ bazarowy"]).matched == 0


def test_english_is_left_to_the_index() -> None:
    assert not any(term.forms for term in question_terms("Which databases are backed up nightly?"))


def _folded(word: str) -> str:
    return word.translate({ord("ä"): "ae", ord("ö"): "oe", ord("ü"): "ue"})


@given(
    st.text("aeiourstnmlkdzćżüößğışиеоанрств", max_size=24),  # noqa: RUF001
    st.sampled_from(["german", "polish", "czech", "russian", "ukrainian", "serbian", "turkish"]),
)
def test_every_form_is_of_the_words_own_letters(word: str, language: str) -> None:
    for form in forms(word, [language]):
        spelling = _folded(word)
        assert spelling.startswith(_folded(form[0]))
        assert _folded(form[-1]) in spelling
        assert all(part.isalpha() for part in form)
