"""What a provider's way of speaking consists of."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.requests import Request

from agentctx.embedding_providers.base import Vectors
from agentctx.fake_provider.asked import EmbedAsked, FakeRefusal, Payload, RerankAsked
from agentctx.fake_provider.exchange import ChatAsked, FakeExchange
from agentctx.fake_provider.rows import Row


@dataclass(frozen=True, slots=True)
class EmbedEndpoint:
    """`read` gets the body and the model in the path, if one is there, and may raise `Refused`."""

    path: str
    read: Callable[[Payload, str], EmbedAsked]
    write: Callable[[EmbedAsked, list[Row]], Payload]


@dataclass(frozen=True, slots=True)
class RerankEndpoint:
    """As `EmbedEndpoint`, for scores."""

    path: str
    read: Callable[[Payload, str], RerankAsked]
    write: Callable[[RerankAsked, list[Row]], Payload]


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """`read` gets the body, the model in the path and the query, and may raise `Refused`.

    Args:
        write, stream: the reply whole, and the pieces that a stream sends one by one.
        stream_error: the piece that ends a stream with an error; it gets the body of the error.
        stream_type: content type of a stream.
        recall: the body with what the vendor has stored of the conversation, by id; may raise `Refused`.
        remember: the id and the items to store.
        required_headers: without them the request is refused.
    """

    path: str
    read: Callable[[Payload, str, Mapping[str, str]], ChatAsked]
    write: Callable[[FakeExchange], Payload]
    stream: Callable[[FakeExchange], list[bytes]]
    stream_error: Callable[[Payload], bytes]
    stream_type: str
    recall: Callable[[Payload, Mapping[str, Sequence[Payload]]], Payload] | None = None
    remember: Callable[[FakeExchange], tuple[str, list[Payload]] | None] | None = None
    required_headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlainEndpoint:
    """A reply that depends on the body alone; `write` may raise `Refused`."""

    path: str
    method: Literal["GET", "POST"]
    write: Callable[[Payload], Payload]
    required_headers: tuple[str, ...] = ()


Endpoint: TypeAlias = EmbedEndpoint | RerankEndpoint | ChatEndpoint | PlainEndpoint


@dataclass(frozen=True, slots=True)
class Keys:
    """Where a key is, and how a missing and a wrong one are refused."""

    find: Callable[[Request], str]
    missing: FakeRefusal
    wrong: FakeRefusal


@dataclass(frozen=True, slots=True)
class FakeDialect:
    """One provider. `base_path` is what its clients have in their base URL; `prefixes` are where the
    endpoints hang; without `keys` none is asked for.
    """

    provider: str
    prefixes: tuple[str, ...]
    base_path: str
    model: str
    """An example that the provider really has."""
    keys: Keys | None
    endpoints: tuple[Endpoint, ...]
    refusal: Callable[[FakeRefusal], Payload]
    """The body of an error."""
    request_id_header: str = "x-request-id"


def bearer_key(request: Request) -> str:
    """The key of an Authorization header, or nothing."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def numbers(values: Vectors, *, as_base64: bool) -> list[float] | str:
    """A vector as JSON has it: numbers, or the base64 of little-endian float32."""
    if as_base64:
        return base64.b64encode(values.astype("<f4").tobytes()).decode()
    floats: list[float] = values.tolist()
    return floats


def code_of(refusal: FakeRefusal, codes: Mapping[int, str | None]) -> str | None:
    """The refusal's own code, else the one of its status."""
    return refusal.code or codes.get(refusal.status)
