"""What a power cut can leave: files with what was synced, and any part of what was not.

A sync of a file makes everything before it on that file durable; `unlink` and `rename` are at once. What is
not modelled: directory entries that are lost, and faults of the device inside what it has synced.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.durability.powercut_recording import Recording, Step

SECTOR = 512


@dataclass(frozen=True)
class State:
    """Files after a power cut, built on demand, and the requests acknowledged by then."""

    durable: Mapping[str, bytes]
    unsynced: Sequence[Step]
    count: int
    """How many of `unsynced` had happened by then; the list goes further."""
    acknowledged: frozenset[int]
    place: int
    """The step before the cut."""
    choice: str
    seed: float

    def __str__(self) -> str:
        return f"step {self.place}, {self.choice} (of {self.count} unsynced)"

    @property
    def files(self) -> dict[str, bytes]:
        """Return the content of every file."""
        survivors = _survivors(self.choice, self.unsynced[: self.count], random.Random(self.seed))
        return after(self.durable, survivors)


def states(recording: Recording, rng: random.Random, *, subsets: int) -> Iterator[State]:
    """Yield after every step: unsynced writes lost, kept, torn, without the first, and random `subsets`."""
    durable = dict(recording.before)
    pending: list[Step] = []
    acknowledged: frozenset[int] = frozenset()
    for place, step in enumerate(recording.steps):
        if step.kind == "ack":
            acknowledged |= {step.number}
        elif step.kind == "sync":
            durable = after(durable, [each for each in pending if each.file == step.file])
            pending = [each for each in pending if each.file != step.file]
        elif step.kind == "unlink":
            durable = {name: content for name, content in durable.items() if name != step.file}
            pending = [each for each in pending if each.file != step.file]
        elif step.kind == "rename":
            durable = {step.to if name == step.file else name: text for name, text in durable.items()}
            pending = [replace(each, file=step.to) if each.file == step.file else each for each in pending]
        else:
            pending.append(step)
        for choice in choices(len(pending), subsets):
            yield State(durable, pending, len(pending), acknowledged, place, choice, rng.random())


def choices(unsynced: int, subsets: int) -> Sequence[str]:
    """Yield the states that this many unsynced writes may leave."""
    if not unsynced:
        return ("lost",)
    few = ("lost", "kept", "last one torn")
    return few if unsynced == 1 else (*few, "first one lost", *["some kept"] * subsets)


def _survivors(choice: str, unsynced: Sequence[Step], rng: random.Random) -> Sequence[Step]:
    if choice == "lost":
        return ()
    if choice == "kept":
        return unsynced
    if choice == "last one torn":
        return [*unsynced[:-1], torn(unsynced[-1], rng)]
    if choice == "first one lost":
        return unsynced[1:]
    chance = rng.choice((0.2, 0.5, 0.8, 0.98))
    kept = [step for step in unsynced if rng.random() < chance]
    return [torn(step, rng) if rng.random() < 0.1 else step for step in kept]


def torn(step: Step, rng: random.Random) -> Step:
    """Return the part of a write before or after a sector boundary."""
    borders = range(SECTOR - step.offset % SECTOR, len(step.data), SECTOR)
    if not borders:
        return step
    at = rng.choice(borders)
    if rng.random() < 0.5:
        return replace(step, data=step.data[:at])
    return replace(step, offset=step.offset + at, data=step.data[at:])


def after(files: Mapping[str, bytes], steps: Sequence[Step]) -> dict[str, bytes]:
    """Return the files with the steps applied in order; gaps are zeros."""
    changed: dict[str, bytearray] = {}
    for step in steps:
        content = changed.setdefault(step.file, bytearray(files.get(step.file, b"")))
        if step.kind == "truncate":
            del content[step.offset :]
            content.extend(bytes(step.offset - len(content)))
        else:
            content.extend(bytes(max(step.offset - len(content), 0)))
            content[step.offset : step.offset + len(step.data)] = step.data
    return {**files, **{name: bytes(content) for name, content in changed.items()}}
