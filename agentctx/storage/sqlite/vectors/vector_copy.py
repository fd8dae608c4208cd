"""A copy of a space's vectors in memory, a byte a number: which chunks may be the nearest.

It names candidates, never answers: their similarity is rounded, and some are gone by now. The caller
measures each against its stored vector.

Several threads use a copy at once. Rows are added behind those that count and then counted; below that a row
changes in one way only, it is blanked; and no row is ever moved. So a scan takes no lock: whatever it had to
see was counted before it began, and a row that is blanked while it runs is of a vector that is gone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import simsimd

from agentctx.embedding_providers.base import Vectors

Bytes: TypeAlias = npt.NDArray[np.int8]
Codes: TypeAlias = npt.NDArray[np.int32]
Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

ROWS_A_BLOCK: Final = 32_768
PLACE_BYTES: Final = 32
"""What a row takes beside its numbers: scale, chunk, seq and three codes."""
GATHERED_SHARE: Final = 0.25
"""Below this share of a run of rows, copying the wanted ones together is faster than scanning the run."""
MAXIMA: Final = 64
"""Similarities of which one maximum is taken, to find what the best at least have."""
SPARE: Final = 64
"""Most candidates beyond those that were asked for."""
_LARGEST: Final = 127
_NOBODY: Final = -1
_DEVIATIONS: Final = 8.0
"""The error of a rounded number deviates by scale / √12, and so does that of the similarity to a unit vector.
Two similarities change places within some of these deviations only."""


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
    """Chunks with their similarity to a question, -inf for those that it does not want."""

    chunks: Numbers
    similarities: Vectors
    wanted: int
    """How many of them it wants."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Chunks with their similarity to a question, in no order.

    Of two, the one that is nearer by more than `error` is nearer.
    """

    runs: Sequence[ScoredRun]
    error: float

    @property
    def count(self) -> int:
        """How many chunks the question wants."""
        return sum(run.wanted for run in self.runs)

    def candidates(self, limit: int) -> list[int]:
        """The chunks that may be among the `limit` nearest, the likely ones first."""
        asked = min(limit + SPARE, self.count)
        if limit < 1 or not asked:
            return []
        values = np.concatenate([run.similarities for run in self.runs])
        best = _best(values, asked)
        similarities = values[best]
        possible = similarities >= similarities[min(limit, asked) - 1] - self.error
        # A chunk whose vector was stored again has two rows until the next check.
        return list(dict.fromkeys(self._chunks_at(best[possible])))

    def _chunks_at(self, places: npt.NDArray[np.intp]) -> list[int]:
        ends = np.cumsum([len(run.chunks) for run in self.runs])
        of_run = np.searchsorted(ends, places, side="right")
        return [
            int(self.runs[run].chunks[place - ends[run]])  # negative: counted from the end of the run
            for run, place in zip(of_run.tolist(), places.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows that are allocated together; the system gives memory only for those that are written."""

    codes: Bytes
    scales: Vectors
    chunks: Numbers
    seqs: Numbers
    namespaces: Codes
    collections: Codes
    sessions: Codes

    @classmethod
    def empty(cls, dimension: int) -> Self:
        size = ROWS_A_BLOCK
        return cls(
            np.empty((size, dimension), np.int8),
            np.empty(size, np.float32),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            *(np.empty(size, np.int32) for _ in range(3)),
        )

    def blank(self, rows: npt.NDArray[np.intp]) -> None:
        """Leave nothing of these rows. They match no question."""
        for codes in (self.namespaces, self.collections, self.sessions):
            codes[rows] = _NOBODY
        self.codes[rows], self.scales[rows] = 0, 0
        self.chunks[rows], self.seqs[rows] = 0, 0


class VectorCopy:
    """Vectors of one space. Any thread may call any method."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.last = 0
        """The seq up to which every vector that is stored is in here."""
        self.is_whole = False
        """Whether it answers: it lacks only what the next question reads itself."""
        self.added = 0
        """Rows since the last `keep`."""
        self.gone = 0
        """Blank rows."""
        self._blocks: list[_Block] = []
        self._count = 0
        self._codes: dict[str, int] = {}
        self._changing = threading.Lock()

    @property
    def rows(self) -> int:
        """How many there are, blank ones too."""
        return self._count

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        return self._count * row_bytes(self.dimension)

    def put(self, stored: Sequence[StoredVector], last: int) -> None:
        """Add the vectors that one snapshot has after `last` before, which are all of them up to `last` now.

        Two threads may have read the same ones: those that are in by now are passed over. One of an older
        snapshot that is not in yet cannot come late, since `keep` first takes in all that its snapshot has.
        """
        vectors = np.frombuffer(b"".join(each.vector for each in stored), dtype=np.float32)
        codes, scales = rounded(vectors.reshape(len(stored), self.dimension))
        with self._changing:
            new = [number for number, each in enumerate(stored) if each.seq > self.last]
            for row in new:
                self._add(stored[row], codes[row], scales[row])
            self.added += len(new)
            self.last = max(self.last, last)

    def _add(self, stored: StoredVector, codes: Bytes, scale: float) -> None:
        number, row = divmod(self._count, ROWS_A_BLOCK)
        if number == len(self._blocks):
            self._blocks.append(_Block.empty(self.dimension))
        block = self._blocks[number]
        block.codes[row], block.scales[row] = codes, scale
        block.chunks[row], block.seqs[row] = stored.chunk, stored.seq
        block.namespaces[row] = self._code(stored.namespace)
        block.collections[row] = self._code(stored.collection)
        block.sessions[row] = self._code(stored.session)
        self._count += 1  # only now may a scan see it

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def keep(self, seqs: Numbers, newest: int) -> None:
        """Blank all rows but these seqs, which are all that one snapshot has.

        Rows after `newest`, the highest that it knows, are of a later snapshot and stay.
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
    ) -> Scored:
        """Every chunk of the namespace that the filters leave, with its similarity to the question.

        As with vec0, `session` asks for its rows and for rows without a session. `query` is `(dimension,)`
        and of any length but 0.
        """
        wanted = self._wanted(namespace, collections, session, among, left_out)
        codes, scales = rounded(query[np.newaxis])
        runs, largest = [], 0.0
        for block, count in self._filled():
            run, scale = _scored(block, wanted.matching(block, count), codes, scales)
            runs.append(run)
            largest = max(largest, scale)
        return Scored(runs, _DEVIATIONS * math.hypot(largest, float(scales[0])) / 12**0.5)

    def _wanted(
        self,
        namespace: str,
        collections: Sequence[str] | None,
        session: str | None,
        among: Sequence[int] | None,
        left_out: AbstractSet[int],
    ) -> _Wanted:
        return _Wanted(
            self._codes_of([namespace]),
            None if collections is None else self._codes_of(collections),
            None if session is None else self._codes_of([session, ""]),
            None if among is None else np.array(among, dtype=np.int64),
            np.array(sorted(left_out), dtype=np.int64),
        )

    def _codes_of(self, names: Sequence[str]) -> Codes:
        return np.array([self._codes[name] for name in names if name in self._codes], dtype=np.int32)

    def _filled(self) -> Iterator[tuple[_Block, int]]:
        """Each block with how many of its rows count."""
        count = self._count
        for number, first in enumerate(range(0, count, ROWS_A_BLOCK)):
            yield self._blocks[number], min(count - first, ROWS_A_BLOCK)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a question asks for, in the codes of a copy. None: whichever."""

    namespaces: Codes
    collections: Codes | None
    sessions: Codes | None
    among: Numbers | None
    left_out: Numbers

    def matching(self, block: _Block, count: int) -> Flags:
        """Which of the first `count` rows match."""
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
    """Memory that a vector of this length takes."""
    return dimension + PLACE_BYTES


def rounded(vectors: Vectors) -> tuple[Bytes, Vectors]:
    """Vectors of any length as bytes, and the scale of each: their product has the length 1, up to rounding.

    What has no direction, because it is 0 or not finite, becomes 0 with the scale 0.
    """
    with np.errstate(all="ignore"):
        unit = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit[~np.isfinite(unit).all(axis=1)] = 0
    scales = np.abs(unit).max(axis=1, initial=0) / _LARGEST
    codes = np.rint(unit / np.where(scales > 0, scales, 1)[:, np.newaxis])
    return codes.astype(np.int8), scales.astype(np.float32)


def similarities(codes: Bytes, scales: Vectors, query: Bytes, scale: Vectors) -> Vectors:
    """The cosine of each row with the query, which is one row, up to rounding."""
    products = np.empty((1, len(codes)), np.float32)
    simsimd.cdist(query, codes, "dot", out=products)
    found: Vectors = products[0]
    found *= scales
    found *= scale
    return found


def _scored(block: _Block, matching: Flags, query: Bytes, scale: Vectors) -> tuple[ScoredRun, float]:
    """Chunks and similarities of the rows that match, and their largest scale."""
    rows = np.flatnonzero(matching)
    if not len(rows):
        return ScoredRun(np.empty(0, np.int64), np.empty(0, np.float32), 0), 0.0
    span = slice(rows[0], rows[-1] + 1)
    length = span.stop - span.start
    if len(rows) < GATHERED_SHARE * length:
        found = similarities(block.codes[rows], block.scales[rows], query, scale)
        return ScoredRun(block.chunks[rows], found, len(rows)), float(block.scales[rows].max())
    found = similarities(block.codes[span], block.scales[span], query, scale)
    if len(rows) < length:
        found[~matching[span]] = -np.inf
    return ScoredRun(block.chunks[span], found, len(rows)), float(block.scales[span].max())


def _best(values: Vectors, count: int) -> npt.NDArray[np.intp]:
    """The places of the `count` largest, the largest first."""
    groups = len(values) // MAXIMA
    if groups > count:
        # So many maxima are as large as this one: what is smaller is not among the largest.
        maxima = values[: groups * MAXIMA].reshape(MAXIMA, groups).max(axis=0)
        places = np.flatnonzero(values >= np.partition(maxima, groups - count)[groups - count])
    else:
        places = np.arange(len(values))
    if len(places) > count:
        places = places[np.argpartition(values[places], len(places) - count)[len(places) - count :]]
    return places[np.argsort(-values[places], kind="stable")]


def _is_any(values: Codes, wanted: Codes) -> Flags:
    """Which of the values are one of the few wanted."""
    matching = np.zeros(len(values), np.bool_)
    for code in wanted:
        matching |= values == code
    return matching
