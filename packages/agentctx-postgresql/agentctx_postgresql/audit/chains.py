"""The audit trail of all daemons: pages, verification and pruning of all its chains.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agentctx.storage import audit as trail
from agentctx.storage.audit import (
    MAX_FAULTS,
    AuditedChange,
    AuditQuery,
    AuditRow,
    ChainFault,
    ChainVerdict,
    ChainWalk,
    Event,
    Head,
)
from agentctx_postgresql import installation
from agentctx_postgresql.audit import audit_events, chain_set
from agentctx_postgresql.audit.chain_set import Chain
from agentctx_postgresql.connections import (
    CHECK_TIMEOUT_S,
    PostgresqlConnections,
    PostgresqlPart,
    reads,
)
from agentctx_postgresql.driver import Connection

MIN_PRUNED: Final = 100
"""With fewer excess rows than this, a chain is pruned only once the oldest is a day overdue."""
ROWS_AT_ONCE: Final = 5_000

_COLUMNS: Final = ", ".join(AuditRow._fields)
_HEADS: Final = "SELECT chain, seq, hash FROM audit_chains ORDER BY chain"
_SLICE: Final = f"SELECT {_COLUMNS} FROM audit WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3"  # noqa: S608 - constants
_LAST: Final = f"SELECT {_COLUMNS} FROM audit WHERE chain = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1"  # noqa: S608 - constants
_PAGE: Final = f"""SELECT place, {_COLUMNS} FROM audit WHERE ($1::bigint IS NULL OR place < $1)
      AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR subject = $3)
    ORDER BY place DESC LIMIT $4"""  # noqa: S608 - constants
_LAST_BEYOND: Final = """SELECT greatest(
      coalesce((SELECT min(seq) - 1 FROM audit WHERE chain = $1 AND at >= $2), $3),
      (SELECT max(seq) FROM audit WHERE chain = $1
         AND place <= (SELECT place FROM audit ORDER BY place DESC OFFSET $4 LIMIT 1)))"""
_STRAY: Final = "SELECT count(*) FROM audit WHERE chain NOT IN (SELECT chain FROM audit_chains)"
_STAY_FORGOTTEN: Final = """INSERT INTO forgotten (entry, at) SELECT subject, min(at) FROM audit
    WHERE chain = $1 AND seq <= $2 AND kind = 'forget' AND subject IS NOT NULL GROUP BY subject
    ON CONFLICT DO NOTHING"""


async def note_config(
    conn: Connection,
    daemon: str,
    kind: str,
    digests: Mapping[str, str],
    detail: Mapping[str, Any],
    *,
    only_changes: bool,
    now: int,
) -> None:
    """Record which settings of this daemon have a different digest than last time."""
    name = f"audit_config {daemon}"
    known = await installation.find(conn, name)
    event = trail.change_of_config(kind, known, digests, detail, only_changes=only_changes)
    if event is not None:
        await audit_events.add(conn, [event], now=now)
        await installation.remember(conn, name, trail.encode_detail(digests).encode())


async def page(conn: Connection, wanted: AuditQuery) -> list[AuditRow]:
    """Return a page of rows, newest first; `seq` is the position of a row across all chains."""
    rows = await conn.fetch(_PAGE, wanted.before, wanted.kind, wanted.subject, wanted.limit)
    return [AuditRow(*row[1:])._replace(seq=row[0]) for row in rows]


async def verify(conn: Connection, noted: Head | None = None) -> ChainVerdict:
    """Verify every chain from its first row to its end. The verdict's `head` is the newest row of all."""
    secret = await installation.find(conn, installation.SECRET) or b""
    verdicts, is_there = [await _verdict_of_set(conn, secret)], False
    for chain, *head in await conn.fetch(_HEADS):
        walk = ChainWalk(secret, head=Head(*head) if head[0] else None, noted=noted)
        await _follow(conn, chain, walk)
        verdicts.append(_named(walk.end(), chain))
        is_there |= walk.has_noted
    newest = await conn.fetchrow("SELECT seq, hash FROM audit ORDER BY place DESC LIMIT 1")
    joined = _joined(verdicts, None if newest is None else Head(*newest).text)
    return trail.require_noted(joined, noted, is_there=is_there)


async def _follow(conn: Connection, chain: str, walk: ChainWalk) -> None:
    after = -1
    while rows := await conn.fetch(_SLICE, chain, after, ROWS_AT_ONCE):
        for row in rows:
            walk.step(AuditRow(*row))
        after = rows[-1][0]


async def _verdict_of_set(conn: Connection, secret: bytes) -> ChainVerdict:
    faults = []
    stray = await conn.fetchval(_STRAY)
    if stray:
        faults.append(ChainFault(None, f"{stray} rows belong to a chain whose end is unknown"))
    if not await chain_set.is_complete(conn, secret):
        faults.append(ChainFault(None, "a chain was added or removed as a whole"))
    return ChainVerdict(
        rows=stray, first=None, last=None, head=None, faults=len(faults), listed=tuple(faults)
    )


def _named(verdict: ChainVerdict, chain: str) -> ChainVerdict:
    faults = tuple(ChainFault(seq, f"{problem} (chain {chain})") for seq, problem in verdict.listed)
    return replace(verdict, listed=faults)


def _joined(verdicts: Sequence[ChainVerdict], head: str | None) -> ChainVerdict:
    return ChainVerdict(
        rows=sum(each.rows for each in verdicts),
        first=min((each.first for each in verdicts if each.first is not None), default=None),
        last=max((each.last for each in verdicts if each.last is not None), default=None),
        head=head,
        faults=sum(each.faults for each in verdicts),
        listed=tuple(fault for each in verdicts for fault in each.listed)[:MAX_FAULTS],
    )


async def prune(conn: Connection, *, before: int, keep: int, now: int) -> int:
    """Remove up to `PRUNE_ROWS` of a chain's oldest rows, and record it in a row; return their number."""
    secret = await installation.secret(conn)
    for name, *head in await conn.fetch(_HEADS + " FOR UPDATE"):
        chain = Chain(name, Head(*head), secret)
        if removed := await _prune_one(conn, chain, before=before, keep=keep, now=now):
            return removed
    return 0


async def _prune_one(conn: Connection, chain: Chain, *, before: int, keep: int, now: int) -> int:
    first = await conn.fetchrow(_SLICE, chain.name, -1, 1)
    if first is None:
        return 0
    oldest = AuditRow(*first)
    beyond = await conn.fetchval(_LAST_BEYOND, chain.name, before, chain.head.seq, keep)
    through = trail.prune_through(oldest, beyond, before=before, least=MIN_PRUNED)
    return 0 if through is None else await _remove_through(conn, chain, through, now)


async def _remove_through(conn: Connection, chain: Chain, through: int, now: int) -> int:
    """Remove the rows of a chain up to `through`, but remember which entries were forgotten."""
    last = AuditRow(*await conn.fetchrow(_LAST, chain.name, through))
    await conn.execute(_STAY_FORGOTTEN, chain.name, through)
    deleted = await conn.execute("DELETE FROM audit WHERE chain = $1 AND seq <= $2", chain.name, through)
    removed = int(deleted.split()[-1])
    await audit_events.append(conn, chain, [trail.pruning(last, removed)], now=now)
    return removed


class PostgresqlAudit(PostgresqlPart):
    """`AuditStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections)
        self.saves = True

    def audited(self, kind: str, principal: int | None) -> AuditedChange | None:
        """Return how to record a change of an entry, or None to record nothing."""
        return AuditedChange(kind, principal) if self.saves else None

    async def add(self, events: Sequence[Event]) -> None:
        now = self.db.clock()
        await self.db.write(lambda conn: audit_events.add(conn, events, now=now))

    async def note_config(
        self, kind: str, digests: Mapping[str, str], detail: Mapping[str, Any], *, only_changes: bool
    ) -> None:
        daemon, now = self.db.daemon, self.db.clock()
        await self.db.write(
            lambda conn: note_config(conn, daemon, kind, digests, detail, only_changes=only_changes, now=now)
        )

    page = reads(page)
    verify = reads(verify, timeout_s=CHECK_TIMEOUT_S)

    async def prune(self, *, before: int, keep: int) -> int:
        now = self.db.clock()
        return await self.db.write(lambda conn: prune(conn, before=before, keep=keep, now=now))
