"""The chains of the audit trail: every change to one is detected, and daemons do not block each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentctx.storage.audit import MS_PER_DAY as DAY
from agentctx.storage.audit import AuditQuery, ChainVerdict, Event
from agentctx_postgresql.audit import audit_events
from agentctx_postgresql.driver import Connection, Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_testing.drafts import ManualClock


@pytest.fixture
async def other(database: str, clock: ManualClock) -> AsyncIterator[PostgresqlStorage]:
    """A second daemon on the same database."""
    opened = await PostgresqlStorage.open(Server(url=database), daemon="b", clock=clock, server_clock=clock)
    yield opened
    await opened.close()


def read_events(count: int) -> list[Event]:
    return [Event(kind="read", principal=number) for number in range(count)]


async def write_two_chains(storage: PostgresqlStorage) -> list[str]:
    """Write six rows to one chain and, while its lock is held, five to another; return their names."""

    async def add_to_both(conn: Connection) -> None:
        await audit_events.add(conn, read_events(5), now=1)
        await storage.db.write(lambda other: audit_events.add(other, read_events(5), now=1))

    await storage.audit.add(read_events(1))
    await storage.db.write(add_to_both)
    names = await storage.db.read(
        lambda conn: conn.fetch("SELECT chain FROM audit GROUP BY chain ORDER BY count(*) DESC")
    )
    return [row[0] for row in names]


async def change(storage: PostgresqlStorage, sql: str) -> None:
    await storage.db.write(lambda conn: conn.execute(sql))


async def is_sound(storage: PostgresqlStorage) -> bool:
    return not (await storage.audit.verify()).faults


async def test_each_daemon_may_have_its_own_chain_and_verification_covers_all(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    both = (storage, other)
    await asyncio.gather(*(each.audit.add(read_events(2)) for each in both for _ in range(40)))
    verdicts = [await each.audit.verify() for each in both]
    assert [(verdict.faults, verdict.rows) for verdict in verdicts] == [(0, 160)] * 2
    chains = await storage.db.read(lambda conn: conn.fetchval("SELECT count(DISTINCT chain) FROM audit"))
    assert chains > 1


async def test_an_uncommitted_row_blocks_no_other_daemon(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    inside, may_commit = asyncio.Event(), asyncio.Event()

    async def slowly(conn: Connection) -> None:
        await audit_events.add(conn, read_events(1), now=1)
        inside.set()
        await may_commit.wait()

    await other.audit.add(read_events(1))
    slow = asyncio.create_task(storage.db.write(slowly))
    try:
        await asyncio.wait_for(inside.wait(), 30)
        await asyncio.wait_for(other.audit.add(read_events(1)), 30)
    finally:
        may_commit.set()
        await slow
    assert await is_sound(storage)


async def test_a_rolled_back_action_leaves_no_row_and_an_intact_chain(storage: PostgresqlStorage) -> None:

    async def record_and_fail(conn: Connection) -> None:
        await audit_events.add(conn, read_events(1), now=1)
        raise LookupError

    with pytest.raises(LookupError):
        await storage.db.write(record_and_fail)
    await storage.audit.add(read_events(1))
    assert await is_sound(storage)
    assert len(await storage.audit.page(AuditQuery(limit=9))) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit SET principal = 77 WHERE chain = '{first}' AND seq = 2",
        "UPDATE audit SET hash = '' WHERE chain = '{first}' AND seq = 2",
        "DELETE FROM audit WHERE chain = '{first}' AND seq = 2",
        "DELETE FROM audit WHERE chain = '{first}' AND seq <= 2",
        "DELETE FROM audit WHERE chain = '{first}' AND seq >= 3",
        "DELETE FROM audit",
        "DELETE FROM audit_chains WHERE chain = '{second}'",
        """INSERT INTO audit (chain, seq, at, kind, detail, previous_hash, hash)
           SELECT chain, seq + 1, at, kind, detail, hash, hash FROM audit
           WHERE chain = '{first}' AND seq = 6""",
    ],
)
async def test_manual_changes_are_still_found_after_new_rows(storage: PostgresqlStorage, sql: str) -> None:
    first, second = await write_two_chains(storage)
    assert await is_sound(storage)
    await change(storage, sql.format(first=first, second=second))
    assert not await is_sound(storage)
    for _ in range(2):
        await storage.audit.add(read_events(1))
    assert not await is_sound(storage)


async def test_the_server_hashes_what_is_verified_here(storage: PostgresqlStorage) -> None:
    odd = "\x01\x1f\b\f\n\r\t\"\\/\x7f é 漢 😀 \u2028 <>&'"
    events = [
        Event(
            kind=odd, principal=None, namespace=odd, subject=odd, detail={odd: odd, "n": [1.5, None, True]}
        ),
        Event(kind="read", principal=-(2**63), at=2**63 - 1, detail={}),
    ]
    await storage.audit.add(events)
    assert (await storage.audit.verify()) == ChainVerdict(rows=2)


async def test_pruning_keeps_the_chains_and_the_record_of_forgotten_entries(
    storage: PostgresqlStorage,
) -> None:
    await storage.audit.add([Event(kind="forget", principal=7, subject="gone"), *read_events(500)])
    await storage.audit.add(read_events(300))
    assert await storage.audit.prune(before=0, keep=1_000) == 0
    assert await storage.audit.prune(before=0, keep=300) == 501
    assert await storage.audit.verify() == ChainVerdict(rows=301)
    assert await storage.db.read(lambda conn: conn.fetch("SELECT 1 FROM forgotten WHERE entry = 'gone'"))
    await change(storage, "DELETE FROM audit WHERE kind = 'prune'")
    assert not await is_sound(storage)


async def test_each_chain_records_its_own_prunings(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_events, "MIN_PRUNED", 2)
    await write_two_chains(storage)
    while await storage.audit.prune(before=0, keep=2):
        assert await is_sound(storage)
    prunings = "SELECT count(DISTINCT chain) FROM audit WHERE kind = 'prune'"
    assert await storage.db.read(lambda conn: conn.fetchval(prunings)) == 2


async def test_expired_rows_are_pruned_within_a_day(storage: PostgresqlStorage, clock: ManualClock) -> None:
    await storage.audit.add(read_events(3))
    clock.now += 10 * DAY
    await storage.audit.add([Event(kind="list", principal=7)])
    assert await storage.audit.prune(before=clock.now - 9 * DAY, keep=99) == 0
    clock.now += 1
    assert await storage.audit.prune(before=clock.now - 9 * DAY, keep=99) == 3
    assert [row.kind for row in await storage.audit.page(AuditQuery(limit=9))] == ["prune", "list"]
    assert await storage.audit.prune(before=clock.now - 8 * DAY, keep=99) == 0
    assert await is_sound(storage)


async def test_pages_and_filters_cover_all_chains(storage: PostgresqlStorage) -> None:
    for number in range(5):
        await storage.audit.add([Event(kind="read", principal=7, subject=str(number % 2))])
    await storage.audit.add([Event(kind="list", principal=7)])
    first = await storage.audit.page(AuditQuery(limit=2))
    second = await storage.audit.page(AuditQuery(limit=2, before=first[-1].seq))
    assert [(row.kind, row.subject) for row in [*first, *second]] == [
        ("list", None),
        ("read", "0"),
        ("read", "1"),
        ("read", "0"),
    ]
    odd = await storage.audit.page(AuditQuery(limit=9, kind="read", subject="1"))
    assert len(odd) == 2
