"""Spaces, each with one model's vectors: building → active ⇄ kept → retired. The active one is searched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from agentctx.errors import Conflict, NotFound, StorageCorrupt
from agentctx.storage.records import PendingTotal, Space, SpaceState
from agentctx.storage.space_rules import (
    LIVING,
    fingerprint_text,
    former_spaces,
    require_complete,
    require_state,
    superseded,
)
from agentctx.storage.steps import Execute, Follower, Rows, Statement, Steps
from agentctx.storage.vectors import Vectors

_RECORD_COMPARISON: Final = "UPDATE spaces SET comparison = ? WHERE id = ?"
_PENDING: Final = "SELECT count(*) FROM jobs WHERE space = ? AND state = 'pending'"
_INSERT: Final = """INSERT INTO spaces (fingerprint, generation, state, enabled, created)
    VALUES (?, ?, ?, FALSE, ?)"""


@dataclass(frozen=True, slots=True)
class SelectSpaces(Statement[Sequence[Any]]):
    """Asks for the rows of spaces, newest first: the columns that `space_of` takes."""

    condition: str = "TRUE"
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class LockSpaces(Statement[None]):
    """Keeps others from adding chunks, which would get no jobs in a space that they do not know."""


@dataclass(frozen=True, slots=True)
class RequireAlone(Statement[None]):
    """Raises `ConfigInvalid` if another daemon than this has the database open."""

    daemon: str


@dataclass(frozen=True, slots=True)
class SetState(Statement[None]):
    """Sets the state of a living space."""

    space: int
    state: SpaceState
    now: int


@dataclass(frozen=True, slots=True)
class CreateVectors(Statement[None]):
    """Creates the vector table of a space."""

    space: int
    dimension: int


@dataclass(frozen=True, slots=True)
class DropVectors(Statement[None]):
    """Drops the vector table of a space, if it exists."""

    space: int


@dataclass(frozen=True, slots=True)
class HasGaps(Statement[bool]):
    """Asks whether a live chunk has neither vector nor job in the space."""

    space: Space


@dataclass(frozen=True, slots=True)
class FillAtOnce(Statement[None]):
    """Creates all missing jobs of an enabled space, unless the engine does so in steps afterwards."""

    space: int
    now: int


@dataclass(frozen=True, slots=True)
class CreateMissingJobs(Statement[int]):
    """Creates up to `limit` missing jobs of a space, if it is enabled."""

    space: int
    now: int
    limit: int


@dataclass(frozen=True, slots=True)
class CountPending(Statement[PendingTotal]):
    """Asks for the jobs of a space, and for the size of the pending texts, ignoring overlaps."""

    space: int


class SpaceStorage:
    """Spaces and their jobs, on either engine."""

    def __init__(self, connections: Follower) -> None:
        self.db = connections

    async def all(self) -> list[Space]:
        """Return all spaces, newest first. Retired spaces have no vectors."""
        return [space_of(row) for row in await self.db.ask(SelectSpaces())]

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        """Open the space of one fingerprint; see `open_all`."""
        return (await self.open_all([fingerprint]))[0]

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        """Find or create the newest space of each fingerprint; enable these spaces and disable all others.

        From then on, each of them gets a job for every live chunk without a vector.

        The first space of a database is active; a new one beside an active space is building.
        """
        now, daemon = self.db.clock(), self.db.daemon
        opened, added = await self.db.change(partial(open_spaces, fingerprints, daemon=daemon, now=now))
        for space_id in added:
            await self._fill(space_id)
        return opened

    async def renew(self, space_id: int) -> Space:
        """Create the next generation of a space whose model changed silently, to be built from scratch."""
        renewed: Space = await self.db.change(partial(_renew, space_id, now=self.db.clock()))
        await self._fill(renewed.id)
        return renewed

    async def _fill(self, space_id: int) -> None:
        """Create the missing jobs that `FillAtOnce` does not create."""

    async def prepare(self, space_id: int, canary: Vectors) -> Space:
        """Store the canary's vector, set the dimension accordingly and create the vector table."""
        return await self.db.change(partial(_prepare, space_id, canary))

    async def activate(self, space_id: int, *, max_pending: int | None = None) -> Space:
        """Switch searches to this space atomically.

        The previous space is kept; if it is enabled, it still receives every save. Only earlier generations
        of this space are retired, and their vectors and jobs removed: nothing can use them again.

        Raises:
            NotFound: the space does not exist.
            Conflict: the space is retired, more than `max_pending` jobs are pending, or a chunk has neither
                vector nor job. Nothing was changed.
        """
        steps = partial(_activate, space_id, now=self.db.clock(), max_pending=max_pending)
        return await self.db.change(steps, lambda _: self.db.notes.note_deletion())

    async def retire_former(self, answering: int) -> list[int]:
        """Retire every kept space and every space that is not enabled; return their ids.

        The active space and a space being built stay.

        Raises:
            Conflict: `answering`, the space of the model that is to answer, is not active.
        """
        steps = partial(_retire_former, answering)
        return await self.db.change(steps, lambda _: self.db.notes.note_deletion())

    async def approve(self, space_id: int) -> None:
        """Record that the cost of filling the space was approved."""
        change = Execute("UPDATE spaces SET approved = ? WHERE id = ?", (self.db.clock(), space_id))
        await self.db.change(lambda: iter(change))

    async def record_comparison(self, space_id: int, comparison: Mapping[str, Any]) -> None:
        """Record the comparison of the space with the active space."""
        change = Execute(_RECORD_COMPARISON, (json.dumps(dict(comparison)), space_id))
        await self.db.change(lambda: iter(change))

    async def disable_all(self) -> None:
        """Disable all spaces and delete their jobs (`provider = "none"`)."""
        await self.db.change(partial(_disable_all, self.db.daemon))

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int | None:
        """Create jobs for live chunks that have neither vector nor job in the space; return how many.

        None if another daemon is doing it. If that daemon dies, another can continue a minute later.
        """
        step = CreateMissingJobs(space_id, self.db.clock(), limit)
        return await self.db.change(lambda: iter(step))

    async def pending(self, space_id: int) -> int:
        """Return the number of pending jobs of the space."""
        ((pending,),) = await self.db.ask(Rows(_PENDING, (space_id,)))
        return int(pending)

    async def total_pending(self, space_id: int) -> PendingTotal:
        """Return the numbers of pending and buried jobs of the space, and the size of the pending texts."""
        return await self.db.ask(CountPending(space_id))


def get(space_id: int) -> Steps[Space]:
    """Return the space. Raises `NotFound`."""
    rows = yield from SelectSpaces("id = ?", (space_id,))
    if not rows:
        raise NotFound(f"Space {space_id} does not exist.")
    return space_of(rows[0])


def open_spaces(
    fingerprints: Sequence[Mapping[str, str | int]], *, daemon: str, now: int
) -> Steps[tuple[list[Space], list[int]]]:
    """Enable the newest living space of each fingerprint, created if needed, and no others; return them.

    Also returns the ids of the newly enabled ones.

    Raises:
        ConfigInvalid: another daemon that has the database open has enabled other spaces.
    """
    yield from LockSpaces()
    ids: list[int] = []
    for each in fingerprints:
        ids.append((yield from _find_or_create(fingerprint_text(each), now=now)))  # noqa: PERF401 - steps
    if set((yield from _enabled())) - set(ids):
        yield from RequireAlone(daemon)
    added = yield from _enable_only(ids, now=now)
    found = {space.id: space for space in (yield from _living())}
    return [found[space_id] for space_id in ids], added


def _find_or_create(text: str, *, now: int) -> Steps[int]:
    rows = yield from SelectSpaces("fingerprint = ?", (text,))
    newest = max(map(space_of, rows), key=lambda space: space.generation, default=None)
    if newest is None or newest.state is SpaceState.RETIRED:
        generation = 1 if newest is None else newest.generation + 1
        return (yield from _insert(text, generation, now=now))
    return newest.id


def _insert(text: str, generation: int, *, now: int) -> Steps[int]:
    has_active = yield from Rows("SELECT 1 FROM spaces WHERE state = 'active'")
    state = "building" if has_active else "active"
    ((space_id,),) = yield from Rows(f"{_INSERT} RETURNING id", (text, generation, state, now))
    return int(space_id)


def _renew(space_id: int, *, now: int) -> Steps[Space]:
    yield from LockSpaces()
    old = yield from get(space_id)
    new_id = yield from _insert(fingerprint_text(old.fingerprint), old.generation + 1, now=now)
    others = [each for each in (yield from _enabled()) if each != space_id]
    yield from _enable_only([new_id, *others], now=now)
    return (yield from get(new_id))


def _prepare(space_id: int, canary: Vectors) -> Steps[Space]:
    yield from LockSpaces()
    space = yield from get(space_id)
    if space.dimension is None and space.state is not SpaceState.RETIRED:
        dimension = int(canary.shape[0])
        vector = canary.astype(np.float32).tobytes()
        sql = "UPDATE spaces SET dimension = ?, canary = ? WHERE id = ?"
        yield from Execute(sql, (dimension, vector, space_id))
        yield from CreateVectors(space_id, dimension)
    return (yield from get(space_id))


def _activate(space_id: int, *, now: int, max_pending: int | None) -> Steps[Space]:
    yield from LockSpaces()
    space = yield from get(space_id)
    require_state(space, *LIVING)
    if max_pending is not None:
        ((pending,),) = yield from Rows(_PENDING, (space_id,))
        has_gaps = yield from HasGaps(space)
        require_complete(space, pending=pending, max_pending=max_pending, has_gaps=has_gaps)
    for other in superseded(space, (yield from _living())):
        yield from _retire(other)
    yield from _keep_answering(space_id, now=now)
    yield from SetState(space_id, SpaceState.ACTIVE, now)
    return (yield from get(space_id))


def _keep_answering(unless: int, *, now: int) -> Steps[None]:
    """Keep the active space, unless it is this one."""
    active = yield from Rows("SELECT id FROM spaces WHERE state = 'active' AND id <> ?", (unless,))
    for (space_id,) in active:
        yield from SetState(space_id, SpaceState.KEPT, now)


def _retire_former(answering: int) -> Steps[list[int]]:
    yield from LockSpaces()
    require_state((yield from get(answering)), SpaceState.ACTIVE)
    gone = former_spaces((yield from _living()))
    for space in gone:
        yield from _retire(space)
    return [space.id for space in gone]


def _disable_all(daemon: str) -> Steps[None]:
    yield from LockSpaces()
    if (yield from _enabled()):
        yield from RequireAlone(daemon)
    yield from Execute("UPDATE spaces SET enabled = FALSE WHERE enabled")
    yield from Execute("DELETE FROM jobs")


def adopt(originals: Sequence[Space], *, now: int) -> Steps[Mapping[int, int]]:
    """Create the living spaces of another database, retire all others; return the ids here by theirs.

    Raises:
        Conflict: a space of the same model has another dimension.
    """
    yield from LockSpaces()
    yield from _keep_answering(0, now=now)
    adopted: dict[int, int] = {}
    for space in sorted(originals, key=lambda each: each.id):
        if space.state is not SpaceState.RETIRED:
            adopted[space.id] = yield from _adopt(space, now=now)
    for other in (yield from _living()):
        if other.id not in adopted.values():
            yield from _retire(other)
    return adopted


def _adopt(space: Space, *, now: int) -> Steps[int]:
    named = (fingerprint_text(space.fingerprint), space.generation)
    same = "fingerprint = ? AND generation = ?"
    yield from Execute(f"DELETE FROM spaces WHERE {same} AND state = 'retired'", named)  # noqa: S608 - constant
    yield from Execute(f"{_INSERT} ON CONFLICT DO NOTHING", (*named, "building", now))
    (row,) = yield from SelectSpaces(same, named)
    here = space_of(row).id
    if space.canary is not None:
        prepared = yield from _prepare(here, space.canary)
        if prepared.dimension != space.dimension:
            raise Conflict(f"The vectors of space {here} do not have the dimension of the ones to be copied.")
    comparison = None if space.comparison is None else json.dumps(dict(space.comparison))
    sql = "UPDATE spaces SET enabled = ?, approved = ?, comparison = ? WHERE id = ?"
    yield from Execute(sql, (space.enabled, now if space.approved else None, comparison, here))
    yield from SetState(here, space.state, now)
    return here


def _enabled() -> Steps[list[int]]:
    return [row[0] for row in (yield from Rows("SELECT id FROM spaces WHERE enabled ORDER BY id"))]


def _enable_only(space_ids: Sequence[int], *, now: int) -> Steps[list[int]]:
    """Enable only these spaces; return those that were not enabled before."""
    before = yield from _enabled()
    left = [each for each in before if each not in space_ids]
    yield from Execute("DELETE FROM jobs WHERE space IN ?numbers", (left,))
    enable = "UPDATE spaces SET enabled = id IN ?numbers WHERE state <> 'retired'"
    yield from Execute(enable, (list(space_ids),))
    added = sorted(set(space_ids).difference(before))
    for space_id in added:
        yield from FillAtOnce(space_id, now)
    return added


def _living() -> Steps[list[Space]]:
    return [space_of(row) for row in (yield from SelectSpaces("state <> 'retired'"))]


def _retire(space: Space) -> Steps[None]:
    yield from Execute("DELETE FROM jobs WHERE space = ?", (space.id,))
    yield from Execute("UPDATE spaces SET state = 'retired', enabled = FALSE WHERE id = ?", (space.id,))
    if space.dimension is not None:
        yield from DropVectors(space.id)


def space_of(row: Sequence[Any]) -> Space:
    """Return the space in a row of `SelectSpaces`. Raises `StorageCorrupt` for a damaged row."""
    try:
        return Space(
            id=row[0],
            fingerprint=json.loads(row[1]),
            generation=row[2],
            state=SpaceState(row[3]),
            enabled=bool(row[4]),
            dimension=row[5],
            canary=None if row[6] is None else np.frombuffer(row[6], dtype=np.float32),
            approved=row[7] is not None,
            comparison=None if row[8] is None else json.loads(row[8]),
        )
    except (ValueError, TypeError) as error:
        raise StorageCorrupt("The row of a space is damaged.", hint="Run `agentctx doctor --fix`.") from error
