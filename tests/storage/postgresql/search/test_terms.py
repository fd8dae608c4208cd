"""The words of chunks and questions, in PostgreSQL's notation."""

from __future__ import annotations

import re
import struct

import pytest

from agentctx.storage.postgresql.pgvector import encode_sparsevec
from agentctx.storage.postgresql.search.terms import (
    MAX_CHARACTERS,
    MAX_WEIGHTS,
    any_of,
    rarities,
    terms_of,
    words_of,
)


def words(text: str, labels: str = "") -> str:
    return words_of([(text, labels)])[0].words


def weights(text: str) -> dict[int, float]:
    sent = words_of([(text, "")])[0].weights
    _, count, _ = struct.unpack_from(">iii", sent)
    numbers = struct.unpack_from(f">{count}i{count}f", sent, offset=12)
    return dict(zip(numbers[:count], numbers[count:], strict=True))


def test_tokens_are_stemmed_and_keep_their_positions() -> None:
    assert (
        words("Backing up: the backed-up databases") == "'back':1 'up':2 'the':3 'back':4 'up':5 'databas':6"
    )


def test_camel_case_is_indexed_whole_and_in_parts() -> None:
    assert re.findall(r"'(\w+)'", words("getUserName")) == ["getusernam", "get", "user", "name"]


def test_no_phrase_spans_the_text_and_the_labels() -> None:
    assert words("config", "yaml") == "'config':1 'yaml':4"


def test_quotes_and_backslashes_are_not_part_of_tokens() -> None:
    assert words("it's a \\ 'quoted' word") == "'it':1 's':2 'a':3 'quot':4 'word':5"


def test_an_empty_text_has_no_words() -> None:
    assert words_of([("", ""), ("…", "")]) == [("", encode_sparsevec({}))] * 2


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
    assert max(map(len, re.findall(r"'(\w+)'", words(huge)))) == MAX_CHARACTERS


def test_rarities_and_weights_use_the_same_dimension() -> None:
    (place,) = weights("crane")
    assert rarities({"crane": 2.5}) == encode_sparsevec({place: 2.5})
