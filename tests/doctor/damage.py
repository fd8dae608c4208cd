"""Ways to damage a database, each through its own connection while others may have it open."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection, Error, hardening, open_connection
from agentctx.storage.sqlite import checksums

BOOKKEEPING = (
    *("schema_migrations", "installation", "spaces", "jobs", "idempotency", "injections"),
    *(
        "scrub",
        "derivations",
        "flags",
        "revocations",
        "revoked",
        "quarantine",
        "audit",
        "forgotten",
        "vector_checksums",
        "supersessions",
    ),
    "sqlite_sequence",
)
"""Every table that is neither the memory itself nor an index of it."""
SPOILT = {
    "bytes": "x'ff00fe80'",
    "not UTF-8": "CAST(x'c3ff80ee' AS TEXT)",
    "null": "NULL",
    "text": "'nonsense'",
    "empty": "''",
    "list": "'[1,{}]'",
    "number": "-7",
    "huge number": "9223372036854775807",
    "fraction": "1.5e300",
    "long": "CAST(zeroblob(300000) AS TEXT)",
}
"""Damaged forms of a value, as SQL."""


def columns_of(database: Path, table: str) -> list[str]:
    with closing(open_connection(database, readonly=True)) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def spoil(database: Path, table: str, column: str, value: str, where: str = "TRUE") -> bool:
    """Put a value that the table would refuse into a column, as in a damaged page.

    Returns False where SQLite could not even read such a row, as with a row id of text.
    """
    with closing(open_connection(database, readonly=True)) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    loose = re.sub(r"(?<!IS) NOT NULL", "", re.sub(r"\)\s*STRICT\s*,?", ")", sql))
    _set_schema(database, table, loose)
    try:
        with closing(open_connection(database)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = 1")
            connection.execute("PRAGMA foreign_keys = 0")
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = {value} WHERE {where}")  # noqa: S608
    except Error:
        return False
    finally:
        _set_schema(database, table, sql)
    return True


def _set_schema(database: Path, table: str, sql: str) -> None:
    with closing(open_connection(database)) as connection, hardening.without_defensive(connection):
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))


def damaged(database: Path, how: Callable[[Connection], object]) -> None:
    """Do it in one transaction."""
    with closing(open_connection(database)) as connection:
        connection.execute("PRAGMA foreign_keys = 0")
        connection.execute("BEGIN IMMEDIATE")
        how(connection)
        connection.execute("COMMIT")


def lose_a_vector(connection: Connection) -> None:
    """A chunk has neither vector nor job."""
    connection.execute("DELETE FROM vec_1 WHERE id = (SELECT MIN(id) FROM chunks)")


def leave_an_orphan(connection: Connection) -> None:
    """Leave the vector, words and chunk of an entry that is gone."""
    (seq,) = connection.execute("SELECT MIN(seq) FROM entries").fetchone()
    connection.execute("UPDATE entries SET live = 0 WHERE seq = ?", (seq,))
    checksums.seal(connection, seq)


def lose_words(connection: Connection) -> None:
    """The index of words forgets everything but its settings."""
    connection.execute("INSERT INTO chunk_fts (chunk_fts) VALUES ('delete-all')")


def scramble_vectors(connection: Connection) -> None:
    """The stored bytes are no longer vectors."""
    (size,) = connection.execute("SELECT length(vectors) FROM vec_1_vector_chunks00").fetchone()
    connection.execute("UPDATE vec_1_vector_chunks00 SET vectors = ?", (b"\xff" * size,))


def bury_everything(connection: Connection) -> None:
    """Every chunk owes its vector in a job that was given up."""
    connection.execute("DELETE FROM vec_1")
    connection.execute("DELETE FROM jobs")
    connection.execute(
        """INSERT INTO jobs
             (chunk, space, hash, state, attempts, not_before, leased_until, last_error, created)
           SELECT id, 1, hash, 'buried', 3, 0, 0, 'the provider refused it', 1 FROM chunks"""
    )


def replace_the_canary(connection: Connection) -> None:
    """As if the model had given another vector when the space was made."""
    (size,) = connection.execute("SELECT length(canary) / 4 FROM spaces WHERE id = 1").fetchone()
    one = bytes.fromhex("0000803f")
    connection.execute("UPDATE spaces SET canary = ? WHERE id = 1", (one + bytes(4 * (size - 1)),))


def change_the_fingerprint(connection: Connection) -> None:
    """Make the answering space claim to be another model's."""
    connection.execute("""UPDATE spaces SET fingerprint = '{"model":"another"}' WHERE id = 1""")


def leave_vectors_of_a_retired_model(connection: Connection) -> None:
    """A model went, its vectors stayed."""
    connection.execute(
        """INSERT INTO spaces (id, fingerprint, generation, state, enabled, created)
           VALUES (77, '{}', 1, 'retired', 0, 0)"""
    )
    vec0.create_space_table(connection, "vec_77", 4)
    one = bytes.fromhex("0000803f")
    vec0.insert_vectors(connection, "vec_77", [(1, "default", "knowledge", "", one + bytes(12))])


def hide_vectors(connection: Connection) -> None:
    """A search passes over the slots, a look-up by id still finds them."""
    connection.execute("UPDATE vec_1_chunks SET validity = zeroblob(length(validity))")


def write_a_newer_schema(connection: Connection) -> None:
    connection.execute("INSERT INTO schema_migrations VALUES (9999, 'future', 'x', 0)")


def write_an_older_schema(connection: Connection) -> None:
    connection.execute("DELETE FROM schema_migrations")
