"""Bodies to mappings and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import InvalidInput, TooLarge
from agentctx.llm.proxy.body import MAX_VALUES, is_sealed, parsed_body, written_body

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_an_object_survives(body: dict[str, Any]) -> None:
    sent = json.dumps(body).encode()
    read = parsed_body(sent)
    assert read == body
    assert json.loads(written_body(read)) == body


def test_a_body_of_too_many_values_is_not_read() -> None:
    def body(count: int) -> bytes:
        return json.dumps({"messages": [{}] * count}).encode()

    parsed_body(body(1_000))
    with pytest.raises(TooLarge):
        parsed_body(body(MAX_VALUES))


def test_a_long_text_with_many_commas_is_one_value() -> None:
    parsed_body(json.dumps({"text": ",[{" * MAX_VALUES}).encode())


def test_half_a_surrogate_pair_survives() -> None:
    assert b"\\ud83d" in written_body(parsed_body(b'{"text": "\\ud83d alone"}'))


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a": 1} trailing']
)
def test_anything_else_cannot_be_read(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parsed_body(data)


def test_compressed_bodies_are_known_by_their_header() -> None:
    assert is_sealed([(b"content-encoding", b"gzip")])
    assert not is_sealed([(b"content-encoding", b"identity")])
    assert not is_sealed([])


def test_a_signed_body_is_left_alone() -> None:
    assert is_sealed([(b"authorization", b"AWS4-HMAC-SHA256 Credential=x")])
    assert is_sealed([(b"content-digest", b"sha-256=:x:")])
    assert not is_sealed([(b"authorization", b"Bearer x")])


def test_a_number_beyond_a_double_cannot_be_written() -> None:
    with pytest.raises(InvalidInput, match="number"):
        written_body(parsed_body(b'{"n": 1e999}'))
