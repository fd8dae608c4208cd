"""Find damage in the server's tables and indexes, and in the vectors of each space."""

from __future__ import annotations

from typing import Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.records import SpaceFault, SpaceState
from agentctx_postgresql.connections import CHECK_TIMEOUT_S, PostgresqlConnections
from agentctx_postgresql.driver import Connection

MAX_LINES: Final = 20

_TABLES: Final = """SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY relname"""
_READ: Final = "SELECT count(*) FROM (SELECT * FROM {table} OFFSET 0) every"
_CHECK: Final = "SELECT bt_index_check({index}::oid::regclass, heapallindexed => true)"
# An index that is being rebuilt is not valid yet, or no longer.
_INDEXES: Final = """SELECT c.oid::bigint, c.relname FROM pg_class c
    JOIN pg_am ON pg_am.oid = c.relam AND amname = 'btree'
    JOIN pg_index i ON i.indexrelid = c.oid AND i.indisvalid
    WHERE c.relkind = 'i' AND c.relnamespace = current_schema()::regnamespace
      AND EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck') ORDER BY c.relname"""
_FOREIGN: Final = """SELECT kind || ' ' || name || ' on ' || relname || ' is not agentctx''s' FROM (
      SELECT 'trigger' AS kind, tgname AS name, tgrelid AS relation FROM pg_trigger WHERE NOT tgisinternal
      UNION ALL SELECT 'rule', rulename, ev_class FROM pg_rewrite WHERE rulename <> '_RETURN'
      UNION ALL SELECT 'policy', polname, polrelid FROM pg_policy) acting
    JOIN pg_class c ON c.oid = relation
    WHERE relnamespace = current_schema()::regnamespace ORDER BY kind, name"""
_IS_INDEX: Final = "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = $1::bigint::oid AND indisvalid)"
_SPACES: Final = (
    "SELECT id, to_regclass('vec_' || id) IS NOT NULL FROM spaces WHERE dimension IS NOT NULL AND state <> $1"
)
_NO_VECTORS: Final = """SELECT count(*) FROM vec_{space:d}
    WHERE NOT (l2_norm(embedding) > 0 AND l2_norm(embedding) < 'Infinity')"""
_MISPLACED: Final = """SELECT count(*) FROM vec_{space:d} v JOIN chunks c ON c.id = v.chunk
    JOIN entries e ON e.seq = c.entry WHERE v.namespace <> e.namespace"""


async def check_database(db: PostgresqlConnections) -> list[str]:
    """Read every table, which verifies its pages; check the indexes if amcheck is installed.

    What acts on our tables is a problem too: no migration makes triggers, rules or policies.
    """
    tables = await db.read(lambda conn: conn.fetch(_TABLES))
    indexes = await db.read(lambda conn: conn.fetch(_INDEXES))
    problems = [await _problem(db, f"table {name}", _READ.format(table=name)) for (name,) in tables]
    problems += [await _index_problem(db, *index) for index in indexes]
    problems += [each for (each,) in await db.read(lambda conn: conn.fetch(_FOREIGN))]
    return [problem for problem in problems if problem][:MAX_LINES]


async def _problem(db: PostgresqlConnections, name: str, sql: str) -> str:
    try:
        await db.read(lambda conn: conn.execute(sql), CHECK_TIMEOUT_S)
    except StorageCorrupt as error:
        return f"{name}: {error.message}"
    return ""


async def _index_problem(db: PostgresqlConnections, index: int, name: str) -> str:
    """Return the problem of an index; empty if there is none or another daemon has replaced the index."""
    problem = await _problem(db, f"index {name}", _CHECK.format(index=index))
    is_there = not problem or await db.read(lambda conn: conn.fetchval(_IS_INDEX, index))
    return problem if is_there else ""


async def rebuild_indexes(conn: Connection) -> None:
    """Rebuild every index. The connection must not be in a transaction."""
    schema = await conn.fetchval("SELECT quote_ident(current_schema())")
    await conn.execute(f"REINDEX SCHEMA CONCURRENTLY {schema}")


async def check_vectors(conn: Connection) -> list[SpaceFault]:
    """Return the faults in the vectors of each prepared space."""
    faults = []
    for space, has_table in await conn.fetch(_SPACES, SpaceState.RETIRED.value):
        if not has_table:
            faults.append(SpaceFault(space, "its table is missing"))
            continue
        if count := await conn.fetchval(_NO_VECTORS.format(space=space)):
            faults.append(SpaceFault(space, f"{count} rows contain an invalid vector"))
        if count := await conn.fetchval(_MISPLACED.format(space=space)):
            faults.append(SpaceFault(space, f"{count} vectors have another namespace than their entry"))
    return faults
