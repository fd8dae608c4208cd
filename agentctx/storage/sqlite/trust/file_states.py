"""Entries whose file could not be seen, or says something else.

A withdrawn entry is held back like one in quarantine: it keeps its versions, and returns with them. Every
function runs inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from agentctx.storage.file.driver import Connection
from agentctx.storage.sqlite.entries import saving
from agentctx.storage.sqlite.trust import quarantine
from agentctx.wire import FileMark

_OF_NAMESPACE: Final = """SELECT e.id,
      json_valid(e.attributes) AND json_extract(e.attributes, '$.file') IS NOT NULL
    FROM json_each(?) AS wanted CROSS JOIN entries e ON e.id = wanted.value AND e.live = 1
    WHERE e.namespace = ?"""
_MARK: Final = """INSERT INTO file_states (entry, state, reason, since) VALUES (?, ?, ?, ?)
    ON CONFLICT (entry) DO UPDATE SET
      since = CASE state WHEN excluded.state THEN since ELSE excluded.since END,
      state = excluded.state, reason = excluded.reason"""
_EXPIRED: Final = """SELECT file_states.entry, e.seq FROM file_states
    LEFT JOIN entries e ON e.id = file_states.entry AND e.live = 1
    LEFT JOIN quarantine ON quarantine.entry = file_states.entry
    WHERE e.seq IS NULL OR file_states.state = 'withdrawn' AND file_states.since < ?
      AND quarantine.revocation IS NULL LIMIT ?"""


def mark(conn: Connection, namespace: str, marks: Sequence[FileMark], *, now: int) -> tuple[int, list[str]]:
    """Mark the entries; return how many exist, and the withdrawn ones."""
    count = 0
    withdrawn: list[str] = []
    for each in marks:
        found = conn.execute(_OF_NAMESPACE, (json.dumps(each.entries), namespace)).fetchall()
        for entry_id, has_file in found:
            if each.state != "present" and not has_file:
                continue
            count += 1
            _mark_one(conn, entry_id, each, now=now)
            if each.state == "withdrawn":
                withdrawn.append(entry_id)
    return count, withdrawn


def expire(conn: Connection, *, before: int, limit: int, now: int) -> list[str]:
    """Erase entries withdrawn before a time, and remove the states of erased ones; return all their ids."""
    rows = conn.execute(_EXPIRED, (before, limit)).fetchall()
    for entry_id, seq in rows:
        if seq is not None:
            saving.expire(conn, seq, entry_id, now=now)
        conn.execute("DELETE FROM file_states WHERE entry = ?", (entry_id,))
        quarantine.give_back(conn, entry_id)
    return [entry_id for entry_id, _ in rows]


def _mark_one(conn: Connection, entry_id: str, wanted: FileMark, *, now: int) -> None:
    if wanted.state == "present":
        conn.execute("DELETE FROM file_states WHERE entry = ?", (entry_id,))
    else:
        conn.execute(_MARK, (entry_id, wanted.state, wanted.reason, now))
    if wanted.state == "withdrawn":
        quarantine.hold(conn, entry_id, outdated=True, now=now)
    else:
        quarantine.give_back(conn, entry_id)
