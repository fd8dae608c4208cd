from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.stop_words import STOP_WORDS, is_grammar, stop_words_of
from agentctx.storage.words import question_terms


def _words(question: str) -> list[str]:
    return [term.text for term in question_terms(question)]


def test_stop_words_are_single_lower_case_words() -> None:
    assert all(word.isalpha() and word.islower() for word in STOP_WORDS)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Wann wird die Ware bei uns angeliefert?", ["ware", "angeliefert"]),
        ("¿A qué hora abre la recepción?", ["hora", "abre", "recepción"]),
        ("a que hora abre la recepcion", ["hora", "abre", "recepcion"]),
        ("c'est quoi la couleur de l'icône", ["couleur", "icône"]),
        ("onde ficam os servidores", ["ficam", "servidores"]),
        ("qual è il prezzo dell'abbonamento", ["prezzo", "abbonamento"]),
        ("hoeveel kost een kaartje", ["kost", "kaartje"]),
        ("сколько дней хранятся события", ["дней", "хранятся", "события"]),
        ("कितने दिन में डिलीवरी होती है", ["दिन", "डिलीवरी"]),
        ("最低支持哪个版本", ["最低", "低支", "支持", "持哪", "个版", "版本"]),
        ("月謝はいくらですか", ["月謝"]),
        ("うどんの作り方", ["うど", "どん", "んの", "作り", "り方"]),
    ],
)
def test_drops_the_stop_words_of_the_language(question: str, words: list[str]) -> None:
    assert _words(question) == words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("why does the app die", ["app", "die"]),
        ("MIT license", ["mit", "license"]),
        ("dos attack on the nas", ["dos", "attack", "nas"]),
        ("jest config var", ["jest", "config", "var"]),
        ("CI runs on Jenkins", ["ci", "runs", "jenkins"]),
        ("is the es index on", ["es", "index"]),
        ("was", ["was"]),
        ("qué es", ["qué", "es"]),
    ],
)
def test_keeps_words_that_other_languages_skip(question: str, words: list[str]) -> None:
    assert _words(question) == words


@given(st.text(max_size=60))
def test_every_language_drops_the_english_stop_words(question: str) -> None:
    assert stop_words_of(question) >= STOP_WORDS


@given(st.text(min_size=1, max_size=2))
def test_letters_are_no_grammar(pair: str) -> None:
    assert not (pair.isascii() and is_grammar(pair))
