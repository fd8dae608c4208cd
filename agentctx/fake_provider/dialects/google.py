"""The Gemini API."""

from __future__ import annotations

from starlette.requests import Request

from agentctx.fake_provider.asked import EmbedAsked, FakeRefusal, Payload, number_field, require
from agentctx.fake_provider.dialects.base import EmbedEndpoint, FakeDialect, Keys, code_of, numbers
from agentctx.fake_provider.dialects.google_chat import GEMINI_ENDPOINTS
from agentctx.fake_provider.rows import Row

MAX_REQUESTS = 100

_STATUSES: dict[int, str | None] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TYPES = "type.googleapis.com/google.rpc."


def read_batch(payload: Payload, model: str) -> EmbedAsked:
    """One text for each of `requests`; the parts of one content are one text, as with the real API.
    Raises `Refused`.
    """
    requests = payload.get("requests")
    require(isinstance(requests, list) and requests, "* BatchEmbedContentsRequest.requests: is required")
    found = requests if isinstance(requests, list) else []
    require(
        len(found) <= MAX_REQUESTS,
        f"* BatchEmbedContentsRequest.requests: at most {MAX_REQUESTS} requests can be in one batch",
    )
    asked = [_read_one(request, model, must_name=True) for request in found]
    sizes = {one.dimension for one in asked}
    require(len(sizes) == 1, "* all requests in the batch must have the same output_dimensionality")
    return EmbedAsked(
        model, tuple(text for one in asked for text in one.texts), sizes.pop(), unit_length=False
    )


def read_single(payload: Payload, model: str) -> EmbedAsked:
    """Raises `Refused`."""
    return _read_one(payload, model, must_name=False)


def write_batch(_: EmbedAsked, rows: list[Row]) -> Payload:
    return {"embeddings": [{"values": numbers(row.values, as_base64=False)} for row in _in_order(rows)]}


def write_single(asked: EmbedAsked, rows: list[Row]) -> Payload:
    several = write_batch(asked, rows)["embeddings"]
    return {"embedding": several[0] if several else {}}


def refusal(refused: FakeRefusal) -> Payload:
    name = code_of(FakeRefusal(refused.status, ""), _STATUSES) or "UNKNOWN"
    error: Payload = {"code": refused.status, "message": refused.message, "status": name}
    details = []
    if refused.code:
        details.append({"@type": f"{_TYPES}ErrorInfo", "reason": refused.code, "domain": "googleapis.com"})
    if refused.retry_info_s is not None:
        details.append({"@type": f"{_TYPES}RetryInfo", "retryDelay": f"{refused.retry_info_s:g}s"})
    return {"error": {**error, "details": details} if details else error}


def find_key(request: Request) -> str:
    """The key of the header, or of the address."""
    return request.headers.get("x-goog-api-key", "") or request.query_params.get("key", "")


def _read_one(request: object, model: str, *, must_name: bool) -> EmbedAsked:
    require(isinstance(request, dict), "Invalid JSON payload received.")
    fields: Payload = request if isinstance(request, dict) else {}
    named = fields.get("model", None if must_name else f"models/{model}")
    require(named == f"models/{model}", "* EmbedContentRequest.model: the model must be the one in the path")
    text = "\n".join(_parts(fields.get("content")))
    require(text, "* EmbedContentRequest.content: content contains an empty Part.")
    return EmbedAsked(model, (text,), number_field(fields, "outputDimensionality"), unit_length=False)


def _parts(content: object) -> list[str]:
    parts = content.get("parts") if isinstance(content, dict) else None
    found = parts if isinstance(parts, list) else []
    texts = [part.get("text") if isinstance(part, dict) else None for part in found]
    require(
        texts and all(isinstance(text, str) and text for text in texts),
        "* EmbedContentRequest.content: content contains an empty Part.",
    )
    return [str(text) for text in texts]


def _in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.index)


GOOGLE = FakeDialect(
    "google",
    ("/google", ""),
    "/google/v1beta",
    "gemini-embedding-001",
    Keys(
        find_key,
        missing=FakeRefusal(
            403,
            "Method doesn't allow unregistered callers (callers without established identity). Please use "
            "API Key or other form of API consumer identity to call this API.",
        ),
        # A wrong key is a 400 here, distinguished from a wrong text by its reason alone.
        wrong=FakeRefusal(400, "API key not valid. Please pass a valid API key.", "API_KEY_INVALID"),
    ),
    (
        EmbedEndpoint("/v1beta/models/{model}:batchEmbedContents", read_batch, write_batch),
        EmbedEndpoint("/v1beta/models/{model}:embedContent", read_single, write_single),
        *GEMINI_ENDPOINTS,
    ),
    refusal,
)
