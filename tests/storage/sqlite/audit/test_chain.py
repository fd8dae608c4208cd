"""The chain of the audit trail: what it records, and that every change to it is detected."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentctx.storage import audit as trail
from agentctx.storage.audit import AuditQuery, AuditRow, ChainVerdict, Event, Head, verify
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.migrate import migrate_database
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.audit.chain import verify_file
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import draft, keyless

SECRET = b"s" * 32
DAY = trail.MS_PER_DAY


def chained_rows(count: int) -> list[AuditRow]:
    rows, head = [], Head(0, b"")
    for number in range(count):
        event = Event(
            kind=("save", "forget", "read")[number % 3],
            principal=1_000 + number % 2,
            namespace="default",
            subject=f"entry {number}",
            detail={"version": number},
        )
        row = trail.next_row(SECRET, head, event, now=number)
        head = Head(row.seq, row.hash)
        rows.append(row)
    return rows


def judge(rows: list[AuditRow], head: AuditRow) -> ChainVerdict:
    return verify(rows, secret=SECRET, head=Head(head.seq, head.hash))


def edit(rows: list[AuditRow], dice: random.Random) -> list[AuditRow]:
    at = dice.randrange(len(rows))
    changes: dict[str, Any] = {
        "at": rows[at].at + 1,
        "kind": "expire",
        "principal": None,
        "namespace": "other",
        "subject": None,
        "detail": "{}",
        "previous_hash": dice.randbytes(16),
        "hash": dice.randbytes(16),
    }
    name = dice.choice(sorted(changes))
    return [*rows[:at], rows[at]._replace(**{name: changes[name]}), *rows[at + 1 :]]


def cut_out(rows: list[AuditRow], dice: random.Random) -> list[AuditRow]:
    first = dice.randrange(len(rows))
    return rows[:first] + rows[first + dice.randint(1, 3) :]


def reorder(rows: list[AuditRow], dice: random.Random) -> list[AuditRow]:
    one, other = dice.sample(range(len(rows)), 2)
    swapped = list(rows)
    swapped[one] = rows[other]._replace(seq=rows[one].seq)
    swapped[other] = rows[one]._replace(seq=rows[other].seq)
    return swapped


def insert_forged(rows: list[AuditRow], dice: random.Random) -> list[AuditRow]:
    """Insert a row made without the secret; later rows move up."""
    at = dice.randint(0, len(rows))
    before = rows[at - 1].hash if at else b""
    forged = trail.next_row(
        b"guessed".ljust(32),
        Head(at, before),
        Event(kind="save", principal=0),
        now=7,
    )
    return [*rows[:at], forged, *(row._replace(seq=row.seq + 1) for row in rows[at:])]


def truncate(rows: list[AuditRow], dice: random.Random) -> list[AuditRow]:
    return rows[: dice.randrange(len(rows))]


def test_1000_random_changes_are_all_found() -> None:
    dice = random.Random(7)
    rows = chained_rows(40)
    assert judge(rows, rows[-1]).is_sound
    ways = (edit, cut_out, reorder, insert_forged, truncate)
    missed = [
        way.__name__
        for number in range(1_000)
        if judge((way := ways[number % len(ways)])(rows, dice), rows[-1]).is_sound
    ]
    assert missed == []


def test_faults_name_the_changed_rows() -> None:
    rows = chained_rows(9)
    rows[4] = rows[4]._replace(principal=0)
    verdict = judge(rows, rows[-1])
    assert (verdict.faults, verdict.listed) == (1, (trail.ChainFault(5, "was changed or added"),))


def test_many_faults_are_counted_but_only_the_first_are_listed() -> None:
    rows = [row._replace(detail="{}") for row in chained_rows(50)]
    verdict = judge(rows, rows[-1])
    assert (verdict.faults, len(verdict.listed)) == (50, trail.MAX_FAULTS)


def test_a_noted_head_reveals_that_a_chain_was_rebuilt() -> None:
    rows = chained_rows(9)
    noted = Head(rows[5].seq, rows[5].hash)
    head = Head(rows[-1].seq, rows[-1].hash)
    assert verify(rows, secret=SECRET, head=head, noted=noted).is_sound
    assert not verify(rows, secret=SECRET, head=head, noted=noted._replace(hash=b"x" * 16)).is_sound


@pytest.mark.parametrize("text", ["", "1", "1:", "-1:" + "a" * 32, "1:" + "g" * 32, "٣:" + "a" * 32])
def test_invalid_text_is_not_a_head(text: str) -> None:
    assert trail.parse_head(text) is None


def test_a_head_survives_a_round_trip_as_text() -> None:
    head = Head(12, b"\x00" * 15 + b"\xff")
    assert trail.parse_head(head.text) == head


class DayClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000 * DAY

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize(
    ("kind", "at", "beyond", "through"),
    [
        ("save", 0, 19, 19),
        ("save", 0, 18, None),
        ("save", -1 - DAY, 10, 10),
        ("save", -DAY, 10, None),
        ("save", -1 - DAY, 9, None),
        (trail.PRUNE, -1 - DAY, 10, None),
        ("save", 0, 100_000, 9 + trail.PRUNE_ROWS),
    ],
    ids=[
        "enough rows",
        "one row too few",
        "one overdue row",
        "a row that is just not overdue",
        "nothing is due",
        "an overdue row of a pruning",
        "a step has a limit",
    ],
)
def test_rows_are_pruned_together_unless_one_is_overdue(
    kind: str, at: int, beyond: int, through: int | None
) -> None:
    first = chained_rows(1)[0]._replace(seq=10, kind=kind, at=at)
    assert trail.prune_through(first, beyond, before=0, least=10) == through


@pytest.fixture
def time() -> DayClock:
    return DayClock()


@pytest.fixture
async def storage(tmp_path: Path, time: DayClock) -> AsyncIterator[SqliteStorage]:
    storage = await SqliteStorage.open(tmp_path / "agentctx.db", readers=1, clock=time)
    yield storage
    await storage.close()


async def kinds(storage: SqliteStorage) -> list[str]:
    return [row.kind for row in reversed(await storage.audit.page(AuditQuery(limit=1_000)))]


async def change(storage: SqliteStorage, audited: Callable[[Connection], object]) -> ChainVerdict:
    await storage.db.writer.run(audited)
    return await storage.audit.verify()


class TestTable:
    async def test_saves_versions_and_forgets_are_recorded_without_their_text(
        self, storage: SqliteStorage
    ) -> None:
        first = await storage.entries.save(draft(key="the key", content="the first text"), embed=False)
        await storage.entries.save(draft(key="the key", content="the second text"), embed=False)
        await storage.entries.save(
            draft(key="the key", content="the second text"), embed=False
        )  # changes nothing
        await storage.entries.delete(first.id, principal=1_234)
        rows = list(reversed(await storage.audit.page(AuditQuery(limit=9))))
        assert [(row.kind, row.subject) for row in rows] == [
            ("save", first.id),
            ("save", first.id),
            ("forget", first.id),
        ]
        assert rows[0].principal == draft(key="k", content="c").principal
        assert rows[-1].principal == 1_234
        assert '"version":2' in rows[1].detail
        assert not [row for row in rows if "text" in repr(row) or "the key" in repr(row)]
        assert (await storage.audit.verify()).is_sound

    async def test_a_rolled_back_save_leaves_no_row_and_an_intact_chain(self, storage: SqliteStorage) -> None:
        def save_and_fail(conn: Connection) -> None:
            chain.record(conn, Event(kind="save", principal=1, subject="x"), now=1)
            raise LookupError

        with pytest.raises(LookupError):
            await storage.db.writer.run(save_and_fail)
        await storage.entries.save(keyless("text"), embed=False)
        assert await kinds(storage) == ["save"]
        assert (await storage.audit.verify()).is_sound

    async def test_forgets_are_recorded_even_when_saves_are_not(self, storage: SqliteStorage) -> None:
        storage.audit.saves = False
        saved = await storage.entries.save(keyless("text"), embed=False)
        await storage.entries.delete(saved.id)
        assert await kinds(storage) == ["forget"]

    @pytest.mark.parametrize(
        "sql",
        [
            "UPDATE audit SET principal = 0 WHERE seq = 2",
            "UPDATE audit SET hash = NULL WHERE seq = 2",
            "DELETE FROM audit WHERE seq = 2",
            "DELETE FROM audit WHERE seq <= 2",
            "DELETE FROM audit WHERE seq >= 3",
            "DELETE FROM audit",
            "DELETE FROM installation WHERE name = 'audit_head'",
            """INSERT INTO audit SELECT 6, at, kind, principal, namespace, subject, detail, hash, hash
               FROM audit WHERE seq = 5""",
        ],
    )
    async def test_changes_to_the_file_are_found(self, storage: SqliteStorage, sql: str) -> None:
        await storage.audit.add([Event(kind="read", principal=number) for number in range(5)])
        assert (await storage.audit.verify()).is_sound
        assert not (await change(storage, lambda conn: conn.execute(sql))).is_sound
        await storage.entries.save(keyless("text"), embed=False)  # later rows do not hide the change
        assert not (await storage.audit.verify()).is_sound

    async def test_pruning_keeps_the_chain_and_the_record_of_forgotten_entries(
        self, storage: SqliteStorage, time: DayClock
    ) -> None:
        saved = await storage.entries.save(keyless("text"), embed=False)
        await storage.entries.delete(saved.id)
        await storage.audit.add([Event(kind="read", principal=7)] * 1_500)
        head = trail.parse_head((await storage.audit.verify()).head or "")
        assert await storage.audit.prune(before=0, keep=2_000) == 0
        assert await storage.audit.prune(before=0, keep=500) == 1_002
        verdict = await storage.audit.verify(head)
        assert (verdict.is_sound, verdict.rows) == (True, 501)
        assert await storage.db.readers.run(lambda conn: chain.was_forgotten(conn, saved.id))
        assert not (
            await change(storage, lambda conn: conn.execute("DELETE FROM audit WHERE seq < 1100"))
        ).is_sound

    async def test_expired_rows_are_pruned_within_a_day(self, storage: SqliteStorage, time: DayClock) -> None:
        await storage.audit.add([Event(kind="read", principal=7)] * 3)
        time.now += 10 * DAY
        await storage.audit.add([Event(kind="list", principal=7)])
        assert await storage.audit.prune(before=time.now - 9 * DAY, keep=99) == 0
        time.now += 1
        assert await storage.audit.prune(before=time.now - 9 * DAY, keep=99) == 3
        assert await kinds(storage) == ["list", "prune"]
        assert await storage.audit.prune(before=time.now - 8 * DAY, keep=99) == 0
        assert (await storage.audit.verify()).is_sound

    async def test_pages_and_filters(self, storage: SqliteStorage) -> None:
        events = [Event(kind="read", principal=7, subject=str(number % 2)) for number in range(5)]
        await storage.audit.add([*events, Event(kind="list", principal=7)])
        page = await storage.audit.page(AuditQuery(limit=2))
        assert [row.seq for row in page] == [6, 5]
        page = await storage.audit.page(AuditQuery(limit=2, before=5))
        assert [row.seq for row in page] == [4, 3]
        page = await storage.audit.page(AuditQuery(limit=9, kind="read", subject="1"))
        assert [row.seq for row in page] == [4, 2]

    async def test_changed_settings_are_recorded(self, storage: SqliteStorage) -> None:
        note = storage.audit.note_config
        await note("start", {"a": "1", "b": "1"}, {}, only_changes=False)
        await note("reload", {"a": "1", "b": "1"}, {}, only_changes=True)
        await note("reload", {"a": "2", "c": "1"}, {}, only_changes=True)
        rows = await storage.audit.page(AuditQuery(limit=9))
        assert [(row.kind, row.detail) for row in reversed(rows)] == [
            ("start", '{"changed":[]}'),
            ("reload", '{"changed":["a","b","c"]}'),
        ]


async def test_rows_without_a_hash_are_chained_with_the_first_new_row(tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    migrate_database(path)
    with closing(open_connection(path)) as connection:
        connection.execute(
            """INSERT INTO audit (at, principal, kind, subject, detail)
               VALUES (5, 1000, 'forget', 'e', '{"collection":"memory"}')"""
        )
    storage = await SqliteStorage.open(path, readers=1)
    try:
        assert (await storage.audit.verify()).head is None
        await storage.entries.save(keyless("text"), embed=False)
        rows = await storage.audit.page(AuditQuery(limit=9))
        assert [(row.kind, row.principal, row.subject, row.detail) for row in rows[1:2]] == [
            ("forget", 1_000, "e", '{"collection":"memory"}')
        ]
        assert (await storage.audit.verify()).is_sound
        assert await storage.db.readers.run(lambda conn: chain.was_forgotten(conn, "e"))
        await storage.file.back_up(tmp_path / "b.db")
    finally:
        await storage.close()
    assert verify_file(tmp_path / "b.db").is_sound
    assert replace(verify_file(path), head="") == replace(verify_file(tmp_path / "b.db"), head="")
