"""The table of the audit trail: a deed is recorded in its own transaction, in a chain that no other holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentctx.storage import audit as trail
from agentctx.storage.audit import Deed, Head
from agentctx.storage.postgresql.audit import chain_set
from agentctx.storage.postgresql.audit.chain_set import Chain
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.records import Change, Draft

FORGET: Final = "forget"
"""It was requested."""
EXPIRE: Final = "expire"
"""Its time was over."""
SAVE: Final = "save"
IMPORT: Final = "import"

_ADD: Final = """WITH added AS (
      INSERT INTO audit (chain, seq, at, kind, principal, namespace, subject, detail, previous_hash, hash)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING chain, seq, hash)
    UPDATE audit_chains SET seq = added.seq, hash = added.hash FROM added
    WHERE audit_chains.chain = added.chain RETURNING TRUE"""


async def record(
    conn: Connection,
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
    chain = await chain_set.take(conn)
    fields = {} if collection is None else {"collection": collection}
    fields.update(detail or {})
    if content is not None:
        fields["content"] = trail.mark_of(chain.secret, content)
    await append(
        conn,
        chain,
        at=now,
        kind=kind,
        principal=principal,
        namespace=namespace,
        subject=subject,
        detail=trail.encode_detail(fields),
    )


async def append(conn: Connection, chain: Chain, **values: Any) -> None:
    """Add a row to a chain that this transaction holds."""
    if not await conn.fetchval(_ADD, chain.name, *trail.chained(chain.secret, chain.head, **values)):
        # Rows were added by hand: that must be detected, but must not stop saving.
        last = await conn.fetchval("SELECT max(seq) FROM audit WHERE chain = $1", chain.name)
        row = trail.chained(chain.secret, Head(last, chain.head.hash), **values)
        await conn.execute(_ADD, chain.name, *row)


async def note_change(
    conn: Connection,
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
