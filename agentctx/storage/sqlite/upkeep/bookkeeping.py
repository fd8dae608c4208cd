"""Repairs damaged rows of all tables but `entries` and `chunks`, at a start.

These two hold the memory: damage there is found by checksums, left out of answers and never overwritten.
Every other table is derived from them or accounts for them, so a damaged row there must not block access to
the memory: it is removed. Rows that protect are repaired on the safe side: an entry stays in quarantine, and
what was forgotten stays forgotten. A model whose row is damaged is retired, and everything is embedded again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentctx.storage.audit import DAMAGE, Event
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import Change
from agentctx.storage.sqlite import installation
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.vectors import spaces

LAST_ID: Final = 2**62
"""Above this id, there may soon be no id left for the next row."""
_ID_GAP: Final = 1_000_000
_MAX_DIMENSIONS: Final = 65_536
_ALL: Final = 2**62
_MIGRATIONS: Final = "schema_migrations"
_INSTALLATION: Final = "installation"


def _integer(*columns: str, minimum: int = 0) -> str:
    """Return the condition that the columns are integers in the range of times and counts."""
    return _each("(typeof({0}) = 'integer' AND {0} BETWEEN %d AND %d)" % (minimum, chain.LAST_TIME), columns)  # noqa: UP031 - braces


def _id(column: str) -> str:
    return f"({column} BETWEEN 1 AND {LAST_ID})"


def _text(*columns: str) -> str:
    return _each("(typeof({0}) = 'text' AND {0} <> '')", columns)


def _object(column: str) -> str:
    return f"(typeof({column}) = 'text' AND is_object_text(CAST({column} AS BLOB)))"


def _each(condition: str, columns: Sequence[str]) -> str:
    return " AND ".join(condition.format(column) for column in columns)


_REVOCATION: Final = """(typeof(revocation) = 'integer'
    AND EXISTS (SELECT 1 FROM revocations WHERE revocations.id = revocation))"""
_CHANGES: Final = ", ".join(f"'{change}'" for change in Change)
_SOUND: Final[Mapping[str, str]] = {
    "spaces": f"""{_id("id")} AND {_object("fingerprint")} AND {_integer("generation", minimum=1)}
        AND state IN ('building', 'active', 'retired') AND typeof(enabled) = 'integer' AND enabled IN (0, 1)
        AND NOT (state = 'retired' AND enabled = 1) AND {_integer("created")}
        AND (dimension IS NULL AND canary IS NULL
             OR typeof(dimension) = 'integer' AND dimension BETWEEN 1 AND {_MAX_DIMENSIONS}
                AND typeof(canary) = 'blob' AND length(canary) = 4 * dimension)
        AND (kept_since IS NULL OR {_integer("kept_since")}) AND (approved IS NULL OR {_integer("approved")})
        AND (comparison IS NULL OR {_object("comparison")})""",
    "revocations": f"""{_id("id")} AND {_integer("at", "entries")} AND typeof(principal) = 'integer'
        AND principal >= -1 AND {_object("criteria")}""",
    "quarantine": f"""{_text("entry")} AND typeof(screened) = 'integer' AND screened IN (0, 1)
        AND (revocation IS NULL OR {_REVOCATION})
        AND state IN ('held', 'withdrawn', 'returning', 'forgetting') AND {_integer("since")}
        AND typeof(outdated) = 'integer' AND outdated IN (0, 1)
        AND (waiting IS NULL OR {_integer("waiting")})
        AND (screened = 1 OR revocation IS NOT NULL OR outdated = 1 OR waiting IS NOT NULL)""",
    "capture_modes": f"""{_text("namespace")} AND typeof(agent) = 'text'
        AND mode IN ('auto', 'review', 'always') AND {_integer("since")}""",
    "revoked": f"{_text('entry')} AND {_REVOCATION}",
    "file_states": f"""{_text("entry")} AND state IN ('stale', 'withdrawn') AND typeof(reason) = 'text'
        AND {_integer("since")}""",
    "jobs": f"""{_id("id")} AND {_integer("chunk", "space", "attempts", "not_before", "leased_until")}
        AND {_integer("created")} AND typeof(hash) = 'blob' AND state IN ('pending', 'buried')
        AND (last_error IS NULL OR typeof(last_error) = 'text')
        AND (state = 'pending' OR last_error IS NOT NULL)""",
    "scrub": f"""name IN ('filled', 'cursor', 'began', 'finished', 'damaged', 'result',
           'rewritten', 'deleted')
        AND {_integer("value")}""",
    "idempotency": f"""typeof(principal) = 'integer' AND {_text("key", "entry")} AND typeof(digest) = 'blob'
        AND {_integer("version", minimum=1)} AND {_integer("created")} AND change IN ({_CHANGES})""",
    "forgotten": f"{_text('entry')} AND {_integer('at')}",
    "derivations": _text("entry", "source"),
    "supersessions": f"{_text('older', 'newer')} AND newer <> older AND closed IN ('superseded', 'resolved')",
    "flags": _text("entry", "flag"),
    "vector_checksums": _id("seq"),
    "sqlite_sequence": f"""name IN (SELECT name FROM sqlite_schema WHERE type = 'table')
        AND typeof(seq) = 'integer' AND seq BETWEEN 0 AND {LAST_ID}""",  # noqa: S608 - constants
}
"""The condition of a usable row, by table, in the order of repair: some depend on rows of a table before."""
_NUMBERED: Final = {"entries": "seq", "vector_checksums": "seq"} | dict.fromkeys(
    ("chunks", "spaces", "jobs", "revocations"), "id"
)
_REMOVE: Final = ("DELETE FROM {table} WHERE COALESCE({sound}, 0) = 0",)
_REPAIRS: Final[Mapping[str, Sequence[str]]] = {
    "spaces": (
        "DELETE FROM jobs WHERE space IN (SELECT id FROM spaces WHERE COALESCE({sound}, 0) = 0)",
        f"DELETE FROM spaces WHERE NOT {_id('id')}",  # noqa: S608 - constants
        # A generation that no other space of the model has: above all of them.
        f"""UPDATE spaces SET fingerprint = json_object('damaged', id), generation = id + {_ID_GAP},
              state = 'retired', enabled = 0, dimension = NULL, canary = NULL, created = 0,
              kept_since = NULL, approved = NULL, comparison = NULL
            WHERE COALESCE({{sound}}, 0) = 0""",  # noqa: S608 - constants
    ),
    # It can still be undone by its number.
    "revocations": (
        f"DELETE FROM revocations WHERE NOT {_id('id')}",  # noqa: S608 - constants
        """UPDATE revocations SET at = 0, entries = 0, principal = -1, criteria = '{}'
           WHERE COALESCE({sound}, 0) = 0""",
    ),
    "quarantine": (
        f"DELETE FROM quarantine WHERE NOT ({_text('entry')})",  # noqa: S608 - constants
        """UPDATE quarantine SET screened = 1, revocation = NULL, outdated = 0, waiting = NULL,
             state = 'held', since = 0
           WHERE COALESCE({sound}, 0) = 0""",
    ),
    "scrub": (*_REMOVE, "INSERT OR IGNORE INTO scrub (name, value) VALUES ('filled', 1)"),
    "forgotten": (
        f"DELETE FROM forgotten WHERE NOT ({_text('entry')})",  # noqa: S608 - constants
        "UPDATE forgotten SET at = 0 WHERE COALESCE({sound}, 0) = 0",
    ),
    # By the key alone, which needs no scan.
    "vector_checksums": (f"DELETE FROM vector_checksums WHERE seq < 1 OR seq > {LAST_ID}",),  # noqa: S608 - constants
    "sqlite_sequence": (
        *_REMOVE,
        *(
            f"""INSERT INTO sqlite_sequence (name, seq)
                SELECT '{table}', COALESCE(MAX({key}), 0) + {_ID_GAP} FROM {table}
                WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{table}')
                HAVING COUNT(*) > 0"""  # noqa: S608 - constants
            for table, key in _NUMBERED.items()
        ),
    ),
}
"""What is done about unusable rows; by default they are removed."""
_DAMAGED: Final = {"vector_checksums": f"seq < 1 OR seq > {LAST_ID}"}


def repair(conn: Connection, *, now: int, is_ledger_repaired: bool = False) -> Mapping[str, int]:
    """Repair or remove damaged rows, and record it in the audit trail; return their number by table.

    `is_ledger_repaired`: the record of migrations was already rewritten.
    """
    conn.create_function("is_object_text", 1, lambda value: isinstance(_parsed(value), dict))
    found = {_MIGRATIONS: int(is_ledger_repaired), _INSTALLATION: installation.repair(conn)}
    found |= {table: _repaired(conn, table, f"({sound})") for table, sound in _SOUND.items()}
    if found["jobs"] or found["spaces"]:
        for space in spaces.enabled_ids(conn):
            spaces.backfill(conn, space, now=now, limit=_ALL)
    damaged = {table: rows for table, rows in found.items() if rows}
    for table, rows in damaged.items():
        chain.record(conn, Event(kind=DAMAGE, principal=None, detail={"table": table, "rows": rows}), now=now)
    return damaged


def _repaired(conn: Connection, table: str, sound: str) -> int:
    """Repair a table; return the number of damaged rows."""
    damaged = _DAMAGED.get(table, f"COALESCE({sound}, 0) = 0")
    (rows,) = conn.execute(f"SELECT COUNT(*) FROM {table} WHERE {damaged}").fetchone()  # noqa: S608 - constants
    if rows:
        for statement in _REPAIRS.get(table, _REMOVE):
            conn.execute(_filled(statement, table, sound))
    return int(rows)


def _filled(statement: str, table: str, sound: str) -> str:
    return statement.replace("{table}", table).replace("{sound}", sound)


def _parsed(value: bytes | None) -> Any:
    """Return the value of a JSON text; None if it is not JSON. As bytes, since it may not be UTF-8."""
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
