"""Spaces: which model's vectors are kept, which are searched. building → active → retired."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.errors import NotFound
from agentctx.sqlite.driver import Connection
from agentctx.storage.records import Space, SpaceState
from agentctx.storage.sqlite.space_index import SpaceIndex

_SELECT = "SELECT id, fingerprint, generation, state, enabled, dimension, canary FROM spaces "


def enabled_ids(conn: Connection) -> tuple[int, ...]:
    """Spaces to which every live chunk owes a vector."""
    return tuple(row[0] for row in conn.execute("SELECT id FROM spaces WHERE enabled = 1"))


def prepared_ids(conn: Connection) -> tuple[int, ...]:
    """Spaces that have a vec0 table, and have it whole: one whose table is damaged has to be rebuilt."""
    rows = conn.execute("SELECT id FROM spaces WHERE dimension IS NOT NULL AND state <> 'retired'").fetchall()
    return tuple(row[0] for row in rows if SpaceIndex(row[0]).exists(conn))


def enabled_prepared_ids(conn: Connection) -> tuple[int, ...]:
    """Enabled spaces that have a vec0 table."""
    return tuple(set(enabled_ids(conn)) & set(prepared_ids(conn)))


def all_spaces(conn: Connection) -> list[Space]:
    """Every space, newest first."""
    return [_space_of(row) for row in conn.execute(f"{_SELECT} ORDER BY id DESC")]


def get(conn: Connection, space_id: int) -> Space:
    """The space. Raises `NotFound`."""
    row = conn.execute(f"{_SELECT} WHERE id = ?", (space_id,)).fetchone()
    if row is None:
        raise NotFound(f"no space has the id {space_id}")
    return _space_of(row)


def open_space(conn: Connection, fingerprint: Mapping[str, str | int], *, now: int) -> Space:
    """The newest living space of the fingerprint, made if need be, and the only one enabled."""
    text = _canonical(fingerprint)
    row = conn.execute(
        f"{_SELECT} WHERE fingerprint = ? ORDER BY generation DESC LIMIT 1",
        (text,),
    ).fetchone()
    if row is None or _space_of(row).state is SpaceState.RETIRED:
        space_id = _insert(conn, text, generation=row[2] + 1 if row else 1, now=now)
    else:
        space_id = row[0]
    _enable_only(conn, space_id)
    return get(conn, space_id)


def renew(conn: Connection, space_id: int, *, now: int) -> Space:
    """The next generation of a space whose model changed without saying so."""
    old = get(conn, space_id)
    new_id = _insert(conn, _canonical(old.fingerprint), generation=old.generation + 1, now=now)
    _enable_only(conn, new_id)
    return get(conn, new_id)


def prepare(conn: Connection, space_id: int, canary: Vectors) -> Space:
    """Fix the dimension by the first vector that was seen, and make the table."""
    space = get(conn, space_id)
    if space.dimension is None:
        dimension = int(canary.shape[0])
        conn.execute(
            "UPDATE spaces SET dimension = ?, canary = ? WHERE id = ?",
            (dimension, canary.astype(np.float32).tobytes(), space_id),
        )
        SpaceIndex(space_id).create(conn, dimension)
    return get(conn, space_id)


def activate(conn: Connection, space_id: int) -> Space:
    """Search this space from now on; the one searched so far is retired."""
    others = conn.execute(
        "SELECT id, dimension FROM spaces WHERE state IN ('active', 'building') AND id <> ?", (space_id,)
    ).fetchall()
    for other, dimension in others:
        conn.execute("DELETE FROM jobs WHERE space = ?", (other,))
        conn.execute("UPDATE spaces SET state = 'retired', enabled = 0 WHERE id = ?", (other,))
        if dimension is not None:
            SpaceIndex(other).drop(conn)
    conn.execute("UPDATE spaces SET state = 'active' WHERE id = ?", (space_id,))
    return get(conn, space_id)


def disable_all(conn: Connection) -> None:
    """Nothing is owed to any space."""
    conn.execute("UPDATE spaces SET enabled = 0 WHERE enabled = 1")
    conn.execute("DELETE FROM jobs")


def backfill(conn: Connection, space_id: int, *, now: int, limit: int) -> int:
    """Make jobs for up to `limit` live chunks with neither vector nor job in the space."""
    missing = _missing(conn, space_id)[:limit]
    conn.executemany(
        """INSERT INTO jobs (chunk, space, hash, state, attempts, not_before, leased_until, created)
           SELECT id, ?, hash, 'pending', 0, 0, 0, ? FROM chunks WHERE id = ?""",
        [(space_id, now, chunk) for chunk in missing],
    )
    return len(missing)


def _missing(conn: Connection, space_id: int) -> list[int]:
    get(conn, space_id)
    stored = set(SpaceIndex(space_id).chunk_ids(conn)) if space_id in prepared_ids(conn) else set()
    rows = conn.execute(
        """SELECT chunks.id FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1
           WHERE chunks.id NOT IN (SELECT chunk FROM jobs WHERE space = ?) ORDER BY chunks.id""",
        (space_id,),
    )
    return [row[0] for row in rows if row[0] not in stored]


def _insert(conn: Connection, fingerprint: str, *, generation: int, now: int) -> int:
    state = "building" if conn.execute("SELECT 1 FROM spaces WHERE state = 'active'").fetchone() else "active"
    space_id = conn.execute(
        "INSERT INTO spaces (fingerprint, generation, state, enabled, created) VALUES (?, ?, ?, 0, ?)",
        (fingerprint, generation, state, now),
    ).lastrowid
    assert space_id is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    return int(space_id)


def _enable_only(conn: Connection, space_id: int) -> None:
    conn.execute(
        "DELETE FROM jobs WHERE space IN (SELECT id FROM spaces WHERE enabled = 1 AND id <> ?)", (space_id,)
    )
    conn.execute("UPDATE spaces SET enabled = (id = ?) WHERE enabled = 1 OR id = ?", (space_id, space_id))


def _canonical(fingerprint: Mapping[str, str | int]) -> str:
    return json.dumps(dict(fingerprint), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _space_of(row: Any) -> Space:
    return Space(
        id=row[0],
        fingerprint=json.loads(row[1]),
        generation=row[2],
        state=SpaceState(row[3]),
        enabled=bool(row[4]),
        dimension=row[5],
        canary=None if row[6] is None else np.frombuffer(row[6], dtype=np.float32),
    )
