"""The audit trail of all daemons: recording in it, pages, verification and pruning.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentctx.storage import audit as trail
from agentctx.storage.audit import AuditQuery, AuditRow, AuditStorage, ChainVerdict, ChainWalk, Event, Head
from agentctx_postgresql import installation
from agentctx_postgresql.connections import CHECK_TIMEOUT_S, PostgresqlPart, reads
from agentctx_postgresql.driver import SERVER_EPOCH, Connection

MIN_PRUNED: Final = 100
"""With fewer excess rows than this, a chain is pruned only once the oldest is a day overdue."""
ROWS_AT_ONCE: Final = 5_000

_COLUMNS: Final = ", ".join(AuditRow._fields)
_CHAINS: Final = """SELECT chain, max(seq), max(hash) FROM (
      SELECT chain, seq, hash FROM audit_chains UNION SELECT chain, NULL, NULL FROM audit) AS known
    GROUP BY chain ORDER BY chain"""
"""Every chain and its end, which is NULL for rows whose chain is not known."""
_SLICE: Final = f"SELECT {_COLUMNS} FROM audit WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3"  # noqa: S608 - constants
_LAST: Final = f"SELECT {_COLUMNS} FROM audit WHERE chain = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1"  # noqa: S608 - constants
_PAGE: Final = f"""SELECT place, {_COLUMNS} FROM audit WHERE ($1::bigint IS NULL OR place < $1)
      AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR subject = $3)
    ORDER BY place DESC LIMIT $4"""  # noqa: S608 - constants
_LAST_BEYOND: Final = """SELECT greatest(
      coalesce((SELECT min(seq) - 1 FROM audit WHERE chain = $1 AND at >= $2), $3),
      (SELECT max(seq) FROM audit WHERE chain = $1
         AND place <= (SELECT place FROM audit ORDER BY place DESC OFFSET $4 LIMIT 1)))"""
_STAY_FORGOTTEN: Final = """INSERT INTO forgotten (entry, at) SELECT subject, min(at) FROM audit
    WHERE chain = $1 AND seq <= $2 AND kind = 'forget' AND subject IS NOT NULL GROUP BY subject
    ON CONFLICT DO NOTHING"""
_KINDS: Final = ("bigint", "text", "bigint", "text", "text", "text")
PARAMETERS: Final = len(_KINDS)


def recording(first: int) -> str:
    """Return an expression that records events once; `columns` returns its parameters, from `$first`."""
    return f"(SELECT record_audit({_casts(first)}))"


def _casts(first: int) -> str:
    return ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_KINDS, first))


TRANSACTION: Final = f"pg_current_xact_id()::text, {SERVER_EPOCH}"
"""What `Connection.note_id` takes."""
_RECORD: Final = f"SELECT record_audit({_casts(1)}, ${PARAMETERS + 1}), {TRANSACTION}"


def columns(events: Sequence[Event], *, now: int) -> list[list[Any]]:
    """Return the parameters for recording the events, each at its own time or now."""
    rows = [
        (
            now if each.at is None else each.at,
            each.kind,
            each.principal,
            each.namespace,
            each.subject,
            trail.encoded(each.detail),
        )
        for each in events
    ]
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _KINDS]


async def add(conn: Connection, events: Sequence[Event], *, now: int, chain: str | None = None) -> None:
    """Record the events in order, each at its own time or now, in any chain or in this one.

    Their details must not contain anything that can be forgotten: no key, text or question.
    """
    _, number, epoch = await conn.fetchrow(_RECORD, *columns(events, now=now), chain)
    conn.note_id(number, epoch)


async def page(conn: Connection, wanted: AuditQuery) -> list[AuditRow]:
    """Return a page of rows, newest first; `seq` is the position of a row across all chains."""
    rows = await conn.fetch(_PAGE, wanted.before, wanted.kind, wanted.subject, wanted.limit)
    return [AuditRow(*row[1:])._replace(seq=row[0]) for row in rows]


async def verify(conn: Connection) -> ChainVerdict:
    """Verify every chain from its first row to its end."""
    secret = await installation.find(conn) or b""
    walks = {}
    for chain, *head in await conn.fetch(_CHAINS):
        walk = walks[chain] = ChainWalk(secret)
        after = -1
        while rows := await conn.fetch(_SLICE, chain, after, ROWS_AT_ONCE):
            for row in rows:
                walk.step(AuditRow(*row))
            after = rows[-1][0]
        walk.end(None if head[0] is None else Head(*head))
    return trail.verdict_of(walks)


async def prune(conn: Connection, *, before: int, keep: int, now: int) -> int:
    """Remove up to `PRUNE_ROWS` of a chain's oldest rows, and record it in a row; return their number."""
    for chain, seq in await conn.fetch("SELECT chain, seq FROM audit_chains ORDER BY chain FOR UPDATE"):
        first = await conn.fetchrow(_SLICE, chain, -1, 1)
        beyond = await conn.fetchval(_LAST_BEYOND, chain, before, seq, keep)
        through = first and trail.prune_through(AuditRow(*first), beyond, before=before, least=MIN_PRUNED)
        if through is not None:
            return await _remove_through(conn, chain, through, now)
    return 0


async def _remove_through(conn: Connection, chain: str, through: int, now: int) -> int:
    """Remove the rows of a chain up to `through`, but remember which entries were forgotten."""
    last = AuditRow(*await conn.fetchrow(_LAST, chain, through))
    await conn.execute(_STAY_FORGOTTEN, chain, through)
    deleted = await conn.execute("DELETE FROM audit WHERE chain = $1 AND seq <= $2", chain, through)
    removed = int(deleted.split()[-1])
    await add(conn, [trail.pruning(last, removed)], now=now, chain=chain)
    return removed


class PostgresqlAudit(PostgresqlPart, AuditStorage):
    """The audit trail on a PostgreSQL server."""

    page = reads(page)
    verify = reads(verify, timeout_s=CHECK_TIMEOUT_S)

    async def add(self, events: Sequence[Event]) -> None:
        now = self.db.clock()
        await self.db.write(lambda conn: add(conn, events, now=now))

    async def prune(self, *, before: int, keep: int) -> int:
        now = self.db.clock()
        return await self.db.write(lambda conn: prune(conn, before=before, keep=keep, now=now))
