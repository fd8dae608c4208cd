"""Proofs that an engine upholds the invariant, and the packing of its vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agentctx.storage.records import SpaceState
from agentctx.storage.spaces import DropVectors, LockSpaces, SelectSpaces, space_of
from agentctx.storage.steps import Follower, Rows, Statement, Steps
from agentctx.storage.stop_words import STOP_WORDS
from agentctx.storage.vectors import Vectors

_NO_WORD: Final = "A-Za-z0-9_'\u0080-\U0010ffff"
# Compiled on first use: 4 ms that the daemon's start does not take.
_PLAIN_WORD: Final = rf"(?<![{_NO_WORD}])[A-Za-z]{{3,40}}(?![{_NO_WORD}])"
_JOBS: Final = "SELECT id, (SELECT count(*) FROM jobs WHERE space = spaces.id) FROM spaces WHERE enabled"


@dataclass(frozen=True, slots=True)
class SpaceVectors:
    """The number of vectors stored under a space id.

    If no space has this id, `state` is None and `fingerprint` is empty.
    """

    space: int
    state: SpaceState | None
    enabled: bool
    fingerprint: Mapping[str, str | int]
    vectors: int


@dataclass(frozen=True, slots=True)
class Canary:
    """A live chunk that a search for its own word or vectors must find.

    `word` occurs in it and in few other chunks, within the requested limit; empty if there is no such word.
    `vectors` are its own stored vectors, by space.
    """

    chunk: int
    entry: str
    namespace: str
    word: str
    vectors: Mapping[int, Vectors]


@dataclass(frozen=True, slots=True)
class CountVectors(Statement[Mapping[int, int]]):
    """Asks for the numbers of stored vectors by space id.

    `of_prepared`: of living spaces, whose tables are complete; otherwise of every table there is.
    """

    of_prepared: bool


@dataclass(frozen=True, slots=True)
class FindCanaries(Statement[list[Canary]]):
    """Asks for what `ProofStorage.canaries` returns."""

    limit: int
    max_chunks: int


class ProofStorage:
    """Checks of stored data that change nothing, on either engine."""

    def __init__(self, connections: Follower) -> None:
        self.db = connections

    async def count_violations(self) -> int:
        """Return the violations of the invariant that row counts alone reveal; takes milliseconds. 0 is no
        proof.

        In each enabled space, vectors and jobs must add up to the chunks, and no space may have more vectors
        than chunks. The census counts these violations too.

        Raises:
            DeadlineExceeded, StorageFailed.
        """
        return await self.db.look(_violations)

    async def vectors_by_space(self) -> list[SpaceVectors]:
        """Return every space, and every id with stored vectors but no space, ascending."""
        return await self.db.look(_by_space, is_long=True)

    async def remove_leftover_vectors(self) -> int:
        """Remove the vectors of retired and missing spaces; return how many."""
        return await self.db.change(_remove_leftover, lambda _: self.db.notes.note_deletion())

    async def canaries(self, limit: int, *, max_chunks: int) -> list[Canary]:
        """Sample up to `limit` live chunks evenly; their words occur in at most `max_chunks` chunks."""
        return await self.db.look(lambda: iter(FindCanaries(limit, max_chunks)), is_long=True)


def _violations() -> Steps[int]:
    ((chunks,),) = yield from Rows("SELECT count(*) FROM chunks")
    vectors = yield from CountVectors(of_prepared=True)
    jobs = yield from Rows(_JOBS)
    surplus: int = sum(max(0, count - chunks) for count in vectors.values())
    surplus += sum(max(0, chunks - count - vectors.get(space, 0)) for space, count in jobs)
    return surplus


def _by_space() -> Steps[list[SpaceVectors]]:
    spaces = [space_of(row) for row in (yield from SelectSpaces())]
    counts = yield from CountVectors(of_prepared=False)
    known = {
        space.id: SpaceVectors(
            space.id, space.state, space.enabled, space.fingerprint, counts.get(space.id, 0)
        )
        for space in spaces
    }
    strangers = {
        space: SpaceVectors(space, None, enabled=False, fingerprint={}, vectors=count)
        for space, count in counts.items()
    }
    return [each for _, each in sorted((strangers | known).items())]


def _remove_leftover() -> Steps[int]:
    yield from LockSpaces()
    stored = yield from _by_space()
    left = [each for each in stored if each.vectors and each.state in {None, SpaceState.RETIRED}]
    for each in left:
        yield from DropVectors(each.space)
    return sum(each.vectors for each in left)


def plain_words(text: str, limit: int) -> list[str]:
    """Return up to `limit` distinct words that stand alone, in lower case, without stop words.

    Whether they are found depends on no rule for compounds, other scripts or marks.
    """
    words = dict.fromkeys(match[0].lower() for match in re.finditer(_PLAIN_WORD, text))
    return [word for word in words if word not in STOP_WORDS][:limit]
