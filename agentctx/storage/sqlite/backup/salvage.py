"""Rebuilds the database file from the readable rows of a damaged one.

The damaged file is only read, since SQLite would free and reuse pages by lists that may be damaged too. Rows
are copied into a new file. Words, indexes, jobs, and damaged chunks and vectors are made again from them.
Then the new pages replace the old ones in one transaction, so that a crash leaves one of the two.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from agentctx.storage.audit import Event
from agentctx.storage.chunk_texts import Piece
from agentctx.storage.file.copy import check_pages, sync_folder
from agentctx.storage.file.driver import Connection, Error, IntegrityError, open_connection, translated
from agentctx.storage.file.migrate import find_foreign, migrate_database
from agentctx.storage.file.readable import DamagedTable, is_damage
from agentctx.storage.file.vec0 import VectorRow
from agentctx.storage.records import SpaceState
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.entries.rows import texts_of_version
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.trust import quarantine
from agentctx.storage.sqlite.upkeep import repair
from agentctx.storage.sqlite.upkeep.scrub import mark_filled
from agentctx.storage.sqlite.vectors import spaces, vec0_shadow
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.upkeep import FileRepair
from agentctx.storage.words import index_terms
from agentctx.times import compact_time

LOST: Final = "lost"
"""Audit kind of an entry that could not be read when the file was rebuilt."""
MAX_RECORDED: Final = 1_000
ENDING: Final = ".repairing"
_KEPT: Final = ".before-repair-"
_ALL: Final = 2**62
_UNKNOWN_MARGIN: Final = 100_000
"""Added to the highest known id if it is unknown which ids were assigned: no id may be assigned twice."""
_SKIPPED_TABLES: Final = frozenset({"schema_migrations", "scrub", "vector_checksums"})
_DERIVED: Final = frozenset({"chunks", "jobs"})
"""Tables whose lost rows are made again."""
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_TABLES: Final = """
SELECT name, wr FROM pragma_table_list
WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name
"""
_IS_TABLE: Final = "SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main' AND type = 'table'"
"""False of a view, which could take forever."""
_COLUMNS: Final = "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid"
_KNOWN_LIVE: Final = (
    "SELECT id FROM entries INDEXED BY entries_live_id WHERE live = 1 ORDER BY id {direction}"
)
_KNOWN: Final = "SELECT id FROM entries INDEXED BY sqlite_autoindex_entries_1 ORDER BY id {direction}"
_NUMBERED: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
_WITHOUT_JOB: Final = """
SELECT id FROM chunks WHERE id NOT IN (SELECT chunk FROM jobs WHERE space = ?) ORDER BY id
"""
_CHUNKS_PER_STEP: Final = 500


def rebuild_from_rows(path: Path, *, now: int) -> FileRepair:
    """Replace a database that no connection has open with its readable rows. Blocks.

    What agentctx did not make is left out. If anything is lost that cannot be made again, the former file is
    kept beside it.

    Raises:
        StorageFull, StorageFailed: there is no space for a copy, or the disk fails; the file is unchanged.
        StorageCorrupt: not even the schema can be read.
    """
    fresh = path.with_name(path.name + ENDING)
    discard_partial_repairs(path)
    try:
        migrate_database(fresh)
        with closing(open_connection(path, readonly=True)) as old, closing(open_connection(fresh)) as new:
            report = _Salvage(old, new, now).run()
        check_pages(fresh)
        kept = _keep(path, now) if report.is_lossy else None
        _overwrite(path, fresh)
    except Error as error:
        raise translated(error, f"cannot repair {path}") from error
    finally:
        discard_partial_repairs(path)
    return report.kept_as(kept)


def discard_partial_repairs(path: Path) -> None:
    """Remove the files of a repair that was killed, because they contain copies of texts."""
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ENDING + end).unlink(missing_ok=True)


def _keep(path: Path, now: int) -> Path:
    kept = path.with_name(f"{path.name}{_KEPT}{compact_time(now)}")
    kept.touch(mode=0o600)
    shutil.copyfile(path, kept)
    sync_folder(path.parent)
    return kept


def _overwrite(path: Path, fresh: Path) -> None:
    with closing(open_connection(fresh, readonly=True)) as source, closing(open_connection(path)) as target:
        source.backup(target)
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class _Salvage:
    """Copies the rows of `old`, which may be damaged, into `new`, which is empty."""

    def __init__(self, old: Connection, new: Connection, now: int) -> None:
        self._old = old
        self._new = new
        self._now = now
        self._incomplete: list[str] = []
        self._cut_again = 0

    def run(self) -> FileRepair:
        self._new.execute("PRAGMA foreign_keys=0")
        self._new.execute("PRAGMA synchronous=OFF")  # synced after it is copied to its place
        self._new.execute("BEGIN")
        entry_ids = self._copy_rows()
        self._continue_numbers()
        for seq in self._live():
            self._index(seq)
        repair.remove_orphan_jobs(self._new, _ALL)
        _copy_vectors(self._old, self._new)
        for space in spaces.enabled_ids(self._new):
            spaces.backfill(self._new, space, now=self._now, limit=_ALL)
        lost = sorted(self._known_ids() - entry_ids)
        for entry_id in lost[:MAX_RECORDED]:
            chain.record(self._new, Event(kind=LOST, principal=None, subject=entry_id), now=self._now)
        mark_filled(self._new)
        self._new.execute("COMMIT")
        return FileRepair(
            entries=len(entry_ids),
            lost_entries=tuple(lost),
            incomplete_tables=tuple(table for table in self._incomplete if table not in _DERIVED),
            rechunk=self._cut_again,
            foreign=tuple(map(str, find_foreign(self._old))),
        )

    def _copy_rows(self) -> set[str]:
        """Copy the rows of all tables, `entries` first; return the ids of live entries."""
        tables = [row for row in self._new.execute(_TABLES) if row[0] not in _SKIPPED_TABLES]
        ids: list[str] = []
        for name, without_rowid in sorted(tables, key=lambda table: table[0] != "entries"):
            self._copy_table(name, ids if without_rowid else None)
            if name == "entries":
                ids = [row[0] for row in self._new.execute("SELECT id FROM entries WHERE live = 1")]
        self._new.execute("DELETE FROM chunks WHERE entry NOT IN (SELECT seq FROM entries WHERE live = 1)")
        self._new.execute(
            """UPDATE quarantine SET screened = 1, revocation = NULL
               WHERE revocation IS NOT NULL AND revocation NOT IN (SELECT id FROM revocations)"""
        )
        return set(ids)

    def _copy_table(self, table: str, keys: Sequence[str] | None) -> None:
        is_table = self._old.execute(_IS_TABLE, (table,)).fetchone() is not None
        there = {row[0] for row in self._old.execute(_COLUMNS, (table,))} if is_table else set()
        columns = [(name, pk) for name, pk in self._new.execute(_COLUMNS, (table,)) if name in there]
        if not columns:
            self._incomplete.append(table)
            return
        names = [name for name, _ in columns]
        key = "rowid" if keys is None else next(name for name, pk in columns if pk == 1)
        if key not in ("rowid", "entry"):
            keys = ()  # the keys are not known from elsewhere
        damaged = DamagedTable(self._old, table, names, key=key, keys=keys)
        damaged.read(partial(self._insert, table, names))
        if not damaged.is_whole:
            self._incomplete.append(table)

    def _insert(self, table: str, names: Sequence[str], row: Sequence[object]) -> bool:
        """Return False for a row that cannot belong to the table."""
        marks = ", ".join("?" * len(names))
        sql = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - names of our schema
        try:
            return self._new.execute(sql, row).rowcount > 0
        except (IntegrityError, UnicodeEncodeError):
            return False

    def _continue_numbers(self) -> None:
        """Continue the row numbers, so that no id is assigned twice, not even one of a lost row."""
        given: dict[str, object] = {}
        numbers = DamagedTable(self._old, "sqlite_sequence", ("name", "seq"), keys=())
        numbers.read(lambda row: bool(given.setdefault(row[0], row[1])))
        for (table,) in self._new.execute(_NUMBERED).fetchall():
            (key,) = (name for name, pk in self._new.execute(_COLUMNS, (table,)) if pk)
            (highest,) = self._new.execute(f"SELECT COALESCE(MAX({key}), 0) FROM {table}").fetchone()  # noqa: S608 - names of our schema
            last = given.get(table)
            last = max(last, highest) if isinstance(last, int) else highest + _UNKNOWN_MARGIN
            self._new.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            self._new.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, last))

    def _live(self) -> list[int]:
        return [row[0] for row in self._new.execute("SELECT seq FROM entries WHERE live = 1 ORDER BY seq")]

    def _index(self, seq: int) -> None:
        """Index the words of an entry, and cut its chunks again if they are damaged."""
        (entry_id,) = self._new.execute("SELECT id FROM entries WHERE seq = ?", (seq,)).fetchone()
        cut = self._new.execute(
            "SELECT id, cue, start_at, end_at FROM chunks WHERE entry = ? ORDER BY id", (seq,)
        ).fetchall()
        if not cut and self._is_held(entry_id):
            return
        if not repair.is_complete(self._new, seq):
            self._cut_again += 1
            repair.replace_chunks(self._new, seq, now=self._now)
            return
        texts = texts_of_version(self._new, seq)
        pieces = [(chunk, Piece(*piece)) for chunk, *piece in cut]
        words = [texts.words(chunk, piece, index_terms(texts.text(piece))) for chunk, piece in pieces]
        self._new.executemany("UPDATE chunks SET terms = ? WHERE id = ?", [(row[3], row[0]) for row in words])
        word_index.insert(self._new, words)

    def _is_held(self, entry_id: str) -> bool:
        """Return whether an entry without chunks is in quarantine; if unknown, put it there."""
        if "quarantine" in self._incomplete and not quarantine.is_held(self._new, entry_id):
            quarantine.hold(self._new, entry_id, screened=True, revocation=None, now=self._now)
        return quarantine.is_held(self._new, entry_id)

    def _known_ids(self) -> set[str]:
        """Return the ids of entries with a live or any version, according to the damaged file's indexes."""
        return {
            entry_id
            for sql in (_KNOWN_LIVE, _KNOWN)
            for direction in ("ASC", "DESC")
            for entry_id in self._indexed_ids(sql.format(direction=direction))
        }

    def _indexed_ids(self, sql: str) -> Iterator[str]:
        try:
            for (entry_id,) in self._old.execute(sql):
                if isinstance(entry_id, str) and _ID.fullmatch(entry_id):
                    yield entry_id
        except Error as error:
            if not is_damage(error):
                raise


def _copy_vectors(old: Connection, new: Connection) -> None:
    """Create the tables of all spaces, and fill them with the sound vectors of chunks without a job."""
    for space in spaces.all_spaces(new):
        if space.dimension is None or space.state is SpaceState.RETIRED:
            continue
        index = SpaceIndex(space.id)
        index.create(new, space.dimension)
        chunks = [row[0] for row in new.execute(_WITHOUT_JOB, (space.id,))]
        for vectors in _sound(old, index, space.dimension, chunks):
            index.insert(new, vectors)


def _sound(
    old: Connection, index: SpaceIndex, dimension: int, chunks: Sequence[int]
) -> Iterator[list[VectorRow]]:
    """Yield sound vectors in steps; none from a table with a damaged page, which vec0 would trust."""
    try:
        if not _is_readable(old, index, dimension):
            return
        for at in range(0, len(chunks), _CHUNKS_PER_STEP):
            yield index.sound(old, chunks[at : at + _CHUNKS_PER_STEP])
    except Error as error:
        if not is_damage(error):
            raise


def _is_readable(old: Connection, index: SpaceIndex, dimension: int) -> bool:
    if not index.exists(old) or vec0_shadow.shape_faults(old, index.table, dimension):
        return False
    tables = ("vector_checksums", *vec0_shadow.part_tables(index.table))
    checks = (old.execute("SELECT * FROM pragma_integrity_check(?)", (table,)).fetchall() for table in tables)
    return all(check == [("ok",)] for check in checks)
