"""Every route as a value: what to send and how to read the answer. No I/O; both clients share it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from agentctx import wire
from agentctx.client.decode import UnreadableReply, decode
from agentctx.client.failure import error_of, failure_of, parse
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.wire.names import API_PREFIX, IDEMPOTENCY_HEADER

if TYPE_CHECKING:
    from agentctx.client.options import ExportOptions, ListOptions

T = TypeVar("T")
W = TypeVar("W")

SaveOutcomes: TypeAlias = "list[wire.SaveResult | AgentctxError]"
"""A result or an error for each request, in order."""

EMBEDDED_WAIT_S = 30.0
"""How long the daemon holds back the answer to a save or an edit with `wait="embedded"`."""

EXAMINE_WAIT_S = 900.0
"""How long the daemon may examine itself: each of the checks that read a whole database may take 90 s."""

REPAIR_WAIT_S = 1_800.0
"""How long it may repair itself: each repair may take 600 s, and is looked at before and after."""

BACKUP_WAIT_S = 1_800.0
"""How long a backup may take: the daemon reads everything twice."""

AUDIT_WAIT_S = 60.0
"""How long following the audit trail may take."""

_SUCCESS = range(200, 300)
_JSON = {"Content-Type": "application/json"}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ApiCall(NamedTuple, Generic[T]):
    """One request, and how its reply is read.

    `repeatable`: doing it twice is doing it once, so it may be sent again when its reply was lost.
    `is_probe`: it asks how the daemon is right now, so it does not wait until the daemon is well.
    `takes_s`: the seconds the daemon was asked to wait before it answers.
    """

    method: str
    path: str
    read: Callable[[HttpReply], T]
    body: bytes | None = None
    headers: Mapping[str, str] = _NO_HEADERS
    repeatable: bool = False
    is_probe: bool = False
    takes_s: float = 0.0


class EncodedSave(NamedTuple):
    """One save as JSON; `waits` for its vectors before it is answered."""

    body: bytes
    waits: bool


def save(request: wire.SaveRequest, idempotency_key: str) -> ApiCall[wire.SaveResult]:
    return _save(encode_save(request), _reader(wire.SaveResult), idempotency_key)


def save_many(requests: Sequence[wire.SaveRequest], idempotency_key: str) -> ApiCall[SaveOutcomes]:
    return save_encoded([encode_save(request) for request in requests], idempotency_key)


def save_encoded(entries: Sequence[EncodedSave], idempotency_key: str) -> ApiCall[SaveOutcomes]:
    """Many saves in one request, each encoded by `encode_save`."""
    body = b'{"entries":[%b]}' % b",".join(entry.body for entry in entries)
    encoded = EncodedSave(body, any(entry.waits for entry in entries))
    return _save(encoded, _outcomes_reader(len(entries)), idempotency_key)


def encode_save(request: wire.SaveRequest) -> EncodedSave:
    """Raises InvalidInput when it cannot be sent as JSON."""
    return EncodedSave(_encode(_present(request)), request.wait is not None)


def get(entry_id: str, version: int | None) -> ApiCall[wire.EntryView]:
    path = _entry(entry_id) + _query({"version": version})
    return ApiCall("GET", path, _reader(wire.EntryView), repeatable=True)


def list_entries(options: ListOptions) -> ApiCall[wire.EntryPage]:
    # A query string repeats a name for each value, so there it is in the singular.
    singular = {"collections": "collection", "tags": "tag"}
    pairs = {singular.get(name, name): value for name, value in options.items()}
    path = f"{API_PREFIX}/entries{_query(pairs)}"
    return ApiCall("GET", path, _reader(wire.EntryPage), repeatable=True)


def edit(entry_id: str, request: wire.EditRequest) -> ApiCall[wire.SaveResult]:
    body, read = _encode(_present(request)), _reader(wire.SaveResult)
    takes_s = EMBEDDED_WAIT_S if request.wait is not None else 0.0
    return ApiCall("PATCH", _entry(entry_id), read, body, _JSON, takes_s=takes_s)


def history(entry_id: str, limit: int | None, cursor: str | None) -> ApiCall[wire.VersionPage]:
    path = f"{_entry(entry_id)}/versions{_query({'limit': limit, 'cursor': cursor})}"
    return ApiCall("GET", path, _reader(wire.VersionPage), repeatable=True)


def forget(entry_id: str, if_version: int | None, with_copies: bool = False) -> ApiCall[wire.ForgetReply]:
    asked = _query({"if_version": if_version, "with_copies": "true" if with_copies else None})
    return ApiCall("DELETE", _entry(entry_id) + asked, _reader(wire.ForgetReply))


def outcome(entry_id: str, request: wire.OutcomeRequest) -> ApiCall[wire.SaveResult]:
    path = f"{API_PREFIX}/learnings/{_segment(entry_id)}/outcome"
    return ApiCall("POST", path, _reader(wire.SaveResult), _encode(_present(request)), _JSON)


def search(request: wire.SearchRequest) -> ApiCall[wire.SearchReply]:
    return _ask("search", request, _reader(wire.SearchReply))


def context(request: wire.ContextRequest) -> ApiCall[wire.ContextReply]:
    return _ask("context", request, _reader(wire.ContextReply))


def injection(injection_id: str) -> ApiCall[wire.InjectionView]:
    path = f"{API_PREFIX}/injections/{_segment(injection_id)}"
    return ApiCall("GET", path, _reader(wire.InjectionView), repeatable=True)


def injections(limit: int | None) -> ApiCall[wire.InjectionList]:
    path = f"{API_PREFIX}/injections{_query({'limit': limit})}"
    return ApiCall("GET", path, _reader(wire.InjectionList), repeatable=True)


def why_not(request: wire.ExplainRequest) -> ApiCall[wire.ExplainReply]:
    return _ask("injections/explain", request, _reader(wire.ExplainReply))


def status() -> ApiCall[wire.StatusReply]:
    return ApiCall("GET", f"{API_PREFIX}/status", _reader(wire.StatusReply), repeatable=True)


def queue() -> ApiCall[wire.QueueReply]:
    return ApiCall("GET", f"{API_PREFIX}/queue", _reader(wire.QueueReply), repeatable=True)


def retry_buried() -> ApiCall[wire.RetryReply]:
    return ApiCall("POST", f"{API_PREFIX}/queue/retry", _reader(wire.RetryReply))


def drain(request: wire.DrainRequest) -> ApiCall[wire.QueueReply]:
    body = _encode(_present(request))
    return ApiCall(
        "POST",
        f"{API_PREFIX}/queue/drain",
        _reader(wire.QueueReply),
        body,
        _JSON,
        repeatable=True,
        takes_s=request.timeout_s,
    )


def reembed_status() -> ApiCall[wire.ReembedReply]:
    return ApiCall("GET", f"{API_PREFIX}/reembed", _reader(wire.ReembedReply), repeatable=True)


def reembed(action: wire.ReembedAction) -> ApiCall[wire.ReembedReply]:
    return ApiCall("POST", f"{API_PREFIX}/reembed/{action}", _reader(wire.ReembedReply))


def doctor(only: Sequence[str], *, offline: bool) -> ApiCall[wire.DoctorReply]:
    query = _query({"only": list(only), "offline": offline or None})
    path, read = f"{API_PREFIX}/doctor{query}", _reader(wire.DoctorReply)
    return ApiCall("GET", path, read, repeatable=True, takes_s=EXAMINE_WAIT_S)


def doctor_fix(only: Sequence[str], *, offline: bool) -> ApiCall[wire.DoctorReply]:
    # Fixing twice harms nothing, but the second reply would not say what the first one fixed.
    query = _query({"only": list(only), "offline": offline or None})
    path, read = f"{API_PREFIX}/doctor/fix{query}", _reader(wire.DoctorReply)
    return ApiCall("POST", path, read, takes_s=REPAIR_WAIT_S)


def export(options: ExportOptions) -> ApiCall[wire.ExportReply]:
    singular = {"namespaces": "namespace", "collections": "collection"}
    pairs = {singular.get(name, name): value for name, value in options.items()}
    return ApiCall("GET", f"{API_PREFIX}/export{_query(pairs)}", _reader(wire.ExportReply), repeatable=True)


def import_entries(
    entries: Sequence[wire.ImportEntry], *, dry_run: bool, include_forgotten: bool, trust: wire.ImportTrust
) -> ApiCall[SaveOutcomes]:
    body = _encode(
        {
            "entries": [_present(entry) for entry in entries],
            "dry_run": dry_run,
            "include_forgotten": include_forgotten,
            "trust": trust,
        }
    )
    read = _outcomes_reader(len(entries))
    return ApiCall("POST", f"{API_PREFIX}/import", read, body, _JSON, repeatable=True)


def revoke(request: wire.RevokeRequest) -> ApiCall[wire.RevokeReply]:
    # Sent twice it would make another revocation, which holds nothing.
    return ApiCall(
        "POST", f"{API_PREFIX}/revocations", _reader(wire.RevokeReply), _encode(_present(request)), _JSON
    )


def undo_revocation(revocation: int) -> ApiCall[wire.ReleaseReply]:
    path = f"{API_PREFIX}/revocations/{int(revocation)}"
    return ApiCall("DELETE", path, _reader(wire.ReleaseReply))


def release(entry_id: str) -> ApiCall[wire.ReleaseReply]:
    return ApiCall("POST", f"{_entry(entry_id)}/release", _reader(wire.ReleaseReply))


def backup(request: wire.BackupRequest) -> ApiCall[wire.BackupReply]:
    body = _encode(_present(request))
    read = _reader(wire.BackupReply)
    return ApiCall("POST", f"{API_PREFIX}/backup", read, body, _JSON, takes_s=BACKUP_WAIT_S)


def audit(options: Mapping[str, Any]) -> ApiCall[wire.AuditPage]:
    return ApiCall("GET", f"{API_PREFIX}/audit{_query(options)}", _reader(wire.AuditPage), repeatable=True)


def verify_audit(request: wire.AuditVerifyRequest) -> ApiCall[wire.AuditVerdict]:
    body = _encode(_present(request))
    read = _reader(wire.AuditVerdict)
    path = f"{API_PREFIX}/audit/verify"
    return ApiCall("POST", path, read, body, _JSON, repeatable=True, takes_s=AUDIT_WAIT_S)


def metrics() -> ApiCall[str]:
    return ApiCall("GET", "/metrics", _read_text, repeatable=True)


def alive() -> ApiCall[bool]:
    return ApiCall("GET", "/healthz", _is_success, repeatable=True, is_probe=True)


def ready() -> ApiCall[bool]:
    return ApiCall("GET", "/readyz", _is_success, repeatable=True, is_probe=True)


def _save(encoded: EncodedSave, read: Callable[[HttpReply], T], idempotency_key: str) -> ApiCall[T]:
    headers = {**_JSON, IDEMPOTENCY_HEADER: idempotency_key}
    takes_s = EMBEDDED_WAIT_S if encoded.waits else 0.0
    return ApiCall(
        "POST", f"{API_PREFIX}/entries", read, encoded.body, headers, repeatable=True, takes_s=takes_s
    )


def _ask(route: str, request: wire.SearchRequest, read: Callable[[HttpReply], T]) -> ApiCall[T]:
    body = _encode(_present(request))
    return ApiCall("POST", f"{API_PREFIX}/{route}", read, body, _JSON, repeatable=True)


def _reader(kind: type[W]) -> Callable[[HttpReply], W]:
    def read(reply: HttpReply) -> W:
        return decode(kind, parse(_succeeded(reply)))

    return read


def _succeeded(reply: HttpReply) -> HttpReply:
    if not _is_success(reply):
        raise failure_of(reply)
    return reply


def _is_success(reply: HttpReply) -> bool:
    return reply.status in _SUCCESS


def _read_text(reply: HttpReply) -> str:
    return _succeeded(reply).body.decode("utf-8", "replace")


def _outcomes_reader(count: int) -> Callable[[HttpReply], SaveOutcomes]:
    def read(reply: HttpReply) -> SaveOutcomes:
        results = _reader(wire.SaveManyReply)(reply).results
        if len(results) != count:
            raise UnreadableReply(f"The daemon answered {len(results)} results for {count} entries.")
        return [
            error_of(result.error) if isinstance(result, wire.ErrorReply) else result for result in results
        ]

    return read


def _entry(entry_id: str) -> str:
    return f"{API_PREFIX}/entries/{_segment(entry_id)}"


def _segment(entry_id: str) -> str:
    # "", "." and ".." would make the path of another route.
    if not entry_id.strip("."):
        raise InvalidInput(f"Invalid entry id {entry_id!r}.", hint="`agentctx list` shows the ids.")
    from urllib.parse import quote

    return quote(_utf8(entry_id), safe="")


def _query(options: Mapping[str, Any]) -> str:
    pairs = [
        (name, _utf8(str(item).lower() if isinstance(item, bool) else str(item)))
        for name, value in options.items()
        if value is not None
        for item in (value if isinstance(value, list) else [value])
    ]
    if not pairs:
        return ""
    from urllib.parse import urlencode

    return f"?{urlencode(pairs)}"


def _present(request: Any) -> dict[str, Any]:
    """The fields of a wire dataclass that say something."""
    values = {each.name: getattr(request, each.name) for each in fields(request)}
    return {
        name: asdict(value) if isinstance(value, wire.FileRecord) else value
        for name, value in values.items()
        if value is not None
    }


def _encode(value: Any) -> bytes:
    try:
        return _utf8(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The request cannot be encoded as JSON: {error}.") from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The text is not valid Unicode: a lone surrogate at position {error.start}.",
            hint="Decode it with the right encoding first.",
        ) from error
