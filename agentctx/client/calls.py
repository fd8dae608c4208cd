"""Every route as a value: what to send and how to read the answer. No I/O.

Each public function builds one request and becomes a method of both clients; those on one entry, which may
be named by its key, are in `by_key`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Unpack

from agentctx import wire
from agentctx.client.api_call import (
    JSON,
    ApiCall,
    encoded,
    is_success,
    present,
    query_call,
    query_string,
    read_call,
    read_text,
    reader,
    segment,
    write_call,
)
from agentctx.client.by_key import edit, entry_path, forget, get
from agentctx.client.saves import (
    SaveOutcomes,
    encode_save,
    new_idempotency_key,
    outcomes_reader,
    save_encoded,
    save_once,
)
from agentctx.wire.protocol import API_PREFIX

if TYPE_CHECKING:
    from agentctx.client.options import (
        ContextOptions,
        ExportOptions,
        KnowledgeOptions,
        LearningOptions,
        ListOptions,
        NoteOptions,
        ReflectionOptions,
        RevokeOptions,
        SaveFields,
        SearchOptions,
    )

EXAMINE_WAIT_S = 900.0
"""How long the daemon may examine itself: each check that reads a whole database may take 90 s."""

REPAIR_WAIT_S = 1_800.0
"""How long the daemon may repair itself: each repair may take 600 s, with checks before and after."""

BACKUP_WAIT_S = 1_800.0
"""How long a backup may take: the daemon reads everything twice."""

AUDIT_WAIT_S = 60.0
"""How long verifying the audit trail may take."""


def save(
    collection: str, content: str | None = None, **fields: Unpack[SaveFields]
) -> ApiCall[wire.SaveResult]:
    """Save one entry durably: it is on disk when this returns. Saving the same again changes nothing.

    Raises:
        InvalidInput: a field does not belong to the collection, or is malformed.
        VersionConflict: `if_version` is not the live version; 0 means the key must be new.
    """
    request = wire.SaveRequest(collection=collection, content=content, **fields)
    return save_once(request, new_idempotency_key())


def save_knowledge(key: str, content: str, **options: Unpack[KnowledgeOptions]) -> ApiCall[wire.SaveResult]:
    """Save knowledge, true until replaced: `key` names it, and saving it again makes a new version."""
    options.setdefault("category", "fact")
    return save("knowledge", content, key=key, **options)


def save_observation(session: str, content: str, **options: Unpack[NoteOptions]) -> ApiCall[wire.SaveResult]:
    """Save what was seen or said in a session."""
    return save("observation", content, session=session, **options)


def save_reflection(
    session: str, content: str, **options: Unpack[ReflectionOptions]
) -> ApiCall[wire.SaveResult]:
    """Save what was concluded in a session."""
    return save("reflection", content, session=session, **options)


def save_learning(trigger: str, **options: Unpack[LearningOptions]) -> ApiCall[wire.SaveResult]:
    """Save what went wrong when `trigger` happened, why, and what helped; repeats are counted."""
    return save("learning", trigger=trigger, **options)


def save_many(requests: Sequence[wire.SaveRequest]) -> ApiCall[SaveOutcomes]:
    """Save many entries in one request; a bad one fails alone and its error takes its place.

    Each request names its own namespace: the client's is not used. `save_all` takes any number.
    """
    return save_encoded([encode_save(request) for request in requests], new_idempotency_key())


def list_entries(**options: Unpack[ListOptions]) -> ApiCall[wire.EntryPage]:
    """Return a page of live entries, newest first; pass its `next` as `cursor` to get the following page."""
    return read_call("entries", wire.EntryPage, _singular(options))


def namespaces() -> ApiCall[wire.NamespaceList]:
    """Return the namespaces that you may read, each with the number of its entries, the largest first."""
    return read_call("namespaces", wire.NamespaceList)


def history(
    entry_id: str, *, limit: int | None = None, cursor: str | None = None
) -> ApiCall[wire.VersionPage]:
    """Return a page of an entry's versions, newest first; pass its `next` as `cursor` to get the next page.

    Raises:
        NotFound.
    """
    return read_call(f"{entry_path(entry_id)}/versions", wire.VersionPage, {"limit": limit, "cursor": cursor})


def forget_all(namespace: str, *, dry_run: bool = False) -> ApiCall[wire.ForgetAllReply]:
    """Delete all entries of a namespace permanently; with `dry_run`, only count them. See `forget`.

    What is saved meanwhile may stay. If it is interrupted, repeat it.
    """
    query = query_string({"namespace": namespace, "dry_run": dry_run or None})
    return write_call("DELETE", f"entries{query}", wire.ForgetAllReply, takes_s=REPAIR_WAIT_S)


def outcome(entry_id: str, success: bool) -> ApiCall[wire.SaveResult]:
    """Record whether applying a learning worked. Raises NotFound."""
    path = f"learnings/{segment(entry_id)}/outcome"
    return write_call("POST", path, wire.SaveResult, wire.OutcomeRequest(success=success))


def search(query: str, **options: Unpack[SearchOptions]) -> ApiCall[wire.SearchReply]:
    """Return the passages closest to a question, by keyword and by meaning."""
    return query_call("search", wire.SearchReply, wire.SearchRequest(query=query, **options))


def context(query: str, **options: Unpack[ContextOptions]) -> ApiCall[wire.ContextReply]:
    """Return the ready-made context block for a prompt; empty when nothing is relevant."""
    return query_call("context", wire.ContextReply, wire.ContextRequest(query=query, **options))


def injection(injection_id: str) -> ApiCall[wire.InjectionView]:
    """Return the receipt of an injection: what was found, what was left out and why. Raises NotFound."""
    return read_call(f"injections/{segment(injection_id)}", wire.InjectionView)


def injections(limit: int | None = None, entry: str | None = None) -> ApiCall[wire.InjectionList]:
    """Return the receipts of the latest injections, newest first; of an `entry`, those that had found it."""
    return read_call("injections", wire.InjectionList, {"limit": limit, "entry": entry})


def why_not(entry_id: str, query: str, **options: Unpack[ContextOptions]) -> ApiCall[wire.ExplainReply]:
    """Return whether an entry would currently be injected for a question, and why."""
    request = wire.ExplainRequest(entry=entry_id, query=query, **options)
    return query_call("injections/explain", wire.ExplainReply, request)


def status() -> ApiCall[wire.StatusReply]:
    """Return the daemon's status."""
    return read_call("status", wire.StatusReply)


def open_page() -> ApiCall[wire.PageLink]:
    """Return a link that opens the pages in a browser on the daemon's machine, once and for a minute."""
    return write_call("POST", "ui", wire.PageLink)


def access() -> ApiCall[wire.AccessReply]:
    """Return what you may do and your quotas; for admins of the daemon, of every user with a grant."""
    return read_call("access", wire.AccessReply)


def queue() -> ApiCall[wire.QueueReply]:
    """Return the pending embeddings and the buried ones."""
    return read_call("queue", wire.QueueReply)


def retry_buried() -> ApiCall[wire.RetryReply]:
    """Put the buried embeddings back into the queue."""
    return write_call("POST", "queue/retry", wire.RetryReply)


def drain(timeout_s: float = 10.0) -> ApiCall[wire.QueueReply]:
    """Wait until everything due is embedded, at most `timeout_s` s; return what is still pending."""
    return query_call(
        "queue/drain", wire.QueueReply, wire.DrainRequest(timeout_s=timeout_s), takes_s=timeout_s
    )


def reembed_status() -> ApiCall[wire.ReembedReply]:
    """Return the progress of the next embedding model, and how it compares with the current one."""
    return read_call("reembed", wire.ReembedReply)


def reembed(action: wire.ReembedAction) -> ApiCall[wire.ReembedReply]:
    """Change which model answers: `approve` the next one's cost, `switch`, `rollback` or `retire` the former.

    Raises:
        NotFound: only one model is in use.
        Conflict: the model is not in a state that allows the action.
    """
    return write_call("POST", f"reembed/{action}", wire.ReembedReply)


def doctor(
    only: Sequence[str] = (), *, offline: bool = False, latest: bool = False
) -> ApiCall[wire.DoctorReply]:
    """Let the daemon examine itself and return its findings.

    `only` names checks or groups of checks; by default all run. `offline` asks no embedding provider except
    one that runs in the daemon itself. `latest` returns the last result since its start, or raises NotFound.
    """
    asked = {"only": list(only), "offline": offline or None, "latest": latest or None}
    return read_call("doctor", wire.DoctorReply, asked)._replace(takes_s=EXAMINE_WAIT_S)


def doctor_fix(only: Sequence[str] = (), *, offline: bool = False) -> ApiCall[wire.DoctorReply]:
    """Let the daemon repair what it can; return the repairs and its later findings. See `doctor`."""
    # Not repeatable: fixing twice is harmless, but the second reply would not list the first one's fixes.
    query = query_string({"only": list(only), "offline": offline or None})
    return write_call("POST", f"doctor/fix{query}", wire.DoctorReply, takes_s=REPAIR_WAIT_S)


def export(**options: Unpack[ExportOptions]) -> ApiCall[wire.ExportReply]:
    """Return a page of live entries of every namespace, oldest change first; `next` is the next `cursor`."""
    return read_call("export", wire.ExportReply, _singular(options))


def import_entries(
    entries: Sequence[wire.ImportEntry],
    *,
    dry_run: bool = False,
    include_forgotten: bool = False,
    trust: wire.ImportTrust = "external",
    review: bool = False,
) -> ApiCall[SaveOutcomes]:
    """Save exported entries under their ids; return a result or an error for each. Idempotent.

    An entry forgotten here is an error (`Forgotten`) unless `include_forgotten`; so is an expired one
    (`Expired`). `trust="agent"`, for admins of the daemon, lets new entries into system prompts. With
    `review`, new ones wait until somebody keeps them, and existing ones stay as they are.
    """
    body = encoded(
        {
            "entries": [present(entry) for entry in entries],
            "dry_run": dry_run,
            "include_forgotten": include_forgotten,
            "trust": trust,
            "review": review,
        }
    )
    read = outcomes_reader(len(entries))
    return ApiCall("POST", f"{API_PREFIX}/import", read, body, JSON, repeatable=True)


def mark_files(namespace: str, marks: Sequence[wire.FileMark]) -> ApiCall[wire.MarkFilesReply]:
    """Mark entries whose file could not be seen (`stale`) or no longer says them (`withdrawn`), or unmark
    them (`present`). Up to 1,000 entries at a time.
    """
    body = encoded({"namespace": namespace, "marks": [asdict(mark) for mark in marks]})
    read = reader(wire.MarkFilesReply)
    return ApiCall("POST", f"{API_PREFIX}/file-states", read, body, JSON, repeatable=True)


def revoke(**source: Unpack[RevokeOptions]) -> ApiCall[wire.RevokeReply]:
    """Remove a source from every answer at once, with everything derived from its entries.

    `dry_run=True` only counts them; `forget=True` erases them permanently soon after.

    Raises:
        InvalidInput: nothing names the source.
    """
    # Not repeatable: sent twice, it would create a second, empty revocation.
    return write_call("POST", "revocations", wire.RevokeReply, wire.RevokeRequest(**source))


def undo_revocation(revocation: int) -> ApiCall[wire.ReleaseReply]:
    """Undo a revocation: its entries may appear in answers again. Raises NotFound."""
    return write_call("DELETE", f"revocations/{int(revocation)}", wire.ReleaseReply)


def release(entry_id: str) -> ApiCall[wire.ReleaseReply]:
    """Release an entry from quarantine. Raises NotFound when it is not in quarantine."""
    return write_call("POST", f"{entry_path(entry_id)}/release", wire.ReleaseReply)


def review() -> ApiCall[wire.ReviewReply]:
    """Count what waits for a review, by namespace and agent. No client can keep it: `agentctx review` can."""
    return read_call("review", wire.ReviewReply)


def rewrite() -> ApiCall[wire.RewriteReply]:
    """Remove deleted data from the database's files now, from unused space too.

    Saves wait meanwhile: about five seconds for 100,000 entries; with PostgreSQL, searches too.

    Raises:
        DeadlineExceeded: a read, or another daemon, was in the way for 30 s.
        StorageFull: less than twice the size of the database is free.
    """
    return write_call("POST", "rewrite", wire.RewriteReply, takes_s=REPAIR_WAIT_S)


def backup(file: str | None = None) -> ApiCall[wire.BackupReply]:
    """Write a backup while the daemon keeps serving; return when it has been read back and verified.

    `file` is an absolute path on the daemon's machine; None means a new file in its backup folder.

    Raises:
        InvalidInput: the file exists and is not a backup.
        AccessDenied: `file` was given by a user other than the daemon's.
    """
    return write_call(
        "POST", "backup", wire.BackupReply, wire.BackupRequest(file=file), takes_s=BACKUP_WAIT_S
    )


def audit(
    *,
    limit: int | None = None,
    before: int | None = None,
    kind: str | None = None,
    subject: str | None = None,
) -> ApiCall[wire.AuditPage]:
    """Return rows of the audit trail, newest first. For operators."""
    asked = {"limit": limit, "before": before, "kind": kind, "subject": subject}
    return read_call("audit", wire.AuditPage, asked)


def verify_audit() -> ApiCall[wire.AuditVerdict]:
    """Verify that no row of the audit trail was altered after writing, and none is missing."""
    return query_call("audit/verify", wire.AuditVerdict, None, takes_s=AUDIT_WAIT_S)


def begin_run(vendor: str = "", url: str = "", *, namespaces: Sequence[str]) -> ApiCall[str]:
    """Return the token of a run: calls with it look in these namespaces and save replies to the first.

    A base URL becomes the upstream of this process and the program it becomes.

    Raises:
        AccessDenied: this is not the daemon's own user.
        InvalidInput: the URL must not be an upstream.
    """
    body = encoded({"namespaces": list(namespaces), "vendor": vendor, "url": url})
    return ApiCall("POST", "/proxy/run", read_text, body, JSON)


def metrics() -> ApiCall[str]:
    """Return the daemon's metrics in the Prometheus text format."""
    return ApiCall("GET", "/metrics", read_text, repeatable=True)


def alive() -> ApiCall[bool]:
    """Return whether a daemon answers."""
    return ApiCall("GET", "/healthz", is_success, repeatable=True, is_probe=True)


def ready() -> ApiCall[bool]:
    """Return whether the daemon serves requests right now.

    Raises:
        DaemonUnreachable: no daemon listens. This does not wait for one to start.
    """
    return ApiCall("GET", "/readyz", is_success, repeatable=True, is_probe=True)


IN_NAMESPACE = frozenset(
    {
        save,
        save_knowledge,
        save_observation,
        save_reflection,
        save_learning,
        list_entries,
        get,
        edit,
        forget,
        search,
        context,
        why_not,
    }
)
"""The calls that are in the client's own namespace if they name none."""


def _singular(options: Mapping[str, Any]) -> dict[str, Any]:
    # A query string repeats the name for each value, so the name is in the singular there.
    singular = {"namespaces": "namespace", "collections": "collection", "tags": "tag"}
    return {singular.get(name, name): value for name, value in options.items()}
