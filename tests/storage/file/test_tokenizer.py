"""Tokens computed outside of SQLite equal those of FTS5."""

from __future__ import annotations

import string
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentctx.storage.file import tokenizer
from agentctx.storage.file.driver import open_in_memory
from agentctx.storage.file.tokenizer import Tokenizer

SHARED = Tokenizer()
STEMMED = "".join(letter + suffix for letter in "abstY9" for suffix in ("ing", "ies", "ed ", "_ "))


def fts5_tokens(texts: Sequence[str]) -> list[list[str]]:
    database = open_in_memory()
    database.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter unicode61')")
    database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
    found: list[list[str]] = [[] for _ in texts]
    database.executemany("INSERT INTO t (rowid, text) VALUES (?, ?)", enumerate(texts))
    for number, token in database.execute("SELECT doc, term FROM v ORDER BY doc, offset"):
        found[number].append(token)
    database.close()
    return found


@given(st.lists(st.text(string.printable + "\0\x7f") | st.text(STEMMED) | st.text(), max_size=4))
@example(["running runs RUN", "ran naïve", "runs", ""])
@example(["x" * 70 + "ing", "a" * 5_000, "well-known config.yaml 10.0.0.1"])
def test_tokens_equal_those_of_fts5(texts: list[str]) -> None:
    assert SHARED.tokens(texts) == SHARED.tokens(texts) == fts5_tokens(texts)


def test_a_full_stem_cache_changes_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "MAX_STEMS", 2)
    few = Tokenizer()
    texts = ["saves saved", "cranes saved ships", "ships saves boats walking"]
    assert [few.tokens([text])[0] for text in texts] == fts5_tokens(texts)
