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
from agentctx.storage.sqlite.vector_index import IN_THE_FILE, VectorIndex, index_of

_SELECT = "SELECT id, fingerprint, generation, state, enabled, dimension, canary, vector_store FROM spaces "


def enabled_ids(conn: Connection) -> tuple[int, ...]:
    """Spaces to which every live chunk owes a vector."""
    return tuple(row[0] for row in conn.execute("SELECT id FROM spaces WHERE enabled = 1"))


def prepared(conn: Connection) -> tuple[VectorIndex, ...]:
    """Indexes that are there, and whole: one that is damaged has to be rebuilt."""
    rows = conn.execute(
        "SELECT id, vector_store FROM spaces WHERE dimension IS NOT NULL AND state <> 'retired'"
    ).fetchall()
    indexes = (index_of(space, vector_store) for space, vector_store in rows)
    return tuple(index for index in indexes if index.exists(conn))


def index(conn: Connection, space_id: int) -> VectorIndex:
    """The index of a space. Raises `NotFound`."""
    return index_of(space_id, get(conn, space_id).vector_store)


def all_spaces(conn: Connection) -> list[Space]:
    """Every space, newest first."""
    return [_space_of(row) for row in conn.execute(f"{_SELECT} ORDER BY id DESC")]


def get(conn: Connection, space_id: int) -> Space:
    """The space. Raises `NotFound`."""
    row = conn.execute(f"{_SELECT} WHERE id = ?", (space_id,)).fetchone()
    if row is None:
        raise NotFound(f"no space has the id {space_id}")
    return _space_of(row)


def open_space(
    conn: Connection, fingerprint: Mapping[str, str | int], *, now: int, vector_store: str = IN_THE_FILE
) -> Space:
    """The newest living space of the fingerprint, made if need be, and the only one enabled.

    One whose vectors are in another store is another space.
    """
    text = _canonical(fingerprint)
    row = conn.execute(
        f"{_SELECT} WHERE fingerprint = ? ORDER BY generation DESC LIMIT 1",
        (text,),
    ).fetchone()
    newest = None if row is None else _space_of(row)
    if newest is None or newest.state is SpaceState.RETIRED or newest.vector_store != vector_store:
        generation = 1 if newest is None else newest.generation + 1
        space_id = _insert(conn, text, generation=generation, vector_store=vector_store, now=now)
    else:
        space_id = newest.id
    _enable_only(conn, space_id)
    return get(conn, space_id)


def renew(conn: Connection, space_id: int, *, now: int) -> Space:
    """The next generation of a space whose model changed without saying so."""
    old = get(conn, space_id)
    new_id = _insert(
        conn,
        _canonical(old.fingerprint),
        generation=old.generation + 1,
        vector_store=old.vector_store,
        now=now,
    )
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
        index_of(space_id, space.vector_store).create(conn, dimension)
    return get(conn, space_id)


def activate(conn: Connection, space_id: int) -> Space:
    """Search this space from now on; the one searched so far is retired."""
    others = conn.execute(
        "SELECT id, dimension, vector_store FROM spaces WHERE state IN ('active', 'building') AND id <> ?",
        (space_id,),
    ).fetchall()
    for other, dimension, vector_store in others:
        conn.execute("DELETE FROM jobs WHERE space = ?", (other,))
        conn.execute("UPDATE spaces SET state = 'retired', enabled = 0 WHERE id = ?", (other,))
        if dimension is not None:
            index_of(other, vector_store).drop(conn)
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
    own = index(conn, space_id)
    stored = set(own.chunk_ids(conn)) if own in prepared(conn) else set()
    rows = conn.execute(
        """SELECT chunks.id FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1
           WHERE chunks.id NOT IN (SELECT chunk FROM jobs WHERE space = ?) ORDER BY chunks.id""",
        (space_id,),
    )
    return [row[0] for row in rows if row[0] not in stored]


def _insert(conn: Connection, fingerprint: str, *, generation: int, vector_store: str, now: int) -> int:
    state = "building" if conn.execute("SELECT 1 FROM spaces WHERE state = 'active'").fetchone() else "active"
    space_id = conn.execute(
        """INSERT INTO spaces (fingerprint, generation, state, enabled, created, vector_store)
           VALUES (?, ?, ?, 0, ?, ?)""",
        (fingerprint, generation, state, now, vector_store),
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
        vector_store=row[7],
    )
