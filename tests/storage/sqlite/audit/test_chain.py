"""The chain of the audit trail: what it records, and that every change to it is detected."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from agentctx.storage import audit as trail
from agentctx.storage.audit import AuditQuery, AuditRow, ChainVerdict, ChainWalk, Event, Head
from agentctx.storage.file.driver import Connection, open_connection
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
        row = trail.next_row(head, event, now=number)
        head = Head(row.seq, row.hash)
        rows.append(row)
    return rows


def judge(rows: list[AuditRow], head: AuditRow | None) -> ChainVerdict:
    walk = ChainWalk(SECRET)
    for row in rows:
        walk.step(row)
    walk.end(head and Head(head.seq, head.hash))
    return trail.verdict_of({"": walk})


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
    """Insert a row that follows the one before it; later rows move up."""
    at = dice.randint(0, len(rows))
    before = rows[at - 1].hash if at else b""
    forged = trail.next_row(Head(at, before), Event(kind="save", principal=0), now=7)
    return [*rows[:at], forged, *(row._replace(seq=row.seq + 1) for row in rows[at:])]


def truncate(rows: list[AuditRow], dice: random.Random) -> list[AuditRow]:
    return rows[: dice.randrange(len(rows))]


def test_1000_random_changes_are_all_found() -> None:
    dice = random.Random(7)
    rows = chained_rows(40)
    assert not judge(rows, rows[-1]).faults
    ways = (edit, cut_out, reorder, insert_forged, truncate)
    missed = [
        way.__name__
        for number in range(1_000)
        if not judge((way := ways[number % len(ways)])(rows, dice), rows[-1]).faults
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


def test_no_rows_are_sound_only_if_none_were_recorded() -> None:
    assert not judge([], None).faults
    rows = chained_rows(1)
    assert judge([], rows[0]).faults
    assert judge(rows, None).faults


def keyed(row: AuditRow) -> AuditRow:
    """Return the row as agentctx 0.1.0 wrote it."""
    values = json.dumps([*row[:7], row.previous_hash.hex()], ensure_ascii=False, separators=(",", ":"))
    summed = blake2b(values.encode(), key=SECRET, digest_size=16, person=b"agentctx audit")
    return row._replace(hash=summed.digest())


def test_rows_of_0_1_0_stay_verifiable_and_new_ones_follow_them() -> None:
    rows: list[AuditRow] = []
    for number in range(6):
        head = Head(number, rows[-1].hash if rows else b"")
        row = trail.next_row(head, Event(kind="save", principal=7, subject=f"é{number}"), now=number)
        rows.append(keyed(row) if number < 3 else row)
    assert not judge(rows, rows[-1]).faults
    rows[1] = rows[1]._replace(principal=0)
    assert judge(rows, rows[-1]).listed == (trail.ChainFault(2, "was changed or added"),)


def test_a_row_that_claims_to_be_a_pruning_hides_nothing() -> None:
    rows = chained_rows(3)
    for detail in ("[]", "{}", '{"hash":7}', '{"hash":"x"}'):
        event = Event(kind=trail.PRUNE, principal=None)
        last = trail.next_row(Head(3, rows[-1].hash), event, now=9)._replace(detail=detail)
        last = last._replace(hash=trail.hash_of(last))
        assert judge([*rows[1:], last], last).listed == (trail.ChainFault(2, "rows before it are missing"),)


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


async def is_sound(storage: SqliteStorage) -> bool:
    return not (await storage.audit.verify()).faults


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
        assert await is_sound(storage)

    async def test_a_rolled_back_save_leaves_no_row_and_an_intact_chain(self, storage: SqliteStorage) -> None:
        def save_and_fail(conn: Connection) -> None:
            chain.record(conn, Event(kind="save", principal=1, subject="x"), now=1)
            raise LookupError

        with pytest.raises(LookupError):
            await storage.db.writer.run(save_and_fail)
        await storage.entries.save(keyless("text"), embed=False)
        assert await kinds(storage) == ["save"]
        assert await is_sound(storage)

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
        assert await is_sound(storage)
        assert (await change(storage, lambda conn: conn.execute(sql))).faults
        await storage.entries.save(keyless("text"), embed=False)  # later rows do not hide the change
        assert not await is_sound(storage)

    async def test_pruning_keeps_the_chain_and_the_record_of_forgotten_entries(
        self, storage: SqliteStorage, time: DayClock
    ) -> None:
        saved = await storage.entries.save(keyless("text"), embed=False)
        await storage.entries.delete(saved.id)
        await storage.audit.add([Event(kind="read", principal=7)] * 1_500)
        assert await storage.audit.prune(before=0, keep=2_000) == 0
        assert await storage.audit.prune(before=0, keep=500) == 1_002
        verdict = await storage.audit.verify()
        assert (verdict.faults, verdict.rows) == (0, 501)
        forgotten = "SELECT entry FROM forgotten"
        assert await storage.db.readers.run(lambda conn: conn.execute(forgotten).fetchall()) == [(saved.id,)]
        assert (await change(storage, lambda conn: conn.execute("DELETE FROM audit WHERE seq < 1100"))).faults

    async def test_expired_rows_are_pruned_within_a_day(self, storage: SqliteStorage, time: DayClock) -> None:
        await storage.audit.add([Event(kind="read", principal=7)] * 3)
        time.now += 10 * DAY
        await storage.audit.add([Event(kind="list", principal=7)])
        assert await storage.audit.prune(before=time.now - 9 * DAY, keep=99) == 0
        time.now += 1
        assert await storage.audit.prune(before=time.now - 9 * DAY, keep=99) == 3
        assert await kinds(storage) == ["list", "prune"]
        assert await storage.audit.prune(before=time.now - 8 * DAY, keep=99) == 0
        assert await is_sound(storage)

    async def test_pages_and_filters(self, storage: SqliteStorage) -> None:
        events = [Event(kind="read", principal=7, subject=str(number % 2)) for number in range(5)]
        await storage.audit.add([*events, Event(kind="list", principal=7)])
        page = await storage.audit.page(AuditQuery(limit=2))
        assert [row.seq for row in page] == [6, 5]
        page = await storage.audit.page(AuditQuery(limit=2, before=5))
        assert [row.seq for row in page] == [4, 3]
        page = await storage.audit.page(AuditQuery(limit=9, kind="read", subject="1"))
        assert [row.seq for row in page] == [4, 2]


async def test_a_file_and_its_backup_are_verified_without_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    storage = await SqliteStorage.open(path, readers=1)
    try:
        await storage.entries.save(keyless("text"), embed=False)
        await storage.file.back_up(tmp_path / "b.db")
    finally:
        await storage.close()
    assert [verify_file(each) for each in (path, tmp_path / "b.db")] == [ChainVerdict(rows=1)] * 2
    with closing(open_connection(path)) as connection:
        connection.execute("UPDATE audit SET principal = 77")
    assert verify_file(path).faults
