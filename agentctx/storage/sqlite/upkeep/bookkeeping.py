"""Checks and repairs damaged rows of all tables but `entries` and `chunks`.

These two hold the memory: damage there is found by checksums, left out of answers and never overwritten.
Every other table is derived from them or accounts for them, so a damaged row there must not block access to
the memory. A start repairs such rows, or deletes unusable ones. Rows that protect are repaired on the safe
side: an entry stays in quarantine, and nothing is erased. A damaged secret or end of the audit trail is set
aside, and the trail shows that it was broken.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentctx.storage.audit import Event
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import Change
from agentctx.storage.sqlite import installation
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.upkeep import BookkeepingReport, DamagedRows

LAST_ID: Final = 2**62
"""Above this id, there may soon be no id left for the next row."""
_ID_GAP: Final = 1_000_000
_MAX_DIMENSIONS: Final = 65_536
_ALL: Final = 2**62
_MIGRATIONS: Final = "schema_migrations"


@dataclass(frozen=True, slots=True)
class _Rule:
    """`sound` is the condition of a usable row; `repairs` fix or delete the others."""

    table: str
    sound: str
    loss: str
    repairs: tuple[str, ...] = ("DELETE FROM {table} WHERE COALESCE({sound}, 0) = 0",)
    """`{table}` is replaced by the table, and `{sound}` by the condition."""
    damaged: str = "COALESCE({sound}, 0) = 0"
    """The condition of an unsound row, if SQLite can find these without reading the whole table."""
    at_start: bool = True
    """False if readers of the table skip such rows, and checking all rows takes long."""

    def filled(self, sql: str) -> str:
        return sql.replace("{table}", self.table).replace("{sound}", f"({self.sound})")


def _integer(*columns: str, minimum: int = 0) -> str:
    """Return the condition that the columns are integers in the range of times and counts."""
    return _each("(typeof({0}) = 'integer' AND {0} BETWEEN %d AND %d)" % (minimum, chain.LAST_TIME), columns)  # noqa: UP031 - braces


def _id(column: str) -> str:
    return f"({column} BETWEEN 1 AND {LAST_ID})"


def _text(*columns: str) -> str:
    return _each("(typeof({0}) = 'text' AND {0} <> '')", columns)


def _object(column: str) -> str:
    return f"(typeof({column}) = 'text' AND is_object_text(CAST({column} AS BLOB)))"


def _list(column: str) -> str:
    return f"(typeof({column}) = 'text' AND is_list_text(CAST({column} AS BLOB)))"


def _each(condition: str, columns: Sequence[str]) -> str:
    return " AND ".join(condition.format(column) for column in columns)


_USABLE_SPACE: Final = f"""({_id("id")} AND {_object("fingerprint")}
    AND ((dimension IS NULL AND canary IS NULL)
         OR (typeof(dimension) = 'integer' AND dimension BETWEEN 1 AND {_MAX_DIMENSIONS}
             AND typeof(canary) = 'blob' AND length(canary) = 4 * dimension)))"""
_SPACE_STATE: Final = "state IN ('building', 'active', 'retired')"
_ENABLED: Final = "(typeof(enabled) = 'integer' AND enabled IN (0, 1))"

_SPACES: Final = _Rule(
    "spaces",
    f"""{_USABLE_SPACE} AND {_integer("generation", minimum=1)} AND {_SPACE_STATE} AND {_ENABLED}
        AND NOT (state = 'retired' AND enabled = 1) AND {_integer("created")}
        AND (kept_since IS NULL OR {_integer("kept_since")}) AND (approved IS NULL OR {_integer("approved")})
        AND (comparison IS NULL OR {_object("comparison")})""",
    "the fingerprint of a model's vectors may be lost; then everything is embedded again",
    (
        f"DELETE FROM jobs WHERE space IN (SELECT id FROM spaces WHERE NOT {_id('id')})",  # noqa: S608 - constants
        f"DELETE FROM spaces WHERE NOT {_id('id')}",  # noqa: S608 - constants
        # A generation that no other space of the model has: above all of them.
        f"""UPDATE spaces SET
          fingerprint = CASE WHEN {_USABLE_SPACE} THEN fingerprint ELSE json_object('damaged', id) END,
          generation = CASE WHEN {_USABLE_SPACE} AND {_integer("generation", minimum=1)} THEN generation
                            ELSE id + {_ID_GAP} END,
          state = CASE WHEN NOT {_USABLE_SPACE} THEN 'retired' WHEN {_SPACE_STATE} THEN state
                       ELSE 'building' END,
          enabled = CASE WHEN {_USABLE_SPACE} AND {_ENABLED} AND state <> 'retired' THEN enabled ELSE 0 END,
          dimension = CASE WHEN {_USABLE_SPACE} THEN dimension END,
          canary = CASE WHEN {_USABLE_SPACE} THEN canary END,
          created = CASE WHEN {_integer("created")} THEN created ELSE 0 END,
          kept_since = CASE WHEN {_integer("kept_since")} THEN kept_since END,
          approved = CASE WHEN {_integer("approved")} THEN approved END,
          comparison = CASE WHEN {_object("comparison")} THEN comparison END
        WHERE COALESCE({{sound}}, 0) = 0""",  # noqa: S608 - constants
        "DELETE FROM jobs WHERE space IN (SELECT id FROM spaces WHERE state = 'retired')",
    ),
)
_REVOCATIONS: Final = _Rule(
    "revocations",
    f"""{_id("id")} AND {_integer("at", "entries")} AND typeof(principal) = 'integer' AND principal >= -1
        AND {_object("criteria")}""",
    "it is no longer known who revoked what; everything revoked stays in quarantine",
    (
        f"DELETE FROM revocations WHERE NOT {_id('id')}",  # noqa: S608 - constants
        f"""UPDATE revocations SET
          at = CASE WHEN {_integer("at")} THEN at ELSE 0 END,
          entries = CASE WHEN {_integer("entries")} THEN entries ELSE 0 END,
          principal = CASE WHEN typeof(principal) = 'integer' AND principal >= -1 THEN principal ELSE -1 END,
          criteria = CASE WHEN {_object("criteria")} THEN criteria ELSE '{{}}' END
        WHERE COALESCE({{sound}}, 0) = 0""",  # noqa: S608 - constants
    ),
)
_SCREENED: Final = "(typeof(screened) = 'integer' AND screened IN (0, 1))"
_REVOCATION: Final = f"""(typeof(revocation) = 'integer'
    AND EXISTS (SELECT 1 FROM revocations WHERE revocations.id = revocation AND {_id("id")}))"""  # noqa: S608 - constants
_OUTDATED: Final = "(typeof(outdated) = 'integer' AND outdated IN (0, 1))"
_QUARANTINE_STATE: Final = "state IN ('held', 'withdrawn', 'returning', 'forgetting')"
_QUARANTINE: Final = _Rule(
    "quarantine",
    f"""{_text("entry")} AND {_SCREENED} AND (revocation IS NULL OR {_REVOCATION}) AND {_QUARANTINE_STATE}
        AND {_integer("since")} AND {_OUTDATED}
        AND (screened = 1 OR revocation IS NOT NULL OR outdated = 1)""",
    "it is no longer known why an entry is in quarantine; it stays there until it is released",
    (
        f"DELETE FROM quarantine WHERE NOT ({_text('entry')})",  # noqa: S608 - constants
        # A damaged row must not cause an erasure or a release.
        f"""UPDATE quarantine SET
          screened = CASE WHEN {_SCREENED} AND {_REVOCATION} THEN screened ELSE 1 END,
          revocation = CASE WHEN {_REVOCATION} THEN revocation END,
          outdated = CASE WHEN {_OUTDATED} THEN outdated ELSE 0 END,
          state = 'held',
          since = CASE WHEN {_integer("since")} THEN since ELSE 0 END
        WHERE COALESCE({{sound}}, 0) = 0""",  # noqa: S608 - constants
    ),
)
_FILE_STATES: Final = _Rule(
    "file_states",
    f"""{_text("entry")} AND state IN ('stale', 'withdrawn') AND typeof(reason) = 'text'
        AND {_integer("since")}""",
    "it is no longer known that the file of an entry could not be seen, or says something else",
)
_REVOKED: Final = _Rule(
    "revoked",
    f"{_text('entry')} AND {_REVOCATION}",
    "an entry returns once the other revocations that cover it are undone",
)
_JOBS: Final = _Rule(
    "jobs",
    f"""{_id("id")} AND {_integer("chunk", "space", "attempts", "not_before", "leased_until", "created")}
        AND typeof(hash) = 'blob' AND state IN ('pending', 'buried')
        AND (last_error IS NULL OR typeof(last_error) = 'text')
        AND (state = 'pending' OR last_error IS NOT NULL)""",
    "the jobs are created again; it is no longer known why one was buried",
)
_SCRUB: Final = _Rule(
    "scrub",
    f"""name IN ('filled', 'cursor', 'began', 'finished', 'damaged', 'result', 'rewritten', 'deleted')
        AND {_integer("value")}""",
    "the background check starts over",
    (
        "DELETE FROM scrub WHERE COALESCE({sound}, 0) = 0",
        "INSERT OR IGNORE INTO scrub (name, value) VALUES ('filled', 1)",
    ),
)
_IDEMPOTENCY: Final = _Rule(
    "idempotency",
    f"""typeof(principal) = 'integer' AND {_text("key", "entry")} AND typeof(digest) = 'blob'
        AND {_integer("version", minimum=1)} AND {_integer("created")}
        AND change IN ({", ".join(f"'{change}'" for change in Change)})""",
    "a save repeated with its Idempotency-Key may be done twice",
)
_FORGOTTEN: Final = _Rule(
    "forgotten",
    f"{_text('entry')} AND {_integer('at')}",
    "an import may bring back an entry whose id is lost here",
    (
        f"DELETE FROM forgotten WHERE NOT ({_text('entry')})",  # noqa: S608 - constants
        "UPDATE forgotten SET at = 0 WHERE COALESCE({sound}, 0) = 0",
    ),
)
_DERIVATIONS: Final = _Rule(
    "derivations",
    _text("entry", "source"),
    "a revocation may miss entries derived from others",
)
_FLAGS: Final = _Rule(
    "flags",
    _text("entry", "flag"),
    "the flags of an entry are no longer shown",
)
_RECEIPTS: Final = _Rule(
    "injections",
    f"""{_text("id")} AND {_list("namespaces")} AND {_integer("created", "tokens")}
        AND {_integer("budget_tokens", minimum=1)} AND position IN ('system', 'tail')
        AND {_list("candidates")} AND {_object("fates")} AND typeof(question_hash) = 'text'
        AND (principal IS NULL OR typeof(principal) = 'integer')""",
    "receipts of injections are lost",
    at_start=False,
)
_CHECKSUMS: Final = _Rule(
    "vector_checksums",
    _id("seq"),
    "the affected vectors count as damaged",
    (f"DELETE FROM vector_checksums WHERE seq < 1 OR seq > {LAST_ID}",),  # noqa: S608 - constants
    f"seq < 1 OR seq > {LAST_ID}",
)
_NUMBERED: Final = ("entries", "chunks", "spaces", "jobs", "revocations", "vector_checksums")
_KEYS: Final = {"entries": "seq", "vector_checksums": "seq"}
_SEQUENCE: Final = _Rule(
    "sqlite_sequence",
    f"""name IN (SELECT name FROM sqlite_schema WHERE type = 'table')
        AND typeof(seq) = 'integer' AND seq BETWEEN 0 AND {LAST_ID}""",  # noqa: S608 - constants
    "some row numbers are skipped",
    (
        "DELETE FROM sqlite_sequence WHERE COALESCE({sound}, 0) = 0",
        *(
            f"""INSERT INTO sqlite_sequence (name, seq)
                SELECT '{table}', COALESCE(MAX({_KEYS.get(table, "id")}), 0) + {_ID_GAP} FROM {table}
                WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{table}')
                HAVING COUNT(*) > 0"""  # noqa: S608 - constants
            for table in _NUMBERED
        ),
    ),
)
_RULES: Final = (
    *(_SPACES, _QUARANTINE, _REVOKED, _REVOCATIONS, _JOBS, _SCRUB, _IDEMPOTENCY, _FORGOTTEN),
    *(_FILE_STATES, _DERIVATIONS, _FLAGS, _RECEIPTS, _CHECKSUMS, _SEQUENCE),
)
"""In the order of repair, since rows may depend on rows of an earlier table."""


def repair(
    conn: Connection, *, now: int, at_start: bool = False, is_ledger_repaired: bool = False
) -> list[DamagedRows]:
    """Repair or delete damaged rows, and record it in the audit trail; return what was damaged.

    `at_start`: only rows that would be in the way. `is_ledger_repaired`: the record of migrations was already
    rewritten.
    """
    _make_functions(conn)
    found = [DamagedRows(_MIGRATIONS, 1, "the record was rewritten")] if is_ledger_repaired else []
    found += installation.repair(conn)
    rules = [rule for rule in _RULES if rule.at_start or not at_start]
    found += [damaged for rule in rules if (damaged := _repaired(conn, rule)) is not None]
    if any(damaged.table in {"jobs", "spaces"} for damaged in found):
        for space in spaces.enabled_ids(conn):
            spaces.backfill(conn, space, now=now, limit=_ALL)
    for damaged in found:
        detail = {"table": damaged.table, "rows": damaged.rows}
        chain.record(conn, Event(kind=chain.DAMAGE, principal=None, detail=detail), now=now)
    return found


def inspect(conn: Connection) -> BookkeepingReport:
    """Return the damaged rows of each table, and earlier repairs; changes nothing."""
    _make_functions(conn)
    found = (_damaged(conn, rule) for rule in _RULES)
    damaged = [*installation.check(conn), *(each for each in found if each is not None)]
    return BookkeepingReport(damaged, chain.known_repairs(conn), installation.set_aside(conn))


def _damaged(conn: Connection, rule: _Rule) -> DamagedRows | None:
    (rows,) = conn.execute(rule.filled(f"SELECT COUNT(*) FROM {{table}} WHERE {rule.damaged}")).fetchone()  # noqa: S608 - constants
    return DamagedRows(rule.table, rows, rule.loss) if rows else None


def _repaired(conn: Connection, rule: _Rule) -> DamagedRows | None:
    damaged = _damaged(conn, rule)
    if damaged is not None:
        for statement in rule.repairs:
            conn.execute(rule.filled(statement))
    return damaged


def _make_functions(conn: Connection) -> None:
    conn.create_function("is_object_text", 1, lambda value: isinstance(_parsed(value), dict))
    conn.create_function("is_list_text", 1, lambda value: isinstance(_parsed(value), list))


def _parsed(value: bytes | None) -> Any:
    """Return the value of a JSON text; None if it is not JSON. As bytes, since it may not be UTF-8."""
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
