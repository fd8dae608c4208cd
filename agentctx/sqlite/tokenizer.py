"""Tokenizes texts like FTS5's `porter unicode61`, for an index outside of SQLite."""

from __future__ import annotations

import re
import threading
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agentctx.sqlite.driver import open_in_memory

MAX_STEMS: Final = 50_000
"""Maximum number of words whose stems are kept: about 8 MB."""
LONGEST_WORD: Final = 40
"""Maximum characters of a word that is kept: longer ones are hashes, which do not recur."""
_SCHEMA = (
    "CREATE VIRTUAL TABLE texts USING fts5(text, content = '', tokenize = 'porter unicode61')",
    "CREATE VIRTUAL TABLE tokens USING fts5vocab(texts, instance)",
)
_TOKENS = "SELECT doc, term FROM tokens ORDER BY doc, offset"
_WORD: Final = re.compile("[a-z0-9]+")


class Tokenizer:
    """FTS5 over an empty database in memory, with a cache of the stems of ASCII words. Thread-safe.

    FTS5 stems each word independently of the others, so only texts that are not ASCII are passed to it whole,
    which takes about 0.1 ms each.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stems: dict[str, str] = {}
        self._connection = open_in_memory()
        for statement in _SCHEMA:
            self._connection.execute(statement)

    def tokens(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the stemmed tokens of each text, in order, including repetitions."""
        words = {place: _WORD.findall(text.lower()) for place, text in enumerate(texts) if text.isascii()}
        stems = self._stems_of(words.values())
        others = iter(self._read([text for place, text in enumerate(texts) if place not in words]))
        return [
            list(map(stems.__getitem__, words[place])) if place in words else next(others)
            for place in range(len(texts))
        ]

    def drop_stems(self) -> None:
        """Forget the words of the texts so far."""
        self._stems = {}

    def _stems_of(self, texts: Iterable[Sequence[str]]) -> Mapping[str, str]:
        """Return the stems of at least the words of these texts."""
        known = self._stems
        new = {word: "" for words in texts for word in words if word not in known}
        if not new:
            return known
        found = dict(zip(new, (stem for (stem,) in self._read(list(new))), strict=True))
        kept = {word: stem for word, stem in found.items() if len(word) <= LONGEST_WORD}
        if len(known) + len(kept) > MAX_STEMS:
            self._stems = kept
        else:
            known.update(kept)
            if len(kept) == len(found):
                return known
        return ChainMap(found, known)

    def _read(self, texts: Sequence[str]) -> list[list[str]]:
        found: list[list[str]] = [[] for _ in texts]
        if not texts:
            return found
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
