"""Each service's replies, as small as its documented format allows; invalid requests get a 400."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.embedding.providers.remote.loopback import Answer, ReceivedRequest, replies

KEY = "canary-key-0123456789"
DIMENSION = 8


def numbers(text: str, dimension: int = DIMENSION) -> list[float]:
    """Return a text's vector, not normalised."""
    digest = hashlib.shake_256(text.encode()).digest(2 * dimension)
    return [float(n) / 1_000 - 32 for n in np.frombuffer(digest, "<u2")]


def openai(request: ReceivedRequest) -> bytes:
    body = request.body
    inputs = body["input"]
    if "" in inputs or len(inputs) > 2_048 or body.get("encoding_format") != "base64":
        return replies({"error": {"message": "no", "type": "invalid_request_error", "code": None}}, 400)
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(numbers(text, body["dimensions"]))}
        for index, text in enumerate(inputs)
    ]
    return replies({"object": "list", "data": data[::-1], "model": body["model"]})


def openai_compatible(request: ReceivedRequest) -> bytes:
    if "encoding_format" in request.body or "" in request.body["input"]:
        return replies({"error": "unknown key"}, 422)
    data = [{"index": i, "embedding": numbers(text)} for i, text in enumerate(request.body["input"])]
    return replies({"data": data})


def voyage(request: ReceivedRequest) -> bytes:
    body = request.body
    if body["truncation"] is not False or "input_type" in body or len(body["input"]) > 128:
        return replies({"detail": "no"}, 400)
    vectors = [numbers(text, body["output_dimension"]) for text in body["input"]]
    return replies({"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]})


def cohere(request: ReceivedRequest) -> bytes:
    body = request.body
    if body["input_type"] != "search_document" or len(body["texts"]) > 96 or body["truncate"] != "NONE":
        return replies({"message": "no"}, 400)
    return replies({"embeddings": {"float": [numbers(t, body["output_dimension"]) for t in body["texts"]]}})


def ollama(request: ReceivedRequest) -> bytes:
    body = request.body
    if body["truncate"] is not False:
        return replies({"error": "no"}, 400)
    return replies({"embeddings": [numbers(text, body["dimensions"]) for text in body["input"]]})


def google(request: ReceivedRequest) -> bytes:
    vectors = []
    for one in request.body["requests"]:
        (part,) = one["content"]["parts"]
        if f"/models/{one['model'].removeprefix('models/')}:batchEmbedContents" != request.path.removeprefix(
            "/v1"
        ):
            return replies({"error": {"code": 400, "status": "INVALID_ARGUMENT"}}, 400)
        vectors.append({"values": numbers(part["text"], one["outputDimensionality"])})
    return replies({"embeddings": vectors})


def _base64(vector: list[float]) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _behind_key(path: str, header: str, value: str, answer: Answer) -> Answer:
    def check(request: ReceivedRequest) -> bytes:
        if request.headers.get(header) != value:
            return replies({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
        if request.method != "POST" or request.path != "/v1" + path:
            return replies({}, 404)
        return answer(request)

    return check


BEARER = f"Bearer {KEY}"
ANSWERS: Mapping[str, Answer] = {
    "openai": _behind_key("/embeddings", "authorization", BEARER, openai),
    "google": _behind_key("/models/gemini-embedding-2:batchEmbedContents", "x-goog-api-key", KEY, google),
    "ollama": _behind_key("/api/embed", "authorization", BEARER, ollama),
    "openai-compatible": _behind_key("/embeddings", "authorization", BEARER, openai_compatible),
    "cohere": _behind_key("/v2/embed", "authorization", BEARER, cohere),
    "voyage": _behind_key("/embeddings", "authorization", BEARER, voyage),
}


def settings_of(provider: str, server_url: str, **more: Any) -> dict[str, Any]:
    """Return settings with which the provider works against its entry in `ANSWERS`."""
    needed = {"model": "some-model"} if provider == "openai-compatible" else {}
    return {
        "provider": provider,
        "base_url": server_url + "/v1",
        "api_key": KEY,
        "dimensions": DIMENSION,
        **needed,
        **more,
    }
