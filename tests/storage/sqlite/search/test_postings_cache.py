"""The postings in memory: the answers of FTS5, at once after each write, whoever wrote."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.storage.search import Filter, WordResults
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search.search_storage import SqliteSearch
from agentctx.storage.trust import Source
from agentctx_testing.conformance.storage.conversations import ConversationConformance
from agentctx_testing.conformance.storage.cues import CueConformance
from agentctx_testing.conformance.storage.quarantine import QuarantineConformance
from agentctx_testing.conformance.storage.search import SearchConformance
from agentctx_testing.conformance.storage.supersession import SupersessionConformance
from agentctx_testing.drafts import ALL, ManualClock, draft, found_by_words, keyless, save

FILTERS = (
    ALL,
    Filter(namespace="other"),
    Filter(namespace="nobody"),
    Filter(namespace="default", collections=("observation", "unknown")),
    Filter(namespace="default", session="s1"),
    Filter(namespace="other", collections=("knowledge",), session="s2"),
    Filter(namespace="default", agent="coder"),
    Filter(namespace="default", with_superseded=True, with_quarantined=True),
)
TEXT = (
    "red green blue running runs config.yaml getUserName cafe ÜBER schön 東京都 京 rocket 🚀 "
    "well-known amber ochre umber sienna teal mauve khaki ivory coral azure olive plum"
)
WORDS = TEXT.split()
QUESTIONS = (
    *WORDS,
    "Is the red config.yaml running?",
    "東京 blue",
    "wie schöne Häuser über Berge",
    "the",
    "!!",
)


class PostingsFirst(SqliteSearch):
    """Waits for the postings, so that FTS5 answers only if they are not in step."""

    answered = 0
    """How many questions the postings answered."""

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        if self.db.postings._postings is None:
            await super().by_words(question, wanted, limit)
            await self.db.postings.refreshed()
        of = self.db.postings.of

        def counting(*args: Any, **options: Any) -> Any:
            found = of(*args, **options)
            self.answered += found is not None
            return found

        self.db.postings.of = counting  # type: ignore[method-assign]
        try:
            return await super().by_words(question, wanted, limit)
        finally:
            self.db.postings.of = of  # type: ignore[method-assign]


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    opened.search = PostingsFirst(opened.db)
    yield opened
    await opened.close()


class TestInMemory(
    SearchConformance, CueConformance, ConversationConformance, QuarantineConformance, SupersessionConformance
):
    """Runs the parts of the suite that search by words, with every posting in memory."""


def search_of(storage: SqliteStorage) -> PostingsFirst:
    assert isinstance(storage.search, PostingsFirst)
    return storage.search


class RandomWrites:
    """Random saves, replacements, deletions, revocations and their undoing, through one of two engines."""

    def __init__(self, storage: SqliteStorage, other: SqliteStorage, seed: int) -> None:
        self._storage = storage
        self._engines = [storage] * 9 + [other]
        self.random = random.Random(seed)
        self._live: list[str] = []
        self._revocations: list[int] = []

    async def write(self) -> None:
        engine = self.random.choice(self._engines)
        kind = self.random.random()
        if self._live and kind < 0.2:
            await engine.entries.delete(self._live.pop(self.random.randrange(len(self._live))))
        elif kind < 0.24:
            revoked = await engine.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
            self._revocations += [revoked.revocation] if revoked.revocation is not None else []
        elif kind < 0.3 and self._revocations:
            await engine.trust.undo_revocation(self._revocations.pop())
        elif kind < 0.36:
            await engine.trust.settle(embed=True)
        elif kind < 0.4:
            await engine.upkeep.tidy()
        else:
            saved = await engine.entries.save(self._draft(), embed=self.random.random() < 0.5)
            self._live = [*(each for each in self._live if each != saved.id), saved.id]

    def _draft(self) -> Any:
        drawn = self.random
        attributes: dict[str, Any] = {"category": "fact", "tags": ["ops"]}
        if drawn.random() < 0.2:
            attributes["cues"] = [" ".join(drawn.choices(WORDS, k=3))]
        text = " ".join(drawn.choices(WORDS, weights=range(len(WORDS), 0, -1), k=drawn.randint(1, 30)))
        make = draft if drawn.random() < 0.5 else keyless
        return make(
            text,
            **({"key": f"k{drawn.randrange(12)}", "labels": drawn.choice(WORDS)} if make is draft else {}),
            attributes=attributes,
            namespace=drawn.choice(["default", "default", "other"]),
            collection=drawn.choice(["knowledge", "observation"]),
            session=drawn.choice(["", "s1", "s2"]),
            agent=drawn.choice(["coder", "planner", "bad"]),
        )


@pytest.mark.parametrize("seed", range(4))
async def test_after_random_writes_the_answers_are_those_of_fts5(
    tmp_path: Path, clock: ManualClock, seed: int
) -> None:
    path = tmp_path / "agentctx.db"
    storage = await SqliteStorage.open(path, clock=clock)
    other = await SqliteStorage.open(path, clock=clock, words_mb=0)
    storage.search = search = PostingsFirst(storage.db)
    try:
        writing = RandomWrites(storage, other, seed)
        for _ in range(150):
            await writing.write()
            question = " ".join(writing.random.choices(QUESTIONS, k=writing.random.randint(1, 4)))
            wanted = writing.random.choice(FILTERS)
            limit = writing.random.choice([3, 500])
            expected = await other.search.by_words(question, wanted, limit)
            found = await storage.search.by_words(question, wanted, limit)
            assert found.counts == expected.counts, question
            assert [hit._replace(score=0) for hit in found.hits] == [
                hit._replace(score=0) for hit in expected.hits
            ], question
            assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in expected.hits])
            await storage.db.postings.refreshed()
        assert search.answered > 100
    finally:
        await other.close()
        await storage.close()


async def test_the_next_question_finds_a_new_text(storage: SqliteStorage) -> None:
    for word in ("otter", "crane", "heron", "lynx", "otters"):
        saved = await save(storage, keyless(word))
        assert (await found_by_words(storage, word))[-1] == saved.id
    assert search_of(storage).answered == 5
