"""Decode streamed replies: bytes in, JSON events out. Pure.

Only a line feed ends a line, because JSON may contain the other characters that Python treats as line ends.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from agentctx.errors import UpstreamFailed

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""An image arrives as one event; anything larger is not a reply."""
_END = b"[DONE]"


class EventDecoder(ABC):
    """Decodes a stream given in pieces of any size."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the events that these bytes complete.

        Raises:
            UpstreamFailed: an event is not a JSON object, or is larger than `MAX_EVENT_BYTES`.
        """
        self._rest += data
        if b"\n" in data:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest = bytearray(rest)
            for line in lines:
                yield from self._take(line.removesuffix(b"\r"))
        elif len(self._rest) > MAX_EVENT_BYTES:
            raise UpstreamFailed(f"The model's reply has an event of more than {MAX_EVENT_BYTES} bytes.")

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield the rest at the end of the stream, where the last line end may be missing."""
        rest, self._rest = bytes(self._rest), bytearray()
        for line in (rest, b""):
            yield from self._take(line)

    @abstractmethod
    def _take(self, line: bytes) -> Iterator[dict[str, Any]]:
        """Yield the event that ends with this line, if any."""


class ServerSentEvents(EventDecoder):
    """The `data` of server-sent events. `[DONE]` is not an event; names and comments are skipped."""

    def __init__(self) -> None:
        super().__init__()
        self._data: list[bytes] = []

    def _take(self, line: bytes) -> Iterator[dict[str, Any]]:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            if data.strip() != _END:
                yield _parsed(data)


class JsonLines(EventDecoder):
    """One JSON object per line."""

    def _take(self, line: bytes) -> Iterator[dict[str, Any]]:
        if line.strip():
            yield _parsed(line)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise UpstreamFailed("The model's reply contains something that is not a JSON object.")
    return event
