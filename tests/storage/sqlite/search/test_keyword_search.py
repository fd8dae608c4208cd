"""Keyword search: its scores are those of FTS5, and it may skip chunks when too many contain the words."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from agentctx.storage.file.driver import Connection
from agentctx.storage.search import Filter, WordHit
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import keyword_search
from agentctx.storage.words import match_expression, question_terms, scope_token
from agentctx_testing.drafts import ManualClock, keyless, save

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = tuple("red green blue black white amber ochre umber sienna teal mauve khaki".split())  # noqa: SIM905
TEXTS = 240
MINE = Filter(namespace="default")
QUESTIONS = (
    "red",
    "Is ochre nearer to sienna than to red?",
    "red green blue black white amber ochre umber sienna teal mauve khaki",
    "khaki config.yaml",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def storage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SqliteStorage]:
    """Texts of 3 to 40 words, red the most common, khaki the rarest; every fourth in another namespace."""
    path = tmp_path_factory.mktemp("words") / "agentctx.db"
    opened = await SqliteStorage.open(path, clock=ManualClock(), words_mb=0)
    drawn = random.Random(3)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    for number in range(TEXTS):
        text = " ".join(drawn.choices(WORDS, weights, k=drawn.randint(3, 40)))
        text += " config.yaml" * (number % 60 == 0)
        await save(opened, keyless(text, namespace="other" if number % 4 == 0 else "default"))
    yield opened
    await opened.close()


async def ranked_by_fts(storage: SqliteStorage, question: str, wanted: Filter = MINE) -> dict[int, float]:
    expression = match_expression(question_terms(question), [[scope_token("n", wanted.namespace)]])

    def read(conn: Connection) -> dict[int, float]:
        sql = "SELECT rowid, -rank FROM chunk_fts WHERE chunk_fts MATCH ? ORDER BY rank, rowid"
        return dict(conn.execute(sql, (expression,)).fetchall())

    return await storage.db.readers.run(read)


async def found(storage: SqliteStorage, question: str, limit: int) -> list[WordHit]:
    return (await storage.search.by_words(question, MINE, limit)).hits


@pytest.fixture(params=["small scope", "most of all chunks", "large scope"])
def scope(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a term's chunks are listed within the scope, or in all namespaces and then filtered."""
    if request.param == "small scope":
        monkeypatch.setattr(keyword_search, "SMALL_SHARE", 1.0)
    elif request.param == "large scope":
        monkeypatch.setattr(keyword_search, "SMALL_SCOPE", 1)


@pytest.mark.usefixtures("scope")
@pytest.mark.parametrize("question", QUESTIONS)
async def test_every_score_equals_that_of_fts5(storage: SqliteStorage, question: str) -> None:
    expected = await ranked_by_fts(storage, question)
    hits = await found(storage, question, TEXTS)
    assert {hit.chunk: hit.score for hit in hits} == pytest.approx(expected)


@pytest.mark.usefixtures("scope")
@pytest.mark.parametrize("question", QUESTIONS)
async def test_the_best_hits_are_those_of_fts5(storage: SqliteStorage, question: str) -> None:
    expected = await ranked_by_fts(storage, question)
    best = sorted(expected.values(), reverse=True)[:5]
    assert [hit.score for hit in await found(storage, question, 5)] == pytest.approx(best)


async def test_a_common_word_beyond_the_budget_adds_to_scores_but_not_to_hits(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword_search, "SMALL_SCOPE", 1)
    rare, both = await ranked_by_fts(storage, "khaki"), await ranked_by_fts(storage, "khaki red")
    monkeypatch.setattr(keyword_search, "MAX_POSTINGS", 100)
    hits = {hit.chunk: hit.score for hit in await found(storage, "khaki red", TEXTS)}
    assert hits == pytest.approx({chunk: score for chunk, score in both.items() if chunk in rare})
    assert len(hits) < len(both)


async def test_in_a_small_scope_common_words_still_find_everything(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await ranked_by_fts(storage, "red green config.yaml")
    monkeypatch.setattr(keyword_search, "MAX_POSTINGS", 20)
    hits = await found(storage, "red green config.yaml", TEXTS)
    assert {hit.chunk: hit.score for hit in hits} == pytest.approx(expected)


async def test_a_word_that_is_too_common_finds_the_newest_chunks(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword_search, "SMALL_SCOPE", 1)
    expected = await ranked_by_fts(storage, "red")
    monkeypatch.setattr(keyword_search, "MAX_POSTINGS", 20)
    hits = await found(storage, "red", TEXTS)
    assert {hit.chunk for hit in hits} == set(sorted(expected)[-20:])
    assert {hit.chunk: hit.score for hit in hits} == pytest.approx(
        {hit.chunk: expected[hit.chunk] for hit in hits}
    )


@pytest.mark.usefixtures("scope")
async def test_a_narrow_filter_still_finds_every_match(storage: SqliteStorage) -> None:
    expected = await ranked_by_fts(storage, "red green blue")
    late = Filter(namespace="default", since=ManualClock()() + 1)
    assert (await storage.search.by_words("red green blue", late, 5)).hits == []
    chunk = min(expected, key=lambda each: expected[each])
    read = partial(_content_of, chunk=chunk)
    worst, content = await storage.db.readers.run(read)
    renewed = await save(storage, keyless(content, agent="painter"))
    mine = Filter(namespace="default", agent="painter")
    hits = (await storage.search.by_words("red green blue", mine, 5)).hits
    assert [hit.entry for hit in hits] == [renewed.id]
    await storage.entries.delete(renewed.id)
    assert (await storage.search.by_words("red green blue", mine, 5)).hits == []
    assert worst != renewed.id


def _content_of(conn: Connection, chunk: int) -> tuple[str, str]:
    sql = "SELECT e.id, e.content FROM chunks JOIN entries e ON e.seq = chunks.entry WHERE chunks.id = ?"
    entry, content = conn.execute(sql, (chunk,)).fetchone()
    return entry, content
