"""The postings of the word index in memory: which chunks have each word, and how often. No I/O.

Words are known only by a hash, so that none of a forgotten text stays. Each chunk has a slot, a number that
its postings refer to. Those of most chunks lie in arrays, by word; those of chunks added since are collected
beside them until `merged`.

Several threads use the postings at once. A chunk is added before it is counted, and a counted one changes
only by being removed, so that a search needs no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from agentctx.storage import bm25
from agentctx.storage.bm25 import Numbers, Scores

Codes: TypeAlias = npt.NDArray[np.int32]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Slots: TypeAlias = npt.NDArray[np.intp]
Flags: TypeAlias = npt.NDArray[np.bool_]

MAX_COUNT: Final = 255
"""A chunk that has a word more often counts as having it this often."""
RANKED_FIRST: Final = 128
"""How many of the best chunks are put in order at first; the others only if they are asked for."""
MAXIMA: Final = 64
"""How many scores are reduced to one maximum, to find a lower bound of the best."""
EXACT_BELOW: Final = 1_000
"""Up to this many postings of a word, those of removed chunks are not counted."""
POSTINGS_AT_ONCE: Final = 1_000_000
POSTING_BYTES: Final = 5
ADDED_POSTING_BYTES: Final = 64
"""Memory used by a posting that is not merged yet, estimated."""
CHUNK_BYTES: Final = 24
WORD_BYTES: Final = 16
_GONE: Final = -1
_NO_CHUNK: Final = -(2**63)
_NO_WORD: Final = _NO_CHUNK
_CHUNK_ROWS: Final = 1_024


class IndexedChunk(NamedTuple):
    """A chunk in the index; its scope is None if its entry is gone, and its words stayed."""

    chunk: int
    tokens: int
    """How many tokens it has in all columns."""
    scope: tuple[str, str, str] | None
    """Namespace, collection, session."""


class PostingsRun(NamedTuple):
    """Postings of some words: first all of the first word, then those of the next."""

    words: Numbers
    """The hashes, each once."""
    lengths: Numbers
    """How many postings each word has."""
    slots: Codes
    counts: Bytes


class Occurrences(NamedTuple):
    """The slots of the chunks that have a term, and how often each has it."""

    slots: Slots
    counts: Bytes


class Totals(NamedTuple):
    """The number of chunks, and of their tokens."""

    chunks: int
    tokens: int


class WordPostings:
    """The postings of all chunks of an index. Any thread may call any method."""

    def __init__(
        self,
        names: dict[str, int],
        chunks: Numbers,
        columns: Codes,
        runs: list[PostingsRun],
        places: Codes | None = None,
    ) -> None:
        """`chunks` ascend, the first has slot 1; `columns` has a row each for tokens and the codes of
        namespace, collection and session, as numbered in `names`. The list of runs is emptied.

        `places` replaces the slots in the runs; postings with the slot 0 are left out.
        """
        self.totals = Totals(len(chunks), int(columns[0].sum()))
        """What FTS5 keeps of the same chunks."""
        self._changing = threading.Lock()
        self._names = names
        self._chunks = np.append(_NO_CHUNK, chunks)
        self._columns = np.append(np.full((4, 1), _GONE, np.int32), columns, axis=1)
        """A removed chunk has `_GONE` everywhere, like slot 0."""
        self._count = self._based = len(self._chunks)
        """The number of slots; those before `_based` are in the order of their chunks."""
        self._words, self._offsets, self._slots, self._counts = _joined(runs, places)
        self._added: dict[int, list[int]] = {}
        """Postings of the other slots: slot and count in one number."""
        self._added_slots: dict[int, int] = {}
        self._added_postings = 0
        self._has_gaps = False
        """Whether chunks were removed."""
        self._is_erased = True
        """Whether their postings were erased."""

    @property
    def bytes(self) -> int:
        """Memory used, estimated for the chunks that are not merged."""
        arrays = (self._chunks, self._columns, self._words, self._offsets, self._slots, self._counts)
        return sum(array.nbytes for array in arrays) + self._added_postings * ADDED_POSTING_BYTES

    @property
    def added(self) -> int:
        """How many chunks are not merged."""
        return len(self._added_slots)

    def add(self, chunk: IndexedChunk, words: Mapping[int, int]) -> None:
        """Add a chunk with its words and their counts; it replaces an earlier one of the same id."""
        self.remove([chunk.chunk])
        with self._changing:
            slot = self._count
            if slot == len(self._chunks):
                self._grow()
            for word, count in words.items():
                self._added.setdefault(word, []).append(slot << 8 | min(count, MAX_COUNT))
            self._added_slots[chunk.chunk] = slot
            self._added_postings += len(words)
            self._append(chunk)

    def _append(self, chunk: IndexedChunk) -> None:
        scope = chunk.scope and [self._names.setdefault(name, len(self._names)) for name in chunk.scope]
        self._chunks[self._count] = chunk.chunk
        self._columns[:, self._count] = chunk.tokens, *(scope or [_GONE] * 3)
        self._count += 1  # only now may a search see it
        self.totals = Totals(self.totals.chunks + 1, self.totals.tokens + chunk.tokens)

    def _grow(self) -> None:
        more = max(_CHUNK_ROWS, len(self._chunks) // 16)
        self._chunks = np.append(self._chunks, np.full(more, _NO_CHUNK, np.int64))
        self._columns = np.append(self._columns, np.full((4, more), _GONE, np.int32), axis=1)

    def remove(self, chunks: Iterable[int]) -> None:
        """Let chunks match nothing from now on; their postings stay until `erase_removed`."""
        with self._changing:
            for slot in map(self._slot_of, chunks):
                tokens = int(self._columns[0, slot])
                if tokens != _GONE:
                    self._columns[:, slot] = _GONE
                    self._has_gaps, self._is_erased = True, False
                    self.totals = Totals(self.totals.chunks - 1, self.totals.tokens - tokens)

    def _slot_of(self, chunk: int) -> int:
        """Return the slot of a chunk; 0 if it has none."""
        if (slot := self._added_slots.get(chunk)) is not None:
            return slot
        slot = int(np.searchsorted(self._chunks[: self._based], chunk))
        return slot if slot < self._based and self._chunks[slot] == chunk else 0

    def erase_removed(self) -> None:
        """Erase the postings of removed chunks, and the hashes of words that no other has.

        One call at a time.
        """
        with self._changing:
            if self._is_erased:
                return
            gone = self._columns[0] == _GONE
            self._erase_added(gone)
            self._is_erased = True
        for first in range(0, len(self._slots), POSTINGS_AT_ONCE):
            slots, counts = (each[first : first + POSTINGS_AT_ONCE] for each in (self._slots, self._counts))
            erased = np.flatnonzero(gone[slots] & (counts > 0))
            slots[erased], counts[erased] = 0, 0
            self._erase_words(np.unique(np.searchsorted(self._offsets, erased + first, side="right") - 1))

    def _erase_words(self, rows: Slots) -> None:
        """Give those of the words that no chunk has any more the hash of the word before them."""
        offsets = self._offsets
        unused = [
            row for row in set(rows.tolist()) if not self._counts[offsets[row] : offsets[row + 1]].any()
        ]
        words = self._words.copy()
        words[np.isin(words, words[unused])] = _NO_WORD
        self._words = np.maximum.accumulate(words)

    def _erase_added(self, gone: Flags) -> None:
        kept = (
            (word, [each for each in found if not gone[each >> 8]]) for word, found in self._added.items()
        )
        self._added = {word: found for word, found in kept if found}
        self._added_slots = {chunk: slot for chunk, slot in self._added_slots.items() if not gone[slot]}

    def merged(self) -> WordPostings:
        """Return the same postings in arrays alone. Nothing may be added meanwhile; removals are missed."""
        present = np.flatnonzero(self._columns[0, : self._count] != _GONE)
        slots = present[np.argsort(self._chunks[present])]
        places = np.zeros(self._count, np.int32)
        places[slots] = np.arange(1, len(slots) + 1)
        runs = [*self._pieces(), _packed_run(self._added)]
        return WordPostings(self._names, self._chunks[slots], self._columns[:, slots], runs, places)

    def _pieces(self) -> Iterator[PostingsRun]:
        """Yield the arrays in runs of about `POSTINGS_AT_ONCE`."""
        starts = range(0, len(self._slots), POSTINGS_AT_ONCE)
        rows = [*np.searchsorted(self._offsets, starts).tolist(), len(self._words)]
        for first, last in pairwise(rows):
            part = slice(self._offsets[first], self._offsets[last])
            lengths = np.diff(self._offsets[first : last + 1])
            yield PostingsRun(self._words[first:last], lengths, self._slots[part], self._counts[part])

    def frequencies(self, words: Sequence[int]) -> list[int]:
        """Return how many chunks have each word; for common words, removed ones are counted as well."""
        found = []
        for word, first, last in zip(words, *self._bounds(words), strict=True):
            count = last - first + len(self._added.get(word, ()))
            is_inexact = self._has_gaps and count <= EXACT_BELOW
            found.append(len(self.occurrences(word).slots) if is_inexact else count)
        return found

    def _bounds(self, words: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return where the postings of each word begin and end in the arrays."""
        wanted = np.array(words, np.int64)
        rows = np.searchsorted(self._words, wanted)
        rows[rows == len(self._words)] = 0
        has = self._words[rows] == wanted if len(self._words) else np.zeros(len(wanted), np.bool_)
        first = self._offsets[rows]
        return first.tolist(), np.where(has, self._offsets[rows + has], first).tolist()

    def occurrences(self, word: int) -> Occurrences:
        """Return the chunks that have a word."""
        count = self._count
        ((first,), (last,)) = self._bounds([word])
        slots, counts = self._slots[first:last].astype(np.intp), self._counts[first:last]
        if added := tuple(self._added.get(word, ())):
            packed = np.array(added, np.int64)
            packed = packed[packed >> 8 < count]
            slots = np.concatenate([slots, packed >> 8])
            counts = np.concatenate([counts, (packed & 255).astype(np.uint8)])
        if self._has_gaps:
            is_present = self._columns[0][slots] != _GONE
            slots, counts = slots[is_present], counts[is_present]
        return Occurrences(slots, counts)

    def among(self, chunks: Numbers) -> Occurrences:
        """Return the chunks that are known, each once, as if they had a term once."""
        slots = np.array([slot for slot in map(self._slot_of, chunks.tolist()) if slot], np.intp)
        return Occurrences(slots, np.ones(len(slots), np.uint8))

    def matching(
        self, namespace: str, collections: Sequence[str] | None = None, session: str | None = None
    ) -> Flags:
        """Return which slots a question may find; `session` includes chunks without a session."""
        _, namespaces, collected, sessions = self._columns[:, : self._count]
        matching = self._has_any(namespaces, [namespace])
        if collections is not None:
            matching &= self._has_any(collected, collections)
        if session is not None:
            matching &= self._has_any(sessions, [session, ""])
        return matching

    def _has_any(self, codes: Codes, names: Sequence[str]) -> Flags:
        known = [self._names[name] for name in names if name in self._names]
        matching: Flags = codes == known[0] if known else np.zeros(len(codes), np.bool_)
        for code in known[1:]:
            matching |= codes == code
        return matching

    def ranked(
        self, terms: Sequence[tuple[Occurrences, float]], mean_length: float, matching: Flags
    ) -> Iterator[tuple[int, float]]:
        """Yield the matching chunks that have any of the terms, with their scores, best first.

        Each term comes with its rarity.
        """
        slots = np.concatenate([found.slots for found, _ in terms])
        counts = np.concatenate([found.counts for found, _ in terms])
        rarities = np.repeat([rarity for _, rarity in terms], [len(found.slots) for found, _ in terms])
        lengths = self._columns[0][slots] / max(mean_length, 1.0)
        # A slot may have been counted since.
        weights = rarities * bm25.weights(counts, lengths)
        scores = np.asarray(np.bincount(slots, weights, len(matching))[: len(matching)], np.float64)
        scores *= matching
        limit = _lower_bound(scores, RANKED_FIRST)
        yield from self._in_order(scores, scores >= limit if limit else scores > 0)
        if limit:
            yield from self._in_order(scores, (scores > 0) & (scores < limit))

    def _in_order(self, scores: Scores, which: Flags) -> Iterator[tuple[int, float]]:
        slots = np.flatnonzero(which)
        chunks, found = self._chunks[slots], scores[slots]
        order = np.lexsort((chunks, -found))
        return zip(chunks[order].tolist(), found[order].tolist(), strict=True)

    def has(self, chunks: Sequence[int], words: Sequence[int]) -> Flags:
        """Return which of the distinct chunks have which words: a row per chunk, a column per word."""
        rows = np.full(len(self._chunks), len(chunks), np.intp)
        rows[[self._slot_of(chunk) for chunk in chunks]] = np.arange(len(chunks))
        rows[0] = len(chunks)
        found = np.zeros((len(chunks) + 1, len(words)), np.bool_)
        for column, word in enumerate(words):
            found[rows[self.occurrences(word).slots], column] = True
        return found[:-1]


def _lower_bound(scores: Scores, count: int) -> float:
    """Return a score that at least `count` reach; 0 if they are too few to tell."""
    groups = len(scores) // MAXIMA
    if groups <= count:
        return 0.0
    maxima = scores[: groups * MAXIMA].reshape(MAXIMA, groups).max(axis=0)
    return float(np.partition(maxima, groups - count)[groups - count])


def _packed_run(added: Mapping[int, Sequence[int]]) -> PostingsRun:
    packed = np.array(list(chain.from_iterable(added.values())), np.int64)
    lengths = np.array([len(found) for found in added.values()], np.int64)
    slots, counts = (packed >> 8).astype(np.int32), (packed & MAX_COUNT).astype(np.uint8)
    return PostingsRun(np.array(list(added), np.int64), lengths, slots, counts)


def _joined(runs: list[PostingsRun], places: Codes | None) -> tuple[Numbers, Numbers, Codes, Bytes]:
    """Return the words in order, where the postings of each begin, slots and counts."""
    empty = np.empty(0, np.int64)
    words, numbers = np.unique(np.concatenate([empty, *(run.words for run in runs)]), return_inverse=True)
    lengths = [run.lengths if places is None else _kept_lengths(run, places[run.slots] > 0) for run in runs]
    totals = np.bincount(numbers, np.concatenate([empty, *lengths]), len(words)).astype(np.int64)
    ends = np.cumsum(totals)
    free = ends - totals
    size = int(totals.sum())
    slots, counts = np.zeros(size, np.int32), np.zeros(size, np.uint8)
    while runs:
        run, kept = runs.pop(), lengths.pop()
        mine, numbers = numbers[len(numbers) - len(kept) :], numbers[: len(numbers) - len(kept)]
        new, old = run.slots, run.counts
        if places is not None:
            new = places[new]
            new, old = new[new > 0], old[new > 0]
        at = np.repeat(free[mine] - (np.cumsum(kept) - kept), kept) + np.arange(len(new))
        slots[at], counts[at] = new, old
        np.add.at(free, mine, kept)  # a word whose place was erased is there twice
    return words[totals > 0], np.append(0, ends[totals > 0]), slots, counts


def _kept_lengths(run: PostingsRun, kept: Flags) -> Numbers:
    """Return how many postings of each word are kept."""
    before = np.append(0, np.cumsum(kept))
    ends = np.cumsum(run.lengths)
    lengths: Numbers = before[ends] - before[ends - run.lengths]
    return lengths
