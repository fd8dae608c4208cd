"""Checks the integrity of the database: SQLite's own checks, the word index, the tables of vectors.

Every function runs in a read transaction and changes nothing. Their findings never contain text of entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from agentctx.storage.file.driver import Connection, Error
from agentctx.storage.file.migrate import find_foreign, intended_schema, load_migrations
from agentctx.storage.file.schema import lasting_schema, schema_objects, schema_problems
from agentctx.storage.records import SpaceFault, SpaceState
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex

MAX_PROBLEMS: Final = 20
_DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_NOTADB")
"""SQLite's errors for damaged data. Any other error is not a finding."""
_WORD_INDEX_ERRORS: Final = ("fts5:", "malformed inverted index", "unable to validate the inverted index")
"""Beginnings of lines about FTS5, which `check_words` examines more closely."""
_INDEX_PROBLEM: Final = re.compile(
    r"row \d+ (missing from index|values differ from index)|wrong # of entries in index"
)


def check_database(conn: Connection) -> list[str]:
    """Return problems found by `integrity_check`, `foreign_key_check` and the schema, at most `MAX_PROBLEMS`.

    Chunks and jobs without an owner are orphans, which the census counts and a repair removes.
    """
    looks = (_page_problems(conn), _reference_problems(conn), _schema_problems(conn))
    found = [problem for look in looks for problem in _all_of(look, "the database cannot be read")]
    return found[:MAX_PROBLEMS]


def is_index_problem(problem: str) -> bool:
    """Return whether the problem is an index that disagrees with its table, with sound pages of both."""
    return _INDEX_PROBLEM.match(problem) is not None


def check_words(conn: Connection) -> str | None:
    """Return the problem of the word index, compared with every word of the entries; None if it is sound."""
    if missing := word_index.missing_tables(conn):
        return f"the index of words is damaged: {', '.join(missing)} missing"
    found = _all_of(_word_problems(conn), "the index of words is damaged or disagrees with the entries")
    return found[0] if found else None


def check_vectors(conn: Connection) -> list[SpaceFault]:
    """Return one fault for each prepared space whose vectors are not sound."""
    problems = {
        space.id: _vector_problems(conn, SpaceIndex(space.id), space.dimension)
        for space in spaces.all_spaces(conn)
        if space.dimension is not None and space.state is not SpaceState.RETIRED
    }
    return [SpaceFault(space, "; ".join(found)) for space, found in problems.items() if found]


def _page_problems(conn: Connection) -> Iterator[str]:
    try:
        for (line,) in conn.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
            if line != "ok" and not line.lower().startswith(_WORD_INDEX_ERRORS):
                yield line
    except Error as error:
        # The check covers virtual tables last, and fails at one that cannot be opened.
        if _name(error) != "SQLITE_ERROR":
            raise


def _reference_problems(conn: Connection) -> Iterator[str]:
    rows = conn.execute(
        """SELECT "table", parent, COUNT(*) FROM pragma_foreign_key_check
           WHERE "table" NOT IN ('chunks', 'jobs') GROUP BY "table", parent LIMIT ?""",
        (MAX_PROBLEMS,),
    )
    yield from (f"{table}: rows that refer to missing {parent}: {count}" for table, parent, count in rows)


def _schema_problems(conn: Connection) -> Iterator[str]:
    """SQLite trusts the text of its schema: a changed constraint would refuse valid rows."""
    stored = lasting_schema(schema_objects(conn))
    yield from schema_problems(stored, intended_schema(load_migrations()))
    yield from (f"{each} is not agentctx's" for each in find_foreign(conn) if not each.is_changed)


def _word_problems(conn: Connection) -> Iterator[str]:
    if lost := word_index.lost_settings(conn):
        yield f"the index of words has lost its settings: {', '.join(lost)}"
    word_index.compare_with_entries(conn)
    if count := word_index.unreachable_terms(conn):
        yield f"the index of words is damaged: words that cannot be found: {count}"


def _vector_problems(conn: Connection, index: SpaceIndex, dimension: int) -> list[str]:
    def found_through_vec0() -> Iterator[str]:
        if count := index.strays(conn):
            yield f"vectors in a wrong namespace, collection or session: {count}"

    return index.faults(conn, dimension) or _all_of(found_through_vec0(), "the vectors cannot be read")


def _all_of(problems: Iterator[str], damaged: str) -> list[str]:
    """Return the problems, and `damaged` at their end if SQLite could not continue."""
    found = []
    try:
        for problem in problems:
            found.append(problem)  # noqa: PERF402 - what was found before an error counts
    except Error as error:
        if not _name(error).startswith(_DAMAGE):
            raise
        found.append(f"{damaged} ({_name(error)})")
    return found


def _name(error: Error) -> str:
    return str(getattr(error, "sqlite_errorname", ""))
