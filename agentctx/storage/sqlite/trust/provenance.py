"""The sources and flags of entries, and their effect on trust and quarantine.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agentctx.storage.file.driver import Connection
from agentctx.storage.quarantine import IS_QUARANTINED
from agentctx.storage.records import TRUST_ORDER, Draft
from agentctx.storage.sqlite.trust import quarantine
from agentctx.storage.trust import Provenance, RecordedState
from agentctx.storage.versions import least_trust
from agentctx.wire import Quarantine, Trust

_WANTED: Final = "WHERE entry IN (SELECT value FROM json_each(?))"
_FLAGS: Final = f"SELECT entry, flag FROM flags {_WANTED} ORDER BY entry, flag"  # noqa: S608 - constant
_SOURCES: Final = f"SELECT entry, source FROM derivations {_WANTED} ORDER BY entry, source"  # noqa: S608 - constant
_HELD: Final = f"SELECT entry, revocation FROM quarantine {_WANTED} AND {IS_QUARANTINED}"  # noqa: S608 - constants
_FILES: Final = f"SELECT entry, state, reason, since FROM file_states {_WANTED}"  # noqa: S608 - constant


def apply_provenance(
    conn: Connection, draft: Draft, entry_id: str, *, now: int, is_new: bool = False
) -> Draft:
    """Record the sources and flags of a draft, and return it with the resulting trust and chunks.

    The trust is the lowest of its own and its sources'. An entry derived from a quarantined one is
    quarantined too. A quarantined draft gets no chunks, so that no index has it. `is_new`: the id
    was just created.
    """
    trust = draft.trust
    if sources := [source for source in draft.derived_from if source != entry_id]:
        trust = least_trust(trust, *_trusts(conn, draft.namespace, sources))
        _note_sources(conn, entry_id, sources)
        quarantine.inherit(conn, entry_id, draft.namespace, sources, now=now)
    if draft.flags or (draft.flags is not None and not is_new):
        _note_flags(conn, entry_id, draft.flags)
    if draft.is_held:
        quarantine.hold(conn, entry_id, screened=True, revocation=None, now=now)
    if is_new and not sources and not draft.is_held:
        return draft
    spans = () if quarantine.is_held(conn, entry_id) else draft.spans
    return replace(draft, trust=trust, spans=spans)


def known(conn: Connection, entries: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of each entry, if anything is known."""
    flags, sources = flags_of(conn, entries), _grouped(conn, _SOURCES, entries)
    held = dict(conn.execute(_HELD, (json.dumps(list(entries)),)))
    reasons: dict[str, Quarantine] = {
        entry: "screened" if revocation is None else "revoked" for entry, revocation in held.items()
    }
    files = file_states_of(conn, entries)
    return {
        entry: Provenance(
            flags.get(entry, ()),
            sources.get(entry, ()),
            reasons.get(entry),
            held.get(entry),
            files.get(entry),
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


def _grouped(conn: Connection, sql: str, entries: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for entry, value in conn.execute(sql, (json.dumps(list(entries)),)):
        found[entry] = (*found.get(entry, ()), value)
    return found


def _note_sources(conn: Connection, entry_id: str, sources: Sequence[str]) -> None:
    conn.executemany(
        "INSERT INTO derivations (entry, source) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(entry_id, source) for source in sources],
    )


def _note_flags(conn: Connection, entry_id: str, flags: Sequence[str]) -> None:
    """Replace the flags of an entry."""
    conn.execute("DELETE FROM flags WHERE entry = ?", (entry_id,))
    if flags:
        conn.executemany(
            "INSERT INTO flags (entry, flag) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [(entry_id, flag) for flag in flags],
        )


def _trusts(conn: Connection, namespace: str, sources: Sequence[str]) -> list[Trust]:
    """Return the trust of each source; the lowest for one that is not, or no longer, in the namespace.

    So a reply never reveals whether an id belongs to an entry elsewhere.
    """
    rows = conn.execute(
        # The join order is fixed; otherwise the whole namespace would be read.
        """SELECT e.id, e.trust FROM json_each(?) AS source
           CROSS JOIN entries e ON e.id = source.value AND e.live = 1 WHERE e.namespace = ?""",
        (json.dumps(list(sources)), namespace),
    )
    trusts: dict[str, Trust] = dict(rows)
    return [trusts.get(source, TRUST_ORDER[0]) for source in sources]
