"""Advisory locks, released when their transaction ends. After acquiring one, a statement sees everything
committed until then.

To avoid deadlocks, they are acquired in this order: spaces, key, entries by id, trust, Idempotency-Key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentctx_postgresql.driver import BEGIN, Connection

_SPACES: Final = 4_207_002
_TRUST: Final = 4_207_003
BEGIN_SHARING_SPACES: Final = f"{BEGIN}; SELECT pg_advisory_xact_lock_shared({_SPACES})"
"""Begins a transaction with the shared lock on the spaces: one round trip less than `lock_spaces_shared`."""
_LOCK: Final = "pg_advisory_xact_lock(hashtextextended({name}, 4207))"
_BEGIN_WITH_KEY: Final = f"""{BEGIN_SHARING_SPACES};
SELECT {_LOCK.format(name="{key}")};
SELECT {_LOCK.format(name="'entry' || chr(31) || id")} FROM entries
WHERE namespace = {{namespace}} AND collection = {{collection}} AND key = {{name}} AND live"""  # noqa: S608 - `_literal` encodes the values


async def lock_spaces_shared(conn: Connection) -> None:
    """Acquire a shared lock on the spaces, for adding chunks: no space is enabled or disabled meanwhile."""
    await conn.execute("SELECT pg_advisory_xact_lock_shared($1)", _SPACES)


async def lock_spaces(conn: Connection) -> None:
    """Acquire an exclusive lock on the spaces, for enabling or disabling one: no chunk is added meanwhile."""
    await conn.execute("SELECT pg_advisory_xact_lock($1)", _SPACES)


async def lock_trust(conn: Connection, *, shared: bool) -> None:
    """Acquire a lock on trust: exclusive for revoking, shared for saving entries derived from others."""
    lock = "SELECT pg_advisory_xact_lock_shared($1)" if shared else "SELECT pg_advisory_xact_lock($1)"
    await conn.execute(lock, _TRUST)


async def lock_key(conn: Connection, namespace: str, collection: str, key: str) -> None:
    """Acquire an exclusive lock on the key: no other transaction saves under it meanwhile."""
    await conn.execute(f"SELECT {_LOCK.format(name='$1')}", _key(namespace, collection, key))


def begin_with_key(namespace: str, collection: str, key: str) -> str:
    """Return the SQL that begins a transaction with all locks for a save under a key: shared on the spaces,
    exclusive on the key and on its live entry.

    Nothing can create another entry with the key, so statements after it find the locked entry or none.
    """
    return _BEGIN_WITH_KEY.format(
        key=_literal(_key(namespace, collection, key)),
        namespace=_literal(namespace),
        collection=_literal(collection),
        name=_literal(key),
    )


def _key(namespace: str, collection: str, key: str) -> str:
    return f"key\x1f{namespace}\x1f{collection}\x1f{key}"


def _literal(text: str) -> str:
    """Return an SQL expression for a text, safe whatever the text contains."""
    return f"convert_from(decode('{text.encode('utf-8', 'surrogatepass').hex()}', 'hex'), 'UTF8')"


async def lock_entries(conn: Connection, entry_ids: Iterable[str]) -> None:
    """Acquire exclusive locks on the entries: no other transaction changes or erases them meanwhile."""
    for entry_id in sorted(set(entry_ids)):
        await conn.execute(f"SELECT {_LOCK.format(name='$1')}", f"entry\x1f{entry_id}")
