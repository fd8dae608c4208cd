"""Words of deleted texts leave the index file; all other words stay searchable."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.storage.file.copy import CopyPace
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.file.wipe import wipe_gaps
from agentctx.storage.sqlite.search import residue, word_index
from agentctx.storage.sqlite.search.word_index import NEXT, TABLE, WordRow

SMALL_PAGES = 64
"""In bytes; about twenty texts fill hundreds of pages."""
LETTERS = "bdgkmpz"
"""Words made of these letters are their own stems."""


def common_prefix(words: Sequence[str]) -> str:
    """Return the common prefix of all words: the first and last in sort order differ the most."""
    first, last = min(words), max(words)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(letter for letter, _ in same)


class Index:
    """A word index in a file, with the texts it contains."""

    def __init__(self, path: Path, rng: random.Random, *, page_bytes: int = SMALL_PAGES) -> None:
        self.path = path
        self.rng = rng
        self.texts: dict[int, list[str]] = {}
        self.forgotten: set[str] = set()
        self._ids = itertools.count(1)
        self.conn = open_connection(path)
        self.conn.execute("PRAGMA synchronous=OFF")
        self.conn.execute("CREATE TABLE chunk_text (id INTEGER PRIMARY KEY, text, labels, terms, scope)")
        self._create(TABLE, page_bytes)

    def add_next(self) -> None:
        self._create(NEXT, SMALL_PAGES)

    def _create(self, table: str, page_bytes: int) -> None:
        word_index.create(self.conn, table)
        sql = f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)"  # noqa: S608 - a constant
        self.conn.executemany(sql, [("pgsz", page_bytes), ("usermerge", 2)])

    def save(self, count: int, words: Sequence[str] = ()) -> None:
        for chunk in itertools.islice(self._ids, count):
            self._save(chunk, list(words) or self._words())

    def _words(self) -> list[str]:
        """Return words with the same prefix, so that the key between two of them contains it."""
        prefix = "".join(self.rng.choices(LETTERS, k=8))
        endings = map("".join, itertools.product(LETTERS, repeat=2))
        return [prefix + ending for ending in self.rng.sample(list(endings), 20)]

    def _save(self, chunk: int, words: list[str]) -> None:
        self.texts[chunk] = words
        row = self._row(chunk)
        self.conn.execute("INSERT INTO chunk_text VALUES (?, ?, ?, ?, ?)", row)
        word_index.insert(self.conn, [row])

    def forget(self, chunks: Sequence[int]) -> None:
        word_index.remove(self.conn, [self._row(chunk) for chunk in chunks])
        for chunk in chunks:
            self.conn.execute("DELETE FROM chunk_text WHERE id = ?", (chunk,))
            words = self.texts.pop(chunk)
            self.forgotten.update([*words, common_prefix(words)])

    def _row(self, chunk: int) -> WordRow:
        return chunk, " ".join(self.texts[chunk]), "", "", ""

    def merge(self, pages: int, table: str = TABLE) -> None:
        """Do one step of a merge, which may be left unfinished."""
        self.conn.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))  # noqa: S608 - a constant

    def remove_residue(self) -> None:
        self.conn.execute("BEGIN")
        residue.remove_all(self.conn, CopyPace())
        self.conn.execute("COMMIT")

    def assert_sound(self) -> None:
        self.conn.execute("BEGIN")
        word_index.compare_with_entries(self.conn)
        assert word_index.unreachable_terms(self.conn) == 0
        self.conn.execute("ROLLBACK")
        for chunk, words in self.texts.items():
            for word in words:
                sql = f"SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH ?"  # noqa: S608 - a constant
                assert (chunk,) in self.conn.execute(sql, (word,)).fetchall(), word

    def residue_in_file(self) -> list[str]:
        """Close the index; return the words of forgotten texts, or their prefixes, that are in the file."""
        self.conn.close()
        wipe_gaps(self.path)
        content = self.path.read_bytes()
        assert not self.path.with_name(f"{self.path.name}-wal").exists()
        kept = " ".join(word for words in self.texts.values() for word in words)
        return sorted(word for word in self.forgotten if word not in kept and word.encode() in content)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "a.db", random.Random(1))
    with closing(index.conn):
        yield index


@pytest.mark.parametrize("seed", range(8))
def test_random_texts_leave_no_residue(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    index = Index(tmp_path / "a.db", rng, page_bytes=rng.choice([32, SMALL_PAGES, 200]))
    with closing(index.conn):
        for _ in range(6):
            index.conn.execute("BEGIN")
            index.save(rng.randrange(1, 12))
            if rng.random() < 0.5:
                index.conn.execute("COMMIT")
                index.merge(rng.randrange(1, 20))
                index.conn.execute("BEGIN")
            index.forget(rng.sample(sorted(index.texts), rng.randrange(len(index.texts))))
            index.conn.execute("COMMIT")
            index.remove_residue()
            index.assert_sound()
        assert index.residue_in_file() == []


def stale_keys(conn: Connection, table: str = TABLE) -> int:
    return len(residue.find_stale_keys(conn, table, residue.FIRST, limit=10_000).stale)


def forget_words_that_start_pages(index: Index) -> None:
    for text in range(3):
        index.save(1, [f"zanzibar{number:03}" for number in range(text, 200, 3)])
    for table in word_index.TABLES if word_index.is_rebuilt(index.conn) else [TABLE]:
        index.merge(1_000, table)
    index.forget(sorted(index.texts)[:2])


def test_the_key_of_a_forgotten_word_that_started_a_page_is_removed(index: Index) -> None:
    forget_words_that_start_pages(index)
    assert stale_keys(index.conn), "no page starts with a forgotten word, so this test is void"
    index.remove_residue()
    assert not stale_keys(index.conn)
    index.assert_sound()
    assert index.residue_in_file() == []


def test_pages_drained_by_an_unfinished_merge_are_removed(index: Index) -> None:
    index.save(1, [f"bbb{number}" for number in range(20)])
    index.save(1, [f"zzz{number}" for number in range(60)])
    index.merge(9)
    assert residue.has_drained_pages(index.conn, TABLE), "the merge has finished, so this test is void"
    index.forget([min(index.texts)])
    index.remove_residue()
    assert not residue.has_drained_pages(index.conn, TABLE)
    index.assert_sound()
    index.merge(1_000)
    index.assert_sound()
    assert index.residue_in_file() == []


def test_an_index_under_construction_leaves_no_residue(index: Index) -> None:
    index.add_next()
    forget_words_that_start_pages(index)
    assert stale_keys(index.conn, NEXT)
    index.remove_residue()
    assert not stale_keys(index.conn, NEXT)
    assert index.residue_in_file() == []


def test_an_interrupted_step_changes_nothing(index: Index) -> None:
    forget_words_that_start_pages(index)
    before = stale_keys(index.conn)
    index.conn.execute("BEGIN")
    residue.remove_all(index.conn, CopyPace())
    index.conn.execute("ROLLBACK")
    assert stale_keys(index.conn) == before
    index.assert_sound()


def test_each_step_is_bounded(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residue, "STALE_PER_STEP", 3)
    forget_words_that_start_pages(index)
    after: residue.PageKey | None = residue.FIRST
    while after is not None:
        step = residue.find_stale_keys(index.conn, TABLE, after, limit=20)
        assert len(step.stale) <= 3
        residue.replace_keys(index.conn, TABLE, step.stale)
        index.assert_sound()
        after = step.following
    assert not stale_keys(index.conn)


def test_an_index_with_a_missing_table_is_left_alone(index: Index) -> None:
    index.save(1)
    keys = [residue.PageKey(1, b"0b")]
    index.conn.execute(f"DROP TABLE {TABLE}_idx")
    assert residue.find_stale_keys(index.conn, TABLE, residue.FIRST) == ((), None)
    assert not residue.has_drained_pages(index.conn, TABLE)
    residue.replace_keys(index.conn, TABLE, keys)
    index.remove_residue()
