"""Audit records of finished calls: ids and counts, never the question. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from agentctx import wire

MAX_IDS: Final = 20
"""Maximum number of ids recorded per reply; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditNote:
    """One audit row: an operator's action (`is_action`), written before the reply, or a read."""

    kind: str
    namespace: str | None = None
    subject: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    is_action: bool = False


Arguments: TypeAlias = Mapping[str, Any]
Describe: TypeAlias = Callable[[Arguments, Any], AuditNote | None]
"""Describes a call by its arguments and reply; returns None if there is nothing to record."""


def read_entry(_: Arguments, reply: wire.EntryView) -> AuditNote:
    return AuditNote(kind="read", namespace=reply.namespace, subject=reply.id)


def listed(arguments: Arguments, reply: wire.EntryPage) -> AuditNote:
    return _found("list", arguments["namespace"], (entry.id for entry in reply.entries))


def counted(_: Arguments, reply: wire.NamespaceList) -> AuditNote:
    return AuditNote(kind="namespaces", detail={"namespaces": len(reply.namespaces) + reply.more})


def read_versions(arguments: Arguments, reply: wire.VersionPage) -> AuditNote:
    namespace = next((each.namespace for each in reply.versions), None)
    detail = {"versions": len(reply.versions)}
    return AuditNote(kind="versions", namespace=namespace, subject=arguments["entry_id"], detail=detail)


def searched(arguments: Arguments, reply: wire.SearchReply) -> AuditNote:
    return _answered("search", arguments["request"], reply)


def given_context(arguments: Arguments, reply: wire.ContextReply) -> AuditNote:
    return _answered("context", arguments["request"], reply)


def explained(arguments: Arguments, _: object) -> AuditNote:
    request = arguments["request"]
    return AuditNote(kind="explain", **_searched_namespaces(request.asked), subject=request.entry[:64])


def read_receipt(_: Arguments, reply: wire.InjectionView) -> AuditNote:
    return AuditNote(kind="injection", **_searched_namespaces(reply.namespaces), subject=reply.id)


def listed_receipts(_: Arguments, __: object) -> AuditNote:
    """Omits the receipts' ids: everyone but an admin sees only their own receipts."""
    return AuditNote(kind="injections")


def opened_page(_: Arguments, __: object) -> AuditNote:
    return _action("open_page")


def exported(arguments: Arguments, reply: wire.ExportReply) -> AuditNote:
    namespaces = arguments["namespace"] or []
    namespace = namespaces[0] if len(namespaces) == 1 else None
    return _found("export", namespace, (each.entry.id for each in reply.entries))


def trusted_import(arguments: Arguments, reply: Sequence[object]) -> AuditNote | None:
    """Describe an import with raised trust; the saves of every import are recorded anyway."""
    request = arguments["request"]
    if request.trust == "external" or request.dry_run:
        return None
    namespaces = sorted({entry.namespace for entry in request.entries})
    return _action("trusted_import", trust=request.trust, entries=len(reply), namespaces=namespaces)


def backed_up(arguments: Arguments, reply: wire.BackupReply) -> AuditNote:
    return _action("backup", entries=reply.entries, named=arguments["request"].file is not None)


def rewritten(_: Arguments, __: wire.RewriteReply) -> AuditNote:
    return _action("rewrite")


def reembedded(arguments: Arguments, reply: wire.ReembedReply) -> AuditNote:
    model = reply.answering.model if reply.answering else None
    return _action("reembed", action=arguments["action"], model=model)


def marked_files(arguments: Arguments, _: wire.MarkFilesReply) -> AuditNote | None:
    """Describe which entries left the answers; the other marks change none."""
    request = arguments["request"]
    withdrawn = [each for mark in request.marks if mark.state == "withdrawn" for each in mark.entries]
    return replace(_found("withdraw", request.namespace, withdrawn), is_action=True) if withdrawn else None


def revoked(_: Arguments, reply: wire.RevokeReply) -> AuditNote | None:
    if reply.revocation is None:
        return None
    return _action(
        "revoke",
        subject=str(reply.revocation),
        criteria=sorted(reply.criteria),
        entries=reply.entries,
        derived=reply.derived,
        forget=reply.forget,
    )


def revocation_undone(arguments: Arguments, reply: wire.ReleaseReply) -> AuditNote:
    return _action("undo_revocation", subject=str(arguments["revocation_id"]), released=reply.released)


def released(arguments: Arguments, reply: wire.ReleaseReply) -> AuditNote:
    return _action("release", subject=arguments["entry_id"], released=reply.released)


def kept(arguments: Arguments, _: wire.ReleaseReply) -> AuditNote:
    request = arguments["request"]
    return _action("keep", subject=arguments["entry_id"], way=request.way, always=request.always)


def capture_mode_set(arguments: Arguments, _: wire.ReviewReply) -> AuditNote:
    request = arguments["request"]
    note = _action("capture_mode", agent=request.agent, mode=request.mode, way=request.way)
    return replace(note, namespace=request.namespace)


def _action(kind: str, *, subject: str | None = None, **detail: Any) -> AuditNote:
    return AuditNote(kind=kind, subject=subject, detail=detail, is_action=True)


def _answered(
    kind: str, request: wire.SearchRequest, reply: wire.SearchReply | wire.ContextReply
) -> AuditNote:
    note = _found(kind, None, (hit.id for hit in reply.results))
    where = _searched_namespaces(request.asked)
    return replace(note, namespace=where["namespace"], detail={**note.detail, **where["detail"]})


def _searched_namespaces(asked: Sequence[str]) -> dict[str, Any]:
    """Return the searched namespace, or, if there are several, all of them as detail."""
    if len(asked) == 1:
        return {"namespace": asked[0], "detail": {}}
    return {"namespace": None, "detail": {"namespaces": list(asked)}}


def _found(kind: str, namespace: str | None, ids: Iterable[str]) -> AuditNote:
    found = list(dict.fromkeys(ids))
    detail = {"entries": len(found), "ids": found[:MAX_IDS]}
    return AuditNote(kind=kind, namespace=namespace, detail=detail)
