"""The process that reads large bodies: messages over its stdin and stdout, one body at a time.

    {"dialect": …} + body                                  ──►  {"asked": …}
    {"position": …, "blocks": …, "latest": …, "new": …}    ──►  {} + body, or {"unchanged": true}

If a body cannot be read, the answer is `{"code": …, "message": …}`. Any other error ends the process with a
traceback. The process ends when its input does, so it never outlives the daemon.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, BinaryIO, Final, TypeAlias

from agentctx.errors import InvalidInput
from agentctx.llm.context_source import MAX_PRESENT_BYTES, latest
from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.registry import find_dialect
from agentctx.llm.proxy.body import JsonBody

LENGTHS: Final = struct.Struct(">II")
"""Prefix of a message: the lengths of its head and its body in bytes."""

Head: TypeAlias = Mapping[str, Any]


def packed_head(head: Head, body: bytes) -> bytes:
    """Serialise a message up to its body."""
    # ASCII, so that half a surrogate pair, which a body's text may contain, passes as an escape.
    written = json.dumps(head).encode()
    return LENGTHS.pack(len(written), len(body)) + written


class BodyWorker:
    """Answers messages in order, keeping the body of the last one."""

    def __init__(self) -> None:
        self._call: JsonBody | None = None

    def answer(self, head: Head, body: bytes) -> tuple[Head, bytes]:
        """Return the head and the body of the answer."""
        try:
            return self._asked(head, body) if "dialect" in head else self._with_blocks(head)
        except InvalidInput as error:
            return {"code": error.code, "message": error.message}, b""

    def _asked(self, head: Head, body: bytes) -> tuple[Head, bytes]:
        self._call = JsonBody(find_dialect(head["dialect"]), body)
        asked = self._call.asked()
        return {"asked": asdict(replace(asked, texts=latest(asked.texts, MAX_PRESENT_BYTES)))}, b""

    def _with_blocks(self, head: Head) -> tuple[Head, bytes]:
        call, self._call = self._call, None
        if call is None:
            raise InvalidInput("The request has no body to add context to.")
        given = Conversation(head["blocks"], head["latest"])
        changed = call.with_blocks(head["position"], given, head["new"])
        return ({"unchanged": True}, b"") if changed is call.body else ({}, changed)


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer messages until the input ends."""
    answering = BodyWorker()
    while prefix := source.read(LENGTHS.size):
        head_size, body_size = LENGTHS.unpack(prefix)
        head, body = answering.answer(json.loads(source.read(head_size)), source.read(body_size))
        sink.write(packed_head(head, body))
        sink.write(body)
        sink.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the daemon's whole process group
    main(sys.stdin.buffer, sys.stdout.buffer)
