"""Values of the installation: its secret, and the end of its audit trail.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

import secrets
from typing import Final

from agentctx.storage.audit import Head
from agentctx.storage.file.driver import Connection

SECRET: Final = "secret"  # noqa: S105 - the name of a row
AUDIT_HEAD: Final = "audit_head"
SECRET_BYTES: Final = 32

_NUMBER_BYTES: Final = 8
_LAST_SEQ: Final = 2**62
_HASH_BYTES: Final = (16, 32)
"""Length of a hash of 0.1.0, and of a later one."""
_NO_HASH: Final = bytes(32)
"""A hash that no row has, so that the trail shows where it was broken."""
_NAMES: Final = (SECRET, AUDIT_HEAD)


def secret(conn: Connection) -> bytes:
    """Return the secret of the installation, creating it if it is missing or damaged."""
    return find(conn, SECRET) or _make_secret(conn)


def find(conn: Connection, name: str) -> bytes | None:
    """Return a value; None if it is missing or damaged."""
    row = conn.execute("SELECT value FROM installation WHERE name = ?", (name,)).fetchone()
    return row[0] if row and _is_sound(name, row[0]) else None


def remember(conn: Connection, name: str, value: bytes) -> None:
    conn.execute(
        """INSERT INTO installation (name, value) VALUES (?, ?)
           ON CONFLICT DO UPDATE SET value = excluded.value""",
        (name, value),
    )


def encode_head(head: Head) -> bytes:
    return head.seq.to_bytes(_NUMBER_BYTES) + head.hash


def decode_head(value: bytes) -> Head:
    return Head(int.from_bytes(value[:_NUMBER_BYTES]), value[_NUMBER_BYTES:])


def repair(conn: Connection) -> int:
    """Replace damaged values, and those without which the audit trail cannot be continued; return how many.

    The rows before do not match a new secret or end, so the trail shows that it was broken.
    """
    damaged = _damaged(conn)
    conn.executemany("DELETE FROM installation WHERE name = ?", [(name,) for name in damaged])
    if SECRET in damaged:
        _make_secret(conn)
    if AUDIT_HEAD in damaged:
        remember(conn, AUDIT_HEAD, encode_head(Head(last_audit_seq(conn), _NO_HASH)))
    return len(damaged)


def _damaged(conn: Connection) -> list[str]:
    rows = conn.execute("SELECT name, value FROM installation WHERE name IN (?, ?)", _NAMES)
    values = dict(rows.fetchall())
    damaged = [name for name, value in values.items() if not _is_sound(name, value)]
    if last_audit_seq(conn):
        damaged += [name for name in (SECRET, AUDIT_HEAD) if name not in values]
    return damaged


def _is_sound(name: str, value: object) -> bool:
    if not isinstance(value, bytes):
        return False
    if name == SECRET:
        return len(value) == SECRET_BYTES
    if name == AUDIT_HEAD:
        return len(value) - _NUMBER_BYTES in _HASH_BYTES and decode_head(value).seq < _LAST_SEQ
    return True


def _make_secret(conn: Connection) -> bytes:
    made = secrets.token_bytes(SECRET_BYTES)
    remember(conn, SECRET, made)
    return made


def last_audit_seq(conn: Connection) -> int:
    """Return the highest row number of the audit trail, ignoring damaged ones that no row could follow."""
    sql = f"SELECT COALESCE(MAX(seq), 0) FROM audit WHERE seq < {_LAST_SEQ}"  # noqa: S608 - constants
    return int(conn.execute(sql).fetchone()[0])
