"""A valid request for each route, by operation id or path, about `default` and its entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NAMESPACE = "default"
ENTRY = "e1"
RECEIPT = "01k0"


@dataclass(frozen=True)
class Request:
    """`by_id`: it names an entry or a receipt but no namespace, so an unreadable one is missing."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    by_id: bool = False


def about_entry(body: Any = None) -> Request:
    return Request(path={"entry_id": ENTRY}, body=body, by_id=True)


IMPORTED: dict[str, Any] = {
    "id": "00000000-0000-7000-8000-000000000000",
    "namespace": NAMESPACE,
    "collection": "knowledge",
    "key": None,
    "session": None,
    "agent": None,
    "content": "a",
    "attributes": {},
    "created": "2026-01-01T00:00:00.000Z",
    "updated": "2026-01-01T00:00:00.000Z",
}

OPERATIONS: dict[str, Request] = {
    "save": Request(body={"collection": "knowledge", "content": "a"}),
    "list_entries": Request(),
    "namespaces": Request(),
    "open_page": Request(),
    "get": about_entry(),
    "edit": about_entry({"content": "b"}),
    "forget": about_entry(),
    "forget_all": Request(query={"namespace": NAMESPACE}),
    "versions": about_entry(),
    "outcome": about_entry({"success": True}),
    "search": Request(body={"query": "a"}),
    "context": Request(body={"query": "a"}),
    "injections": Request(),
    "injection": Request(path={"injection_id": RECEIPT}, by_id=True),
    "explain": Request(body={"entry": ENTRY, "query": "a"}),
    "export": Request(query={"namespace": NAMESPACE}),
    "import_entries": Request(body={"entries": [IMPORTED]}),
    "mark_files": Request(body={"marks": [{"entries": [ENTRY], "state": "withdrawn"}]}),
    "revoke": Request(body={"namespace": NAMESPACE, "agent": "a"}),
    "undo_revocation": Request(path={"revocation_id": "1"}),
    "release": about_entry(),
    "review": Request(),
    "keep": about_entry({"way": "terminal", "version": 1}),
    "set_capture_mode": Request(
        body={"namespace": NAMESPACE, "agent": "a", "mode": "auto", "way": "terminal"}
    ),
    "status": Request(),
    "access": Request(),
    "queue": Request(),
    "retry": Request(),
    "drain": Request(body={}),
    "reembed_status": Request(),
    "reembed": Request(path={"action": "switch"}),
    "doctor": Request(),
    "doctor_fix": Request(),
    "rewrite": Request(),
    "backup": Request(body={}),
    "audit": Request(),
    "verify_audit": Request(),
}
