from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agentctx.embedding.providers.openai_embedder import LIMITS, OpenAIEmbedder
from agentctx.errors import ConfigInvalid, Disposition, InvalidInput, ProviderFailed
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import running

if TYPE_CHECKING:
    import openai

KEY = "sk-s3cret"
MODEL = "tiny"
DIMENSION = 4


def vector_of(text: str, dimension: int) -> list[float]:
    seed = int.from_bytes(text.encode()[:8].ljust(8, b"\0"), "big")
    numbers = np.random.default_rng([seed, len(text)]).standard_normal(dimension)
    return [float(number) for number in numbers.astype(np.float32)]


@dataclass
class Script:
    """What the server replies, and what it received."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    corrupt: Any = None
    """Changes the list of embeddings before it is sent."""
    always_float: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


def embeddings(asked: dict[str, Any], script: Script) -> list[dict[str, Any]]:
    as_base64 = asked.get("encoding_format") == "base64" and not script.always_float
    rows = []
    for index, text in enumerate(asked["input"]):
        numbers: Any = vector_of(text, asked.get("dimensions", DIMENSION))
        if as_base64:
            numbers = base64.b64encode(np.asarray(numbers, "<f4").tobytes()).decode()
        rows.append({"object": "embedding", "index": index, "embedding": numbers})
    # The API does not guarantee an order.
    return rows[::-1]


def handler_of(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            script.requests.append({"path": self.path, **asked})
            script.keys.append(self.headers["authorization"])
            data = embeddings(asked, script)
            reply = {
                "object": "list",
                "data": script.corrupt(data) if script.corrupt else data,
                "model": asked["model"],
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
            }
            self.answer(json.dumps(reply if script.body is None else script.body).encode())

        def answer(self, body: bytes) -> None:
            self.send_response(script.status)
            headers = {"content-type": "application/json", "content-length": str(len(body)), **script.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name in the base class
            """Log nothing."""

    return Handler


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def base_url(script: Script) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(script))
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def connected(key: str, base_url: str) -> openai.AsyncOpenAI:
    """Return a client. The import takes a second, and every process collects these tests."""
    import openai

    return openai.AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0)


@pytest.fixture
async def client(base_url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with connected(KEY, base_url) as client:
        yield client


@pytest.fixture
def embedder(client: openai.AsyncOpenAI) -> OpenAIEmbedder:
    return OpenAIEmbedder(client, MODEL)


def unit_vector(text: str, dimension: int = DIMENSION) -> list[float]:
    numbers = np.asarray(vector_of(text, dimension), np.float64)
    return [float(number) for number in numbers / np.linalg.norm(numbers)]


class TestVectors:
    @pytest.mark.parametrize("always_float", [False, True])
    async def test_embed_returns_a_unit_row_for_each_text_in_order(
        self, embedder: OpenAIEmbedder, script: Script, always_float: bool
    ) -> None:
        script.always_float = always_float
        vectors = await embedder.embed(["hello", "world"])
        assert vectors.shape == (2, DIMENSION)
        assert vectors.dtype == np.float32
        assert vectors[0] == pytest.approx(unit_vector("hello"), abs=1e-6)
        assert vectors[1] == pytest.approx(unit_vector("world"), abs=1e-6)

    async def test_a_query_has_the_same_vector_as_the_text_in_a_batch(self, embedder: OpenAIEmbedder) -> None:
        together = await embedder.embed(["hello", "", "🎈"])
        for row, text in zip(together, ["hello", "", "🎈"], strict=True):
            assert np.array_equal(row, await embedder.embed_query(text))
            assert np.array_equal(row, (await embedder.embed([text]))[0])

    async def test_the_dimension_of_an_unknown_model_is_learnt_from_the_first_reply(
        self, embedder: OpenAIEmbedder
    ) -> None:
        assert embedder.dimension == 0
        await embedder.embed_query("hello")
        assert embedder.dimension == DIMENSION

    async def test_known_models_and_configured_dimensions(
        self, client: openai.AsyncOpenAI, script: Script
    ) -> None:
        assert OpenAIEmbedder(client).dimension == 1_536
        assert OpenAIEmbedder(client).name == "openai text-embedding-3-small"
        assert OpenAIEmbedder(client, "text-embedding-3-large").dimension == 3_072
        short = OpenAIEmbedder(client, dimensions=3)
        assert (await short.embed_query("hello")) == pytest.approx(unit_vector("hello", 3), abs=1e-6)
        assert script.requests[0]["dimensions"] == 3
        assert script.requests[0]["model"] == "text-embedding-3-small"
        with pytest.raises(InvalidInput):
            OpenAIEmbedder(client, dimensions=0)

    async def test_no_texts_need_no_request(self, embedder: OpenAIEmbedder, script: Script) -> None:
        assert (await embedder.embed([])).shape == (0, 0)
        assert script.requests == []

    async def test_a_long_list_is_split_into_requests(self, embedder: OpenAIEmbedder, script: Script) -> None:
        texts = [str(number) for number in range(LIMITS.max_inputs + 1)]
        vectors = await embedder.embed(texts)
        assert [len(request["input"]) for request in script.requests] == [LIMITS.max_inputs, 1]
        assert vectors[-1] == pytest.approx(unit_vector(texts[-1]), abs=1e-6)


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "headers", "disposition", "pause_s"),
        [
            (400, {}, Disposition.SPLIT, None),
            (413, {}, Disposition.SPLIT, None),
            (401, {}, Disposition.STOP, None),
            (403, {}, Disposition.STOP, None),
            (404, {}, Disposition.STOP, None),
            (408, {}, Disposition.RETRY, None),
            (409, {}, Disposition.RETRY, None),
            (429, {}, Disposition.LATER, None),
            (429, {"retry-after": "7"}, Disposition.LATER, 7),
            (429, {"retry-after-ms": "1500", "retry-after": "7"}, Disposition.LATER, 1.5),
            (429, {"retry-after": "soon"}, Disposition.LATER, None),
            (500, {}, Disposition.RETRY, None),
            (503, {"retry-after": "2"}, Disposition.LATER, 2),
        ],
    )
    async def test_refusals_are_classified(
        self,
        embedder: OpenAIEmbedder,
        script: Script,
        status: int,
        headers: dict[str, str],
        disposition: Disposition,
        pause_s: float | None,
    ) -> None:
        script.status, script.headers = status, headers
        script.body = {"error": {"message": f"no, {KEY}, not 'my text'", "type": "x", "code": None}}
        with pytest.raises(ProviderFailed) as caught:
            await embedder.embed(["my text", "other"])
        error = caught.value
        assert (error.disposition, error.retry_after_s) == (disposition, pause_s)
        assert str(status) in error.message
        assert error.__cause__ is None
        assert KEY not in error.message + error.hint
        assert "my text" not in error.message + error.hint

    async def test_a_text_refused_alone_is_buried(self, embedder: OpenAIEmbedder, script: Script) -> None:
        script.status, script.body = 400, {}
        with pytest.raises(ProviderFailed) as caught:
            await embedder.embed_query("bad")
        assert caught.value.disposition is Disposition.BURY

    async def test_a_pause_may_be_a_date(self, embedder: OpenAIEmbedder, script: Script) -> None:
        script.status, script.body = 429, {}
        script.headers = {"retry-after": formatdate(time() + 3_600, usegmt=True)}
        with pytest.raises(ProviderFailed) as caught:
            await embedder.embed_query("x")
        assert caught.value.retry_after_s == pytest.approx(3_600, abs=300)

    async def test_exhausted_credit_stops(self, embedder: OpenAIEmbedder, script: Script) -> None:
        script.status, script.body = 429, {"error": {"message": "", "code": "insufficient_quota"}}
        with pytest.raises(ProviderFailed) as caught:
            await embedder.embed_query("x")
        assert caught.value.disposition is Disposition.STOP

    @pytest.mark.parametrize(
        ("corrupt", "disposition"),
        [
            (lambda data: data[1:], Disposition.RETRY),
            (lambda data: data * 2, Disposition.RETRY),
            (lambda data: [{**item, "index": 0} for item in data], Disposition.RETRY),
            (lambda data: [{**item, "embedding": [0.0] * DIMENSION} for item in data], Disposition.SPLIT),
            (lambda data: [{**item, "embedding": [float("nan")] * 4} for item in data], Disposition.SPLIT),
            (lambda data: [{**data[0], "embedding": [1.0]}, *data[1:]], Disposition.RETRY),
            (lambda data: [{**item, "embedding": "%%%"} for item in data], Disposition.RETRY),
            (lambda _: "no list", Disposition.RETRY),
            (lambda _: [], Disposition.RETRY),
        ],
    )
    async def test_an_invalid_reply_is_refused(
        self, embedder: OpenAIEmbedder, script: Script, corrupt: Any, disposition: Disposition
    ) -> None:
        script.corrupt = corrupt
        with pytest.raises(ProviderFailed) as caught:
            await embedder.embed(["a", "b"])
        assert caught.value.disposition is disposition
        assert embedder.dimension == 0

    async def test_a_changed_dimension_stops(self, embedder: OpenAIEmbedder, script: Script) -> None:
        await embedder.embed_query("a")
        script.corrupt = lambda data: [{**item, "embedding": [1.0, 2.0]} for item in data]
        with pytest.raises(ProviderFailed) as caught:
            await embedder.embed_query("a")
        assert caught.value.disposition is Disposition.STOP

    async def test_a_refused_connection_is_retried(self) -> None:
        async with connected(KEY, "http://127.0.0.1:1/v1") as client:
            with pytest.raises(ProviderFailed, match="cannot be reached") as caught:
                await OpenAIEmbedder(client).embed_query("x")
        assert caught.value.disposition is Disposition.RETRY

    async def test_an_unpaired_surrogate_is_not_sent(self, embedder: OpenAIEmbedder, script: Script) -> None:
        with pytest.raises(ProviderFailed) as caught:
            await embedder.embed_query("\ud800")
        assert caught.value.disposition is Disposition.BURY
        assert script.requests == []


class TestCreate:
    async def test_credentials_come_from_the_environment(
        self, base_url: str, script: Script, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", base_url)
        embedder = await OpenAIEmbedder.create(MODEL)
        await embedder.embed_query("x")
        assert script.keys == [f"Bearer {KEY}"]
        assert script.requests[0]["path"] == "/v1/embeddings"
        await embedder.aclose()
        await embedder.aclose()
        with pytest.raises(ProviderFailed, match="closed"):
            await embedder.embed(["x"])

    async def test_a_missing_key_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(ConfigInvalid) as caught:
            await OpenAIEmbedder.create()
        assert "OPENAI_API_KEY" in caught.value.hint

    async def test_a_client_passed_in_stays_open(
        self, client: openai.AsyncOpenAI, embedder: OpenAIEmbedder
    ) -> None:
        await embedder.aclose()
        assert (await OpenAIEmbedder(client, MODEL).embed(["x"])).shape == (1, DIMENSION)


async def test_without_openai_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigInvalid) as caught:
        await OpenAIEmbedder.create()
    assert "install openai" in caught.value.hint


@pytest.mark.parametrize(("status", "disposition"), [(429, Disposition.LATER), (500, Disposition.RETRY)])
async def test_rate_limit_resets_are_a_pause_only_for_429(status: int, disposition: Disposition) -> None:
    async with running(dimension=8) as server:
        server.script(HttpFault.with_status(status, headers={"x-ratelimit-reset-requests": "1m30s"}))
        async with connected("key", server.base_url("openai")) as client:
            with pytest.raises(ProviderFailed) as failure:
                await OpenAIEmbedder(client, dimensions=8).embed(["one"])
    assert failure.value.disposition is disposition
    assert failure.value.retry_after_s == (90 if status == 429 else None)
