from __future__ import annotations

import json
import re
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agentctx.errors import InvalidInput, TooLarge
from agentctx.server.strict_json import MAX_DEPTH, MAX_FIELDS, check, decode
from agentctx.wire import ContextRequest, OutcomeRequest, SaveRequest, SearchRequest
from agentctx.wire.json_values import MAX_VALUES
from tests.amount import examples

SAVE = TypeAdapter(SaveRequest)

NOT_STRICT_JSON = {
    "empty": (b"", "no body"),
    "whitespace": (b" \r\n\t", "no body"),
    "garbage": (b"hello", "not valid JSON"),
    "two values": (b"{} {}", "not valid JSON"),
    "trailing comma": (b'{"a":1,}', "not valid JSON"),
    "single quotes": (b"{'a':1}", "not valid JSON"),
    "comment": (b"{} // no", "not valid JSON"),
    "cut": (b'{"collection":"kno', "not valid JSON"),
    "byte order mark": (b"\xef\xbb\xbf{}", "not valid JSON"),
    "utf-16": ('{"a":1}'.encode("utf-16"), "not valid UTF-8"),
    "latin-1": (b'{"a":"\xe9"}', "not valid UTF-8 at byte 6"),
    "overlong utf-8": (b'{"a":"\xc0\xaf"}', "not valid UTF-8"),
    "raw surrogate": (b'{"a":"\xed\xa0\x80"}', "not valid UTF-8"),
    "escaped surrogate": (b'{"a":"\\ud800"}', "surrogate"),
    "escaped low surrogate": (b'{"a":"x\\udc00y"}', "surrogate"),
    "swapped surrogates": (b'{"a":"\\udc00\\ud800"}', "surrogate"),
    "surrogate in a key": (b'{"\\ud800":1}', "surrogate"),
    "raw NUL": (b'{"a":"\x00"}', "not valid JSON"),
    "escaped NUL": (b'{"a":"x\\u0000"}', "NUL"),
    "escaped NUL in a key": (b'{"\\u0000":1}', "NUL"),
    "only NULs": (b"\0\0", "not valid JSON"),
    "raw newline in a text": (b'{"a":"\n"}', "not valid JSON"),
    "bad escape": (b'{"a":"\\x41"}', "not valid JSON"),
    "NaN": (b'{"a":NaN}', "NaN is not valid JSON"),
    "Infinity": (b'{"a":Infinity}', "Infinity is not valid JSON"),
    "-Infinity": (b'{"a":-Infinity}', "-Infinity is not valid JSON"),
    "1e999": (b'{"a":1e999}', "out of range"),
    "65 bits": (b'{"a":9223372036854775808}', "64 bits"),
    "5000 digits": (b'{"a":' + b"9" * 5_000 + b"}", "64 bits"),
    "leading zero": (b'{"a":01}', "not valid JSON"),
    "duplicate key": (b'{"a":1,"b":2,"a":1}', "`a` appears twice"),
    "duplicate key deeper": (b'{"x":[{"a":1,"\\u0061":2}]}', "`a` appears twice"),
    "deep": (b"[" * 33 + b"]" * 33, "nested deeper than 32"),
    "very deep": (b"[" * 20_000 + b"]" * 20_000, "nested deeper than 32"),
    "very deep and open": (b'{"a":' * 20_000, "nested deeper than 32"),
}


@pytest.mark.parametrize(("raw", "words"), NOT_STRICT_JSON.values(), ids=NOT_STRICT_JSON)
def test_refuses_json_that_is_not_strict(raw: bytes, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(raw)
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b'{"a":9223372036854775807,"b":-9223372036854775808}',
        b'{"a":1.5e300,"b":-0,"c":null}',
        '{"a":"é😀","b":"\\ud83d\\ude00"}'.encode(),
        b' {"a":"\\u0001"}\n',
    ],
)
def test_accepts_strict_json(raw: bytes) -> None:
    check(raw)


def test_a_nul_in_one_of_many_entries_is_left_to_its_own_check() -> None:
    check(b'{"entries":[{"content":"fine"},{"content":"x\\u0000","tags":["\\u0000"]}]}')
    for raw, place in (
        (b'{"entries":["\\u0000"]}', "`entries[0]`"),
        (b'{"namespaces":["a","\\u0000"]}', "`namespaces[1]`"),
        (b'{"entries":[{"content":"fine"},{"content":"\\ud800"}]}', "`entries[1].content`"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(place)):
            check(raw)


def test_refuses_more_values_than_the_limit() -> None:
    check(json.dumps([0] * MAX_VALUES).encode())
    with pytest.raises(TooLarge, match="more than 50000 values"):
        check(json.dumps([0] * (MAX_VALUES + 1)).encode())
    with pytest.raises(TooLarge, match="more than 50000 values"):
        check(b"[" * 1_000_000)


@pytest.mark.parametrize("text", [",[{" * 50_000, '",\\"' * 50_000, "\\," * 50_000])
def test_punctuation_inside_texts_is_not_counted_as_values(text: str) -> None:
    check(json.dumps({"query": text}).encode())


def test_finds_a_duplicate_among_very_many_keys() -> None:
    keys = ",".join(f'"k{i}":1' for i in range(MAX_FIELDS - 1))
    with pytest.raises(InvalidInput, match="`k3998` appears twice"):
        check(f'{{{keys},"k3998":2}}'.encode())


def test_the_number_of_fields_in_an_object_is_limited() -> None:
    check(json.dumps({f"k{i}": 0 for i in range(MAX_FIELDS)}).encode())
    with pytest.raises(InvalidInput, match="more than 4000 fields"):
        check(json.dumps([{f"k{i}": 0 for i in range(MAX_FIELDS + 1)}]).encode())


WRONG_SHAPE = {
    "null": (b"null", "the body must be an object"),
    "list": (b"[]", "the body must be an object"),
    "text": (b'"x"', "the body must be an object"),
    "missing": (b"{}", "`collection` is missing"),
    "unknown": (b'{"collection":"k","colour":"red"}', "`colour` is not a known field"),
    "number for text": (b'{"collection":5}', "`collection` must be a string"),
    "null for text": (b'{"collection":null}', "`collection` must be a string"),
    "text for number": (b'{"collection":"k","token_count":"5"}', "`token_count` must be an integer"),
    "bool for number": (b'{"collection":"k","token_count":true}', "`token_count` must be an integer"),
    "float for integer": (b'{"collection":"k","token_count":1.0}', "`token_count` must be an integer"),
    "text for list": (b'{"collection":"k","tags":"a"}', "`tags` must be a list"),
    "number in list": (b'{"collection":"k","tags":["a",1]}', "`tags[1]` must be a string"),
    "other word": (
        b'{"collection":"k","origin":"me"}',
        "`origin` must be 'user', 'agent', 'tool', 'document', 'import' or 'capture'",
    ),
}


@pytest.mark.parametrize(("raw", "words"), WRONG_SHAPE.values(), ids=WRONG_SHAPE)
def test_names_the_field_and_the_rule(raw: bytes, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(raw, SAVE)
    assert words in caught.value.message


def test_a_field_named_like_a_location_is_named() -> None:
    with pytest.raises(InvalidInput, match="`query` must be a string"):
        decode(b'{"query":5}', TypeAdapter(SearchRequest))


@pytest.mark.parametrize("raw", [b'{"success":1}', b'{"success":"true"}', b'{"success":null}'])
def test_only_booleans_are_accepted_as_booleans(raw: bytes) -> None:
    with pytest.raises(InvalidInput, match="`success` must be true or false"):
        decode(raw, TypeAdapter(OutcomeRequest))


def test_never_echoes_values() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(b'{"collection":"k","token_count":"my secret","tags":{"my secret":1}}', SAVE)
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_lists_five_problems_and_counts_the_rest() -> None:
    raw = json.dumps({"collection": "k", "tags": list(range(20))}).encode()
    with pytest.raises(InvalidInput) as caught:
        decode(raw, SAVE)
    assert caught.value.message.count("must be a string") == 5
    assert caught.value.message.endswith("and 15 more problems.")


def test_only_counts_problems_when_there_are_very_many() -> None:
    raw = json.dumps({"collection": "k", "tags": [0] * 20_000}).encode()
    with pytest.raises(InvalidInput, match="20000 fields that are unknown or of the wrong type"):
        decode(raw, SAVE)


def test_decodes_inherited_and_default_fields() -> None:
    request = decode(b'{"query":"a","budget_tokens":7,"max_distance":1}', TypeAdapter(ContextRequest))
    assert request == ContextRequest(query="a", budget_tokens=7, max_distance=1.0)


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(string.ascii_letters), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=examples(150), deadline=None)
@given(JSON_VALUES, st.booleans())
def test_accepts_what_a_json_library_writes(value: Any, ascii_only: bool) -> None:
    check(json.dumps(value, ensure_ascii=ascii_only).encode())


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_decoded_or_refused(raw: bytes) -> None:
    try:
        decode(raw, SAVE)
    except InvalidInput as error:
        assert error.message.isprintable()  # noqa: PT017 - no error is an outcome too
