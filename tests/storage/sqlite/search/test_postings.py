"""The postings in memory, compared with a dict of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage import bm25
from agentctx.storage.sqlite.search.postings import MAX_COUNT, Batch, IndexedChunk, WordPostings

WORDS = tuple(hash(word) for word in ("red", "green", "blue", "black"))
PLACE = ("n", "c", "")
TEXTS = st.dictionaries(st.integers(1, 30), st.lists(st.sampled_from(WORDS), max_size=6), max_size=8)
STEPS = st.lists(st.one_of(TEXTS, st.sets(st.integers(1, 30), max_size=5), st.none()), max_size=14)


def batch_of(texts: dict[int, list[int]], place: tuple[str, str, str] = PLACE) -> Batch:
    chunks = sorted(texts)
    having = {word: [chunk for chunk in chunks for _ in range(texts[chunk].count(word))] for word in WORDS}
    having = {word: found for word, found in having.items() if found}
    return Batch(
        [IndexedChunk(chunk, len(texts[chunk]), *place) for chunk in chunks],
        list(having),
        [len(found) for found in having.values()],
        np.array([chunk for found in having.values() for chunk in found], np.int64),
    )


def postings_of(*texts: dict[int, list[int]]) -> WordPostings:
    postings = WordPostings()
    for each in texts:
        postings.add(batch_of(each))
    return postings


def counts_in(postings: WordPostings, word: int) -> dict[int, int]:
    ((slots, counts),) = postings.occurrences([word])
    return dict(zip(postings._chunks[slots].tolist(), counts.tolist(), strict=True))


def scores(postings: WordPostings, words: Sequence[int]) -> list[tuple[int, float]]:
    found = postings.occurrences(words)
    terms = [(each, bm25.rarity(postings.corpus.chunks, len(each.slots))) for each in found]
    return list(postings.ranked(terms, postings.corpus.mean_length, postings.matching("n")))


@given(STEPS)
def test_after_any_changes_the_postings_are_those_of_the_texts_that_are_left(
    steps: list[dict[int, list[int]] | set[int] | None],
) -> None:
    postings, left = WordPostings(), dict[int, list[int]]()
    for step in steps:
        if step is None:
            postings.erase_removed()
        elif isinstance(step, dict):
            postings.add(batch_of(step))
            left |= step
        else:
            postings.remove(list(step))
            left = {chunk: words for chunk, words in left.items() if chunk not in step}
    assert postings.corpus == bm25.Corpus(len(left), sum(map(len, left.values())))
    for word in WORDS:
        assert counts_in(postings, word) == {
            chunk: text.count(word) for chunk, text in left.items() if word in text
        }
    chunks = list(range(31))
    expected = [[word in left.get(chunk, ()) for word in WORDS] for chunk in chunks]
    assert postings.has(chunks, WORDS).tolist() == expected
    mean = postings.corpus.mean_length
    having = Counter(word for text in left.values() for word in set(text))
    best = {
        chunk: sum(
            bm25.rarity(len(left), having[word])
            * bm25.weights(np.array([text.count(word)]), np.float64(len(text) / max(mean, 1.0)))[0]
            for word in set(text)
        )
        for chunk, text in left.items()
        if text
    }
    found = scores(postings, WORDS)
    assert dict(found) == pytest.approx(best)
    assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))


def test_the_best_come_first_even_among_many() -> None:
    drawn = np.random.default_rng(1)
    texts = {chunk: drawn.choice(WORDS, drawn.integers(1, 40)).tolist() for chunk in range(1, 20_000)}
    found = scores(postings_of(texts), WORDS[:2])
    assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))
    assert {chunk for chunk, _ in found} == {
        chunk for chunk, text in texts.items() if not {WORDS[0], WORDS[1]}.isdisjoint(text)
    }


def test_only_the_scope_is_found() -> None:
    postings = WordPostings()
    places = [("n", "c", ""), ("n", "d", "s"), ("n", "c", "t"), ("m", "c", "")]
    for chunk, place in enumerate(places, 1):
        postings.add(batch_of({chunk: [WORDS[0]]}, place))

    def matching(*scope: object) -> list[int]:
        return np.flatnonzero(postings.matching(*scope)).tolist()  # type: ignore[arg-type]

    assert matching("n") == [1, 2, 3]
    assert matching("n", ("d", "unknown")) == [2]
    assert matching("n", None, "s") == [1, 2]
    assert matching("unknown") == matching("n", ()) == []
    postings.remove([1])
    assert matching("n", None, "s") == [2]


def test_a_word_that_is_repeated_very_often_counts_as_often_as_a_byte_says() -> None:
    assert counts_in(postings_of({1: [WORDS[0]] * 1_000}), WORDS[0]) == {1: MAX_COUNT}


def test_few_runs_are_kept_and_most_slots_are_in_use() -> None:
    postings = postings_of(*({chunk: list(WORDS)} for chunk in range(1, 300)))
    assert len(postings._runs) <= 5
    assert postings.newest == 299
    assert not postings.is_sparse
    before = postings.bytes
    postings.remove(range(1, 290))
    postings.erase_removed()
    assert postings.bytes < before
    assert sum(len(run.slots) for run in postings._runs) == 10 * len(WORDS)


def test_removed_chunks_leave_no_words() -> None:
    postings = postings_of({1: [WORDS[0]], 2: [WORDS[1]]}, {3: [WORDS[2]]})
    postings.remove([1, 3])
    postings.erase_removed()
    assert [run.words.tolist() for run in postings._runs] == [[WORDS[1]]]
