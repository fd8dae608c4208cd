"""Bodies to mappings and back: what gets no block keeps its bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import InvalidInput, TooLarge
from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.registry import DIALECTS, find_dialect
from agentctx.llm.injection import ParsedCall
from agentctx.llm.proxy.body import LARGE_BYTES, MAX_BYTES, MAX_VALUES, JsonBody, SplitBody, is_sealed
from agentctx.wire.protocol import InjectionPosition
from tests.llm.dialects.samples import SAMPLES

CHAT = find_dialect("openai_chat")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.none() | st.integers(0, 4))
def test_an_object_survives(body: dict[str, Any], indent: int | None) -> None:
    split = SplitBody(json.dumps(body, indent=indent).encode())
    assert split.fields == body
    assert json.loads(split.written({**split.fields})) == body


@given(st.dictionaries(st.text(), JSON, max_size=5), st.text(' \t\r\n,:{}[]"a1', max_size=3), st.integers(0))
def test_it_reads_what_json_reads_and_nothing_else(body: dict[str, Any], added: str, place: int) -> None:
    whole = json.dumps(body)
    place %= len(whole) + 1
    text = whole[:place] + added + whole[place:]
    try:
        expected = json.loads(text, object_pairs_hook=_pairs)
    except ValueError:
        expected = None
    if isinstance(expected, tuple) and _is_unique(expected):
        assert SplitBody(text.encode()).fields == json.loads(text)
    else:
        with pytest.raises(InvalidInput):
            SplitBody(text.encode())


@pytest.mark.parametrize("name", sorted(DIALECTS))
@pytest.mark.parametrize("position", ["system", "tail"])
def test_a_body_gets_the_blocks_of_its_dialect(name: str, position: InjectionPosition) -> None:
    dialect, samples = DIALECTS[name], SAMPLES[name]
    for body in (samples.asked(), samples.tool_round(), samples.continued()):
        turns = dialect.read(body).user_turns
        known = Conversation({turn.hash: f"block {turn.index}" for turn in turns[:1]}, "block 0")
        parsed, call = ParsedCall(dialect, body), JsonBody(dialect, json.dumps(body).encode())
        assert call.read() == parsed.read()
        changed = call.inject(position, known, "new \ud83d é")
        assert json.loads(changed) == parsed.inject(position, known, "new \ud83d é")


def test_everything_but_the_changed_turn_keeps_its_bytes() -> None:
    odd = '{ "role":"user","content":"\\u00e9 \\ud83d", "n":[1.0, 1, 1E5, 1e400, 12345678901234567890, -0] }'
    asked = '{"role":"user","content":"When?"}'
    around = ' "seed" : 12345678901234567890123 , "temperature":0.70000000000000000001, "top_p":1e400'
    body = f'{{ "messages": [\n{odd} , {asked}],{around} }}'.encode()
    call = JsonBody(CHAT, body)
    assert call.read().question == "When?"
    changed = call.inject("tail", Conversation(), "a block").decode()
    assert odd in changed
    assert changed.replace('"content":"When?\\n\\na block"', '"content":"When?"') == (
        f'{{"messages":[{odd},{asked}],"seed":12345678901234567890123,'
        '"temperature":0.70000000000000000001,"top_p":1e400}'
    )


def test_a_large_changed_turn_keeps_its_other_parts() -> None:
    picture = '{ "type":"image_url", "image_url":{"url":"' + "A" * LARGE_BYTES + '"}, "n":1E400 }'
    text = '{"type":"text","text":"Which?"}'
    call = JsonBody(CHAT, f'{{"messages":[{{"role":"user","content":[{text},{picture}]}}]}}'.encode())
    assert call.is_large
    assert call.read().question == "Which?"
    assert picture.encode() in call.inject("tail", Conversation(), "a block")


def test_the_very_same_bytes_go_out_where_nothing_is_put_in() -> None:
    call = JsonBody(CHAT, json.dumps(SAMPLES["openai_chat"].asked()).encode())
    call.read()
    assert call.inject("tail", Conversation(), "") is call.body
    gemini = {**SAMPLES["gemini"].asked(), "cachedContent": "c"}
    call = JsonBody(DIALECTS["gemini"], json.dumps(gemini).encode())
    call.read()
    assert call.inject("system", Conversation(), "a block without a place") is call.body


def test_a_body_of_too_many_values_or_bytes_is_not_read() -> None:
    def body(count: int) -> bytes:
        return json.dumps({"messages": [{}] * count}).encode()

    SplitBody(body(1_000))
    with pytest.raises(TooLarge):
        SplitBody(body(MAX_VALUES))
    with pytest.raises(TooLarge):
        JsonBody(CHAT, b"{}" + b" " * MAX_BYTES).read()


def test_a_long_text_with_many_commas_is_one_value() -> None:
    SplitBody(json.dumps({"text": ",[{" * MAX_VALUES}).encode())


def test_a_text_whose_characters_lie_across_pieces_is_read() -> None:
    text = "漢字" * LARGE_BYTES
    assert SplitBody(json.dumps({"text": text}, ensure_ascii=False).encode()).fields == {"text": text}


NOT_READ = [
    *(
        b"",
        b"nonsense",
        b"[1]",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a": 1} trailing',
        b'{"a":"\xe6"}',
    ),
    *(
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": NaN}',
        b'{"a": [1, -Infinity]}',
        b'{"a": "\xe6',
    ),
    *(
        b'{"a": 1, "a": 2}',
        b'{"messages": [{"role": "user", "role": "system"}]}',
        b'{"a": ' + b"9" * 5_000 + b"}",
    ),
    *(
        b'{"a": 1,}',
        b'{"a": [1,]}',
        b'{"a" 1}',
        b'{"a": [1 2]}',
        b"{1: 2}",
        b"{,}",
        b'{"a": 1',
        b'{"a": [1',
        b"\xef\xbb\xbf{}",
    ),
]


@pytest.mark.parametrize("data", NOT_READ)
def test_anything_else_cannot_be_read(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a JSON object"):
        SplitBody(data)


def test_compressed_bodies_are_known_by_their_header() -> None:
    assert is_sealed([(b"content-encoding", b"gzip")])
    assert not is_sealed([(b"content-encoding", b"identity")])
    assert not is_sealed([])


def test_a_signed_body_is_left_alone() -> None:
    assert is_sealed([(b"authorization", b"AWS4-HMAC-SHA256 Credential=x")])
    assert is_sealed([(b"content-digest", b"sha-256=:x:")])
    assert not is_sealed([(b"authorization", b"Bearer x")])


def test_a_number_beyond_a_double_cannot_be_written_again() -> None:
    split = SplitBody(b'{"messages": [{"n": 1e999}]}')
    with pytest.raises(InvalidInput, match="number"):
        split.written({"messages": [{**split.fields["messages"][0], "n": math.inf}]})


def _pairs(pairs: list[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple(pairs)


def _is_unique(value: Any) -> bool:
    """Return whether no object, parsed as a tuple of pairs, has a name twice."""
    if isinstance(value, tuple):
        return len(dict(value)) == len(value) and all(_is_unique(inner) for _, inner in value)
    return all(map(_is_unique, value)) if isinstance(value, list) else True
