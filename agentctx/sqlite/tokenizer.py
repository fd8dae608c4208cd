"""Tokenizes texts like FTS5's `porter unicode61`, for an index outside of SQLite."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agentctx.sqlite.driver import open_in_memory

_SCHEMA = (
    "CREATE VIRTUAL TABLE texts USING fts5(text, content = '', tokenize = 'porter unicode61')",
    "CREATE VIRTUAL TABLE tokens USING fts5vocab(texts, instance)",
)
_TOKENS = "SELECT doc, term FROM tokens ORDER BY doc, offset"


class Tokenizer:
    """FTS5 over an empty database in memory: about 0.1 ms per text. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection = open_in_memory()
        for statement in _SCHEMA:
            self._connection.execute(statement)

    def tokens(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the stemmed tokens of each text, in order, including repetitions."""
        found: list[list[str]] = [[] for _ in texts]
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                self._connection.executemany(
                    "INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts)
                )
                for number, token in self._connection.execute(_TOKENS):
                    found[number].append(token)
            finally:
                self._connection.execute("ROLLBACK")
        return found
