"""Record the sources and flags of entries, and determine their trust.

Every function runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agentctx.storage.quarantine import IS_QUARANTINED
from agentctx.storage.records import TRUST_ORDER, Draft
from agentctx.storage.trust import NO_PROVENANCE, Provenance, RecordedState
from agentctx.storage.versions import least_trust
from agentctx.wire import Quarantine, Trust
from agentctx_postgresql import locks
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.trust import quarantine

_KNOWN: Final = f"""SELECT wanted.entry,
      ARRAY(SELECT flag FROM flags WHERE flags.entry = wanted.entry ORDER BY flag),
      ARRAY(SELECT source FROM derivations WHERE derivations.entry = wanted.entry ORDER BY source),
      quarantine.entry IS NOT NULL AND {IS_QUARANTINED}, quarantine.revocation,
      file_states.state, file_states.reason, file_states.since
    FROM unnest($1::text[]) AS wanted (entry) LEFT JOIN quarantine USING (entry)
      LEFT JOIN file_states USING (entry)"""  # noqa: S608 - constant


async def apply_provenance(
    conn: Connection, draft: Draft, entry_id: str, *, now: int, is_clean: bool = False
) -> Draft:
    """Record the sources and flags of a draft, and return it with the resulting trust and chunks.

    The trust is the lowest of its own and its sources'. In quarantine, it has no chunks, so no index contains
    it. An entry derived from a quarantined one is quarantined too. `is_clean`: the entry has no flags and is
    not in quarantine.
    """
    trust = draft.trust
    if sources := [source for source in draft.derived_from if source != entry_id]:
        await locks.lock_trust_shared(conn)
        trust = least_trust(trust, *await _trusts(conn, draft.namespace, sources))
        await _note_sources(conn, entry_id, sources)
        await quarantine.inherit(conn, entry_id, draft.namespace, sources, now=now)
    if draft.flags or (draft.flags is not None and not is_clean):
        await _note_flags(conn, entry_id, draft.flags)
    if draft.is_held:
        await quarantine.hold(conn, entry_id, screened=True, revocation=None, now=now)
    if is_clean and not sources and not draft.is_held:
        return draft
    spans = () if await quarantine.is_held(conn, entry_id) else draft.spans
    return replace(draft, trust=trust, spans=spans)


async def _note_sources(conn: Connection, entry_id: str, sources: Sequence[str]) -> None:
    await conn.execute(
        """INSERT INTO derivations (entry, source) SELECT $1, unnest($2::text[])
           ON CONFLICT DO NOTHING""",
        entry_id,
        list(dict.fromkeys(sources)),
    )


async def _note_flags(conn: Connection, entry_id: str, flags: Sequence[str]) -> None:
    """Replace the flags of the entry."""
    await conn.execute("DELETE FROM flags WHERE entry = $1", entry_id)
    if flags:
        await conn.execute(
            "INSERT INTO flags (entry, flag) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING",
            entry_id,
            list(dict.fromkeys(flags)),
        )


async def _trusts(conn: Connection, namespace: str, sources: Sequence[str]) -> list[Trust]:
    """Return the trust of each source; the lowest for one that is not, or no longer, in the namespace.

    So no answer reveals whether an id belongs to another namespace's entry.
    """
    rows = await conn.fetch(
        "SELECT id, trust FROM entries WHERE id = ANY ($1::text[]) AND live AND namespace = $2",
        list(sources),
        namespace,
    )
    trusts: dict[str, Trust] = {row[0]: row[1] for row in rows}
    return [trusts.get(source, TRUST_ORDER[0]) for source in sources]


async def provenance(conn: Connection, entries: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of each entry that has any."""
    found = {}
    for entry, flags, sources, is_held, revocation, *state in await conn.fetch(_KNOWN, list(entries)):
        reason: Quarantine | None = None
        if is_held:
            reason = "screened" if revocation is None else "revoked"
        file_state = RecordedState(*state) if state[0] else None
        found[entry] = Provenance(tuple(flags), tuple(sources), reason, revocation, file_state)
    return {entry: each for entry, each in found.items() if each != NO_PROVENANCE}
