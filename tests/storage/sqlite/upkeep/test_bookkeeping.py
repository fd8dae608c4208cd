"""Damage in bookkeeping tables never makes entries unreadable."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.service.views import audit_event
from agentctx.storage.audit import DAMAGE, MS_PER_DAY, AuditQuery, Event
from agentctx.storage.file.driver import open_connection
from agentctx.storage.records import Change, IdempotencyKey
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.trust import Source
from agentctx_testing.drafts import START_MS, embed, keyless, serving_space
from tests.amount import IS_WHOLE
from tests.doctor.damage import BOOKKEEPING, SPOILT, columns_of, spoil

NAME = "agentctx.db"
EVERYTHING = Filter(namespace="default", with_quarantined=True, with_superseded=True)
READ_AT_START = (
    "vector_checksums",
    "schema_migrations",
    "installation",
    "spaces",
    "scrub",
    "quarantine",
    "revocations",
    "jobs",
)
SOME = ("bytes", "not UTF-8", "huge number")
LOST_VALUES = ("secret", "audit_head", "audit_config")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with rows in every table."""
    folder = tmp_path_factory.mktemp("bookkeeping")
    asyncio.run(_fill(folder / NAME))
    return folder / NAME


async def opened(path: Path) -> SqliteStorage:
    return await SqliteStorage.open(path, readers=1, clock=lambda: START_MS)


async def _fill(path: Path) -> None:
    storage = await opened(path)
    try:
        await storage.secret()
        await serving_space(storage)
        for number in range(6):
            key = IdempotencyKey(principal=1, key=f"key-{number}", digest=b"d" * 32)
            agent = "bad" if number % 2 else "good"
            saved = await storage.entries.save(
                keyless(f"whale number {number}", agent=agent), embed=True, idempotency=key
            )
            if number < 4:
                await embed(storage, saved)
        await storage.entries.save(
            keyless("made of it", derived_from=(saved.id,), flags=("instruction",)), embed=True
        )
        await storage.entries.save(
            keyless("instead of it", attributes={"category": "fact", "supersedes": [saved.id]}), embed=True
        )
        forgotten = await storage.entries.save(keyless("forget me"), embed=False)
        await storage.entries.delete(forgotten.id)
        await storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
        await storage.trust.settle(embed=True)
        await storage.scrub.step()
        await storage.audit.add([Event(kind="test", principal=None)])
    finally:
        await storage.close()
    with closing(open_connection(path)) as connection:
        connection.execute("INSERT INTO forgotten VALUES ('gone', 1)")
        connection.execute(
            """INSERT INTO injections VALUES ('i1', 1, '', '', 0, 'tail', 'q', NULL,
               NULL, NULL, '[]', '{}', 100, 0, 1.0, NULL, 0.5, '["default"]', 0, '', NULL)"""
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def read_everything(path: Path) -> tuple[dict[str, str], set[str], int]:
    """Return every entry, the tables whose repair is recorded, and the faults of the audit trail."""
    storage = await opened(path)
    try:
        entries, _ = await storage.entries.list_entries(EVERYTHING, limit=100)
        repaired = await storage.audit.page(AuditQuery(kind=DAMAGE, limit=100))
        trail = (await storage.audit.verify()).faults
        saved = await storage.entries.save(keyless("a new one"), embed=True)
        if saved.jobs:
            await embed(storage, saved)
        assert await storage.secret()
        return (
            {entry.id: entry.content for entry in entries},
            {json.loads(row.detail)["table"] for row in repaired},
            trail,
        )
    finally:
        await storage.close()


def damaged_copy(filled: Path, tmp_path: Path, table: str, column: str, kind: str, where: str) -> Path | None:
    path = tmp_path / NAME
    for old in tmp_path.glob(f"{NAME}*"):
        old.unlink()
    shutil.copyfile(filled, path)
    return path if spoil(path, table, column, SPOILT[kind], where) else None


@pytest.mark.parametrize("table", BOOKKEEPING)
def test_every_entry_stays_readable_whatever_a_bookkeeping_column_contains(
    filled: Path, tmp_path: Path, table: str
) -> None:
    expected = asyncio.run(read_everything(Path(shutil.copyfile(filled, tmp_path / NAME))))[0]
    rows = [f"name = '{name}'" for name in LOST_VALUES] if table == "installation" else ["TRUE"]
    tried = 0
    for column in columns_of(filled, table):
        for kind in SPOILT if IS_WHOLE and table in READ_AT_START else SOME:
            for where in rows:
                path = damaged_copy(filled, tmp_path, table, column, kind, where)
                if path is None:
                    continue
                with capture_logs():
                    found = asyncio.run(read_everything(path))[0]
                assert found == expected, (column, kind, where)
                tried += 1
    assert tried > 4


UNREADABLE = [
    *(
        ("spaces", column, "bytes")
        for column in ("fingerprint", "state", "dimension", "comparison", "enabled")
    ),
    *(("spaces", column, "not UTF-8") for column in ("fingerprint", "canary", "comparison", "approved")),
    *(("jobs", column, "text") for column in ("chunk", "hash", "state", "not_before", "leased_until")),
    *(("quarantine", column, "bytes") for column in ("screened", "state", "since", "revocation")),
    *(("revocations", column, "text") for column in ("at", "principal", "criteria", "entries")),
    *(("idempotency", column, "null") for column in ("digest", "entry", "version", "change", "created")),
    ("scrub", "value", "number"),
    ("forgotten", "at", "bytes"),
    ("derivations", "source", "bytes"),
    ("flags", "flag", "bytes"),
    ("schema_migrations", "checksum", "bytes"),
    ("schema_migrations", "version", "huge number"),
]


@pytest.mark.parametrize(("table", "column", "kind"), UNREADABLE)
def test_repairs_at_a_start_are_logged_and_recorded(
    filled: Path, tmp_path: Path, table: str, column: str, kind: str
) -> None:
    path = damaged_copy(filled, tmp_path, table, column, kind, "TRUE")
    if path is None:
        path = damaged_copy(filled, tmp_path, table, column, kind, "version = 11")
    assert path is not None
    with capture_logs() as logged:
        _, repaired, _ = asyncio.run(read_everything(path))
    lines = [line for line in logged if line["event"] == "bookkeeping_damaged"]
    assert {line["table"] for line in lines} >= {table}
    assert all(line["log_level"] == "error" for line in lines)
    assert repaired >= {table}
    with capture_logs() as logged:
        asyncio.run(read_everything(path))
    assert "bookkeeping_damaged" not in {line["event"] for line in logged}


@pytest.mark.parametrize("kind", ["bytes", "text", "null", "empty"])
@pytest.mark.parametrize("column", ["value", "name"])
@pytest.mark.parametrize("name", ["secret", "audit_head"])
def test_replacing_a_damaged_secret_or_audit_head_is_always_reported(
    filled: Path, tmp_path: Path, name: str, column: str, kind: str
) -> None:
    path = damaged_copy(filled, tmp_path, "installation", column, kind, f"name = '{name}'")
    if path is None:
        pytest.skip("SQLite has no such row")
    with capture_logs() as logged:
        _, repaired, trail = asyncio.run(read_everything(path))
    assert "bookkeeping_damaged" in {line["event"] for line in logged}
    assert "installation" in repaired
    assert (trail > 0) == (name == "audit_head"), "the audit chain reveals a lost end"


@pytest.mark.parametrize("column", ["state", "screened", "revocation", "since"])
@pytest.mark.parametrize("kind", SPOILT)
def test_damage_neither_releases_nor_erases_a_quarantined_entry(
    filled: Path, tmp_path: Path, column: str, kind: str
) -> None:
    async def settle(path: Path) -> tuple[int, int]:
        storage = await opened(path)
        try:
            while (await storage.trust.settle(embed=True)).rows:
                pass
            entries, _ = await storage.entries.list_entries(EVERYTHING, limit=100)
            return await storage.trust.quarantined(), len(entries)
        finally:
            await storage.close()

    before = asyncio.run(settle(Path(shutil.copyfile(filled, tmp_path / NAME))))
    path = damaged_copy(filled, tmp_path, "quarantine", column, kind, "TRUE")
    assert path is not None
    with capture_logs():
        assert asyncio.run(settle(path)) == before
    assert before[0] > 0


def test_a_remembered_key_is_sound_whatever_its_save_changed(filled: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(filled, tmp_path / "a.db"))
    with closing(open_connection(path)) as connection:
        connection.executemany(
            "INSERT INTO idempotency VALUES (1, ?, x'07', 'e', 1, ?, 1)", [(each, each) for each in Change]
        )
    assert asyncio.run(read_everything(path))[1] == set()


def test_lost_jobs_are_created_again(filled: Path, tmp_path: Path) -> None:
    async def pending_jobs(path: Path) -> Any:
        storage = await opened(path)
        try:
            return (await storage.jobs.depth()).pending, (await storage.upkeep.census()).violations
        finally:
            await storage.close()

    before = asyncio.run(pending_jobs(Path(shutil.copyfile(filled, tmp_path / NAME))))
    path = damaged_copy(filled, tmp_path, "jobs", "state", "text", "TRUE")
    assert path is not None
    with capture_logs():
        assert asyncio.run(pending_jobs(path)) == before


def test_a_space_that_is_damaged_is_retired_and_leaves_no_job(filled: Path, tmp_path: Path) -> None:
    async def spaces(path: Path) -> Any:
        storage = await opened(path)
        try:
            return [(space.state, space.dimension) for space in await storage.spaces.all()], (
                await storage.jobs.depth()
            ).pending
        finally:
            await storage.close()

    path = damaged_copy(filled, tmp_path, "spaces", "state", "text", "TRUE")
    assert path is not None
    with capture_logs():
        assert asyncio.run(spaces(path)) == ([("retired", None)], 0)


def test_a_damaged_receipt_is_skipped(filled: Path, tmp_path: Path) -> None:
    async def read(path: Path) -> None:
        storage = await opened(path)
        try:
            assert await storage.injections.last(10) == []
            assert await storage.injections.find("i1") is None
        finally:
            await storage.close()

    path = damaged_copy(filled, tmp_path, "injections", "candidates", "text", "TRUE")
    assert path is not None
    asyncio.run(read(path))


@pytest.mark.parametrize("column", ["at", "kind", "principal", "subject", "detail", "previous_hash", "hash"])
@pytest.mark.parametrize("kind", ["bytes", "null", "text", "fraction", "huge number"])
def test_damaged_audit_rows_are_shown_and_pruned(
    filled: Path, tmp_path: Path, column: str, kind: str
) -> None:
    async def read(path: Path) -> None:
        storage = await opened(path)
        try:
            page = [audit_event(row) for row in await storage.audit.page(AuditQuery(limit=100))]
            assert len(page) > 5
            assert await storage.audit.prune(before=START_MS + 30 * MS_PER_DAY, keep=1) > 5
        finally:
            await storage.close()

    path = damaged_copy(filled, tmp_path, "audit", column, kind, "TRUE")
    assert path is not None
    asyncio.run(read(path))
