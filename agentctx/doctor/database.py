"""Checks of the database: it opens, has our schema, is intact, and its indexes are complete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.doctor.backup import remedy, restore_hint
from agentctx.doctor.check import SCAN_S, Finding, Skip, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Inner
from agentctx.errors import SchemaTooNew, SchemaTooOld, StorageCorrupt, StorageFailed
from agentctx.storage.base import Storage
from agentctx.storage.opening import SchemaState, offline_storage, open_storage, server_of
from agentctx.storage.records import Census, SpaceFault, StorageStats
from agentctx.times import Clock
from agentctx.wire.wording import counted, listed, size

LARGE_WAL = 64 * 1024 * 1024
"""Size to which the writer truncates an empty WAL; a larger one means that something prevents it."""
_SHOWN = 3
_NAMED = 20


async def open_database(settings: Settings, path: Path, clock: Clock) -> tuple[Storage, Finding]:
    """Open the database, with the finding about it.

    Raises:
        Skip: it must not be opened.
        AgentctxError: it does not open.
    """
    server = server_of(settings)
    if server is None:
        await asyncio.to_thread(_expect_schema, path)
    try:
        storage = await open_storage(settings, path, clock=clock, migrates=server is None)
    except StorageCorrupt as error:
        error.hint = await remedy(settings, path, now=clock())
        raise
    return storage, passed(f"{server or path} opens")


def _expect_schema(path: Path) -> None:
    """Raise `Skip` if the database must not be opened: opening would create it, or migrate an old schema."""
    if not path.exists():
        raise Skip("nothing is saved yet")
    try:
        schema = offline_storage().schema(path)
    except StorageFailed:
        return  # opening it reports the error
    finding = judge_schema(schema)
    may_open = schema.is_misrecorded or schema.foreign  # opening it reports what is foreign
    if finding.is_trouble and not may_open:
        raise Skip(f"not opened: {finding.message}")


@check(Inner, "database.opens")
async def check_opening(inner: Inner) -> Finding:
    return inner.opening


@check(Inner, "database.schema")
def check_schema(inner: Inner) -> Finding:
    """Look at the file, unless the daemon has lost it. A server's schema was compared on opening."""
    if inner.server is not None:
        return passed("the schema is that of this agentctx") if inner.opened else skipped(inner.not_opened)
    if inner.opened is not None and inner.opened.fault is not None:
        return skipped("the daemon cannot write to the database")
    if not inner.path.exists():
        return skipped("nothing is saved yet")
    return judge_schema(offline_storage().schema(inner.path))


def judge_schema(schema: SchemaState) -> Finding:
    applied, known = schema.version, max(schema.known, default=0)
    if schema.is_too_old or applied > known:
        newer = f"has schema version {applied}, this agentctx knows up to {known}"
        age = "has a schema from before agentctx 0.1.0" if schema.is_too_old else newer
        error = SchemaTooOld if schema.is_too_old else SchemaTooNew
        return failed(f"the database {age}", hint=error.default_hint)
    if schema.is_misrecorded:
        return warned(
            "the migration record is damaged; the schema itself is correct",
            hint="Start the daemon, which rewrites the record. Check the disk.",
        )
    if schema.changed:
        return failed(
            f"migrations were changed after they were applied: {', '.join(schema.changed)}",
            hint="Install a released agentctx again; an applied migration must never change.",
        )
    if schema.foreign:
        return failed(
            f"the database has {counted(len(schema.foreign), 'object')} that agentctx did not make",
            detail=listed(schema.foreign, most=_NAMED),
            hint="Remove them with the program that made them, or restore a backup: `agentctx restore FILE`.",
        )
    if applied < known:
        return warned(
            f"the database has schema version {applied}, this agentctx uses {known}",
            hint="Run `agentctx migrate`, or start the daemon, which does the same.",
        )
    return passed(f"schema version {applied}")


async def _repair_file(inner: Inner) -> str:
    await inner.upkeep.repair_file()
    inner.recheck_table()
    return "made the damaged indexes again"


@check(Inner, "database.integrity", fix=_repair_file, timeout_s=SCAN_S)
async def check_integrity(inner: Inner) -> Finding:
    problems = await inner.upkeep.check_integrity()
    return judge_integrity(problems, await restore_hint(inner) if problems else "")


def judge_integrity(problems: Sequence[str], restore: str) -> Finding:
    """Judge the problems of the file; `restore` says how to restore a backup."""
    if not problems:
        return passed("the file is intact")
    return failed(
        f"the file is damaged: {counted(len(problems), 'problem')}",
        detail=listed(problems, most=_SHOWN, separator="; "),
        hint="Check the disk. `agentctx doctor --fix` makes damaged words and vectors again. If it cannot: "
        f"{restore}",
        fixable=True,
    )


async def _expect_sound_file(inner: Inner) -> None:
    """Raise `StorageCorrupt` if pages are damaged: a write could overwrite what can still be read."""
    if await inner.upkeep.check_integrity():
        raise StorageCorrupt(
            "The file is damaged, so nothing is written into it.", hint=await restore_hint(inner)
        )


async def _rebuild_words(inner: Inner) -> str:
    await _expect_sound_file(inner)
    rebuilt = await inner.upkeep.rebuild_words()
    inner.recheck_table()
    return f"built the index of words again, {counted(rebuilt, 'chunk')}"


@check(
    Inner, "database.words", lambda inner: inner.upkeep.check_words(), fix=_rebuild_words, timeout_s=SCAN_S
)
def judge_words(problem: str | None) -> Finding:
    if problem is None:
        return passed("the keyword index matches the entries")
    return failed(
        "the keyword index is damaged: searches miss entries or fail",
        detail=problem,
        hint="Run `agentctx doctor --fix`, which rebuilds it from the entries.",
        fixable=True,
    )


async def _rebuild_vectors(inner: Inner) -> str:
    await _expect_sound_file(inner)
    upkeep = inner.upkeep
    spaces = {fault.space for fault in await upkeep.check_vectors()}
    pending = sum([await upkeep.rebuild_vectors(space) for space in sorted(spaces)])
    inner.recheck_table()
    return f"recreated {counted(len(spaces), 'vector table')}; {counted(pending, 'chunk')} to embed again"


@check(
    Inner,
    "database.vectors",
    lambda inner: inner.upkeep.check_vectors(),
    fix=_rebuild_vectors,
    timeout_s=SCAN_S,
)
def judge_vectors(faults: Sequence[SpaceFault]) -> Finding:
    if not faults:
        return passed("the vector tables are intact")
    return failed(
        "stored vectors are damaged: semantic search misses entries or fails",
        detail=listed((f"space {fault.space}: {fault.problem}" for fault in faults), separator="; "),
        hint="Run `agentctx doctor --fix`, which recreates them; everything is then embedded again.",
        fixable=True,
    )


async def _restore_invariant(inner: Inner) -> str:
    await _expect_sound_file(inner)
    upkeep = inner.upkeep
    removed = await upkeep.remove_orphans()
    pending = await upkeep.create_missing_jobs()
    census = await upkeep.census()
    rebuilt = 0
    if census.chunks_without_words or census.words_without_chunk:
        rebuilt = await upkeep.rebuild_words()
    inner.recheck_table()
    done = [
        f"removed {counted(removed, 'orphan')}" if removed else "",
        f"made {counted(pending, 'missing job')}" if pending else "",
        f"built the index of words again, {counted(rebuilt, 'chunk')}" if rebuilt else "",
    ]
    return ", ".join(filter(None, done)) or "found nothing left to repair"


@check(
    Inner, "database.invariant", lambda inner: inner.upkeep.census(), fix=_restore_invariant, timeout_s=SCAN_S
)
def judge_census(census: Census) -> Finding:
    violations = {
        "chunks with neither vector nor job": census.chunks_without_job,
        "chunks without words": census.chunks_without_words,
        "vectors without a chunk": census.orphan_vectors,
        "jobs without a chunk or space": census.orphan_jobs,
        "chunks without a live entry": census.orphan_chunks,
        "words without a chunk": census.words_without_chunk,
    }
    if not census.violations:
        return passed(
            f"{counted(census.entries, 'entry', 'entries')}, {counted(census.chunks, 'chunk')}, "
            f"{counted(census.vectors, 'vector')}: each chunk has its vector or a pending job"
        )
    return failed(
        "some saved data cannot be found, or some forgotten data is left",
        detail=", ".join(f"{count} {name}" for name, count in violations.items() if count),
        hint="Run `agentctx doctor --fix`, and please report this: it must never happen.",
        fixable=True,
    )


@check(Inner, "database.wal", lambda inner: inner.storage.stats())
def judge_wal(stats: StorageStats) -> Finding:
    octets = stats.wal_bytes
    if octets <= LARGE_WAL:
        return passed(f"{size(octets)} of WAL")
    return warned(
        f"{size(octets)} of WAL: it is not being checkpointed",
        hint="Another program keeps a read transaction open on the database; stop it, or restart the daemon.",
    )


@check(Inner, "database.forgotten", lambda inner: inner.upkeep.rewrite_problem)
def judge_forgotten(problem: str | None) -> Finding:
    if problem is None:
        return passed("what is forgotten leaves the file within a day")
    return warned(problem, hint="Free disk space, and run `agentctx forget --rewrite`.")


@check(Inner, "database.durability", lambda inner: inner.storage.stats())
def judge_durability(stats: StorageStats) -> Finding:
    if not stats.warnings:
        return passed("a save is acknowledged when it is on disk")
    return warned(
        "acknowledged saves can be lost",
        detail=" ".join(stats.warnings),
        hint="Set synchronous_commit, fsync and full_page_writes to on, and name the standbys in "
        "synchronous_standby_names.",
    )
