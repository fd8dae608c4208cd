"""Every route as a value: what to send and how to read the answer. No I/O; both clients share it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from agentctx.client.decode import decode
from agentctx.client.failure import error_of, failure_of, parse
from agentctx.client.options import ListOptions
from agentctx.client.transport import Reply
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.wire import (
    API_PREFIX,
    IDEMPOTENCY_HEADER,
    ContextReply,
    ContextRequest,
    DrainRequest,
    EditRequest,
    EntryPage,
    EntryView,
    ErrorReply,
    FileRecord,
    ForgetReply,
    OutcomeRequest,
    QueueReply,
    RetryReply,
    SaveManyReply,
    SaveRequest,
    SaveResult,
    SearchReply,
    SearchRequest,
    StatusReply,
    VersionList,
)

T = TypeVar("T")
W = TypeVar("W")

SaveOutcomes: TypeAlias = list[SaveResult | AgentctxError]
"""A result or an error for each request, in order."""

_SUCCESS = range(200, 300)
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. `repeatable`: doing it twice is doing it once, so a dropped connection may be retried."""

    method: str
    path: str
    read: Callable[[Reply], T]
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False


def save(request: SaveRequest, idempotency_key: str) -> Call[SaveResult]:
    return _save(_present(request), _reader(SaveResult), idempotency_key)


def save_many(requests: Sequence[SaveRequest], idempotency_key: str) -> Call[SaveOutcomes]:
    return _save({"entries": [_present(request) for request in requests]}, _read_many, idempotency_key)


def get(entry_id: str, version: int | None) -> Call[EntryView]:
    path = _entry(entry_id) + _query({"version": version})
    return Call("GET", path, _reader(EntryView), repeatable=True)


def list_entries(options: ListOptions) -> Call[EntryPage]:
    # A query string repeats a name for each value, so there it is in the singular.
    pairs = {"collection" if name == "collections" else name: value for name, value in options.items()}
    path = f"{API_PREFIX}/entries{_query(pairs)}"
    return Call("GET", path, _reader(EntryPage), repeatable=True)


def edit(entry_id: str, request: EditRequest) -> Call[SaveResult]:
    return Call("PATCH", _entry(entry_id), _reader(SaveResult), _encode(_present(request)), _JSON)


def history(entry_id: str) -> Call[VersionList]:
    return Call("GET", f"{_entry(entry_id)}/versions", _reader(VersionList), repeatable=True)


def forget(entry_id: str, if_version: int | None) -> Call[ForgetReply]:
    return Call("DELETE", _entry(entry_id) + _query({"if_version": if_version}), _reader(ForgetReply))


def outcome(entry_id: str, request: OutcomeRequest) -> Call[SaveResult]:
    path = f"{API_PREFIX}/learnings/{_segment(entry_id)}/outcome"
    return Call("POST", path, _reader(SaveResult), _encode(_present(request)), _JSON)


def search(request: SearchRequest) -> Call[SearchReply]:
    return _ask("search", request, _reader(SearchReply))


def context(request: ContextRequest) -> Call[ContextReply]:
    return _ask("context", request, _reader(ContextReply))


def status() -> Call[StatusReply]:
    return Call("GET", f"{API_PREFIX}/status", _reader(StatusReply), repeatable=True)


def queue() -> Call[QueueReply]:
    return Call("GET", f"{API_PREFIX}/queue", _reader(QueueReply), repeatable=True)


def retry_buried() -> Call[RetryReply]:
    return Call("POST", f"{API_PREFIX}/queue/retry", _reader(RetryReply))


def drain(request: DrainRequest) -> Call[QueueReply]:
    body = _encode(_present(request))
    return Call("POST", f"{API_PREFIX}/queue/drain", _reader(QueueReply), body, _JSON, repeatable=True)


def ready() -> Call[bool]:
    return Call("GET", "/readyz", lambda reply: reply.status in _SUCCESS, repeatable=True)


def _save(value: Any, read: Callable[[Reply], T], idempotency_key: str) -> Call[T]:
    headers = {**_JSON, IDEMPOTENCY_HEADER: idempotency_key}
    return Call("POST", f"{API_PREFIX}/entries", read, _encode(value), headers, repeatable=True)


def _ask(route: str, request: SearchRequest, read: Callable[[Reply], T]) -> Call[T]:
    body = _encode(_present(request))
    return Call("POST", f"{API_PREFIX}/{route}", read, body, _JSON, repeatable=True)


def _reader(kind: type[W]) -> Callable[[Reply], W]:
    def read(reply: Reply) -> W:
        if reply.status not in _SUCCESS:
            raise failure_of(reply)
        return decode(kind, parse(reply))

    return read


def _read_many(reply: Reply) -> SaveOutcomes:
    results = _reader(SaveManyReply)(reply).results
    return [error_of(result.error) if isinstance(result, ErrorReply) else result for result in results]


def _entry(entry_id: str) -> str:
    return f"{API_PREFIX}/entries/{_segment(entry_id)}"


def _segment(entry_id: str) -> str:
    # "", "." and ".." would make the path of another route.
    if not entry_id.strip("."):
        raise InvalidInput(f"{entry_id!r} is no entry id.", hint="`agentctx list` shows the ids.")
    return quote(_utf8(entry_id), safe="")


def _query(options: Mapping[str, Any]) -> str:
    pairs = [
        (name, _utf8(str(item).lower() if isinstance(item, bool) else str(item)))
        for name, value in options.items()
        if value is not None
        for item in (value if isinstance(value, list) else [value])
    ]
    return f"?{urlencode(pairs)}" if pairs else ""


def _present(request: Any) -> dict[str, Any]:
    """The fields of a wire dataclass that say something."""
    values = {each.name: getattr(request, each.name) for each in fields(request)}
    return {
        name: asdict(value) if isinstance(value, FileRecord) else value
        for name, value in values.items()
        if value is not None
    }


def _encode(value: Any) -> bytes:
    try:
        return _utf8(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"This cannot be sent as JSON: {error}.") from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The text is not valid Unicode: a lone surrogate at position {error.start}.",
            hint="Decode it with the right encoding first.",
        ) from error
