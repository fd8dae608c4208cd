"""The postings of the word index in memory: which chunks have each word, and how often. No I/O.

Words are known only by a hash, so that none of a forgotten text stays. Each chunk has a slot, a number that
its postings refer to. Postings are added in runs, each in the order of its words; small runs are joined.

Several threads use the postings at once. A chunk is added before it is counted, a counted one changes only
by being removed, and runs are replaced, never changed: so a search needs no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from agentctx.storage import bm25
from agentctx.storage.bm25 import Corpus, Numbers, Scores

Codes: TypeAlias = npt.NDArray[np.int32]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]

MAX_COUNT: Final = 255
"""A chunk that has a word more often counts as having it this often."""
RANKED_FIRST: Final = 128
"""How many of the best chunks are put in order at first; the others only if they are asked for."""
MAXIMA: Final = 64
"""How many scores are reduced to one maximum, to find a lower bound of the best."""
GROWTH: Final = 4
"""A run is joined with the one before it unless that is so many times as long."""
POSTING_BYTES: Final = 5
CHUNK_BYTES: Final = 32
_GONE: Final = -1


class IndexedChunk(NamedTuple):
    """A chunk in the index: how many tokens it has, and its scope, whose names are None without an entry."""

    chunk: int
    tokens: int
    namespace: str | None
    collection: str | None
    session: str | None


class Batch(NamedTuple):
    """Some chunks, ascending, and the occurrences of their words: those of the first word, then the next."""

    chunks: Sequence[IndexedChunk]
    words: Sequence[int]
    """The hash of each word."""
    occurrences: Sequence[int]
    """How often each word occurs."""
    having: Numbers
    """The chunk of each occurrence, ascending for each word."""


class Occurrences(NamedTuple):
    """The slots of the chunks that have a term, and how often each has it."""

    slots: Codes
    counts: Bytes


class _PostingsRun(NamedTuple):
    words: Numbers
    """The hashes, ascending."""
    starts: Numbers
    """Where the postings of each word start, and the end."""
    slots: Codes
    counts: Bytes


class WordPostings:
    """The postings of an index. Any thread may call any method."""

    def __init__(self) -> None:
        self.corpus = Corpus(0, 0)
        """The totals that FTS5 keeps of the same chunks."""
        self._changing = threading.Lock()
        self._names: dict[str | None, int] = {}
        self._chunks: Numbers = np.zeros(1, np.int64)
        """The chunk of each slot; the first slot has none."""
        self._keys: Numbers = np.zeros(1, np.int64)
        """The greatest chunk up to each slot, to find slots by."""
        self._late: dict[int, int] = {}
        """The slots of chunks that were added after greater ones."""
        self._columns: Codes = np.full((4, 1), _GONE, np.int32)
        """Tokens, namespace, collection and session of each slot; `_GONE` if the chunk was removed."""
        self._count = 1
        self._gaps = 0
        """How many slots were removed but not erased."""
        self._runs: tuple[_PostingsRun, ...] = ()

    @property
    def bytes(self) -> int:
        """Memory used."""
        slots = self._chunks.nbytes + self._keys.nbytes + self._columns.nbytes
        return slots + POSTING_BYTES * sum(len(run.slots) + 3 * len(run.words) for run in self._runs)

    @property
    def newest(self) -> int:
        """The greatest chunk ever added."""
        return int(self._keys[self._count - 1])

    @property
    def is_sparse(self) -> bool:
        """Whether most slots are of removed chunks."""
        return self._count > 2 * self.corpus.chunks + 10_000

    def add(self, batch: Batch) -> None:
        """Add chunks; they replace earlier ones of the same id."""
        self.remove([each.chunk for each in batch.chunks])
        with self._changing:
            run = _run(batch, self._count)
            for chunk in batch.chunks:
                self._append(self._count, chunk)
                self._count += 1  # only now may a search see it
            runs = [*self._runs, run]
            while len(runs) > 1 and len(runs[-2].slots) < GROWTH * len(runs[-1].slots):
                last = runs.pop()
                runs[-1] = _joined(_kept(runs[-1], self._columns[0] != _GONE), last)
            self._runs = tuple(each for each in runs if len(each.slots))
            tokens = sum(each.tokens for each in batch.chunks)
            self.corpus = Corpus(self.corpus.chunks + len(batch.chunks), self.corpus.tokens + tokens)

    def _append(self, slot: int, chunk: IndexedChunk) -> None:
        if slot == len(self._chunks):
            more = 256 + slot // 16
            size = slot + more
            self._chunks, self._keys = np.resize(self._chunks, size), np.resize(self._keys, size)
            self._columns = np.append(self._columns, np.full((4, more), _GONE, np.int32), axis=1)
        if chunk.chunk <= self._keys[slot - 1]:
            self._late[chunk.chunk] = slot
        self._keys[slot] = max(chunk.chunk, int(self._keys[slot - 1]))
        self._chunks[slot] = chunk.chunk
        self._columns[:, slot] = chunk.tokens, *(self._code(name) for name in chunk[2:])

    def _code(self, name: str | None) -> int:
        return self._names.setdefault(name, len(self._names))

    def remove(self, chunks: Sequence[int]) -> None:
        """Let chunks match nothing from now on; their postings stay until `erase_removed`."""
        known = [chunk for chunk in chunks if chunk <= self.newest]
        if not known:
            return
        with self._changing:
            slots = np.unique(self._slots_of(known))
            self.corpus = Corpus(
                self.corpus.chunks - len(slots), self.corpus.tokens - int(self._columns[0, slots].sum())
            )
            self._columns[:, slots] = _GONE
            self._gaps += len(slots)

    def _slots_of(self, chunks: Sequence[int] | Numbers) -> npt.NDArray[np.intp]:
        """Return the slots of the chunks that are present, in their order."""
        wanted = np.asarray(chunks, np.int64)
        slots = np.searchsorted(self._keys[: self._count], wanted)
        slots[slots == self._count] = 0
        slots[self._chunks[slots] != wanted] = 0
        for position in [at for at, chunk in enumerate(chunks) if chunk in self._late] if self._late else ():
            slots[position] = self._late[chunks[position]]
        found: npt.NDArray[np.intp] = slots[self._columns[0, slots] != _GONE]
        return found

    def erase_removed(self) -> None:
        """Erase the postings of removed chunks. Nothing may be added meanwhile."""
        gaps = self._gaps
        if gaps:
            is_present = self._columns[0] != _GONE
            kept = [_kept(run, is_present) for run in self._runs]
            self._runs = tuple(run for run in kept if len(run.slots))
            with self._changing:
                self._gaps -= gaps

    def occurrences(self, words: Sequence[int]) -> list[Occurrences]:
        """Return the chunks that have each word."""
        nothing = Occurrences(np.empty(0, np.int32), np.empty(0, np.uint8))
        parts = [[nothing] for _ in words]
        wanted = np.array(words, np.int64)
        for run in self._runs:
            rows = np.searchsorted(run.words, wanted)
            rows[rows == len(run.words)] = 0
            for number in np.flatnonzero(run.words[rows] == wanted).tolist():
                part = slice(*run.starts[rows[number] : rows[number] + 2])
                parts[number].append(Occurrences(run.slots[part], run.counts[part]))
        return [self._present(each) for each in parts]

    def _present(self, parts: Sequence[Occurrences]) -> Occurrences:
        found = parts[-1]
        if len(parts) > 2:
            found = Occurrences(*map(np.concatenate, zip(*parts, strict=True)))
        if not self._gaps:
            return found
        is_present = self._columns[0][found.slots] != _GONE
        return Occurrences(found.slots[is_present], found.counts[is_present])

    def among(self, chunks: Numbers) -> Occurrences:
        """Return the chunks that are present, each as if it had a term once."""
        slots = self._slots_of(chunks).astype(np.int32)
        return Occurrences(slots, np.ones(len(slots), np.uint8))

    def has(self, chunks: Sequence[int], words: Sequence[int]) -> Flags:
        """Return which chunks have which words: a row per chunk, a column per word. The chunks ascend."""
        row_of = np.full(len(self._chunks), len(chunks))
        slots = self._slots_of(chunks)
        row_of[slots] = np.searchsorted(chunks, self._chunks[slots])
        found = np.zeros((len(chunks) + 1, len(words)), np.bool_)
        for column, each in enumerate(self.occurrences(words)):
            found[row_of[each.slots], column] = True
        return found[:-1]

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
        matching = np.zeros(len(codes), np.bool_)
        for name in names:
            matching |= codes == self._names.get(name, len(self._names))
        return matching

    def ranked(
        self, terms: Sequence[tuple[Occurrences, float]], mean_length: float, matching: Flags
    ) -> Iterator[tuple[int, float]]:
        """Yield the matching chunks that have any of the terms, with their scores, best first.

        Each term comes with its rarity.
        """
        slots = np.concatenate([found.slots for found, _ in terms]).astype(np.intp)
        counts = np.concatenate([found.counts for found, _ in terms])
        rarities = np.repeat([rarity for _, rarity in terms], [len(found.slots) for found, _ in terms])
        weights = rarities * bm25.weights(counts, self._columns[0][slots] / max(mean_length, 1.0))
        # Slots may have been added since.
        scores = np.asarray(np.bincount(slots, weights, len(matching))[: len(matching)], np.float64)
        scores *= matching
        limit = _lower_bound(scores, RANKED_FIRST)
        yield from self._in_order(scores, (scores >= limit) & (scores > 0))
        if limit > 0:
            yield from self._in_order(scores, (scores > 0) & (scores < limit))

    def _in_order(self, scores: Scores, which: Flags) -> Iterator[tuple[int, float]]:
        slots = np.flatnonzero(which)
        chunks, found = self._chunks[slots], scores[slots]
        order = np.lexsort((chunks, -found))
        return zip(chunks[order].tolist(), found[order].tolist(), strict=True)


def _lower_bound(scores: Scores, count: int) -> float:
    """Return a score that at least `count` reach; 0 if there are too few to tell."""
    groups = len(scores) // MAXIMA
    if groups <= count:
        return 0.0
    maxima = scores[: groups * MAXIMA].reshape(MAXIMA, groups).max(axis=0)
    return float(np.partition(maxima, groups - count)[groups - count])


def _run(batch: Batch, first: int) -> _PostingsRun:
    """Return the postings of a batch whose first chunk has this slot."""
    order = np.argsort(np.array(batch.words, np.int64))
    words, lengths = np.array(batch.words, np.int64)[order], np.array(batch.occurrences, np.int64)
    numbers = np.repeat(np.argsort(order), lengths)
    slots = np.searchsorted(np.array([each.chunk for each in batch.chunks], np.int64), batch.having) + first
    postings, counts = np.unique((numbers << 32) + slots, return_counts=True)
    starts = np.searchsorted(postings >> 32, np.arange(len(words) + 1))
    found = (postings & 0xFFFFFFFF).astype(np.int32)
    return _PostingsRun(words, starts, found, np.minimum(counts, MAX_COUNT).astype(np.uint8))


def _kept(run: _PostingsRun, is_present: Flags) -> _PostingsRun:
    """Leave out the postings of slots that are not present."""
    kept = is_present[run.slots]
    if kept.all():
        return run
    lengths = np.add.reduceat(kept, run.starts[:-1], dtype=np.int64)
    starts = np.append(0, np.cumsum(lengths[lengths > 0]))
    return _PostingsRun(run.words[lengths > 0], starts, run.slots[kept], run.counts[kept])


def _joined(first: _PostingsRun, second: _PostingsRun) -> _PostingsRun:
    """Return the postings of both; for each word, those of the first come first."""
    rows = np.searchsorted(first.words, second.words)
    added = np.diff(second.starts)
    is_known = np.append(first.words, 0)[rows] == second.words
    is_known &= rows < len(first.words)
    places = np.repeat(first.starts[rows + is_known], added)
    lengths = np.diff(first.starts)
    lengths[rows[is_known]] += added[is_known]
    lengths = np.insert(lengths, rows[~is_known], added[~is_known])
    return _PostingsRun(
        np.insert(first.words, rows[~is_known], second.words[~is_known]),
        np.append(0, np.cumsum(lengths)),
        np.insert(first.slots, places, second.slots),
        np.insert(first.counts, places, second.counts),
    )
