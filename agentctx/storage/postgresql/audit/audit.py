"""The table of the audit trail: a deed is recorded in its own transaction.

A chain's last row is locked until the transaction of the next one ends. So that saves do not take turns, a
daemon has many chains and gives each deed the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agentctx.storage import audit as trail
from agentctx.storage.audit import Head
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.records import Change, Draft

FORGET: Final = "forget"
"""It was requested."""
EXPIRE: Final = "expire"
"""Its time was over."""
SAVE: Final = "save"
IMPORT: Final = "import"

_LOCK_HEAD: Final = """INSERT INTO audit_chains (chain, seq, hash) VALUES ($1, 0, '')
    ON CONFLICT (chain) DO UPDATE SET chain = excluded.chain RETURNING seq, hash"""
_ADD: Final = """WITH added AS (
      INSERT INTO audit (chain, seq, at, kind, principal, namespace, subject, detail, previous_hash, hash)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING chain, seq, hash)
    UPDATE audit_chains SET seq = added.seq, hash = added.hash FROM added
    WHERE audit_chains.chain = added.chain RETURNING TRUE"""


@dataclass(frozen=True, slots=True)
class Chain:
    """Where a deed is recorded, and the secret of the installation."""

    name: str
    secret: bytes


@dataclass(frozen=True, slots=True)
class Deed:
    """A change of an entry that is recorded: what it is called and who made it."""

    kind: str
    principal: int | None


async def record(
    conn: Connection,
    chain: Chain,
    kind: str,
    subject: str | None = None,
    collection: str | None = None,
    *,
    principal: int | None,
    now: int,
    namespace: str | None = None,
    detail: Mapping[str, Any] | None = None,
    content: str | None = None,
) -> None:
    """Add a row. `principal` None is the service itself; of `content` only a keyed hash is kept.

    `detail` must hold nothing that can be forgotten: no key, no text, no question.
    """
    fields = {} if collection is None else {"collection": collection}
    fields.update(detail or {})
    if content is not None:
        fields["content"] = trail.mark_of(chain.secret, content)
    seq, digest = await conn.fetchrow(_LOCK_HEAD, chain.name)
    chained = partial(
        trail.chained,
        chain.secret,
        at=now,
        kind=kind,
        principal=principal,
        namespace=namespace,
        subject=subject,
        detail=trail.encode_detail(fields),
    )
    if not await conn.fetchval(_ADD, chain.name, *chained(Head(seq, digest))):
        # Rows were added by hand: that must be detected, but must not stop saving.
        last = await conn.fetchval("SELECT max(seq) FROM audit WHERE chain = $1", chain.name)
        await conn.execute(_ADD, chain.name, *chained(Head(last, digest)))


async def note_change(
    conn: Connection,
    chain: Chain,
    deed: Deed | None,
    draft: Draft,
    entry_id: str,
    version: int,
    change: Change,
    *,
    now: int,
) -> None:
    """Record what became of an entry, if there is a deed to record."""
    if deed is None:
        return
    await record(
        conn,
        chain,
        deed.kind,
        entry_id,
        draft.collection,
        principal=deed.principal,
        now=now,
        namespace=draft.namespace,
        detail={"version": version, "change": change.value},
        content=draft.content,
    )


async def was_forgotten(conn: Connection, entry_id: str) -> bool:
    """Whether the entry was deliberately removed; imports must leave it out."""
    return bool(
        await conn.fetchval(
            """SELECT EXISTS (SELECT 1 FROM audit WHERE subject = $1 AND kind = 'forget')
                   OR EXISTS (SELECT 1 FROM forgotten WHERE entry = $1)""",
            entry_id,
        )
    )
