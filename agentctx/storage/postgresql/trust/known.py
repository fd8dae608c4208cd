"""Look up the provenance of entries. Every function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.trust import NO_PROVENANCE, Provenance
from agentctx.wire import Quarantine

_KNOWN: Final = """SELECT wanted.entry,
      ARRAY(SELECT flag FROM flags WHERE flags.entry = wanted.entry ORDER BY flag),
      ARRAY(SELECT source FROM derivations WHERE derivations.entry = wanted.entry ORDER BY source),
      quarantine.entry IS NOT NULL, quarantine.revocation
    FROM unnest($1::text[]) AS wanted (entry) LEFT JOIN quarantine USING (entry)"""
_FLAGS: Final = """SELECT entry, array_agg(flag ORDER BY flag) FROM flags WHERE entry = ANY($1::text[])
    GROUP BY entry"""


async def provenance(conn: Connection, entries: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of each entry that has any."""
    found = {}
    for entry, flags, sources, is_held, revocation in await conn.fetch(_KNOWN, list(entries)):
        reason: Quarantine | None = None
        if is_held:
            reason = "screened" if revocation is None else "revoked"
        found[entry] = Provenance(tuple(flags), tuple(sources), reason, revocation)
    return {entry: each for entry, each in found.items() if each != NO_PROVENANCE}


async def flags_of(conn: Connection, entries: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the flags of the entries that have any."""
    return {entry: tuple(flags) for entry, flags in await conn.fetch(_FLAGS, list(entries))}
