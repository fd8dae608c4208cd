"""A loopback HTTP server that speaks Cohere's /v2/rerank and scores by shared words."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class CohereServer:
    """Records its requests; `status` and `results` replace its answer."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    status: int = 200
    results: list[dict[str, Any]] | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        words = set(body["query"].split())
        scored = [
            {"index": at, "relevance_score": len(words & set(text.split())) / 10}
            for at, text in enumerate(body["documents"])
        ]
        best = sorted(scored, key=lambda one: -one["relevance_score"])
        return {"id": "1", "results": best if self.results is None else self.results}


@contextmanager
def cohere_server() -> Iterator[CohereServer]:
    state = CohereServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append({"path": self.path, **body})
            state.keys.append(self.headers["Authorization"])
            reply = state.answer(body) if state.status == 200 else {"message": "refused"}
            data = json.dumps(reply).encode()
            self.send_response(state.status)
            self.send_header("Content-Type", "application/json")
            for header in state.headers.items():
                self.send_header(*header)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
