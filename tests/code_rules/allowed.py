"""Allowed exceptions to the rules, with reasons. An exception that is no longer needed is an error."""

from __future__ import annotations

from typing import Final

_SQL: Final = "SQL that is built"
_DRIVER: Final = "SQLite driver imported"
_OPENED: Final = "file opened near the database"
_FORMAT: Final = "self-executing format"
_PHRASE: Final = "unusual phrase"
_SENTENCE: Final = "error message that is not a sentence"
_PARTICIPLE: Final = "class named by a bare participle"
_DB: Final = "agentctx/storage/sqlite/"
_PG: Final = "packages/agentctx-postgresql/agentctx_postgresql/"
_SPACE: Final = "the template takes the number of the space as one"
_CONDITION: Final = "of `filters.entry_condition`, whose values are parameters"

ALLOWED: Final[dict[tuple[str, str, str], str]] = {
    (
        _FORMAT,
        "packages/agentctx-importers/agentctx_importers/restricted_pickle.py",
        "pickle",
    ): "a reader that refuses every class but one, which it replaces",
    (
        _DRIVER,
        "packages/agentctx-importers/agentctx_importers/foreign_sqlite.py",
        "sqlite3",
    ): "other programs' files, which nothing but the importer's process opens",
    (_PARTICIPLE, "agentctx/errors.py", "Expired"): "an exception that callers of the client catch",
    (
        _SQL,
        f"{_PG}upkeep/upkeep_storage.py",
        "f'REINDEX SCHEMA CONCURRENTLY {schema}'",
    ): "quoted by the server",
    (
        _SQL,
        f"{_PG}upkeep/tidying.py",
        "f'VACUUM (INDEX_CLEANUP ON, ANALYZE) {table}'",
    ): "constants and numbers",
    (
        _SQL,
        f"{_PG}upkeep/tidying.py",
        "f'VACUUM (FULL, ANALYZE) {table}'",
    ): "constants and numbers",
    (
        _SQL,
        f"{_PG}upkeep/tidying.py",
        "f'REINDEX INDEX CONCURRENTLY {index}'",
    ): "constants",
    (
        _SQL,
        f"{_PG}vectors/nearest_index.py",
        "f'DROP INDEX CONCURRENTLY {left}'",
    ): "a name of the catalog, made by `name_of`",
    (
        _SQL,
        f"{_PG}vectors/nearest_index.py",
        "_CREATE.format(name=name, space=space, namespace=quoted(namespace))",
    ): "numbers, a hash and a literal: a partial index takes no parameter",
    (
        _SQL,
        f"{_PG}vectors/spaces.py",
        "_CREATE.format(space=space_id, dimension=dimension)",
    ): "numbers",
    (
        _SQL,
        f"{_PG}vectors/spaces.py",
        "f'DROP TABLE IF EXISTS vec_{space_id:d}'",
    ): "a number",
    (_SQL, f"{_PG}driver.py", "'; '.join(settings)"): "constants of the callers",
    (_SQL, f"{_PG}entries/copying.py", "_VECTORS.format(space=space)"): _SPACE,
    (_SQL, f"{_PG}entries/copying.py", "_ADD_VECTORS.format(space=space)"): _SPACE,
    (
        _SQL,
        f"{_PG}entries/lookup.py",
        "f'{select} WHERE {condition} AND e.id < {below} ORDER BY e.id DESC LIMIT {count}'",
    ): _CONDITION,
    (_SQL, f"{_PG}queue/jobs.py", "_COMPLETE.format(space=space)"): _SPACE,
    (_SQL, f"{_PG}search/hits.py", "_IS_MORE.format(condition=condition, few=few)"): _CONDITION,
    (
        _SQL,
        f"{_PG}search/search.py",
        "f'{SELECT_CHUNKS.format(distance=distance)} WHERE {condition}'",
    ): _CONDITION,
    (_SQL, f"{_PG}search/vector_search.py", "_DISTANCES.format(table=table_of(space))"): _SPACE,
    (_SQL, f"{_PG}upkeep/proofs.py", "_WITHOUT_JOB.format(no_vector=no_vector)"): "a constant with a number",
    (_SQL, f"{_PG}upkeep/upkeep_storage.py", "_NO_VECTORS.format(space=space)"): _SPACE,
    (_SQL, f"{_PG}upkeep/upkeep_storage.py", "_MISPLACED.format(space=space)"): _SPACE,
    (
        _SQL,
        f"{_PG}vectors/nearest_index.py",
        "_LARGE.format(space=space, dimensions=MAX_DIMENSIONS, large=LARGE_NAMESPACE)",
    ): _SPACE,
    (_OPENED, "agentctx/storage/opening.py", "daemon_id"): "a file of its own beside the database",
    (_OPENED, f"{_PG}driver.py", "password_of"): "the file of the password",
    (_OPENED, "agentctx/daemon/host/memory_limits.py", "_lines"): "files of the kernel",
    (_OPENED, f"{_PG}engine.py", "PostgresqlStorage.open"): "connections to a server",
    (_OPENED, f"{_PG}engine.py", "update_schema"): "connections to a server",
    (_OPENED, f"{_PG}migrate.py", "load_schema"): "the migrations of the program",
    (_DRIVER, "agentctx/storage/file/connection_thread.py", "aiosqlite"): "carries functions to a thread",
    (_DRIVER, "agentctx/storage/file/driver.py", "sqlite_vec"): "the one module that may",
    (_DRIVER, "agentctx/storage/file/driver.py", "sqlite3"): "for its types",
    (_SQL, "agentctx/storage/file/driver.py", "f'PRAGMA {pragma}'"): "of the constants of the module",
    (_SQL, "agentctx/storage/file/checkpoint.py", "f'PRAGMA busy_timeout={patience_ms}'"): "a number of ours",
    (_SQL, "agentctx/storage/file/checkpoint.py", "f'PRAGMA wal_checkpoint({mode})'"): "one of four words",
    (
        _SQL,
        f"{_DB}entries/lookup.py",
        "f'{SELECT_ENTRY} WHERE e.id = ? AND (e.expires IS NULL OR e.expires > ?) AND {which}'",
    ): "one of two constants",
    (
        _SQL,
        f"{_DB}entries/lookup.py",
        "f'{select} WHERE {condition.sql} AND e.id < ? ORDER BY e.id DESC LIMIT ?'",
    ): "conditions of filters.py, whose values are parameters",
    (_SQL, f"{_DB}search/search.py", "f'{SELECT_CHUNKS} WHERE {condition.sql}'"): "as above",
    (_SQL, f"{_DB}search/traits.py", "f'{_OF_CHUNKS} WHERE {condition.sql}'"): "as above",
    (_SQL, f"{_DB}search/vector_search.py", "_CHUNK_IDS + condition.sql"): "as above",
    (_SQL, f"{_DB}search/vector_search.py", "_SUPERSEDED + condition"): "as above",
    (_SQL, f"{_DB}search/keyword_search.py", "_PRESENT + condition.sql"): "as above",
    (
        _SQL,
        f"{_DB}entries/lookup.py",
        "f'{SELECT_ENTRY} WHERE e.seq > ? AND {condition} ORDER BY e.seq LIMIT ?'",
    ): "names of columns; values are parameters",
    (
        _SQL,
        f"{_DB}audit/chain.py",
        "f'{_SELECT}{where} ORDER BY seq DESC LIMIT ?'",
    ): "conditions that are constants",
    (
        _SQL,
        f"{_DB}search/word_index.py",
        "f'DROP TABLE IF EXISTS {shadow}'",
    ): "of the constants of the module",
    (_SQL, f"{_DB}search/word_index.py", "_INSERT.format(table=table)"): "as above",
    (_SQL, f"{_DB}search/word_index.py", "_REMOVE.format(table=table)"): "as above",
    (_SQL, f"{_DB}search/word_index.py", "_AMONG.format(table=table)"): "as above",
    (_SQL, f"{_DB}search/word_index.py", "_DROP.format(table=table)"): "as above",
    (_OPENED, "agentctx/service/rag/__main__.py", "_main"): "a file of the package",
    (_OPENED, "agentctx/service/rag/calibration.py", "_lines"): "a file of the package",
    (_OPENED, "agentctx/service/rag/calibrator.py", "_write"): "its own file in the data folder",
    (_OPENED, "agentctx/service/rag/calibrator.py", "kept_rows"): "a file of the package",
    (_OPENED, "agentctx/service/rag/calibrator.py", "_read"): "its own file in the data folder",
    (_OPENED, "agentctx/service/rag/prompt.py", "_small_talk"): "a file of the package",
    (_OPENED, "agentctx/service/rag/word_lists.py", "lists"): "a file of the package",
    (_OPENED, "agentctx/storage/stop_words.py", "_lists"): "a file of the package",
    (
        _OPENED,
        "agentctx/storage/file/driver.py",
        "create_private",
    ): "makes the database; never one that exists",
    (
        _OPENED,
        "agentctx/storage/file/open_files.py",
        "_anchor",
    ): "the database, with O_PATH: that drops no lock",
    (_OPENED, "agentctx/storage/file/copy.py", "_sync"): "a copy that nobody uses yet, or its folder",
    (_OPENED, "agentctx/storage/file/copy.py", "_open_private"): "a copy that is not there yet",
    (_OPENED, "agentctx/storage/file/copy.py", "copy_file"): "a backup that is restored, and the copy of it",
    (_OPENED, "agentctx/storage/file/copy.py", "file_digest"): "a backup, or a copy that nobody uses yet",
    (_OPENED, "agentctx/storage/file/migrate.py", "_read"): "scripts of migrations",
    (
        _OPENED,
        f"{_DB}backup/backup_file.py",
        "is_one_file",
    ): "never the daemon's own database",
    (_OPENED, "agentctx/daemon/host/lock.py", "_open"): "lock files",
    (_OPENED, "agentctx/daemon/file_watcher.py", "note_served"): "the note that there was a database",
    (_OPENED, "agentctx/daemon/start_record.py", "_write_private"): "the record of the last start",
    (_OPENED, "agentctx/daemon/host/unit_files.py", "UnitFile.state"): "units of systemd",
    (_OPENED, "agentctx/daemon/host/unit_files.py", "_shipped"): "units of systemd",
    (_OPENED, "agentctx/service/process_memory.py", "resident_bytes"): "/proc",
    (_OPENED, "agentctx/service/reviews.py", "_asks"): "/proc",
    (_OPENED, "agentctx/doctor/config_file.py", "check_secrets"): "the config file",
    (_OPENED, "agentctx/doctor/disk.py", "check_filesystem"): "/proc",
    (_OPENED, "agentctx/doctor/daemon.py", "read_record"): "the record of the last start",
    (_PHRASE, "agentctx/cli/demo_memories.py", "whoever"): "what the agents of the demo write",
    (
        _SENTENCE,
        "agentctx/daemon/host/systemd.py",
        "systemd passed {} sockets; exactly one is needed.",
    ): "the name of the program is written so",
    (
        _SENTENCE,
        "agentctx/daemon/host/systemd.py",
        "systemd passed a socket that is not a listening Unix stream socket.",
    ): "as above",
}
"""The reasons, by rule, file and subject (an expression, a function or a module)."""
