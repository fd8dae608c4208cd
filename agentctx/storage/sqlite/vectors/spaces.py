"""Spaces: which models' vectors are kept and which are searched. building → active ⇄ kept → retired."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentctx.errors import Conflict, NotFound, StorageCorrupt
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import Space, SpaceState
from agentctx.storage.spaces import (
    LIVING,
    fingerprint_text,
    former_spaces,
    require_complete,
    require_state,
    superseded,
)
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.vectors import Vectors

_ALL = 2**62

# In the schema, which has three states, a kept space has the state `building`.
_SELECT = """SELECT id, fingerprint, generation,
    CASE WHEN state = 'building' AND kept_since IS NOT NULL THEN 'kept' ELSE state END,
    enabled, dimension, canary, approved, comparison FROM spaces """


def enabled_ids(conn: Connection) -> tuple[int, ...]:
    """Return the spaces that need a vector of every live chunk."""
    return tuple(row[0] for row in conn.execute("SELECT id FROM spaces WHERE enabled = 1"))


def awaited_ids(conn: Connection) -> tuple[int, ...]:
    """Return the space that answers; if there is none, all enabled spaces."""
    return tuple(row[0] for row in conn.execute("SELECT id FROM awaited_spaces"))


def prepared(conn: Connection) -> tuple[SpaceIndex, ...]:
    """Return existing, undamaged indexes; a damaged one must be rebuilt."""
    rows = conn.execute("SELECT id FROM spaces WHERE dimension IS NOT NULL AND state <> 'retired'").fetchall()
    indexes = (SpaceIndex(space) for (space,) in rows)
    return tuple(index for index in indexes if index.exists(conn))


def all_spaces(conn: Connection) -> list[Space]:
    """Return all spaces, newest first."""
    return [_space_of(row) for row in conn.execute(f"{_SELECT} ORDER BY id DESC")]


def get(conn: Connection, space_id: int) -> Space:
    """Return the space. Raises `NotFound`."""
    row = conn.execute(f"{_SELECT} WHERE id = ?", (space_id,)).fetchone()
    if row is None:
        raise NotFound(f"Space {space_id} does not exist.")
    return _space_of(row)


def open_spaces(
    conn: Connection, fingerprints: Sequence[Mapping[str, str | int]], *, now: int
) -> list[Space]:
    """Return the newest living space of each fingerprint, created if necessary; only these are enabled.

    Jobs for the chunks missing in them are created at once.
    """
    opened = [_find_or_create(conn, fingerprint_text(each), now=now) for each in fingerprints]
    _enable_only(conn, opened, now=now)
    return [get(conn, space_id) for space_id in opened]


def _find_or_create(conn: Connection, text: str, *, now: int) -> int:
    row = conn.execute(
        f"{_SELECT} WHERE fingerprint = ? ORDER BY generation DESC LIMIT 1",
        (text,),
    ).fetchone()
    newest = None if row is None else _space_of(row)
    if newest is None or newest.state is SpaceState.RETIRED:
        generation = 1 if newest is None else newest.generation + 1
        return _insert(conn, text, generation=generation, now=now)
    return newest.id


def renew(conn: Connection, space_id: int, *, now: int) -> Space:
    """Create and enable the next generation of a space whose model changed unannounced."""
    old = get(conn, space_id)
    new_id = _insert(conn, fingerprint_text(old.fingerprint), generation=old.generation + 1, now=now)
    _enable_only(conn, [new_id, *(each for each in enabled_ids(conn) if each != space_id)], now=now)
    return get(conn, new_id)


def prepare(conn: Connection, space_id: int, canary: Vectors) -> Space:
    """Set the dimension according to the first vector, and create the table."""
    space = get(conn, space_id)
    if space.dimension is None and space.state is not SpaceState.RETIRED:
        dimension = int(canary.shape[0])
        conn.execute(
            "UPDATE spaces SET dimension = ?, canary = ? WHERE id = ?",
            (dimension, canary.astype(np.float32).tobytes(), space_id),
        )
        SpaceIndex(space_id).create(conn, dimension)
    return get(conn, space_id)


def activate(conn: Connection, space_id: int, *, now: int, max_pending: int | None = None) -> Space:
    """Search this space. The one searched before is kept; if it is enabled, it stays complete.

    Raises:
        NotFound: the space does not exist.
        Conflict: it is retired, chunks are missing in it, or more than `max_pending` are still pending.
            Nothing was changed.
    """
    space = get(conn, space_id)
    require_state(space, *LIVING)
    if max_pending is not None:
        _require_complete(conn, space, max_pending)
    for other in superseded(space, _living(conn)):
        _retire(conn, other)
    conn.execute(
        "UPDATE spaces SET state = 'building', kept_since = ? WHERE state = 'active' AND id <> ?",
        (now, space_id),
    )
    conn.execute("UPDATE spaces SET state = 'active', kept_since = NULL WHERE id = ?", (space_id,))
    return get(conn, space_id)


def retire_former(conn: Connection, answering: int) -> list[int]:
    """Drop every space that is kept, or neither active nor enabled; return their ids.

    Raises:
        Conflict: the space `answering` is not active.
    """
    require_state(get(conn, answering), SpaceState.ACTIVE)
    gone = former_spaces(_living(conn))
    for space in gone:
        _retire(conn, space)
    return [space.id for space in gone]


def approve(conn: Connection, space_id: int, *, now: int) -> None:
    """Record the approval of the cost of filling the space."""
    conn.execute("UPDATE spaces SET approved = ? WHERE id = ?", (now, space_id))


def record_comparison(conn: Connection, space_id: int, comparison: Mapping[str, Any]) -> None:
    """Store the comparison of the space with the active one."""
    conn.execute("UPDATE spaces SET comparison = ? WHERE id = ?", (json.dumps(dict(comparison)), space_id))


def disable_all(conn: Connection) -> None:
    """Disable all spaces, and delete all jobs."""
    conn.execute("UPDATE spaces SET enabled = 0 WHERE enabled = 1")
    conn.execute("DELETE FROM jobs")


def adopt(conn: Connection, originals: Sequence[Space], *, now: int) -> dict[int, int]:
    """Create the living spaces of another database, retire all others; return the ids here by theirs.

    Raises:
        Conflict: a space of the same model has another dimension.
    """
    conn.execute("UPDATE spaces SET state = 'building', kept_since = ? WHERE state = 'active'", (now,))
    adopted = {
        space.id: _adopt(conn, space, now=now)
        for space in sorted(originals, key=lambda each: each.id)
        if space.state is not SpaceState.RETIRED
    }
    for other in _living(conn):
        if other.id not in adopted.values():
            _retire(conn, other)
    return adopted


def _adopt(conn: Connection, space: Space, *, now: int) -> int:
    named = (fingerprint_text(space.fingerprint), space.generation)
    conn.execute("DELETE FROM spaces WHERE fingerprint = ? AND generation = ? AND state = 'retired'", named)
    conn.execute(
        """INSERT INTO spaces (fingerprint, generation, state, enabled, created)
           VALUES (?, ?, 'building', 0, ?) ON CONFLICT DO NOTHING""",
        (*named, now),
    )
    here = conn.execute("SELECT id FROM spaces WHERE fingerprint = ? AND generation = ?", named).fetchone()[0]
    if space.canary is not None and prepare(conn, here, space.canary).dimension != space.dimension:
        raise Conflict(f"The vectors of space {here} do not have the dimension of the ones to be copied.")
    conn.execute(
        """UPDATE spaces SET state = ?, enabled = ?, kept_since = ?, approved = ?, comparison = ?
           WHERE id = ?""",
        (
            "active" if space.state is SpaceState.ACTIVE else "building",
            int(space.enabled),
            now if space.state is SpaceState.KEPT else None,
            now if space.approved else None,
            None if space.comparison is None else json.dumps(dict(space.comparison)),
            here,
        ),
    )
    return int(here)


def backfill(conn: Connection, space_id: int, *, now: int, limit: int) -> int:
    """Create jobs for up to `limit` live chunks without vector and job in the space, if it is enabled."""
    if not get(conn, space_id).enabled:
        return 0
    missing = _missing(conn, space_id)[:limit]
    create_jobs(conn, space_id, missing, now=now)
    return len(missing)


def create_jobs(conn: Connection, space_id: int, chunks: Sequence[int], *, now: int) -> None:
    """Create jobs for the given chunks that have none in the space."""
    conn.executemany(
        """INSERT INTO jobs (chunk, space, hash, state, attempts, not_before, leased_until, created)
           SELECT id, :space, hash, 'pending', 0, 0, 0, :now FROM chunks
           WHERE id = :chunk AND NOT EXISTS (SELECT 1 FROM jobs WHERE chunk = :chunk AND space = :space)""",
        [{"space": space_id, "now": now, "chunk": chunk} for chunk in chunks],
    )


def _missing(conn: Connection, space_id: int) -> list[int]:
    own = SpaceIndex(space_id)
    stored = set(own.chunk_ids(conn)) if own in prepared(conn) else set()
    rows = conn.execute(
        """SELECT chunks.id FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1
           WHERE chunks.id NOT IN (SELECT chunk FROM jobs WHERE space = ?) ORDER BY chunks.id""",
        (space_id,),
    )
    return [row[0] for row in rows if row[0] not in stored]


def _insert(conn: Connection, fingerprint: str, *, generation: int, now: int) -> int:
    state = "building" if conn.execute("SELECT 1 FROM spaces WHERE state = 'active'").fetchone() else "active"
    space_id = conn.execute(
        """INSERT INTO spaces (fingerprint, generation, state, enabled, created)
           VALUES (?, ?, ?, 0, ?)""",
        (fingerprint, generation, state, now),
    ).lastrowid
    assert space_id is not None  # noqa: S101 - an INSERT always has one; this is for the type checker
    return int(space_id)


def _enable_only(conn: Connection, space_ids: Sequence[int], *, now: int) -> None:
    before = enabled_ids(conn)
    wanted = json.dumps(list(space_ids))
    conn.execute(
        """DELETE FROM jobs WHERE space IN (SELECT id FROM spaces WHERE enabled = 1)
           AND space NOT IN (SELECT value FROM json_each(?))""",
        (wanted,),
    )
    conn.execute("UPDATE spaces SET enabled = id IN (SELECT value FROM json_each(?))", (wanted,))
    for space_id in set(space_ids).difference(before):
        backfill(conn, space_id, now=now, limit=_ALL)


def _living(conn: Connection) -> list[Space]:
    return [_space_of(row) for row in conn.execute(f"{_SELECT} WHERE state <> 'retired'")]


def _retire(conn: Connection, space: Space) -> None:
    conn.execute("DELETE FROM jobs WHERE space = ?", (space.id,))
    conn.execute("UPDATE spaces SET state = 'retired', enabled = 0 WHERE id = ?", (space.id,))
    if space.dimension is not None:
        SpaceIndex(space.id).drop(conn)


def _require_complete(conn: Connection, space: Space, max_pending: int) -> None:
    pending = conn.execute(
        "SELECT COUNT(*) FROM jobs WHERE space = ? AND state = 'pending'", (space.id,)
    ).fetchone()[0]
    has_gaps = bool(_missing(conn, space.id))
    require_complete(space, pending=pending, max_pending=max_pending, has_gaps=has_gaps)


def _space_of(row: Any) -> Space:
    """Raise StorageCorrupt for a row that none of these functions can have written."""
    try:
        return Space(
            id=row[0],
            fingerprint=json.loads(row[1]),
            generation=row[2],
            state=SpaceState(row[3]),
            enabled=bool(row[4]),
            dimension=row[5],
            canary=None if row[6] is None else np.frombuffer(row[6], dtype=np.float32),
            approved=row[7] is not None,
            comparison=None if row[8] is None else json.loads(row[8]),
        )
    except (ValueError, TypeError) as error:
        raise StorageCorrupt("The row of a space is damaged.", hint="Run `agentctx doctor --fix`.") from error
