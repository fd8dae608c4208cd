"""Checks of the database: it opens, has our schema, is intact, and its indexes are complete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agentctx.doctor.catalog import CHECK_IDS
from agentctx.doctor.check import (
    SCAN_S,
    Check,
    Finding,
    blocking,
    failed,
    judging,
    passed,
    skipped,
    skipping,
    warned,
)
from agentctx.doctor.scrub import Recheck, audit_check, bookkeeping_check, scrub_check, slots_check
from agentctx.errors import SchemaTooNew, SchemaTooOld
from agentctx.storage.base import Storage
from agentctx.storage.opening import SchemaState, offline_storage
from agentctx.storage.records import Census, SpaceFault
from agentctx.storage.upkeep import FileRepair, UpkeepStorage
from agentctx.times import Clock
from agentctx.wording import counted, listed, size

LARGE_WAL = 64 * 1024 * 1024
"""Size to which the writer truncates an empty WAL; a larger one means that something prevents it."""
_SHOWN = 3
_NAMED = 20
_REPAIR = (
    "Check the disk. Then run `agentctx doctor --fix`, which makes the file again from what can be read "
    "and names what is lost, or restore a backup."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The result of opening the database. Without a storage, its checks are skipped with `reason`."""

    path: Path
    storage: Storage | None
    opening: Finding
    reason: str = ""
    server: str | None = None
    """The server that has the database; None if it is the file at `path`."""
    by_daemon: bool = False
    """Whether the daemon itself has the database open, with its queue running."""


def database_checks(opened: Opened, recheck_table: Recheck, clock: Clock) -> list[Check]:
    checks = [
        Check(id="database.opens", run=lambda: opened.opening),
        Check(id="database.schema", run=_schema_check(opened)),
    ]
    if opened.storage is None:
        return [*checks, *(skipping(check, opened.reason) for check in _IN_THE_STORAGE)]
    return [*checks, *_storage_checks(opened.storage, recheck_table, clock)]


_IN_THE_STORAGE = tuple(check for check in CHECK_IDS if check.startswith("database."))[2:]
"""The checks after `database.opens` and `database.schema`."""


def _storage_checks(storage: Storage, recheck_table: Recheck, clock: Clock) -> list[Check]:
    upkeep = storage.upkeep
    scans: tuple[tuple[str, Callable[[], Awaitable[Finding]], Callable[[], Awaitable[str]]], ...] = (
        ("integrity", judging(upkeep.check_integrity, judge_integrity), partial(_repair_file, upkeep)),
        ("words", judging(upkeep.check_words, judge_words), partial(_rebuild_words, upkeep)),
        ("vectors", judging(upkeep.check_vectors, judge_vectors), partial(_rebuild_vectors, upkeep)),
        ("invariant", judging(upkeep.census, judge_census), partial(_restore_invariant, upkeep)),
    )

    async def rechecked(fix: Callable[[], Awaitable[str]]) -> str:
        done = await fix()
        recheck_table()
        return done

    return [
        *(
            Check(id=f"database.{name}", run=run, fix=partial(rechecked, fix), timeout_s=SCAN_S)
            for name, run, fix in scans
        ),
        scrub_check(storage, recheck_table),
        bookkeeping_check(storage, recheck_table, clock),
        audit_check(storage),
        slots_check(storage),
        Check(id="database.wal", run=judging(storage.stats, lambda stats: judge_wal(stats.wal_bytes))),
        Check(
            id="database.durability",
            run=judging(storage.stats, lambda stats: judge_durability(stats.warnings)),
        ),
    ]


def _schema_check(opened: Opened) -> Callable[[], Finding | Awaitable[Finding]]:
    """Return the look at the schema of the file at the path, unless the daemon has lost its own file.

    The schema of a server is compared when the storage is opened.
    """
    if opened.server is not None:
        is_open = opened.storage is not None
        return lambda: passed("the schema is that of this agentctx") if is_open else skipped(opened.reason)
    if opened.storage is not None and opened.storage.files.fault is not None:
        return lambda: skipped("the daemon cannot write to the database")
    return blocking(lambda: _check_schema(opened.path))


def _check_schema(path: Path) -> Finding:
    if not path.exists():
        return skipped("nothing is saved yet")
    return judge_schema(offline_storage().schema(path))


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
            hint="Run `agentctx doctor --fix`, which makes the file again without them and keeps entries.",
        )
    if applied < known:
        return warned(
            f"the database has schema version {applied}, this agentctx uses {known}",
            hint="Run `agentctx migrate`, or start the daemon, which does the same.",
        )
    return passed(f"schema version {applied}")


def judge_integrity(problems: Sequence[str]) -> Finding:
    if not problems:
        return passed("the file is intact")
    return failed(
        f"the file is damaged: {counted(len(problems), 'problem')}",
        detail=listed(problems, most=_SHOWN, separator="; "),
        hint=_REPAIR,
        fixable=True,
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


def judge_vectors(faults: Sequence[SpaceFault]) -> Finding:
    if not faults:
        return passed("the vector tables are intact")
    return failed(
        "stored vectors are damaged: semantic search misses entries or fails",
        detail=listed((f"space {fault.space}: {fault.problem}" for fault in faults), separator="; "),
        hint="Run `agentctx doctor --fix`, which recreates them; everything is then embedded again.",
        fixable=True,
    )


def judge_census(census: Census) -> Finding:
    if not census.violations:
        return passed(
            f"{counted(census.entries, 'entry', 'entries')}, {counted(census.chunks, 'chunk')}, "
            f"{counted(census.vectors, 'vector')}: each chunk has its vector or a pending job"
        )
    return failed(
        "some saved data cannot be found, or some forgotten data is left",
        detail=", ".join(f"{count} {name}" for count, name in _violations(census) if count),
        hint="Run `agentctx doctor --fix`, and please report this: it must never happen.",
        fixable=True,
    )


def _violations(census: Census) -> list[tuple[int, str]]:
    return [
        (census.chunks_without_job, "chunks with neither vector nor job"),
        (census.chunks_without_words, "chunks without words"),
        (census.orphan_vectors, "vectors without a chunk"),
        (census.orphan_jobs, "jobs without a chunk or space"),
        (census.orphan_chunks, "chunks without a live entry"),
        (census.words_without_chunk, "words without a chunk"),
    ]


def judge_wal(octets: int) -> Finding:
    if octets <= LARGE_WAL:
        return passed(f"{size(octets)} of WAL")
    return warned(
        f"{size(octets)} of WAL: it is not being checkpointed",
        hint="Another program keeps a read transaction open on the database; stop it, or restart the daemon.",
    )


def judge_durability(warnings: Sequence[str]) -> Finding:
    if not warnings:
        return passed("a save is acknowledged when it is on disk")
    return warned(
        "acknowledged saves can be lost",
        detail=" ".join(warnings),
        hint="Set synchronous_commit, fsync and full_page_writes to on, and name the standbys in "
        "synchronous_standby_names.",
    )


def repair_summary(repaired: FileRepair | None) -> str:
    """Summarize the repair for people, including what only a backup can bring back."""
    if repaired is None:
        return "the file was sound already"
    lost = repaired.lost_entries
    parts = [
        f"repaired the file: {counted(repaired.entries, 'entry', 'entries')} in it",
        f"cut {counted(repaired.rechunk, 'entry', 'entries')} again" if repaired.rechunk else "",
        f"left out {listed(repaired.foreign, most=_NAMED)}" if repaired.foreign else "",
        f"lost {counted(len(lost), 'entry', 'entries')}: {listed(lost, most=_NAMED)}" if lost else "",
        f"not all rows could be read of {', '.join(repaired.incomplete_tables)}"
        if repaired.incomplete_tables
        else "",
        f"the former file is kept as {repaired.kept}; remove it when nothing is missing"
        if repaired.kept
        else "",
    ]
    return "; ".join(part for part in parts if part)


async def _repair_file(upkeep: UpkeepStorage) -> str:
    return repair_summary(await upkeep.repair_file())


async def _rebuild_words(upkeep: UpkeepStorage) -> str:
    return f"built the index of words again, {counted(await upkeep.rebuild_words(), 'chunk')}"


async def _rebuild_vectors(upkeep: UpkeepStorage) -> str:
    spaces = {fault.space for fault in await upkeep.check_vectors()}
    pending = sum([await upkeep.rebuild_vectors(space) for space in sorted(spaces)])
    return f"recreated {counted(len(spaces), 'vector table')}; {counted(pending, 'chunk')} to embed again"


async def _restore_invariant(upkeep: UpkeepStorage) -> str:
    removed = await upkeep.remove_orphans()
    pending = await upkeep.create_missing_jobs()
    census = await upkeep.census()
    rebuilt = 0
    if census.chunks_without_words or census.words_without_chunk:
        rebuilt = await upkeep.rebuild_words()
    done = [
        f"removed {counted(removed, 'orphan')}" if removed else "",
        f"made {counted(pending, 'missing job')}" if pending else "",
        f"built the index of words again, {counted(rebuilt, 'chunk')}" if rebuilt else "",
    ]
    return ", ".join(filter(None, done)) or "found nothing left to repair"
