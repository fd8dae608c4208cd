"""An in-memory cache of a space's vectors, one byte per number, to find candidates for the nearest chunks.

It returns candidates, not answers: similarities are rounded, and some vectors may be gone. The caller
measures each candidate by its stored vector. For chunks that the caller has found in another way, the cache
returns rounded distances.

Several threads use a cache at once. Rows are appended first and counted afterwards; a counted row changes
only by being blanked, and is never moved. So a scan needs no lock: everything it has to see was counted
before it began, and a row that is blanked during the scan belongs to a vector that is gone.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import simsimd

from agentctx.storage.vectors import Vectors

Bytes: TypeAlias = npt.NDArray[np.int8]
Codes: TypeAlias = npt.NDArray[np.int32]
Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

ROWS_PER_BLOCK: Final = 32_768
ROWS_PER_THREAD: Final = 200_000
"""A scan uses one core per so many rows; with fewer, another thread takes longer than it saves."""
CORES: Final = os.cpu_count() or 1
ROW_OVERHEAD_BYTES: Final = 32
"""Size of a row in addition to its numbers: scale, chunk, seq and three codes."""
GATHERED_SHARE: Final = 0.25
"""Below this share of a run of rows, gathering the wanted rows is faster than scanning the run."""
MAXIMA: Final = 64
"""How many similarities are reduced to one maximum, to find a lower bound of the best."""
SPARE: Final = 64
"""Maximum number of candidates beyond the requested ones."""
_LARGEST: Final = 127
_NO_CODE: Final = -1
_SHORTEST: Final = 1e-12
_DEVIATIONS: Final = 8.0
"""The error of a rounded number deviates by scale / √12, and so does the error of the similarity to a unit
vector. Two similarities can only be swapped within a few of these deviations."""


class StoredVector(NamedTuple):
    """A vector as stored in its space. `seq` grows with every vector stored, and is never reused."""

    seq: int
    chunk: int
    namespace: str
    collection: str
    session: str
    vector: bytes
    """float32."""


class ScoredRun(NamedTuple):
    """Chunks with their similarity to a question, -inf for chunks excluded by the question."""

    chunks: Numbers
    similarities: Vectors
    wanted: int
    """How many of the chunks are not excluded."""


@dataclass(frozen=True, slots=True)
class ScoredChunks:
    """Chunks with their similarity to a question, in no order.

    If two similarities differ by more than `error`, their order is certain.
    """

    runs: Sequence[ScoredRun]
    error: float

    @property
    def count(self) -> int:
        """How many chunks the question does not exclude."""
        return sum(run.wanted for run in self.runs)

    def candidates(self, limit: int) -> list[int]:
        """Return the chunks that may be among the `limit` nearest, likely ones first."""
        asked = min(limit + SPARE, self.count)
        if limit < 1 or not asked:
            return []
        values = np.concatenate([run.similarities for run in self.runs])
        best = _best(values, asked)
        similarities = values[best]
        possible = similarities >= similarities[min(limit, asked) - 1] - self.error
        # A chunk whose vector was stored again has two rows until the next check.
        return list(dict.fromkeys(self._chunks_at(best[possible])))

    def _chunks_at(self, positions: npt.NDArray[np.intp]) -> list[int]:
        ends = np.cumsum([len(run.chunks) for run in self.runs])
        of_run = np.searchsorted(ends, positions, side="right")
        return [
            int(self.runs[run].chunks[position - ends[run]])  # negative: counted from the end of the run
            for run, position in zip(of_run.tolist(), positions.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows that are allocated together; the system provides memory only for rows that are written."""

    codes: Bytes
    scales: Vectors
    chunks: Numbers
    seqs: Numbers
    namespaces: Codes
    collections: Codes
    sessions: Codes

    @classmethod
    def empty(cls, dimension: int) -> Self:
        size = ROWS_PER_BLOCK
        return cls(
            np.empty((size, dimension), np.int8),
            np.empty(size, np.float32),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            *(np.empty(size, np.int32) for _ in range(3)),
        )

    def blank(self, rows: npt.NDArray[np.intp]) -> None:
        """Erase these rows, so that they match no question; only their chunks stay, for `positions_of`."""
        for codes in (self.namespaces, self.collections, self.sessions):
            codes[rows] = _NO_CODE
        self.codes[rows], self.scales[rows] = 0, 0
        self.seqs[rows] = 0

    def positions_of(self, chunks: Numbers, count: int) -> npt.NDArray[np.intp]:
        """Return the rows of these chunks among the first `count`, whose chunks must ascend.

        Blank rows, and vectors without a direction, are omitted.
        """
        known = self.chunks[:count]
        mine = chunks[(chunks >= known[0]) & (chunks <= known[-1])]
        positions: npt.NDArray[np.intp] = np.searchsorted(known, mine)
        found: npt.NDArray[np.intp] = positions[(known[positions] == mine) & (self.scales[positions] > 0)]
        return found


class VectorCache:
    """Vectors of one space. Any thread may call any method."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.last = 0
        """The seq up to which the cache has every stored vector."""
        self.is_whole = False
        """Whether the cache can answer: it lacks only vectors that the next question reads itself."""
        self.added = 0
        """Rows added since the last `keep`."""
        self.gone = 0
        """The number of blank rows."""
        self._blocks: list[_Block] = []
        self._count = 0
        self._codes: dict[str, int] = {}
        self._largest = 0.0
        """The largest scale of a row."""
        self._unordered: set[int] = set()
        """The blocks whose chunks do not ascend, because a vector was stored late or again."""
        self._changing = threading.Lock()

    @property
    def rows(self) -> int:
        """The number of rows, including blank ones."""
        return self._count

    @property
    def bytes(self) -> int:
        """Memory used by the cache."""
        return self._count * row_bytes(self.dimension)

    def put(self, stored: Sequence[StoredVector], last: int) -> None:
        """Add vectors that one snapshot has after the earlier `last`; the cache is then whole up to `last`.

        Two threads may have read the same vectors: those already added are skipped. A vector of an older
        snapshot cannot arrive late, since `keep` first takes in all that its snapshot has.
        """
        vectors = np.frombuffer(b"".join(each.vector for each in stored), dtype=np.float32)
        codes, scales = rounded(vectors.reshape(len(stored), self.dimension))
        with self._changing:
            new = [number for number, each in enumerate(stored) if each.seq > self.last]
            self._largest = max(self._largest, float(scales.max(initial=0)))
            for row in new:
                self._add(stored[row], codes[row], scales[row])
            self.added += len(new)
            self.last = max(self.last, last)

    def _add(self, stored: StoredVector, codes: Bytes, scale: float) -> None:
        number, row = divmod(self._count, ROWS_PER_BLOCK)
        if number == len(self._blocks):
            self._blocks.append(_Block.empty(self.dimension))
        block = self._blocks[number]
        if row and stored.chunk <= block.chunks[row - 1]:
            self._unordered.add(number)
        block.codes[row], block.scales[row] = codes, scale
        block.chunks[row], block.seqs[row] = stored.chunk, stored.seq
        block.namespaces[row] = self._code(stored.namespace)
        block.collections[row] = self._code(stored.collection)
        block.sessions[row] = self._code(stored.session)
        self._count += 1  # only now may a scan see it

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def keep(self, seqs: Numbers, newest: int) -> None:
        """Blank all rows except these seqs, which are all that one snapshot has.

        Rows after `newest`, the highest seq of this snapshot, belong to a later one and stay.
        """
        with self._changing:
            for block, count in self._filled():
                known = block.seqs[:count]
                gone = (known > 0) & (known <= newest) & ~np.isin(known, seqs)
                rows = np.flatnonzero(gone)
                block.blank(rows)
                self.gone += len(rows)
            self.added = 0

    def score(
        self,
        query: Vectors,
        *,
        namespace: str,
        collections: Sequence[str] | None = None,
        session: str | None = None,
        among: Sequence[int] | None = None,
        left_out: AbstractSet[int] = frozenset(),
    ) -> ScoredChunks:
        """Return the chunks of the namespace that the filters allow, with their similarity to the question.

        As in vec0, `session` selects its rows and rows without a session. `query` is `(dimension,)` and of
        any length but 0.
        """
        wanted = self._wanted(namespace, collections, session, among, left_out)
        codes, scales = rounded(query[np.newaxis])
        threads = min(CORES, max(1, self._count // ROWS_PER_THREAD))
        runs = [
            _scored(block, wanted.matching(block, count), codes, scales, threads)
            for block, count in self._filled()
        ]
        return ScoredChunks(runs, _DEVIATIONS * math.hypot(self._largest, float(scales[0])) / 12**0.5)

    def distances(self, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        """Return rounded cosine distances of chunks that ascend in their block, in which they are looked up.

        Chunks of other blocks, and chunks without a vector, are omitted.
        """
        wanted, found, rows, scales = np.array(chunks, np.int64), [], [], []
        for number, (block, count) in enumerate(self._filled()):
            if number not in self._unordered:
                positions = block.positions_of(wanted, count)
                found.append(block.chunks[positions])
                rows.append(block.codes[positions])
                scales.append(block.scales[positions])
        if not any(map(len, found)):
            return {}
        unit = query / max(float(np.linalg.norm(query)), _SHORTEST)
        near = (np.concatenate(rows).astype(np.float32) @ unit) * np.concatenate(scales)
        distances = np.maximum(1 - near, 0)
        return dict(zip(np.concatenate(found).tolist(), distances.tolist(), strict=True))

    def _wanted(
        self,
        namespace: str,
        collections: Sequence[str] | None,
        session: str | None,
        among: Sequence[int] | None,
        left_out: AbstractSet[int],
    ) -> _Conditions:
        return _Conditions(
            self._codes_of([namespace]),
            None if collections is None else self._codes_of(collections),
            None if session is None else self._codes_of([session, ""]),
            None if among is None else np.array(among, dtype=np.int64),
            np.array(sorted(left_out), dtype=np.int64),
        )

    def _codes_of(self, names: Sequence[str]) -> Codes:
        return np.array([self._codes[name] for name in names if name in self._codes], dtype=np.int32)

    def _filled(self) -> Iterator[tuple[_Block, int]]:
        """Yield each block with the number of its counted rows."""
        count = self._count
        for number, first in enumerate(range(0, count, ROWS_PER_BLOCK)):
            yield self._blocks[number], min(count - first, ROWS_PER_BLOCK)


@dataclass(frozen=True, slots=True)
class _Conditions:
    """The conditions of a question in the codes of a cache; None: no condition."""

    namespaces: Codes
    collections: Codes | None
    sessions: Codes | None
    among: Numbers | None
    left_out: Numbers

    def matching(self, block: _Block, count: int) -> Flags:
        """Return which of the first `count` rows match."""
        matching = _is_any(block.namespaces[:count], self.namespaces)
        if self.collections is not None:
            matching &= _is_any(block.collections[:count], self.collections)
        if self.sessions is not None:
            matching &= _is_any(block.sessions[:count], self.sessions)
        if self.among is not None:
            matching &= np.isin(block.chunks[:count], self.among)
        if len(self.left_out):
            matching &= ~np.isin(block.chunks[:count], self.left_out)
        return matching


def row_bytes(dimension: int) -> int:
    """Return the memory used by a vector of this length."""
    return dimension + ROW_OVERHEAD_BYTES


def rounded(vectors: Vectors) -> tuple[Bytes, Vectors]:
    """Return vectors of any length as bytes with their scales; the products have length 1, up to rounding.

    Vectors without a direction, because they are 0 or not finite, become 0 with the scale 0.
    """
    with np.errstate(all="ignore"):
        unit = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit[~np.isfinite(unit).all(axis=1)] = 0
    scales = np.abs(unit).max(axis=1, initial=0) / _LARGEST
    codes = np.rint(unit / np.where(scales > 0, scales, 1)[:, np.newaxis])
    return codes.astype(np.int8), scales.astype(np.float32)


def similarities(codes: Bytes, scales: Vectors, query: Bytes, scale: Vectors, threads: int = 1) -> Vectors:
    """Return the cosine of each row with the query, which is a single row, up to rounding."""
    # With `out`, simsimd 6.5 returns a None that it does not own. After some thousand scans, Python before
    # 3.12 would destroy None and abort.
    products = simsimd.cdist(query, codes, "dot", out_dtype="float32", threads=threads)
    found: Vectors = np.asarray(products)[0]
    found *= scales
    found *= scale
    return found


def _scored(block: _Block, matching: Flags, query: Bytes, scale: Vectors, threads: int) -> ScoredRun:
    """Return chunks and similarities of the matching rows."""
    wanted = int(np.count_nonzero(matching))
    if not wanted:
        return ScoredRun(np.empty(0, np.int64), np.empty(0, np.float32), 0)
    span = slice(int(matching.argmax()), len(matching) - int(matching[::-1].argmax()))
    length = span.stop - span.start
    if wanted < GATHERED_SHARE * length:
        rows = np.flatnonzero(matching)
        found = similarities(block.codes[rows], block.scales[rows], query, scale)
        return ScoredRun(block.chunks[rows], found, wanted)
    found = similarities(block.codes[span], block.scales[span], query, scale, threads)
    if wanted < length:
        np.copyto(found, -np.inf, where=~matching[span])
    return ScoredRun(block.chunks[span], found, wanted)


def _best(values: Vectors, count: int) -> npt.NDArray[np.intp]:
    """Return the positions of the `count` largest, largest first."""
    groups = len(values) // MAXIMA
    if groups > count:
        # At least `count` values are as large as this maximum, so smaller ones are not among the largest.
        maxima = values[: groups * MAXIMA].reshape(MAXIMA, groups).max(axis=0)
        positions = np.flatnonzero(values >= np.partition(maxima, groups - count)[groups - count])
    else:
        positions = np.arange(len(values))
    if len(positions) > count:
        positions = positions[
            np.argpartition(values[positions], len(positions) - count)[len(positions) - count :]
        ]
    return positions[np.argsort(-values[positions], kind="stable")]


def _is_any(values: Codes, wanted: Codes) -> Flags:
    """Return which of the values are one of the few wanted."""
    matching: Flags = values == wanted[0] if len(wanted) else np.zeros(len(values), np.bool_)
    for code in wanted[1:]:
        matching |= values == code
    return matching
