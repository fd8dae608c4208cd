"""Tokenizes texts like FTS5's `porter unicode61`, for an index outside of SQLite."""

from __future__ import annotations

import re
import threading
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from agentctx.storage.file.driver import open_in_memory

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

    def __init__(self, max_characters: int | None = None) -> None:
        """Longer tokens are cut to `max_characters`."""
        self._max_characters = max_characters
        self._lock = threading.Lock()
        self._stems: dict[str, str] = {}
        self._connection = open_in_memory()
        for statement in _SCHEMA:
            self._connection.execute(statement)

    def tokens(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the stemmed tokens of each text, in order, including repetitions."""
        words = {index: _WORD.findall(text.lower()) for index, text in enumerate(texts) if text.isascii()}
        try:
            found = _each_stemmed(words, self._stems)
        except KeyError:  # new words
            found = _each_stemmed(words, self._stems_of(words.values()))
        others = iter(self._read([text for index, text in enumerate(texts) if index not in words]))
        return [found[index] if index in found else next(others) for index in range(len(texts))]

    def drop_stems(self) -> None:
        """Forget the words of the texts so far."""
        self._stems = {}

    def _stems_of(self, texts: Iterable[Sequence[str]]) -> Mapping[str, str]:
        """Return the stems of at least the words of these texts."""
        known = self._stems
        new = list(set(chain.from_iterable(texts)).difference(known))
        if not new:
            return known
        found = dict(zip(new, (stem for (stem,) in self._read(new)), strict=True))
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
                    found[number].append(token[: self._max_characters])
            finally:
                self._connection.execute("ROLLBACK")
        return found


def _each_stemmed(words: Mapping[int, Sequence[str]], stems: Mapping[str, str]) -> dict[int, list[str]]:
    """Raise KeyError if a word is missing: checking first would cost as much."""
    return {index: list(map(stems.__getitem__, each)) for index, each in words.items()}
