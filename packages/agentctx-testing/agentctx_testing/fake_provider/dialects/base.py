"""The parts of a provider's wire format."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from starlette.requests import Request

from agentctx.storage.vectors import Vectors
from agentctx_testing.fake_provider.exchange import ChatRequest, FakeExchange
from agentctx_testing.fake_provider.requests import FakeRefusal, Payload
from agentctx_testing.fake_provider.vectors import Row

SSE = "text/event-stream; charset=utf-8"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RowEndpoint(Generic[R]):
    """An endpoint for vectors or scores.

    Args:
        read: returns the request in the body, with any model in the path; may raise `RefusalError`.
        rows: answers it, given the server's own length of vectors; may raise `RefusalError`.
        write: returns the reply.
    """

    path: str
    read: Callable[[Payload, str], R]
    rows: Callable[[R, int | None], Awaitable[list[Row]]]
    write: Callable[[R, list[Row]], Payload]
    required_headers: ClassVar[tuple[str, ...]] = ()
    method: ClassVar[str] = "POST"


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """A chat endpoint. `read` gets the body, the model in the path and the query; may raise `RefusalError`.

    Args:
        write, stream: return the whole reply, and the pieces of a stream.
        stream_error: returns the piece that ends a stream with an error, given the body of the error.
        stream_type: content type of a stream.
        recall: adds the stored items of the conversation (by id) to the body; may raise `RefusalError`.
        remember: returns the id and the items to store.
        required_headers: a request without them is refused.
    """

    path: str
    read: Callable[[Payload, str, Mapping[str, str]], ChatRequest]
    write: Callable[[FakeExchange], Payload]
    stream: Callable[[FakeExchange], list[bytes]]
    stream_error: Callable[[Payload], bytes]
    stream_type: str = SSE
    recall: Callable[[Payload, Mapping[str, Sequence[Payload]]], Payload] | None = None
    remember: Callable[[FakeExchange], tuple[str, list[Payload]] | None] | None = None
    required_headers: tuple[str, ...] = ()
    method: ClassVar[str] = "POST"


@dataclass(frozen=True, slots=True)
class PlainEndpoint:
    """A reply that depends on the body alone; `write` may raise `RefusalError`."""

    path: str
    method: Literal["GET", "POST"]
    write: Callable[[Payload], Payload]
    required_headers: tuple[str, ...] = ()


Endpoint: TypeAlias = RowEndpoint[Any] | ChatEndpoint | PlainEndpoint


@dataclass(frozen=True, slots=True)
class Keys:
    """How to find the key of a request, and the refusals for a missing and a wrong key."""

    find: Callable[[Request], str]
    missing: FakeRefusal
    wrong: FakeRefusal


@dataclass(frozen=True, slots=True)
class FakeDialect:
    """One provider. `base_path` is the path in its clients' base URL; the endpoints are mounted under each
    of `prefixes`; without `keys`, no key is required.
    """

    provider: str
    prefixes: tuple[str, ...]
    base_path: str
    model: str
    """A model that the provider really has."""
    keys: Keys | None
    endpoints: tuple[Endpoint, ...]
    refusal: Callable[[FakeRefusal], Payload]
    """The body of an error."""
    request_id_header: str = "x-request-id"


def bearer_key(request: Request) -> str:
    """Return the bearer token of the Authorization header, or an empty string."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def numbers(values: Vectors, *, as_base64: bool = False) -> list[float] | str:
    """Return a vector as it appears in JSON: numbers, or the base64 of little-endian float32."""
    if as_base64:
        return base64.b64encode(values.astype("<f4").tobytes()).decode()
    floats: list[float] = values.tolist()
    return floats
