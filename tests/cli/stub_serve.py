"""A stub for `agentctx serve` in the demo: it stores entries, and knows the answers of the demo.

`stub_serve.py SOCKET [FLAW]`, with FLAW one of `wrong-answer`, `bad-exit`, `buried`, `no-model`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentctx.cli.demo_memories import BY_WORD, FOR_AN_LLM, IN_OTHER_WORDS, MEMORIES
from agentctx.wire import ContextReply, Passage, SearchReply
from tests.client.stub_daemon import StubDaemon, StubRequest, passage, queue_reply, save_result, status_reply

ANSWERS = {question.text: question.answer for question in (*BY_WORD, *IN_OTHER_WORDS, FOR_AN_LLM)}

NO_MODEL = replace(status_reply().provider, state="degraded", reason="provider_failed: no room for it")


class Memory:
    """Entries by their text; ids count up."""

    def __init__(self, flaw: str) -> None:
        self.ids: dict[str, str] = {}
        self.flaw = flaw

    def save(self, seen: StubRequest) -> tuple[int, Any]:
        text = text_of(seen.body)
        changed = text not in self.ids
        entry_id = self.ids.setdefault(text, f"id-{len(self.ids)}")
        return 201, save_result(id=entry_id, changed=changed)

    def search(self, seen: StubRequest) -> tuple[int, Any]:
        return 200, SearchReply(results=self.hits(seen.body["query"]), degraded=None)

    def context(self, seen: StubRequest) -> tuple[int, Any]:
        hits = self.hits(seen.body["query"])
        return 200, ContextReply(block="## Semantic Context (RAG)\n", tokens=7, results=hits, degraded=None)

    def hits(self, query: str) -> list[Passage]:
        memory = MEMORIES[ANSWERS[query]]
        text = text_of({"content": memory.content, **memory.fields})
        found = [passage(id=self.ids[text], content=text), passage(id="other", distance=None)]
        return found[::-1] if self.flaw == "wrong-answer" else found


def text_of(fields: Mapping[str, Any]) -> str:
    return str(fields.get("content") or fields["trigger"])


def main(socket: Path, flaw: str) -> int:
    stub, memory = StubDaemon(socket), Memory(flaw)
    stub.answer("GET", "/readyz", (503, {}), (200, {"status": "ok"}))
    stub.answer("POST", "/v1/entries", memory.save)
    stub.answer("POST", "/v1/search", memory.search)
    stub.answer("POST", "/v1/context", memory.context)
    status = status_reply(provider=NO_MODEL) if flaw == "no-model" else status_reply()
    stub.answer("GET", "/v1/status", (200, status))
    stub.answer("GET", "/v1/queue", (200, queue_reply(9, 0)))
    stub.answer("POST", "/v1/queue/drain", (200, queue_reply(0, int(flaw == "buried"))))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sys.stdout.write("the stub listens\n")
    sys.stdout.flush()
    with stub.running():
        signal.sigwait({signal.SIGTERM})
    socket.unlink(missing_ok=True)
    return 9 if flaw == "bad-exit" else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
