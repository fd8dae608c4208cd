"""Bodies to mappings and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.proxy.body import readable_body, written_body
from agentctx.wire.json_values import MAX_VALUES

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), JSON))
def test_an_object_survives(body: dict[str, Any]) -> None:
    sent = json.dumps(body).encode()
    read = readable_body(sent, [])
    assert read == body
    assert json.loads(written_body(read)) == body


def test_a_body_of_too_many_values_is_not_read() -> None:
    def body(count: int) -> bytes:
        return json.dumps({"messages": [{}] * count}).encode()

    assert readable_body(body(1_000), []) is not None
    assert readable_body(body(MAX_VALUES), []) is None


def test_a_long_text_with_many_commas_is_one_value() -> None:
    assert readable_body(json.dumps({"text": ",[{" * MAX_VALUES}).encode(), []) is not None


def test_half_a_surrogate_pair_survives() -> None:
    read = readable_body(b'{"text": "\\ud83d alone"}', [])
    assert read is not None
    assert b"\\ud83d" in written_body(read)


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a": 1} trailing']
)
def test_anything_else_is_left_alone(data: bytes) -> None:
    assert readable_body(data, []) is None


def test_compressed_bodies_are_left_alone() -> None:
    assert readable_body(b"{}", [(b"content-encoding", b"gzip")]) is None
    assert readable_body(b"{}", [(b"content-encoding", b"identity")]) == {}


def test_a_number_beyond_a_double_cannot_be_written() -> None:
    read = readable_body(b'{"n": 1e999}', [])
    assert read is not None
    with pytest.raises(ValueError, match="JSON"):
        written_body(read)
