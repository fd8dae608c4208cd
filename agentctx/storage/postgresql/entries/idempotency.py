"""Remember answers, so that a repeated save takes effect only once. Runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping

from agentctx.errors import IdempotencyKeyReused
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.records import Change, IdempotencyKey, Saved


async def begin(conn: Connection, key: IdempotencyKey, now: int) -> tuple[str, int, Change] | None:
    """Return the id, version and change of an earlier save with this key, or None if this save is the first.

    Call it first: of two saves with the same key, the second waits here until the first is committed.

    Raises:
        IdempotencyKeyReused: the key was used with another digest.
    """
    is_ours = await conn.fetchval(
        """INSERT INTO idempotency (principal, key, digest, created) VALUES ($1, $2, $3, $4)
           ON CONFLICT DO NOTHING RETURNING true""",
        key.principal,
        key.key,
        key.digest,
        now,
    )
    if is_ours:
        return None
    digest, entry_id, version, change = await conn.fetchrow(
        "SELECT digest, entry, version, change FROM idempotency WHERE principal = $1 AND key = $2",
        key.principal,
        key.key,
    )
    if digest != key.digest:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
    return entry_id, version, Change(change)


async def claim(conn: Connection, keys: Mapping[str, IdempotencyKey], *, now: int) -> set[str]:
    """Claim the keys of new entries and record the answers in advance; return the entries with unused keys.

    Of two saves with the same key, the second waits here until the first is committed.
    """
    ordered = sorted(keys.items(), key=lambda each: (each[1].principal, each[1].key))
    rows = await conn.fetch(
        """INSERT INTO idempotency (principal, key, digest, created, entry, version, change)
           SELECT principal, key, digest, $5, entry, 1, 'created'
           FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::text[]) AS g (principal, key, digest, entry)
           ON CONFLICT DO NOTHING RETURNING entry""",
        [key.principal for _, key in ordered],
        [key.key for _, key in ordered],
        [key.digest for _, key in ordered],
        [entry for entry, _ in ordered],
        now,
    )
    return {row[0] for row in rows}


async def remember(conn: Connection, key: IdempotencyKey, saved: Saved) -> None:
    await conn.execute(
        "UPDATE idempotency SET entry = $3, version = $4, change = $5 WHERE principal = $1 AND key = $2",
        key.principal,
        key.key,
        saved.id,
        saved.version,
        saved.change.value,
    )
