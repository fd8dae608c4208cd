"""Words of removed texts leave the index when it is compacted; all other words stay searchable."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.storage.file.copy import CopyPace, copy_without_gaps
from agentctx.storage.file.driver import open_connection
from agentctx.storage.sqlite.search import word_index
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
        word_index.create(self.conn, TABLE)
        self._set("pgsz", page_bytes)
        self._set("usermerge", 2)

    def _set(self, setting: str, value: int) -> None:
        sql = f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES (?, ?)"  # noqa: S608 - a constant
        self.conn.execute(sql, (setting, value))

    def save(self, count: int) -> None:
        for chunk in itertools.islice(self._ids, count):
            self.texts[chunk] = self._words()
            row = self._row(chunk)
            self.conn.execute("INSERT INTO chunk_text VALUES (?, ?, ?, ?, ?)", row)
            word_index.insert(self.conn, [row])

    def _words(self) -> list[str]:
        """Return words with the same prefix, so that the key between two of them contains it."""
        prefix = "".join(self.rng.choices(LETTERS, k=8))
        endings = map("".join, itertools.product(LETTERS, repeat=2))
        return [prefix + ending for ending in self.rng.sample(list(endings), 20)]

    def forget(self, chunks: Sequence[int]) -> None:
        word_index.remove(self.conn, [self._row(chunk) for chunk in chunks])
        for chunk in chunks:
            self.conn.execute("DELETE FROM chunk_text WHERE id = ?", (chunk,))
            words = self.texts.pop(chunk)
            self.forgotten.update([*words, common_prefix(words)])

    def _row(self, chunk: int) -> WordRow:
        return chunk, " ".join(self.texts[chunk]), "", "", ""

    def merge(self, pages: int) -> None:
        """Do one step of a merge, which may be left unfinished."""
        self._set("merge", pages)

    def compact(self) -> None:
        self.conn.execute("BEGIN")
        word_index.compact(self.conn)
        self.conn.execute("COMMIT")

    def assert_sound(self) -> None:
        self.conn.execute("BEGIN")
        word_index.compare_with_entries(self.conn)
        assert word_index.unreachable_terms(self.conn) == 0
        assert word_index.indexed(self.conn, 0, 10_000) == set(self.texts)
        self.conn.execute("ROLLBACK")
        for chunk, words in self.texts.items():
            for word in words:
                sql = f"SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH ?"  # noqa: S608 - a constant
                assert (chunk,) in self.conn.execute(sql, (word,)).fetchall(), word

    def remains(self) -> list[str]:
        """Return the words of forgotten texts, or their prefixes, that are in a copy without gaps."""
        copy = self.path.with_name("copy.db")
        copy_without_gaps(self.conn, copy, CopyPace())
        content = copy.read_bytes()
        copy.unlink()
        kept = " ".join(word for words in self.texts.values() for word in words)
        return sorted(word for word in self.forgotten if word not in kept and word.encode() in content)


@pytest.mark.parametrize("seed", range(6))
def test_random_texts_leave_nothing_in_a_compact_index(tmp_path: Path, seed: int) -> None:
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
            index.compact()
            index.assert_sound()
            assert index.remains() == []
        index.forget(list(index.texts))
        index.compact()
        index.assert_sound()
        assert index.remains() == []


def test_an_index_that_is_being_rebuilt_or_damaged_is_left_alone(tmp_path: Path) -> None:
    index = Index(tmp_path / "a.db", random.Random(1))
    with closing(index.conn):
        index.save(3)
        before = index.conn.execute(f"SELECT * FROM {TABLE}_idx").fetchall()  # noqa: S608 - a constant
        word_index.create(index.conn, NEXT)
        index.compact()
        assert index.conn.execute(f"SELECT * FROM {TABLE}_idx").fetchall() == before  # noqa: S608 - a constant
        word_index.drop(index.conn, NEXT)
        index.conn.execute(f"DROP TABLE {TABLE}_docsize")
        index.compact()
        assert index.conn.execute(f"SELECT * FROM {TABLE}_idx").fetchall() == before  # noqa: S608 - a constant
