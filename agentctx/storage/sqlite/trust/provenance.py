"""The sources and flags of entries, and their effect on trust and quarantine.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from agentctx.storage.file.driver import Connection
from agentctx.storage.quarantine import IS_LISTED_AS_HELD, reason_of
from agentctx.storage.trust import Provenance, RecordedState

_WANTED: Final = "WHERE entry IN (SELECT value FROM json_each(?))"
_FLAGS: Final = f"SELECT entry, flag FROM flags {_WANTED} ORDER BY entry, flag"  # noqa: S608 - constant
_SOURCES: Final = f"SELECT entry, source FROM derivations {_WANTED} ORDER BY entry, source"  # noqa: S608 - constant
_HELD: Final = f"SELECT entry, revocation, waiting FROM quarantine {_WANTED} AND {IS_LISTED_AS_HELD}"  # noqa: S608 - constants
_FILES: Final = f"SELECT entry, state, reason, since FROM file_states {_WANTED}"  # noqa: S608 - constant


def known(conn: Connection, entries: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of each entry, if anything is known."""
    flags, sources = flags_of(conn, entries), _grouped(conn, _SOURCES, entries)
    held = {entry: why for entry, *why in conn.execute(_HELD, (json.dumps(list(entries)),))}
    files = file_states_of(conn, entries)
    return {
        entry: Provenance(
            flags.get(entry, ()),
            sources.get(entry, ()),
            reason_of(*held[entry]) if entry in held else None,
            held[entry][0] if entry in held else None,
            files.get(entry),
            held[entry][1] if entry in held else None,
        )
        for entry in flags | sources | held | files
    }


def file_states_of(conn: Connection, entries: Sequence[str]) -> dict[str, RecordedState]:
    """Return the states of the entries whose file could not be seen, or says something else."""
    rows = conn.execute(_FILES, (json.dumps(list(entries)),))
    return {entry: RecordedState(*state) for entry, *state in rows}


def flags_of(conn: Connection, entries: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the flags of the entries that have any."""
    return _grouped(conn, _FLAGS, entries)


def _grouped(conn: Connection, select: str, entries: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for entry, value in conn.execute(select, (json.dumps(list(entries)),)):
        found[entry] = (*found.get(entry, ()), value)
    return found
