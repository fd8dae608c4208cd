"""The words of chunks and questions, in PostgreSQL's notation."""

from __future__ import annotations

import struct

import pytest

from agentctx_postgresql.pgvector import encode_sparsevec
from agentctx_postgresql.search.terms import (
    LAST_POSITION,
    MAX_CHARACTERS,
    MAX_POSITIONS,
    MAX_WEIGHTS,
    any_of,
    rarities,
    terms_of,
    words_of,
)


def lexemes(text: str, labels: str = "") -> dict[str, tuple[int, ...]]:
    """Return the lexemes of a binary `tsvector`, each with its positions."""
    sent = words_of([(text, labels)])[0].words
    (count,) = struct.unpack_from(">i", sent)
    found, place = {}, 4
    for _ in range(count):
        end = sent.index(b"\0", place)
        (positions,) = struct.unpack_from(">H", sent, end + 1)
        found[sent[place:end].decode()] = struct.unpack_from(f">{positions}H", sent, end + 3)
        place = end + 3 + 2 * positions
    assert place == len(sent)
    return found


def weights(text: str) -> dict[int, float]:
    sent = words_of([(text, "")])[0].weights
    _, count, _ = struct.unpack_from(">iii", sent)
    numbers = struct.unpack_from(f">{count}i{count}f", sent, offset=12)
    return dict(zip(numbers[:count], numbers[count:], strict=True))


def test_tokens_are_stemmed_and_keep_their_positions() -> None:
    found = lexemes("Backing up: the backed-up databases")
    assert found == {"back": (1, 4), "up": (2, 5), "the": (3,), "databas": (6,)}


def test_camel_case_is_indexed_whole_and_in_parts() -> None:
    assert [*lexemes("getUserName")] == ["getusernam", "get", "user", "name"]


def test_no_phrase_spans_the_text_and_the_labels() -> None:
    assert lexemes("config", "yaml") == {"config": (1,), "yaml": (4,)}


def test_quotes_and_backslashes_are_not_part_of_tokens() -> None:
    assert [*lexemes("it's a \\ 'quoted' word")] == ["it", "s", "a", "quot", "word"]


def test_an_empty_text_has_no_words() -> None:
    assert words_of([("", ""), ("…", "")]) == [(bytes(4), encode_sparsevec({}))] * 2


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("backups", "('backup')"),
        ("config.yaml", "('config' <-> 'yaml')"),
        ("备份 is", "('备份')"),
        ("备", "('备':*)"),
        ("10.0.0.1", "('10' <-> '0' <-> '0' <-> '1')"),
        ("naïve cafés", "('naiv') | ('cafe')"),
        ("(", ""),
    ],
)
def test_a_question_matches_any_of_its_terms(question: str, query: str) -> None:
    assert any_of(terms_of(question)) == query


def test_longer_texts_weigh_less_and_repeated_words_more() -> None:
    (short,) = weights("crane").values()
    (twice,) = weights("crane crane").values()
    long = max(weights("crane " + " ".join(map(str, range(200)))).values())
    assert long < short < twice


def test_huge_chunks_stay_within_the_limits_of_postgresql() -> None:
    huge = " ".join(map(str, range(20_000))) + " " + "y" * 5_000
    assert len(weights(huge)) == MAX_WEIGHTS
    found = lexemes(huge)
    assert max(map(len, found)) == MAX_CHARACTERS
    assert {found[str(number)] for number in range(16_382, 20_000)} == {(LAST_POSITION,)}


def test_a_word_keeps_as_many_positions_as_postgresql_allows() -> None:
    assert lexemes("crane " * 300)["crane"] == tuple(range(1, MAX_POSITIONS + 1))
    assert lexemes("x " * LAST_POSITION + "crane " * 3)["crane"] == (LAST_POSITION,)


def test_rarities_and_weights_use_the_same_dimension() -> None:
    (place,) = weights("crane")
    assert rarities({"crane": 2.5}) == encode_sparsevec({place: 2.5})
