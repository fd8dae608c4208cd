"""What the daemon records besides saves and forgets: reads by other users, actions, and its settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agentctx.config.schema import AuditSettings, Settings
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.service.audit import AuditTrail, digests_of
from agentctx.service.audit_notes import AuditNote
from agentctx.service.base import Peer
from agentctx.storage.audit import Event
from agentctx.wire import (
    AuditEvent,
    BackupRequest,
    ContextRequest,
    ExplainRequest,
    SearchRequest,
)
from tests.running_core import ME, guarded, running_core, save
from tests.service.access.peers import access_control, grant

GUEST = Peer(pid=1, uid=54_321, gid=54_321)


async def audit_events(core: Any, **wanted: Any) -> list[AuditEvent]:
    page = await core.audit_reader.audit(ME, limit=100, **wanted)
    return list(reversed(page.events))


async def read_everything(core: Any, entry: str, peer: Peer) -> None:
    service = guarded(core, access_control(grant("read", "default", uid=peer.uid)))
    await service.get(entry, peer)
    await service.list_entries(peer)
    await service.versions(entry, peer, limit=50)
    await service.search(SearchRequest(query="where is the harbour"), peer)
    reply = await service.context(ContextRequest(query="where is the harbour", position="tail"), peer)
    await service.injection(reply.injection_id, peer)
    await service.injections(peer)
    await service.explain(ExplainRequest(query="where is the harbour", entry=entry), peer)
    await service.export(peer, namespace=["default"])
    await service.namespaces(peer)


async def test_reads_by_other_users_are_recorded_without_the_question(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        entry = await save(core, key="k", content="The harbour is in the north.")
        await read_everything(core, entry.id, GUEST)
        rows = [row for row in await audit_events(core) if row.principal == GUEST.uid]
        assert [row.kind for row in rows] == [
            *("read", "list", "versions", "search", "context"),
            *("injection", "injections", "explain", "export", "namespaces"),
        ]
        assert {row.namespace for row in rows} == {"default", None}
        search = rows[3]
        assert search.detail == {"entries": 1, "ids": [entry.id]}
        assert "harbour" not in repr(rows)
        assert (await core.audit_reader.verify_audit(ME)).sound


async def test_reads_by_the_daemons_user_and_root_are_not_recorded(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        entry = await save(core, key="k", content="The harbour is in the north.")
        for uid in {0, os.geteuid()}:
            await read_everything(core, entry.id, Peer(pid=1, uid=uid, gid=uid))
        assert [row.kind for row in await audit_events(core)] == ["save"]


async def test_everything_but_forgets_can_be_switched_off(tmp_path: Path) -> None:
    async with running_core(tmp_path, None, audit={"enabled": False}) as core:
        entry = await save(core, key="k", content="The harbour is in the north.")
        await core.entries.get(entry.id, GUEST)
        await core.audit.note_settings("start", Settings(), core.storage.secret)
        await core.forgetting.forget(entry.id, ME)
        assert [row.kind for row in await audit_events(core)] == ["forget"]


async def test_a_backup_is_recorded(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        await guarded(core, access_control()).backup(BackupRequest(), ME)
        (row,) = await audit_events(core)
        assert (row.kind, row.principal, row.detail) == ("backup", ME.uid, {"entries": 0, "named": False})


async def test_a_start_records_the_configuration_and_a_reload_what_it_changed(tmp_path: Path) -> None:
    async def secret() -> bytes:
        return b"s" * 32

    before = Settings.model_validate({"embedding": {"api_key": "one"}})
    after = Settings.model_validate({"embedding": {"api_key": "two"}, "limits": {"max_results": 9}})
    async with running_core(tmp_path, None) as core:
        await core.audit.note_settings("start", before, secret)
        await core.audit.note_settings("reload", before, secret)  # nothing changed
        await core.audit.note_settings("reload", after, secret)
        first, last = await audit_events(core)
    assert (first.kind, first.detail["changed"]) == ("start", [])
    assert (last.kind, last.detail["changed"]) == ("reload", ["embedding.api_key", "limits.max_results"])
    assert first.detail["config"] != last.detail["config"]
    assert "two" not in repr(last)


async def test_a_database_timeout_costs_only_the_row(tmp_path: Path) -> None:
    async def secret() -> bytes:
        raise DeadlineExceeded("the database did not answer")

    async with running_core(tmp_path, None) as core:
        await core.audit.note_settings("reload", Settings(), secret)
        assert core.audit.dropped == 1


def test_digests_distinguish_secrets_without_revealing_them() -> None:
    one, two = (
        digests_of(Settings.model_validate({"embedding": {"api_key": SecretStr(key)}}), b"s" * 32)
        for key in ("one", "two")
    )
    assert [key for key in one if one[key] != two[key]] == ["embedding.api_key"]
    other = digests_of(Settings(), b"t" * 32)
    assert not {name for name in other if other[name] == one[name]}


class RefusingTable:
    """A table that raises while `refuses` is set."""

    saves = True

    def __init__(self) -> None:
        self.refuses = False
        self.events: list[Event] = []

    async def add(self, events: Sequence[Event]) -> None:
        if self.refuses:
            raise StorageFailed("The disk has failed.")
        self.events += events


async def test_lost_rows_are_counted_and_reported_with_the_next_one() -> None:
    table = RefusingTable()
    trail = AuditTrail(table, AuditSettings(), clock=lambda: 7, capacity=2)  # type: ignore[arg-type] # incomplete
    for _ in range(3):
        await trail.record(GUEST, AuditNote(kind="read"))
    table.refuses = True
    await trail.flush()
    assert trail.dropped == 3
    table.refuses = False
    await trail.record(GUEST, AuditNote(kind="list", namespace="team"))
    await trail.flush()
    assert [(event.kind, event.at) for event in table.events] == [("dropped", None), ("list", 7)]
    assert table.events[0].detail == {"rows": 3}
    await trail.record(GUEST, AuditNote(kind="list"))
    await trail.flush()
    assert [event.kind for event in table.events] == ["dropped", "list", "list"]
