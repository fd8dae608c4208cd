"""Proofs that an engine upholds the invariant, and the packing of its vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from agentctx.storage.records import Space, SpaceState
from agentctx.storage.stop_words import STOP_WORDS
from agentctx.storage.vectors import Vectors

_NO_WORD: Final = "A-Za-z0-9_'\u0080-\U0010ffff"
# Compiled on first use: 4 ms that the daemon's start does not take.
_PLAIN_WORD: Final = rf"(?<![{_NO_WORD}])[A-Za-z]{{3,40}}(?![{_NO_WORD}])"


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


class ProofStorage(Protocol):
    """Checks of stored data that change nothing."""

    async def count_violations(self) -> int:
        """Return the violations of the invariant that row counts alone reveal; takes milliseconds. 0 is no
        proof.

        In each enabled space, vectors and jobs must add up to the chunks, and no space may have more vectors
        than chunks. The census counts these violations too.

        Raises:
            DeadlineExceeded, StorageFailed.
        """

    async def vectors_by_space(self) -> list[SpaceVectors]:
        """Return every space, and every id with stored vectors but no space, ascending."""

    async def remove_leftover_vectors(self) -> int:
        """Remove the vectors of retired and missing spaces; return how many."""

    async def canaries(self, limit: int, *, max_chunks: int) -> list[Canary]:
        """Sample up to `limit` live chunks evenly; their words occur in at most `max_chunks` chunks."""


def counted_violations(chunks: int, vectors: Mapping[int, int], jobs: Mapping[int, int]) -> int:
    """Return the violations that counts reveal: of vectors, by prepared space, and jobs, by enabled space."""
    surplus = sum(max(0, count - chunks) for count in vectors.values())
    return surplus + sum(max(0, chunks - count - vectors.get(space, 0)) for space, count in jobs.items())


def vectors_by_space(spaces: Iterable[Space], counts: Mapping[int, int]) -> list[SpaceVectors]:
    """Join all spaces with the numbers of stored vectors by space id; in the order of the ids."""
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


def leftovers(stored: Iterable[SpaceVectors]) -> list[SpaceVectors]:
    """Return the retired and missing spaces that still have vectors."""
    return [each for each in stored if each.vectors and each.state in {None, SpaceState.RETIRED}]


def plain_words(text: str, limit: int) -> list[str]:
    """Return up to `limit` distinct words that stand alone, in lower case, without stop words.

    Whether they are found depends on no rule for compounds, other scripts or marks.
    """
    words = dict.fromkeys(match[0].lower() for match in re.finditer(_PLAIN_WORD, text))
    return [word for word in words if word not in STOP_WORDS][:limit]
