from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentctx.storage.file.driver import Connection, Error, open_connection
from agentctx.storage.file.readable import DamagedTable, is_damage

PAGE = 4_096
ROWS = 400


def make_table(path: Path, sql: str = "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)") -> list[int]:
    """Create a table of many pages; return its leaf pages in row order."""
    with closing(open_connection(path)) as conn:
        conn.execute(sql)
        conn.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"row {n} " * 20) for n in range(1, ROWS + 1)])
    content = path.read_bytes()
    leaves = {}
    for number in range(2, len(content) // PAGE + 1):
        page = content[(number - 1) * PAGE : number * PAGE]
        if page[0] in {10, 13} and (at := page.find(b"row ")) > 0:
            leaves[int(page[at + 4 : at + 8].split()[0])] = number
    return [leaves[first] for first in sorted(leaves)]


def zero_pages(path: Path, *pages: int) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))


def read_rows(path: Path, **options: object) -> tuple[list[int], bool]:
    with closing(open_connection(path, readonly=True)) as conn:
        table, ids = DamagedTable(conn, "t", ("id", "x"), **options), []  # type: ignore[arg-type]

        def accept(row: tuple[Any, ...]) -> bool:
            if is_row(row):
                ids.append(row[0])
            return is_row(row)

        table.read(accept)
        return ids, table.is_whole


def is_row(row: tuple[Any, ...]) -> bool:
    """Return whether the row is one of those written."""
    return isinstance(row[1], str) and row[1].startswith(f"row {row[0]} ")


def test_an_intact_table_is_read_completely_and_in_order(tmp_path: Path) -> None:
    make_table(tmp_path / "a.db")
    assert read_rows(tmp_path / "a.db") == (list(range(1, ROWS + 1)), True)


def test_rows_around_damaged_pages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    leaves = make_table(path)
    zero_pages(path, leaves[3], leaves[7])
    ids, is_whole = read_rows(path)
    assert not is_whole
    assert len(ids) == len(set(ids))
    assert 0 < ROWS - len(ids) < ROWS // 4, "only the rows of two pages are missing"
    gaps = [n for n in range(1, ROWS) if n in ids and n + 1 not in ids]
    assert len(gaps) == 2


def test_a_damaged_last_page_hides_only_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    leaves = make_table(path)
    zero_pages(path, leaves[2], leaves[-1])
    ids, _ = read_rows(path)
    assert max(ids) > ROWS - ROWS // 8
    assert len(ids) > ROWS - ROWS // 4


def test_without_rowids_the_given_keys_are_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    leaves = make_table(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT) WITHOUT ROWID")
    zero_pages(path, leaves[3], leaves[7])
    without, _ = read_rows(path, key="id", keys=())
    with_keys, is_whole = read_rows(path, key="id", keys=range(ROWS))
    assert not is_whole
    assert len(without) < len(with_keys) == len(set(with_keys))


def test_swapped_and_damaged_pages_hide_no_readable_row(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    leaves = make_table(path)
    content = bytearray(path.read_bytes())
    one, other = (slice((leaf - 1) * PAGE, leaf * PAGE) for leaf in (leaves[2], leaves[8]))
    content[one], content[other] = content[other], content[one]
    path.write_bytes(content)
    zero_pages(path, leaves[5])
    ids, is_whole = read_rows(path)
    assert not is_whole
    assert len(ids) == len(set(ids)) > ROWS - ROWS // 8, "only the rows of one page are missing"


def test_foreign_rows_do_not_hide_rows_with_the_same_id(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(open_connection(path)) as conn:
        conn.execute("CREATE TABLE other (id INTEGER PRIMARY KEY, x INTEGER)")
        conn.executemany("INSERT INTO other VALUES (?, ?)", [(n, n) for n in range(1, 100)])
        (root,) = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'other'").fetchone()
    leaves = make_table(path)
    content = bytearray(path.read_bytes())
    content[(leaves[0] - 1) * PAGE : leaves[0] * PAGE] = content[(root - 1) * PAGE : root * PAGE]
    path.write_bytes(content)
    ids, is_whole = read_rows(path)
    assert not is_whole
    assert len(ids) > ROWS - ROWS // 8


@pytest.mark.parametrize(("name", "damage"), [("SQLITE_CORRUPT_VTAB", True), ("SQLITE_IOERR_READ", False)])
def test_a_disk_error_does_not_count_as_damage(name: str, damage: bool) -> None:
    error = Error("x")
    error.sqlite_errorname = name
    assert is_damage(error) is damage


def test_a_transient_error_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make_table(path)

    class FailingConnection:
        def execute(self, *_: object) -> object:
            error = Error("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_READ"
            raise error

    failing: Connection = FailingConnection()  # type: ignore[assignment]
    with pytest.raises(Error):
        DamagedTable(failing, "t", ("id",)).read(lambda _: True)
