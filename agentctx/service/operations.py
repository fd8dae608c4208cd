"""The table of the daemon's operations: the route, the access rule and the audit record of each.

A new operation needs a method in `base.Service`, its implementation in a part of the service, and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agentctx.access.policy import DAEMON, MEMBER, READ, WRITE, Policy
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.audit_notes import Describe
from agentctx.service.guard_rules import Rule


@dataclass(frozen=True, slots=True)
class Route:
    """The HTTP route of an operation. `errors` are the statuses in addition to those common to all."""

    method: str
    path: str
    """Relative to `/v1`."""
    errors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One row.

    `rule` allows or refuses a call. With `takes_turn`, a call waits for its turn (`access.turns`). `audit`
    describes a finished call for the audit trail; if None, the storage records it, or nothing is recorded.
    """

    name: str
    route: Route
    policy: Policy
    rule: Rule
    audit: Describe | None = None
    takes_turn: bool = False


def _of_daemon(name: str, route: Route, audit: Describe | None = None) -> Operation:
    return Operation(name, route, DAEMON, rules.as_admin, audit)


def _of_entries(
    name: str, route: Route, policy: Policy, rule: Rule, audit: Describe | None = None
) -> Operation:
    return Operation(name, route, policy, rule, audit, takes_turn=True)


_ENTRY: Final = "/entries/{entry_id}"
_VERSIONS: Final = f"{_ENTRY}/versions"
_EXPLAIN: Final = "/injections/explain"
_RECEIPT: Final = "/injections/{injection_id:receipt_id}"
_REVOCATION: Final = "/revocations/{revocation_id}"
_OUTCOME: Final = "/learnings/{entry_id}/outcome"
_CHANGED: Final = (404, 409, 507)

_ROWS: Final = (
    # Routes are tried in this order, so the most frequent ones come first.
    _of_entries("save", Route("POST", "/entries", (404, 409, 507)), WRITE, rules.on_save),
    _of_entries("search", Route("POST", "/search", (504,)), READ, rules.in_searched, notes.searched),
    _of_entries("context", Route("POST", "/context", (504,)), READ, rules.in_searched, notes.given_context),
    _of_entries("list_entries", Route("GET", "/entries"), READ, rules.in_namespace, notes.listed),
    _of_entries("namespaces", Route("GET", "/namespaces"), MEMBER, rules.in_readable, notes.counted),
    _of_entries("get", Route("GET", _ENTRY, (404,)), READ, rules.on_entry, notes.read_entry),
    _of_entries("edit", Route("PATCH", _ENTRY, _CHANGED), WRITE, rules.on_entry),
    _of_entries("forget", Route("DELETE", _ENTRY, _CHANGED), WRITE, rules.on_entry),
    _of_entries("forget_all", Route("DELETE", "/entries", (507,)), WRITE, rules.in_named),
    _of_entries("versions", Route("GET", _VERSIONS, (404,)), READ, rules.on_entry, notes.read_versions),
    _of_entries("outcome", Route("POST", _OUTCOME, _CHANGED), WRITE, rules.on_entry),
    # Members see their own receipts; admins of the namespace see all.
    _of_entries("injections", Route("GET", "/injections"), MEMBER, rules.own_receipts, notes.listed_receipts),
    _of_entries("explain", Route("POST", _EXPLAIN, (504,)), READ, rules.on_explained, notes.explained),
    _of_entries("injection", Route("GET", _RECEIPT, (404,)), READ, rules.on_receipt, notes.read_receipt),
    _of_entries("export", Route("GET", "/export"), READ, rules.in_selection, notes.exported),
    _of_entries(
        "import_entries", Route("POST", "/import", (507,)), WRITE, rules.on_import, notes.trusted_import
    ),
    _of_entries(
        "mark_files", Route("POST", "/file-states", (507,)), WRITE, rules.in_request, notes.marked_files
    ),
    _of_daemon("status", Route("GET", "/status")),
    _of_daemon("queue", Route("GET", "/queue")),
    _of_daemon("retry", Route("POST", "/queue/retry", (507,))),
    _of_daemon("drain", Route("POST", "/queue/drain")),
    _of_daemon("reembed_status", Route("GET", "/reembed")),
    _of_daemon("reembed", Route("POST", "/reembed/{action}", _CHANGED), notes.reembedded),
    _of_daemon("doctor", Route("GET", "/doctor")),
    _of_daemon("doctor_fix", Route("POST", "/doctor/fix", (507,))),
    _of_daemon("rewrite", Route("POST", "/rewrite", (504, 507)), notes.rewritten),
    _of_daemon("backup", Route("POST", "/backup", (403, 507)), notes.backed_up),
    _of_daemon("audit", Route("GET", "/audit", (403,))),
    _of_daemon("verify_audit", Route("POST", "/audit/verify", (403, 504))),
    # Entries derived from a source may be in any namespace.
    _of_daemon("revoke", Route("POST", "/revocations", (507,)), notes.revoked),
    _of_daemon("undo_revocation", Route("DELETE", _REVOCATION, (404, 507)), notes.revocation_undone),
    _of_daemon("release", Route("POST", f"{_ENTRY}/release", (404, 507)), notes.released),
)

OPERATIONS: Final[Mapping[str, Operation]] = {row.name: row for row in _ROWS}
"""Operations by name, which is also the method of `base.Service` and the operation id in OpenAPI."""
