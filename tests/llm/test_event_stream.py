"""Streams in pieces of any size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import UpstreamFailed
from agentctx.llm import event_stream
from agentctx.llm.event_stream import EventDecoder, JsonLines, ServerSentEvents

EVENTS = st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2), max_size=5)
ENDS = st.sampled_from(["\n", "\r\n"])


def decoded(decoder: EventDecoder, data: bytes, size: int) -> list[dict[str, Any]]:
    events = [event for at in range(0, len(data), size) for event in decoder.feed(data[at : at + size])]
    return [*events, *decoder.finish()]


@given(EVENTS, ENDS, st.integers(1, 20), st.booleans())
def test_server_sent_events(events: list[dict[str, str]], end: str, size: int, is_named: bool) -> None:
    name = f"event: x{end}: a comment{end}" if is_named else ""
    # Not escaped: Python takes some of these characters for line ends.
    texts = [f"{name}data: {json.dumps(event, ensure_ascii=False)}{end}{end}" for event in events]
    data = "".join([*texts, f"data: [DONE]{end}{end}"]).encode()
    assert decoded(ServerSentEvents(), data, size) == events


@given(EVENTS, ENDS, st.integers(1, 20), st.booleans())
def test_json_lines(events: list[dict[str, str]], end: str, size: int, is_ended: bool) -> None:
    data = end.join(json.dumps(event, ensure_ascii=False) for event in events) + (end if is_ended else "")
    assert decoded(JsonLines(), data.encode(), size) == events


def test_data_of_several_lines_is_one_event() -> None:
    assert decoded(ServerSentEvents(), b'data: {"a":\ndata: 1}\n', 99) == [{"a": 1}]


@pytest.mark.parametrize("decoder", [ServerSentEvents, JsonLines])
def test_an_event_that_is_not_an_object_is_an_error(decoder: Callable[[], EventDecoder]) -> None:
    for data in (b"data: nonsense\n\n", b"data: [1]\n\n", b"[1]\n", b"{\n"):
        if decoder is JsonLines or data.startswith(b"data"):
            with pytest.raises(UpstreamFailed):
                decoded(decoder(), data, 5)


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 10)
    with pytest.raises(UpstreamFailed, match="more than 10 bytes"):
        decoded(JsonLines(), b"x" * 30, 6)
